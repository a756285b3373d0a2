"""What people do without a cover method: sub-grids, and sources at random."""

from collections.abc import Iterator, Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.base import Cover
from taskspace.cover.bounds.prices import join_prices, size_bound
from taskspace.cover.problem import Instance, grid_shape, sets_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import PackedSets, TargetSets
from taskspace.sets.kernels import popcount
from taskspace.spaces import subgrid_indices


def uniform_cover(
    problem: Study | TargetSets,
    question: Question | None = None,
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
        yield subgrid_indices(shape, counts).astype(np.int64)


def subgrid_counts(sources: NDArray[np.int64], shape: Sequence[int]) -> list[int]:
    """Points on each axis of a sub-grid, e.g. `[17, 17]`.

    Args:
        sources: its points, as indices of the grid.
        shape: points on each axis of the grid, last axis fastest.
    """
    places = np.unravel_index(np.asarray(sources, np.int64), tuple(shape))
    return [len(np.unique(place)) for place in places]


def random_cover(
    problem: Study | TargetSets, question: Question | None = None, *, seed: int
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


def served_counts(sets: TargetSets, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return number of targets served after each source, until nothing more can be.

    Args:
        sets: the targets that each source serves.
        order: sources in the order in which they are taken.

    Returns:
        Cumulative counts; shorter than `order` where all coverable targets are
        served before its end.
    """
    n_servable = int(sets.coverable.sum())
    counts = np.zeros(len(order), np.int64)
    if isinstance(sets, PackedSets):
        n = _count_served_bits(sets.words, order, n_servable, counts)
    else:
        arrays = sets.to_runs().arrays
        served = np.zeros(sets.n_targets, np.bool_)
        n = _count_served_runs(*arrays, order, n_servable, served, counts)
    return counts[:n]


def _baseline(
    method: str, sets: TargetSets, sources: NDArray[np.int64], clock: Clock
) -> Cover:
    instance = Instance.of(sets)
    bound = size_bound(sets, instance.costs.values)
    is_full = sets.coverable.all()
    return instance.cover(
        method,
        sources,
        lower_bound=bound.value,
        lower_bound_kind="size",
        stop_reason="covered" if is_full else "uncoverable targets remain",
        clock=clock,
        prices=join_prices(instance.costs, [(bound, np.arange(sets.n_targets))]),
    )


@numba.njit(cache=True)
def _count_served_bits(words, order, n_servable, counts):
    served = np.zeros(words.shape[1], np.uint64)
    for k in range(len(order)):
        total = np.uint64(0)
        for w in range(len(served)):
            served[w] |= words[order[k], w]
            total += popcount(served[w])
        counts[k] = total
        if counts[k] == n_servable:
            return k + 1
    return len(order)


@numba.njit(cache=True)
def _count_served_runs(offsets, starts, stops, order, n_servable, served, counts):
    n_served = 0
    for k in range(len(order)):
        for r in range(offsets[order[k]], offsets[order[k] + 1]):
            for t in range(starts[r], stops[r]):
                n_served += not served[t]
                served[t] = True
        counts[k] = n_served
        if n_served == n_servable:
            return k + 1
    return len(order)
