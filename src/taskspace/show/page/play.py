"""Policies at work: trajectories at a target, and of the same policy at home.

Any linear and any simulated system can be played. A page draws the states that it
knows (a cart with a pole, a pendulum, a mass on a spring) and shows others as lines.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.linalg import expm

from taskspace._util.arrays import Array, Numbers
from taskspace.errors import TaskspaceError
from taskspace.performance.study import Study
from taskspace.policies import LinearGain, Policy
from taskspace.show.page.data import PageData
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem

MAX_TARGETS = 400
"""Targets whose trajectories are in a page; others are shown at the nearest one."""

FRAMES = 150
"""Moments of a trajectory that are kept: enough for a smooth picture."""

LINEAR_SECONDS = 6.0
"""How long a linear system in continuous time is watched."""

SCENES = {
    ("x", "x_dot", "theta", "theta_dot"): "cart-pole",
    ("theta", "theta_dot"): "pendulum",
}
"""How states with these names are drawn."""


class Trajectories(NamedTuple):
    """States over time, one trajectory for each pair of policy and context.

    Args:
        scene: how to draw a state: `cart-pole`, `pendulum`, `mass` or `lines`.
        names: names of the states.
        seconds: time between two moments.
        start: how an episode begins, for people.
        states: dims `(pair, moment, state)`; after the end the last one stays.
        ends: moments until each episode ended.
        scores: return of the episode, NaN for a linear system.
    """

    scene: str
    names: tuple[str, ...]
    seconds: float
    start: str
    states: NDArray[np.float32]
    ends: Numbers
    scores: Array


def play_part(study: Study, page: PageData) -> dict[str, Any]:
    """Return trajectories of the first question's cover, or why there are none.

    Args:
        study: what is known; a run may still be in progress.
        page: has the cover, and gets the arrays.
    """
    is_numbers_alone = study.experiment is None and study.system is None
    if is_numbers_alone or study.sources is None or study.targets is None:
        return {}
    try:
        system = study.require_system()
    except TaskspaceError as error:
        return {"no_play": f"The policies cannot be played: {error}"}
    if not isinstance(system, LinearSystem | SimulatedSystem):
        return {
            "no_play": f"Policies of {system.id} cannot be played: it is neither "
            "linear nor simulated by taskspace."
        }
    if study.policies is None:
        return {"no_play": f"The policies cannot be played: {study.origin} holds none."}
    if isinstance(system, LinearSystem) and not isinstance(study.policies, LinearGain):
        return {"no_play": "Gains of the whole state can be played, controllers not."}
    layer = page.layers[0]
    cover = layer.steps[layer.start].best
    if not cover.size:
        return {}
    # The source of least loss, also where it does not serve: failures are seen.
    chosen = np.sort(cover.sources)
    server = chosen[layer.losses[chosen].argmin(0)]
    n_shown = min(MAX_TARGETS, len(server))
    targets = np.linspace(0, len(server) - 1, n_shown).round().astype(int)
    record = play_record(
        study, study.table, layer.question.judge, server[targets], targets
    )
    for name in ("away", "home"):
        record[name] = page.blobs.add(record[name])
    return {"play": record}


def play_record(
    study: Study, table: xr.Dataset, judge: str, sources: Numbers, targets: Numbers
) -> dict[str, Any]:
    """Return the policies that count at their targets, and the same ones at home.

    Args:
        study: with a system that can be played, policies and contexts.
        table: the performance table, which says which policy counts.
        judge: `"worst"` or `"best"`.
        sources: one per pair.
        targets: one per pair.
    """
    system, policies = study.require_system(), study.policies
    assert policies is not None
    assert study.sources is not None
    assert study.targets is not None
    at_home, at_target = (system.contexts(s) for s in (study.sources, study.targets))
    which = f"the {judge} of its family there"
    members = np.zeros(len(sources), np.int64)
    if "performance" in table or not isinstance(system, EpisodicSystem):
        for source in np.unique(sources).tolist():
            places = np.flatnonzero(sources == source)
            if "performance" in table:
                scores = table["performance"][source].values[:, targets[places]]
            else:  # only reductions are kept; J of a linear system is quick
                family = policies[source : source + 1]
                scores = system.performance(family, at_target[targets[places]])[0]
            members[places] = scores.argmin(0) if judge == "worst" else scores.argmax(0)
    else:
        which = (
            "the first of its family: the table keeps only reductions, so which "
            f"policy is the {judge} is not known"
        )
    homes, home_of = np.unique(
        np.stack([sources, members], 1), axis=0, return_inverse=True
    )
    away = play(system, policies[sources, members], at_target[targets])
    home = play(system, policies[homes[:, 0], homes[:, 1]], at_home[homes[:, 0]])
    record = {
        "scene": away.scene,
        "names": list(away.names),
        "seconds": away.seconds,
        "start": away.start,
        "targets": targets.tolist(),
        "sources": sources.tolist(),
        "members": members.tolist(),
        "home_of": home_of.reshape(-1).tolist(),
        "which": "" if policies.stack_shape[1] == 1 else which,
    }
    names = [axis.name for axis in system.axes]
    length = next((n for n in ("pole_length", "length") if n in names), None)
    for what, made, rows in (
        ("away", away, at_target[targets]),
        ("home", home, at_home[homes[:, 0]]),
    ):
        sizes = rows[:, names.index(length)] if length else np.ones(len(rows))
        record[what] = made.states
        record[f"{what}_ends"] = made.ends.tolist()
        scores = [float(v) if np.isfinite(v) else None for v in made.scores]
        record[f"{what}_scores"] = scores
        record[f"{what}_sizes"] = sizes.tolist()
    return record


def play(system: System, policies: Policy, contexts: Array) -> Trajectories:
    """Play policy `i` at context `i`, for all of them.

    Args:
        system: a linear or a simulated system.
        policies: a stack with one leading dim, `(pair,)`.
        contexts: full context rows, shape `(pair, len(axes))`.
    """
    if isinstance(system, SimulatedSystem):
        return _play_episodes(system, policies, contexts)
    assert isinstance(system, LinearSystem)
    assert isinstance(policies, LinearGain)
    return _play_linear(system, policies, contexts)


def _play_linear(
    system: LinearSystem, policies: LinearGain, contexts: Array
) -> Trajectories:
    """Release closed loops from a displaced first state, by matrix exponentials."""
    A, B, _, _ = system.matrices(contexts)
    closed = A - B @ policies.gain
    n_pairs, n = closed.shape[:2]
    seconds = LINEAR_SECONDS / FRAMES if system.is_continuous else 1.0
    states = np.zeros((n_pairs, FRAMES + 1, n))
    states[:, 0, 0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        step = expm(seconds * closed) if system.is_continuous else closed
        for moment in range(FRAMES):
            states[:, moment + 1] = np.einsum("pij,pj->pi", step, states[:, moment])
    states = np.clip(np.nan_to_num(states, nan=1e6), -1e6, 1e6)
    return Trajectories(
        "mass" if n == 2 else "lines",
        tuple(f"state {i + 1}" for i in range(n)),
        seconds,
        "released at rest from a displacement of 1",
        states.astype(np.float32),
        np.full(n_pairs, FRAMES),
        np.full(n_pairs, np.nan),
    )


def _play_episodes(
    system: SimulatedSystem, policies: Policy, contexts: Array
) -> Trajectories:
    """Return the first episode of each pair, by the functions that performance uses."""
    import jax

    from taskspace.systems.rollouts import Head, trajectories

    stack = system._checked(policies)
    layers = tuple(
        (np.asarray(weight, np.float32), np.asarray(bias, np.float32))
        for weight, bias in zip(stack.weights, stack.biases, strict=True)
    )
    with jax.enable_x64(False):
        rows = np.asarray(contexts, np.float32)
        states, ends, scores = trajectories(system, layers, Head.of(stack), rows)
    values = np.stack(
        [np.asarray(v, np.float32).reshape(len(contexts), -1) for v in states], axis=-1
    )
    names = tuple(getattr(states, "_fields", ())) or tuple(
        f"state {i + 1}" for i in range(values.shape[-1])
    )
    every = -(-system.horizon // FRAMES)
    axis = [a.name for a in system.axes]
    seconds = 1.0
    if "time_step" in axis:
        seconds = float(contexts[0, axis.index("time_step")])
    return Trajectories(
        SCENES.get(names, "lines"),
        names,
        seconds * every,
        "the first episode of the evaluation",
        values[:, ::every],
        -(-np.asarray(ends) // every),
        np.asarray(scores, np.float64),
    )
