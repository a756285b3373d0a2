"""Proofs of bounds for the verifier: plain NumPy, Python integers and fractions.

Shares no code with the methods that found the bounds.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.verify.proof import PriceProof
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets

_BLOCK_RUNS = 1_000_000
_MOST = 2**62  # sums of prices stay below this
_LARGEST = 2.0**60  # of integers, so that their sums fit 64 bits


@dataclass(frozen=True, eq=False)
class Problem:
    """A covering problem in exact numbers.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        weights: weight of each target, integers in some unit.
        needed: whether each target must be served; not where none can or need do so.
    """

    sets: TargetSets
    costs: NDArray[np.float64]
    weights: NDArray[Any]
    needed: NDArray[np.bool_]

    @classmethod
    def of(
        cls, sets: TargetSets, costs: ArrayLike | None, weights: ArrayLike | None
    ) -> Self:
        """Return a problem of the costs and weights given; all 1 where None.

        Args:
            sets: the targets that each source serves.
            costs: cost of each source, `> 0`.
            weights: weight of each target, `>= 0`.
        """
        n, m = sets.n_sources, sets.n_targets
        cost = np.ones(n) if costs is None else np.asarray(costs, np.float64)
        if cost.shape != (n,) or not (np.isfinite(cost) & (cost > 0)).all():
            raise InvalidInputError(
                f"costs must be {n} positive numbers, one for each source, but got "
                f"shape {cost.shape}."
            )
        needed = sets.coverable
        if weights is None:
            return cls(sets, cost, np.ones(m, np.int64), needed)
        array = np.asarray(weights, np.float64)
        if array.shape != (m,) or not (np.isfinite(array) & (array >= 0)).all():
            raise InvalidInputError(
                f"target_weights must be {m} numbers >= 0, one for each target, but "
                f"got shape {array.shape}."
            )
        exact = [Fraction(w) for w in array.tolist()]
        common = math.lcm(*(w.denominator for w in exact), 1)
        units = [int(w * common) for w in exact]
        divisor = math.gcd(*units) or 1
        whole = np.array([n // divisor for n in units] + [None], object)[:-1]
        return cls(sets, cost, whole, needed)

    def rest(self, include: set[int], exclude: set[int]) -> "Problem":
        """Return what free sources have to do, once others are taken or left out.

        The free ones are numbered anew, in their order.

        Args:
            include: sources that are taken.
            exclude: sources that must not be.
        """
        able, served = (np.zeros(self.sets.n_targets, bool) for _ in range(2))
        free = []
        for source in range(self.sets.n_sources):
            row = self.sets.row(source)
            if source in include:
                served |= row
            elif source not in exclude:
                free.append(source)
                able |= row
        weights = self.weights.copy()
        weights[served] = 0
        costs = self.costs[np.array(free, np.int64)]
        return Problem(self.sets.subset(free), costs, weights, able & ~served)

    def cost(self, sources: Iterable[int]) -> Fraction:
        """Cost of a selection.

        Args:
            sources: the selection.
        """
        return sum((Fraction(float(self.costs[s])) for s in sources), start=Fraction(0))

    def served_weight(self, sources: ArrayLike) -> int:
        """Weight of the targets that a selection serves.

        Args:
            sources: the selection.
        """
        return int(self.weights[self.sets.union(sources)].sum())

    @cached_property
    def total_weight(self) -> int:
        """Weight of all targets."""
        return int(self.weights.sum())

    def asked_weight(self, share: float) -> int:
        """Return the weight that a share asks for.

        Args:
            share: of all target weight.
        """
        if share == 1:
            return self.total_weight
        # Relative to the share's own rounding, as every method counts it.
        exact = Fraction(share) * (1 - Fraction(1, 2**50)) * self.total_weight
        return math.ceil(exact)

    def loads(self, values: NDArray[Any]) -> NDArray[Any]:
        """For each source the sum of integers over its targets.

        Sums of int64 may wrap around on the way; their differences, the loads, are
        right wherever they fit.

        Args:
            values: one integer for each target.
        """
        zero = np.zeros(1, values.dtype)
        prefix = np.concatenate([zero, np.cumsum(values)])
        loads = np.zeros(self.sets.n_sources, values.dtype)
        for block in _blocks(self.sets):
            parts = prefix[block.stops] - prefix[block.starts]
            until = np.concatenate([zero, np.cumsum(parts)])
            loads[block.sources] = until[block.ends[1:]] - until[block.ends[:-1]]
        return loads


def price_bound(prices: PriceProof, problem: Problem) -> tuple[Fraction, str]:
    """Return the bound that prices prove, or why they prove none.

    Args:
        prices: the claim.
        problem: what it is about.

    Returns:
        The largest proven bound, and an empty text; or 0 and what is wrong.
    """
    sets, targets, units = problem.sets, prices.targets, prices.units
    dense, fault = _on_targets(prices, problem.needed & (problem.weights > 0))
    if fault or len(targets) == 0:
        return Fraction(0), fault
    if not (units > 0).all():
        return Fraction(0), "a price is not positive"
    loads = problem.loads(dense)
    distinct, which = np.unique(problem.costs, return_inverse=True)
    one = Fraction(2) ** prices.shift
    for k, cost in enumerate(distinct.tolist()):
        value = Fraction(cost) / prices.unit
        limit = math.floor(value) * one if prices.is_whole else math.floor(value * one)
        heaviest = max(loads[which == k].tolist())
        if heaviest > limit:
            source = int(np.flatnonzero((which == k) & (loads == heaviest))[0])
            return Fraction(0), f"the targets of source {source} cost more than it does"
    total = sum(units.tolist())
    if not prices.is_whole:
        return total / one * prices.unit, ""
    labels = _apart(sets, targets)
    sums: dict[int, int] = {}
    for label, n in zip(labels.tolist(), units.tolist(), strict=True):
        sums[label] = sums.get(label, 0) + n
    return sum(math.ceil(n / one) for n in sums.values()) * prices.unit, ""


def _on_targets(prices: PriceProof, may: NDArray[np.bool_]) -> tuple[NDArray[Any], str]:
    """Return a price for each target, and what is wrong with where they are.

    Args:
        prices: the claim.
        may: whether each target may have a price.
    """
    targets, dense = prices.targets, np.zeros(len(may), prices.units.dtype)
    if prices.unit <= 0:
        return dense, "their unit is not positive"
    if len(targets) == 0:
        return dense, ""
    inside = 0 <= targets.min() and targets.max() < len(may)
    if not inside or not (np.diff(targets) > 0).all():
        return dense, "they are not on targets in ascending order"
    if not may[targets].all():
        return dense, "a target has a price that need not be served"
    dense[targets] = prices.units
    too_large = int(np.abs(prices.units.astype(object)).sum()) >= _MOST
    return dense, "they are too large" if too_large and dense.dtype != object else ""


def _less_gains(total: int, gains: NDArray[Any], room: int) -> int:
    """Return a sum of prices, less what the best sources gain at these prices."""
    best = sorted((max(0, int(gain)) for gain in gains), reverse=True)
    return total - sum(best[:room])


def share_price_bound(
    prices: PriceProof, problem: Problem, needed: int
) -> tuple[Fraction, str]:
    """Return what serving enough weight costs at least, or why prices prove nothing.

    A target that stays unserved has a price of at most `rate` times its weight.

    Args:
        prices: the claim.
        problem: what is left to free sources.
        needed: weight that these must serve.
    """
    counts = problem.needed & (problem.weights > 0)
    dense, fault = _on_targets(prices, counts)
    if fault:
        return Fraction(0), fault
    slack, rate = int(problem.weights[counts].sum()) - needed, prices.rate or 0
    limits = [rate * int(w) for w in problem.weights[prices.targets]]
    if (prices.units < 0).any():
        return Fraction(0), "a price is negative"
    if slack and any(u > w for u, w in zip(prices.units.tolist(), limits, strict=True)):
        return Fraction(0), "a price is above the rate of unserved weight"
    one, costs = Fraction(2) ** prices.shift, []
    for cost in problem.costs.tolist():
        value = Fraction(cost) / prices.unit
        whole = math.floor(value) * one if prices.is_whole else value * one
        costs.append(min(math.floor(whole), _MOST))
    gains = problem.loads(dense) - np.array(costs, np.int64)
    unserved = math.ceil(rate * slack) if slack else 0
    units = _less_gains(int(dense.sum()) - unserved, gains, len(gains)) / one
    return max(0, math.ceil(units) if prices.is_whole else units) * prices.unit, ""


def unserved_price_bound(
    prices: PriceProof, problem: Problem, room: int
) -> tuple[Fraction, str]:
    """Return the weight that some sources leave at least, or why nothing is proven.

    Args:
        prices: the claim.
        problem: what is left to free sources.
        room: how many of them there may be.
    """
    dense, fault = _on_targets(prices, problem.needed & (problem.weights > 0))
    if fault or prices.unit != 1:
        return Fraction(0), fault or "their unit is not 1"
    one = Fraction(2) ** prices.shift
    limits = [one * int(w) for w in problem.weights[prices.targets]]
    if any(not 0 <= u <= w for u, w in zip(prices.units.tolist(), limits, strict=True)):
        return Fraction(0), "a target has a price above its weight"
    units = _less_gains(int(dense.sum()), problem.loads(dense), room) / one
    return Fraction(max(0, math.ceil(units))), ""


class MeanProblem:
    """Sources of a budget and the weighted sum of the least losses.

    Args:
        sets: the targets that each source serves, with their losses.
        weights: weight of each target.
        include: sources that must be in.
        exclude: sources that must not be in.
    """

    def __init__(
        self,
        sets: TargetSets,
        weights: NDArray[np.float64],
        include: NDArray[np.int64],
        exclude: NDArray[np.int64],
    ):
        self.sets, self.weights, self.include = sets, weights, include
        decided = np.concatenate([include, exclude])
        self.free = np.setdiff1d(np.arange(sets.n_sources), decided)

    def _row(self, source: int) -> NDArray[np.float64]:
        """Losses of one source, inf where it does not serve."""
        assert self.sets.losses is not None
        losses = np.asarray(self.sets.losses(source), np.float64)
        return np.where(self.sets.row(source), losses, np.inf)

    def cost(self, sources: Iterable[int]) -> Fraction | None:
        """Weighted loss of a selection, None if it leaves a target that counts.

        Args:
            sources: the selection.
        """
        best = np.full(self.sets.n_targets, np.inf)
        for source in sources:
            best = np.minimum(best, self._row(source))
        if np.isinf(best[self.weights > 0]).any():
            return None
        pairs = zip(best.tolist(), self.weights.tolist(), strict=True)
        return sum((Fraction(v) * Fraction(w) for v, w in pairs if w), Fraction(0))

    def price_bound(self, prices: PriceProof, budget: int) -> tuple[Fraction, str]:
        """Return what every selection costs at least, or why nothing is proven.

        Args:
            prices: the claim.
            budget: sources at most, those that must be in among them.
        """
        everywhere = np.ones(self.sets.n_targets, bool)
        units, fault = _on_targets(prices, everywhere)
        if fault or prices.unit != 1:
            return Fraction(0), fault or "their unit is not 1"
        gains = np.zeros(self.sets.n_sources, np.int64)
        for source in [*self.include.tolist(), *self.free.tolist()]:
            losses = self._row(source)
            with np.errstate(invalid="ignore", over="ignore"):
                product = np.where(self.weights == 0, 0.0, losses * self.weights)
            # One step down, unless it is exact: the true product is not below that.
            is_exact = (self.weights == 1) | (self.weights == 0) | (losses == 0)
            down = np.where(is_exact, product, np.nextafter(product, -np.inf))
            with np.errstate(over="ignore"):
                floor = np.floor(np.ldexp(down, prices.shift))
            least = np.clip(floor, -_LARGEST, _LARGEST)
            saved = np.maximum(units - least.astype(np.int64), 0)
            if (floor < least).any() or saved.sum(dtype=np.float64) >= 2 * _LARGEST:
                return Fraction(0), "the losses are too large in their unit"
            gains[source] = saved.sum()
        total = int(units.sum()) - int(gains[self.include].sum())
        room = budget - len(self.include)
        bound = _less_gains(total, gains[self.free], room)
        return bound / Fraction(2) ** prices.shift, ""


def all_selections(
    n_sources: int, sizes: Iterable[int], max_selections: float
) -> Iterator[tuple[int, ...]] | None:
    """Return all selections of some sizes, None where they are too many.

    Args:
        n_sources: how many sources there are to choose from.
        sizes: numbers of sources.
        max_selections: when to give up.
    """
    numbers = list(sizes)
    if sum(math.comb(n_sources, k) for k in numbers) > max_selections:
        return None
    return itertools.chain.from_iterable(
        itertools.combinations(range(n_sources), k) for k in numbers
    )


def _apart(sets: TargetSets, targets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Label targets, those alike that a chain of sources joins."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n = len(targets)
    marks = np.zeros(sets.n_targets + 1, np.int32)
    marks[targets + 1] = 1
    before = np.cumsum(marks, dtype=np.int32)  # targets with a price before each one
    joins = np.zeros(n, np.int64)
    for block in _blocks(sets):
        first, last = before[block.starts], before[block.stops]
        is_priced = first < last
        joins += np.bincount(first[is_priced], minlength=n)
        joins -= np.bincount(last[is_priced] - 1, minlength=n)
    # Neighbours that a run joins have one label,
    labels = np.cumsum(np.append(0, np.cumsum(joins)[: n - 1] <= 0), dtype=np.int32)
    # and a source joins the labels of its runs.
    for block in _blocks(sets):
        first, last = before[block.starts], before[block.stops]
        is_priced, n_labels = first < last, int(labels.max()) + 1
        if n_labels == 1:
            break
        owner = np.repeat(np.arange(len(block.ends) - 1), np.diff(block.ends))
        rows, columns = n_labels + owner[is_priced], labels[first[is_priced]]
        graph = sparse.coo_array(
            (np.ones(len(rows), bool), (rows, columns)),
            shape=(n_labels + len(block.ends) - 1,) * 2,
        )
        labels = connected_components(graph, directed=False)[1][labels]
    return labels


class _Block(NamedTuple):
    """Runs of some sources: those of its k-th from `ends[k]` to `ends[k + 1]`."""

    sources: slice
    ends: NDArray[np.int64]
    starts: NDArray[np.int32]
    stops: NDArray[np.int32]


def _blocks(sets: TargetSets) -> Iterator[_Block]:
    """All runs, a million at a time or one source, so that little memory is needed."""
    runs = sets
    a = 0
    while a < sets.n_sources:
        most = runs.offsets[a] + _BLOCK_RUNS
        b = max(a + 1, int(np.searchsorted(runs.offsets, most, side="right")) - 1)
        part = slice(runs.offsets[a], runs.offsets[b])
        ends = runs.offsets[a : b + 1] - runs.offsets[a]
        yield _Block(slice(a, b), ends, runs.starts[part], runs.stops[part])
        a = b


def knapsack_bound(problem: Problem, needed: int) -> Fraction:
    """Least cost of fractions of sources whose weights sum to `needed`.

    Args:
        problem: what it is about.
        needed: weight that is served.
    """
    gains = problem.loads(problem.weights)
    useful = np.flatnonzero(gains > 0)
    exact = sorted(
        ((Fraction(float(problem.costs[s])), int(gains[s])) for s in useful),
        key=lambda pair: pair[0] / pair[1],
    )
    spent, missing = Fraction(0), needed
    for cost, gain in exact:
        if gain >= missing:
            spent += cost * missing / gain
            break
        spent += cost
        missing -= gain
    is_whole = all(float(c).is_integer() for c in problem.costs.tolist())
    common = 0
    if is_whole:
        for cost in np.unique(problem.costs).tolist():
            common = math.gcd(common, int(cost))
    return Fraction(-(-spent // common) * common) if common else spent


def coverage_limit(problem: Problem, sources: NDArray[np.int64]) -> int:
    """Return a weight that no selection of as many sources serves more than.

    Args:
        problem: what it is about.
        sources: a selection; each of its beginnings gives one limit.
    """
    unserved = problem.weights.copy()
    served, limit = 0, int(problem.weights[problem.sets.coverable].sum())
    for k in range(len(sources) + 1):
        gains = np.sort(problem.loads(unserved))[::-1][: len(sources)]
        limit = min(limit, served + int(gains.sum()))
        if k < len(sources):
            row = problem.sets.row(int(sources[k]))
            served += int(unserved[row].sum())
            unserved[row] = 0
    return limit


def search_below(problem: Problem, bound: Fraction, max_nodes: int) -> list[int] | None:
    """Find a cover of every target that must be served, cheaper than a bound.

    Branches on the open target with the fewest sources, and turns back where targets
    of which no source serves two already cost too much.

    Args:
        problem: what it is about.
        bound: covers of this cost or more are not looked for.
        max_nodes: when to give up.

    Returns:
        The cover, an empty list where there is none, None where it gave up.
    """
    matrix = problem.sets.to_bool()
    rows = [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")
            for row in matrix]  # fmt: skip
    exact = [Fraction(c) for c in problem.costs.tolist()]
    servers = [np.flatnonzero(column).tolist() for column in matrix.T]
    needed = np.flatnonzero(problem.needed).tolist()
    goal = sum(1 << t for t in needed)
    by_scarcity = sorted(needed, key=lambda t: len(servers[t]))
    n_nodes = 0

    def least(unserved: int, banned: int) -> tuple[Fraction, int]:
        """Cost of targets that share no source, and the scarcest target."""
        total, used, scarcest, fewest = Fraction(0), banned, -1, math.inf
        for t in by_scarcity:
            if not unserved >> t & 1:
                continue
            own = [s for s in servers[t] if not banned >> s & 1]
            if len(own) < fewest:
                scarcest, fewest = t, len(own)
            if not own:
                return bound, t
            if all(not used >> s & 1 for s in own):
                total += min(exact[s] for s in own)
                for s in own:
                    used |= 1 << s
        return total, scarcest

    def search(unserved: int, banned: int, spent: Fraction) -> list[int] | None:
        nonlocal n_nodes
        n_nodes += 1
        if n_nodes > max_nodes:
            return None
        if spent >= bound:
            return []
        if not unserved:
            return [-1]  # found; marks the end of the selection
        below, target = least(unserved, banned)
        if spent + below >= bound:
            return []
        own = [s for s in servers[target] if not banned >> s & 1]
        for s in sorted(own, key=lambda s: -(rows[s] & unserved).bit_count()):
            banned |= 1 << s  # taken here, and left out of what is tried next
            selection = search(unserved & ~rows[s], banned, spent + exact[s])
            if selection is None or selection:
                return None if selection is None else [s, *selection]
        return []

    if bound <= 0:
        return []
    selection = search(goal, 0, Fraction(0))
    return selection if not selection else [s for s in selection if s >= 0]
