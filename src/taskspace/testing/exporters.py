"""What an exporter must satisfy, ours or yours.

An export that runs gives the policy, the status and the action of the library: at nodes
and right beside them, on borders, in boxes, at the ends of the range, outside, and
where a number is not finite. A status table of nodes says nothing of the cells
around them: off its node a context is `INSIDE` (`GridRegions.knows`).
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.deploy.base import Guarantee, Outside, Status
from taskspace.deploy.policies import Entry, PolicyLibrary
from taskspace.deploy.regions import BoxRegions, regions_of
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.questions import Question
from taskspace.spaces import Grid

__all__ = ["check_exporter"]

N_POLICIES = 4
N_STATES = 2

Run = Callable[[Path, Array, Array], tuple[Any, Any, Any]]
"""Runs an export: folder, contexts, observations to policies, statuses, actions."""


def check_exporter(
    write: Callable[..., Path],
    run: Run,
    *,
    policies: Policy | None = None,
    weaker: bool = False,
    **options: Any,
) -> None:
    """Assert that an export gives the policies, statuses and actions of its library.

    It writes libraries on a grid, in boxes and around scattered points, which refuse
    or clamp what lies outside, and runs each at some hundred contexts. A library that
    the exporter refuses with an `InvalidInputError` is passed over. It is for exporters
    of policy libraries, not of schedules.

    Args:
        write: the exporter, `(library, folder, **options)`.
        run: runs what it wrote; it gets the folder, contexts `(context, axis)` and
            observations `(context, 2)`, and returns the policies, the statuses and
            the actions, None for actions if the export has none.
        policies: four policies to export; gains of two states if left out.
        weaker: the export may say `ESTIMATED` for `GUARANTEED`, since what runs is not
            what was proven (rounded gains, say).
        options: further keywords of the exporter.
    """
    if policies is None:
        rng = np.random.default_rng(0)
        policies = LinearGain(rng.standard_normal((N_POLICIES, 1, N_STATES)))
    n_tried, refused = 0, ""
    for name, library in _libraries(policies):
        contexts = _contexts(library)
        seen = np.random.default_rng(0).standard_normal((len(contexts), N_STATES))
        with tempfile.TemporaryDirectory() as parent:
            try:
                folder = write(library, Path(parent) / "export", **options)
            except InvalidInputError as error:
                refused = str(error)
                continue
            got = run(folder, contexts, seen)
        n_tried += 1
        _compare(library, contexts, seen, got, name, weaker)
    assert n_tried, f"policy: The exporter refused every library. The last: {refused}"


def _libraries(policies: Policy) -> Iterator[tuple[str, PolicyLibrary]]:
    """Yield libraries of every kind, by name."""
    rng = np.random.default_rng(1)

    def facts(n: int) -> tuple[Any, ...]:
        return rng.integers(-1, N_POLICIES, n), rng.random(n) < 0.7, rng.normal(size=n)

    grid = Grid(x=(-1.0, 2.0, 5), y=(0.1, 10.0, 7, "log"))
    scattered = rng.uniform(-1, 1, (23, 3)) * [1.0, 100.0, 1e-3]
    edges = np.linspace(0.1, 8.0, 7)
    low, high = (
        np.stack(np.meshgrid(e, e, indexing="ij"), -1).reshape(-1, 2)
        for e in (edges[:-1], edges[1:])
    )
    is_log = (False, True)
    kinds = {
        "grid": (regions_of(grid.points, *facts(35), log_axes=is_log), "nodes", is_log),
        "scattered points": (regions_of(scattered, *facts(23)), "nodes", ()),
        "boxes": (BoxRegions.merged(low, high, *facts(36)), "box", ()),
    }
    outsides: tuple[Outside, ...] = ("refuse", "clamp")
    for name, (regions, scope, log_axes) in kinds.items():
        for outside in outsides:
            for kind in ("proof", "estimate"):
                yield (
                    f"{name}, {outside}, {kind}",
                    PolicyLibrary(
                        tuple(Entry(f"policy {i}", i) for i in range(N_POLICIES)),
                        regions,
                        Guarantee(Question("regret <= 0.1"), scope, kind, "A check."),
                        tuple("xyz"[: len(regions.low)]),
                        policies=policies,
                        outside=outside,
                        log_axes=log_axes,
                    ),
                )


def _contexts(library: PolicyLibrary) -> Array:
    """Return contexts at, beside and between all that selection may turn on."""
    rng = np.random.default_rng(2)
    low, high, regions = library.low, library.high, library.regions
    d, arrays = len(low), regions.arrays()
    drawn = low + (high - low) * rng.uniform(-0.2, 1.2, (200, d))
    edges = regions.centres
    if isinstance(regions, BoxRegions):
        corners = np.concatenate([regions.box_low, regions.box_high])
    else:
        places = [rng.choice(arrays[f"borders_{i}"], 40) for i in range(d)]
        corners = np.stack(places, 1)
    exact = np.concatenate([edges, corners, low[None], high[None]])
    ends = (np.nextafter(exact, end) for end in (np.inf, -np.inf))
    odd = np.tile((low + high) / 2, (3 * d, 1))
    for i in range(d):
        odd[3 * i : 3 * i + 3, i] = [np.nan, np.inf, -np.inf]
    return np.concatenate([drawn, exact, *ends, odd])


def _compare(
    library: PolicyLibrary,
    contexts: Array,
    seen: Array,
    got: tuple[Any, Any, Any],
    name: str,
    weaker: bool,
) -> None:
    """Assert that an export did what the library does at each context."""
    chosen = library.select(contexts)
    policy, status = np.asarray(chosen.policy), np.asarray(chosen.status)
    found_policy, found_status = (np.asarray(x) for x in got[:2])
    for i in np.flatnonzero(found_policy != policy)[:1]:
        raise AssertionError(
            f"policy: {name}: at {contexts[i].tolist()} the library uses policy "
            f"{policy[i]}, the export {found_policy[i]}."
        )
    differs = found_status != status
    if weaker:
        differs &= (status != Status.GUARANTEED) | (found_status != Status.ESTIMATED)
    for i in np.flatnonzero(differs)[:1]:
        said, known = (Status(int(x[i])).name for x in (found_status, status))
        raise AssertionError(
            f"status: {name}: at {contexts[i].tolist()} the library says {known}, the "
            f"export {said}."
        )
    if got[2] is None:
        return
    served = policy >= 0
    wanted = np.asarray(library.act_as(policy[served], seen[served]))
    actions = np.asarray(got[2]).reshape(len(contexts), -1)[served]
    apart = np.abs(actions - wanted.reshape(len(wanted), -1))
    assert (apart <= 1e-5 * (1 + np.abs(wanted).max(initial=0))).all(), (
        f"action: {name}: actions differ by up to {np.nanmax(apart):g}."
    )
