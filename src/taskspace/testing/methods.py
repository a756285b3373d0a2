"""What a cover method must satisfy, ours or yours.

Random small problems, of which the minimum is known by trying all selections: the
method must return a cover that the verifier cannot refute, a bound that is true, and
respect every option that it takes.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover import Cover, verify_cover
from taskspace.cover.methods import METHODS
from taskspace.cover.registry import DEMANDS
from taskspace.errors import TaskspaceError, UnknownNameError
from taskspace.sets import TargetSets, pack
from taskspace.testing.checks import Check, assert_all, first_problems

__all__ = ["assert_method", "check_method"]

N_PROBLEMS = 12
# Two sources serve all; who takes the largest set first needs three.
_TRAP = np.array(
    [[1] * 7 + [0] * 7, [0] * 7 + [1] * 7, ([1] * 4 + [0] * 3) * 2,
     ([0] * 4 + [1] * 2 + [0]) * 2, ([0] * 6 + [1]) * 2], bool
)  # fmt: skip


def check_method(
    method: str, *, n_problems: int = N_PROBLEMS, seed: int = 0
) -> list[Check]:
    """Return what holds of a cover method, one check for each promise.

    Args:
        method: its name, as registered with `cover_method`.
        n_problems: random problems that are tried.
        seed: of the problems.
    """
    if method not in METHODS:
        raise UnknownNameError("cover method", method, METHODS)
    takes = METHODS[method].takes
    names = ["cover", "bound", "claims", "ties"]
    names += [name for name in DEMANDS if name in takes]
    problems: list[tuple[str, str]] = []
    for matrix, options in _trials(takes, n_problems, seed):
        try:
            problems += _problems(method, matrix, options)
        except TaskspaceError as error:
            name = next(iter(options), "cover")
            problems.append((name, f"It must answer, but it refuses: {error}"))
    return first_problems(names, problems, "holds for random problems")


def assert_method(method: str) -> None:
    """Raise an AssertionError that names every promise which a method breaks.

    Args:
        method: its name, as registered with `cover_method`.
    """
    assert_all(check_method(method))


def _trials(
    takes: tuple[str, ...], n_problems: int, seed: int
) -> Iterator[tuple[NDArray[np.bool_], dict[str, Any]]]:
    """Yield problems, and for each the options that the method takes, one at a time."""
    yield _TRAP, {}
    rng = np.random.default_rng(seed)
    for _ in range(n_problems):
        n, m = rng.integers(2, 8), rng.integers(1, 12)
        matrix = rng.random((n, m)) < rng.choice([0.2, 0.4, 0.7])
        matrix[rng.integers(n)] = matrix[rng.integers(n)]  # equal sources: a tie
        yield matrix, {}
        options = {
            "costs": rng.integers(1, 6, n).astype(np.float64),
            "include": [int(rng.integers(n))],
            "exclude": [int(rng.integers(n))],
            "share": 0.6,
            "budget": 1,
            "target_weights": rng.integers(0, 4, m).astype(np.float64),
        }
        for name, value in options.items():
            if name in takes:
                yield matrix, {name: value}


def _problems(
    method: str, matrix: NDArray[np.bool_], options: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield each promise that is broken on one problem, and how."""
    sets = pack(matrix)
    cover, again = (_find(method, sets, options) for _ in range(2))
    name = next(iter(options), "cover")
    if not isinstance(cover, Cover):
        yield "cover", f"A Cover must be returned, but got {type(cover).__name__}."
        return
    said = cover.to_dict() | {"seconds": 0.0}
    if said != again.to_dict() | {"seconds": 0.0}:
        yield "ties", "The same problem and seed must give the same cover, but did not."
    chosen = cover.sources.tolist()
    if not set(options.get("include", ())) <= set(chosen):
        yield "include", f"{options['include']} must be selected, but got {chosen}."
    if set(options.get("exclude", ())) & set(chosen):
        yield "exclude", f"{options['exclude']} must not be selected, but got {chosen}."
    if len(chosen) > options.get("budget", len(matrix)):
        yield "budget", f"1 source is allowed, but got {chosen}."
    able = np.delete(matrix, options.get("exclude", []), axis=0).any(0)
    served = matrix[chosen].any(0)
    if (
        not {"share", "budget", "target_weights"} & set(options)
        and (able & ~served).any()
    ):
        yield name, f"Every target that can be served must be, but {chosen} do not."
    weights = options.get("target_weights", np.ones(matrix.shape[1]))
    required = options.get("share", 1.0) * weights.sum()
    required = min(required, float(weights[able].sum()))
    if "budget" not in options and float(weights[served].sum()) < required - 1e-9:
        yield name, f"A weight of {required:g} must be served, but {chosen} do not."
    best = _minimum(matrix, options, float(weights[served].sum()), required)
    if cover.lower_bound > best + 1e-9:
        yield (
            "bound",
            f"lower_bound={cover.lower_bound} must be at most {best:g}, which a "
            "selection costs that does as much.",
        )
    checked = verify_cover(
        cover,
        sets,
        options.get("costs"),
        target_weights=options.get("target_weights"),
        effort=0,
    )
    for failure in checked.failures:
        claim = "bound" if "lower_bound" in failure else "claims"
        yield claim, f"The verifier refutes it: {failure}."
    first = np.full(matrix.shape[1], -1)
    for s in sorted(chosen, reverse=True):
        first[matrix[s]] = s
    if not np.array_equal(first, cover.assignment):
        yield "ties", "A target must go to the lowest selected source that serves it."


def _find(method: str, sets: TargetSets, options: dict[str, Any]) -> Any:
    """Return what the method finds, with little time and a fixed seed."""
    takes = METHODS[method].takes
    usual = {"time_limit": 5.0, "seed": 0, "max_steps": 50, "shape": (sets.n_sources,)}
    given = {name: value for name, value in usual.items() if name in takes}
    return METHODS[method].find(sets, None, **(given | options))


def _minimum(
    matrix: NDArray[np.bool_], options: dict[str, Any], served: float, required: float
) -> float:
    """Return the least cost of a selection that does as much, by trying all."""
    n, m = matrix.shape
    costs = options.get("costs", np.ones(n))
    weights = options.get("target_weights", np.ones(m))
    include = set(options.get("include", ()))
    exclude = set(options.get("exclude", ()))
    wanted = served if "budget" in options else required
    least = float(np.sum(costs))
    for k in range(n + 1):
        for chosen in itertools.combinations(range(n), k):
            if include <= set(chosen) and not exclude & set(chosen):
                weight = float(weights[matrix[list(chosen)].any(0)].sum())
                if weight >= wanted - 1e-9:
                    least = min(least, float(costs[list(chosen)].sum()))
    return least
