"""Baselines without a search: uniform sub-grids, and sources at random."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.cover import Cover
from taskspace.cover.greedy import served_counts
from taskspace.cover.prices import join_prices, size_bound
from taskspace.cover.problem import CoverProblem, grid_shape, sets_of
from taskspace.cover.registry import cover_method
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import TargetSets


def _uniform_curve(
    sets: TargetSets, shape: Sequence[int] | None, n_repeats: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many targets sub-grids of every resolution serve."""
    del n_repeats, seed
    grids = list(uniform_grids(grid_shape(sets, shape), sets.n_sources))
    counts = np.array([int(sets.union(grid).sum()) for grid in grids])
    return np.array([len(grid) for grid in grids]), counts[None]


@cover_method(
    "uniform", colour="#D55E00", curve=_uniform_curve, needs_whole_table=False
)
def uniform_cover(
    problem: Study | TargetSets,
    question: Question | str | None = None,
    *,
    shape: Sequence[int] | None = None,
) -> Cover:
    """Find the coarsest uniform sub-grid of the sources that serves all it can.

    Its points are at the middles of equal cells. Other sub-grids of the same kind, for
    instance from end to end, may do with fewer points or need more.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        shape: points on each axis of the source grid, last axis fastest; a study
            knows its own.

    Returns:
        The cover by the first sub-grid of `uniform_grids` that serves every
        coverable target.
    """
    clock = Clock()
    sets, shape = sets_of(problem, question), grid_shape(problem, shape)
    n_servable = int(sets.coverable.sum())
    chosen = np.zeros(0, np.int64)
    if n_servable:
        for chosen in uniform_grids(shape, sets.n_sources):
            if int(sets.union(chosen).sum()) == n_servable:
                break
    return _baseline("uniform", sets, chosen, clock)


def uniform_grids(
    shape: Sequence[int], n_sources: int | None = None
) -> Iterator[NDArray[np.int64]]:
    """Uniform sub-grids of a grid at every resolution, coarse to fine.

    At resolution r the longest axis has r points and the others in proportion, each
    at the middle of its cell. The last sub-grid is the whole grid.

    Args:
        shape: points on each axis of the grid, last axis fastest.
        n_sources: if given, must be the number of points of the grid.

    Yields:
        Indices of the chosen points, ascending.
    """
    shape = tuple(int(n) for n in shape)
    n_points = int(np.prod(shape, dtype=np.int64))
    if not shape or min(shape) < 1 or n_sources not in (None, n_points):
        raise InvalidInputError(
            "shape must hold the points on each axis of the source grid and multiply "
            f"to {n_sources} sources, but got shape={shape}."
        )
    longest = max(shape)
    for resolution in range(1, longest + 1):
        counts = [-(-n * resolution // longest) for n in shape]
        kept = [
            (2 * np.arange(count) + 1) * n // (2 * count)
            for n, count in zip(shape, counts, strict=True)
        ]
        yield np.ravel_multi_index(np.ix_(*kept), shape).ravel().astype(np.int64)


def _random_curve(
    sets: TargetSets, shape: Sequence[int] | None, n_repeats: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many targets sources serve that are drawn without replacement."""
    del shape
    repeats = [
        served_counts(sets, random_order(sets.n_sources, seed, repeat))
        for repeat in range(n_repeats)
    ]
    longest = max(len(counts) for counts in repeats)
    counts = np.zeros((n_repeats, longest), np.int64)
    for row, served in zip(counts, repeats, strict=True):
        row[: len(served)] = served
        row[len(served) :] = served[-1] if len(served) else 0
    return np.arange(1, longest + 1), counts


@cover_method("random", colour="#009E73", curve=_random_curve, needs_whole_table=False)
def random_cover(
    problem: Study | TargetSets, question: Question | str | None = None, *, seed: int
) -> Cover:
    """Draw sources at random until every coverable target is served.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        seed: of the draw.

    Returns:
        The cover by all sources drawn, useful or not.
    """
    clock = Clock()
    sets = sets_of(problem, question)
    order = random_order(sets.n_sources, seed, 0)
    counts = served_counts(sets, order)
    n_drawn = int(np.searchsorted(counts, counts[-1])) if len(counts) else 0
    if len(counts) and counts[-1] == 0:
        n_drawn = -1
    return _baseline("random", sets, order[: n_drawn + 1], clock)


def random_order(n_sources: int, seed: int, repeat: int) -> NDArray[np.int64]:
    """Return the order in which the given repeat of a random selection draws sources.

    Args:
        n_sources: number of sources.
        seed: of the draw.
        repeat: number of the repeat.
    """
    return np.random.default_rng([seed, repeat]).permutation(n_sources)


def _baseline(
    method: str, sets: TargetSets, sources: NDArray[np.int64], clock: Clock
) -> Cover:
    instance = CoverProblem(sets)
    bound = size_bound(sets, instance.scaled_costs.values)
    is_full = sets.coverable.all()
    return instance.cover(
        method,
        sources,
        lower_bound=bound.value,
        lower_bound_kind="size",
        stop_reason="covered" if is_full else "uncoverable targets remain",
        clock=clock,
        prices=join_prices(instance.scaled_costs, [(bound, np.arange(sets.n_targets))]),
    )
