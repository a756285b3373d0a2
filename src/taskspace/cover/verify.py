"""An independent check of a cover's claims, in plain NumPy and exact fractions.

Nothing here is shared with the methods that make covers, so that a mistake there
cannot hide here. Costs are the exact numbers that their floats are.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.cover import Cover, PriceProof
from taskspace.cover.problem import sets_of
from taskspace.errors import InvalidInputError, require
from taskspace.performance.study import Study
from taskspace.sets import TargetSets

# Proofs of bounds for the verifier: plain NumPy, Python integers and fractions.
# Shares no code with the methods that found the bounds.


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


_MAX_DEPTH = 400  # sources of a cover, each a level of an exhaustive search
_STEP, _SLOW = 50, 20  # pairs that a selection is worth, and a target in fractions


@dataclass(frozen=True, repr=False)
class Verification:
    """Which claims of a cover hold.

    Args:
        holds: whether no claim was refuted.
        failures: one sentence for each claim that does not hold.
        not_checked: claims that could be neither shown nor refuted.
        proven: one sentence for each bound that was proven again.
        conditions: one sentence for each restriction that the cover states itself.
            Bounds are about selections that keep to them; whether they were asked for
            is not in the sets.
    """

    holds: bool
    failures: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = ["Verification: " + ("the claim holds" if self.holds else "refuted")]
        lines += [f"  refuted: {sentence}" for sentence in self.failures]
        lines += [f"  {sentence}" for sentence in self.proven]
        lines += [f"  not checked: {sentence}" for sentence in self.not_checked]
        lines += [f"  provided that {sentence}" for sentence in self.conditions]
        return "\n".join(lines)


class CoverRefutedError(InvalidInputError):
    """A cover claims what the data do not bear out.

    Args:
        failures: one sentence for each claim that does not hold.
    """

    def __init__(self, failures: tuple[str, ...]):
        super().__init__(
            "Every claim of a cover must follow from its sets, but "
            + "; ".join(failures)
            + "."
        )
        self.failures = failures


def verify_cover(
    cover: Cover,
    problem: Study | TargetSets,
    costs: ArrayLike | None = None,
    *,
    target_weights: ArrayLike | None = None,
    raise_on_failure: bool = False,
    refute_bound: bool = True,
    effort: int = 3_000_000,
) -> Verification:
    """Recompute everything that a cover claims from the sets themselves.

    A bound is proven again from the prices kept with the cover, in one pass of
    integer arithmetic; that of greedy's partial covers by computing it anew. Prices
    that are too high, or that do not prove the bound they are kept for, refute the
    cover. A bound that an exact search found has no such prices: small
    problems are searched through, and where that is too much the bound is listed in
    `not_checked`, with the largest that is proven. A bound is also refuted by any
    cheaper selection that serves as much.

    Args:
        cover: the claim.
        problem: the study that the cover is about, which its question is asked of
            again; or the targets that each source serves.
        costs: cost of each source, as given to the method that made the cover.
        target_weights: weight of each target, as given to that method.
        raise_on_failure: raise `CoverRefutedError` instead of returning failures.
        refute_bound: look for a cheaper selection, which takes a while on large data.
        effort: (source, target) pairs that an exhaustive search may look at; 0 for
            no such search.

    Returns:
        Which claims fail, which bounds were proven and which were not.
    """
    require(cover, Cover, "a cover, e.g. of ts.minimum_cover")
    sets = sets_of(problem, cover.question if isinstance(problem, Study) else None)
    check = _Check(cover, Problem.of(sets, costs, target_weights), effort)
    if check.shape():
        check.serving()
        if cover.mean_loss is not None:
            check.mean(target_weights)
        elif check.numbers():
            check.coverage()
            check.bound()
            if refute_bound and not check.failures:
                check.cheaper()
            if effort and not check.failures and check.open:
                check.search()
    if check.failures and raise_on_failure:
        raise CoverRefutedError(tuple(check.failures))
    return Verification(
        not check.failures,
        tuple(check.failures),
        tuple(check.open),
        tuple(check.proven),
        _conditions(cover),
    )


def _conditions(cover: Cover) -> tuple[str, ...]:
    """Which selections the bounds are about, where not about all."""
    held = (("must be in", cover.include), ("must not be in", cover.exclude))
    return tuple(
        f"bounds are about selections in which {_sources(sources)} {what}"
        for what, sources in held
        if len(sources)
    )


def _sources(numbers: NDArray[np.int64]) -> str:
    first = ", ".join(map(str, numbers[:8].tolist()))
    return f"source{'s' * (len(numbers) > 1)} {first}{', ...' * (len(numbers) > 8)}"


class _Check:
    """The claims of a cover, and what becomes of each.

    Args:
        cover: the claim.
        problem: the whole problem.
        effort: (source, target) pairs that an exhaustive search may look at.

    Attributes:
        failures: one sentence for each claim that does not hold.
        proven: one sentence for each bound that was proven again.
        open: claims that could be neither shown nor refuted.
        rest: what was left to the free sources.
        chosen: the selected ones of these, in the order of selection.
        taken: the sources that had to be in.
        spent: what these cost.
    """

    def __init__(self, cover: Cover, problem: Problem, effort: int):
        self.cover, self.problem, self.sets = cover, problem, problem.sets
        self.effort = effort
        self.failures: list[str] = []
        self.proven: list[str] = []
        self.open: list[str] = []
        self.claim = f"lower_bound={cover.lower_bound} ({cover.lower_bound_kind})"

    def _decide(self) -> None:
        """Tell what the restrictions decided from what was left to decide."""
        cover = self.cover
        include, exclude = set(cover.include.tolist()), set(cover.exclude.tolist())
        self.rest, self.chosen = self.problem, np.asarray(cover.sources)
        self.taken = np.array(sorted(include), np.int64)
        self.spent = self.problem.cost(self.taken)
        if include or exclude:
            fixed = include | exclude
            free = [s for s in range(cover.n_sources) if s not in fixed]
            chosen = [s for s in cover.sources.tolist() if s not in include]
            self.rest = self.problem.rest(include, exclude)
            self.chosen = np.searchsorted(np.array(free, np.int64), chosen)

    # --- what anybody can count ---------------------------------------------------

    def shape(self) -> bool:
        """Check that all sources and targets exist; whether they do."""
        cover, sets, fail = self.cover, self.sets, self.failures.append
        for name in ("n_sources", "n_targets"):
            claimed, actual = getattr(cover, name), getattr(sets, name)
            if claimed != actual:
                fail(f"{name}={claimed} is claimed, but the data have {actual}")
        sources, assignment = np.asarray(cover.sources), np.asarray(cover.assignment)
        if sources.size and not (0 <= sources.min() <= sources.max() < sets.n_sources):
            fail("a selected source does not exist")
        if len(np.unique(sources)) != len(sources):
            fail("a source is selected twice")
        if assignment.shape != (sets.n_targets,):
            fail(f"the assignment names {assignment.size} targets of {sets.n_targets}")
        for name in ("include", "exclude"):
            array = np.asarray(getattr(cover, name))
            if array.size and not (0 <= array.min() <= array.max() < sets.n_sources):
                fail(f"a source of {name} does not exist")
        if not set(cover.include.tolist()) <= set(sources.tolist()):
            fail("a source that must be in is not selected")
        if set(cover.exclude.tolist()) & set(sources.tolist()):
            fail("a source that must not be in is selected")
        return not self.failures

    def serving(self) -> None:
        """Check who serves whom, and which targets no source serves."""
        cover, sets, fail = self.cover, self.sets, self.failures.append
        n_targets = sets.n_targets
        assignment = np.asarray(cover.assignment)
        is_served = np.zeros(n_targets, bool)
        is_right = assignment == -1
        for source in cover.sources:
            row = sets.row(int(source))
            is_served |= row
            is_right |= row & (assignment == source)
        is_right &= is_served == (assignment >= 0)
        wrong = np.flatnonzero(~is_right)
        if len(wrong):
            fail(
                f"target {wrong[0]} is assigned to {assignment[wrong[0]]}, which is no "
                f"selected source that serves it ({len(wrong)} such targets)"
            )
        coverage = int(is_served.sum()) / n_targets if n_targets else 1.0
        if not abs(cover.coverage - coverage) <= 1e-12:
            fail(f"coverage={cover.coverage} is claimed, but it is {coverage}")
        is_coverable = np.zeros(n_targets, bool)
        for source in np.setdiff1d(np.arange(sets.n_sources), cover.exclude).tolist():
            is_coverable |= sets.row(source)
        if not np.array_equal(cover.uncoverable, np.flatnonzero(~is_coverable)):
            fail(
                f"{len(cover.uncoverable)} uncoverable targets are claimed, but the "
                f"{int((~is_coverable).sum())} targets that no source serves are not "
                "these"
            )

    def numbers(self) -> bool:
        """Check size, cost and shares; whether everything holds so far."""
        cover, fail = self.cover, self.failures.append
        if cover.size != len(cover.sources):
            fail(f"size={cover.size} is claimed, but {len(cover.sources)} are selected")
        total = self.problem.cost(cover.sources)
        # A float cost is rounded, and costs may be rounded multiples of one unit.
        slack = total / 2**46
        is_finite = math.isfinite(cover.cost)
        if not (is_finite and abs(Fraction(cover.cost) - total) <= slack):
            fail(f"cost={cover.cost} is claimed, but it is {float(total)}")
        self._check_share()
        low = cover.lower_bound
        if not (math.isfinite(low) and low >= 0):
            fail(f"lower_bound={low} is not a bound")
            return False
        if Fraction(low) > total:
            fail(f"lower_bound={low} exceeds the cost {float(total)} of this cover")
        is_least = abs(Fraction(low) - total) <= slack
        if cover.optimal and cover.coverage_bound is None and not is_least:
            fail(
                f"optimal is claimed, but lower_bound={low} is not the cost "
                f"{float(total)}"
            )
        if not self.failures:
            self._decide()
        return not self.failures

    def _check_share(self) -> None:
        """Check whether the cover says truly that it misses the share asked for."""
        share, missed = self.cover.share, self.cover.missed_share
        fail, served = (
            self.failures.append,
            self.problem.served_weight(self.cover.sources),
        )
        for name, value in (("share", share), ("missed_share", missed)):
            if value is not None and not 0 <= value <= 1:
                fail(f"{name}={value} is no share")
                return
        if missed is not None:
            if served >= self.problem.asked_weight(missed):
                fail(f"missed_share={missed} is claimed, but so much is served")
            elif share not in (None, missed):
                fail(f"missed_share={missed} is not share={share}")
        # A share of 1 is also recorded where all that can be served was asked for.
        elif (
            share is not None
            and share < 1
            and served < self.problem.asked_weight(share)
        ):
            fail(f"share={share} is not served, and the cover does not say so")

    # --- bounds -------------------------------------------------------------------

    def coverage(self) -> None:
        """Check that no selection of as many sources serves more than is claimed."""
        cover, problem = self.cover, self.problem
        if cover.coverage_bound is None:
            if cover.budget is not None:
                what = f"budget={cover.budget} is claimed without a coverage_bound"
                self.failures.append(what)
            return
        served, total = problem.served_weight(cover.sources), problem.total_weight
        share = Fraction(served, total) if total else Fraction(1)
        claimed = Fraction(cover.coverage_bound)
        slack = Fraction(1, 2**50)  # shares are rounded
        what = f"coverage_bound={cover.coverage_bound}"
        if claimed < share * (1 - slack):
            self.failures.append(
                f"{what} is below the share {float(share)} that this cover serves"
            )
        elif cover.optimal and not claimed <= share * (1 + slack):
            self.failures.append(
                f"optimal is claimed, but {what} is above the share {float(share)} "
                "served"
            )
        elif cover.budget is not None:
            self._budget(f"{what} ({cover.lower_bound_kind})", claimed, cover.budget)
        else:
            beyond = coverage_limit(self.rest, self.chosen)
            most = Fraction(problem.served_weight(self.taken) + beyond, total or 1)
            if most <= claimed * (1 + slack):
                self.proven.append(
                    f"{what}: no {cover.size} sources serve a larger share"
                )
            else:
                self.open.append(f"{what} was not proven again; {float(most)} is")

    def _budget(self, what: str, claimed: Fraction, budget: int) -> None:
        """Prove what the sources of a budget serve at most."""
        if self.cover.size > budget:
            self.failures.append(
                f"{self.cover.size} sources are more than budget={budget}"
            )
            return
        rest, total = self.rest, self.problem.total_weight or 1
        room = min(budget - len(self.taken), rest.sets.n_sources)
        # A share that is rounded up proves what the next smaller float would not.
        least = Fraction(self._servable) - claimed * (1 + Fraction(1, 2**50)) * total
        already, beside = self.problem.served_weight(self.taken), self._servable

        def unserved(sources: Iterable[int]) -> Fraction:
            return Fraction(beside - already - rest.served_weight(list(sources)))

        self._by_prices(
            what,
            least,
            lambda prices: unserved_price_bound(prices, rest, room),
            self._selections(rest.sets.n_sources, [room]),
            unserved,
        )

    def _share(self, share: float) -> None:
        """Prove what serving a share costs at least."""
        rest, asked = self.rest, min(self.problem.asked_weight(share), self._servable)
        if self.problem.served_weight(self.cover.sources) < asked:
            self.failures.append(f"share={share} is claimed, but less is served")
            return
        needed = max(0, asked - self.problem.served_weight(self.taken))

        def cost(sources: Iterable[int]) -> Fraction | None:
            chosen = list(sources)
            enough = rest.served_weight(chosen) >= needed
            return rest.cost(chosen) if enough else None

        n = rest.sets.n_sources
        self._by_prices(
            self.claim,
            Fraction(self.cover.lower_bound) - self.spent,
            lambda prices: share_price_bound(prices, rest, needed),
            self._selections(n, range(n + 1)),
            cost,
        )

    def _selections(
        self, n_sources: int, sizes: Iterable[int]
    ) -> Iterator[tuple[int, ...]] | None:
        """All selections of some sizes, None where they are too many to look at."""
        per_target = _SLOW if self.cover.mean_loss is not None else 1
        most = self.effort / (_STEP + per_target * self.sets.n_targets)
        return all_selections(n_sources, sizes, most)

    def _by_prices(
        self,
        what: str,
        claim: Fraction,
        bound_of: Callable[[PriceProof], tuple[Fraction, str]],
        selections: Iterator[tuple[int, ...]] | None,
        value: Callable[[Iterable[int]], Fraction | None],
    ) -> None:
        """Prove a bound by prices, or by looking at all selections of a small problem.

        Args:
            what: the claim in words.
            claim: no selection has a smaller value.
            bound_of: gives what prices prove, or what is wrong with them.
            selections: all of them; None where they are too many.
            value: of a selection; None for one that does not serve enough.
        """
        prices, bound = self.cover.prices, None
        if prices is not None:
            bound, fault = bound_of(prices)
            if fault:
                self.failures.append(f"the prices of {what} prove nothing: {fault}")
                return
            if bound >= claim:
                self.proven.append(f"{what} is proven again by its prices")
                return
            if self.cover.lower_bound_kind != "exact":
                self.failures.append(f"{what} is not proven by its prices")
                return
        if selections is not None:
            values = (value(chosen) for chosen in selections)
            if any(v is not None and v < claim for v in values):
                self.failures.append(f"{what} is refuted by a better selection")
            else:
                self.proven.append(f"{what} is proven again by trying all selections")
            return
        weaker = "" if bound is None else "; a weaker one is, by its prices"
        self.open.append(f"{what} was not proven again{weaker}")

    @property
    def _servable(self) -> int:
        """Weight that sources can serve that may be selected."""
        beside = int(self.rest.weights[self.rest.needed].sum())
        return beside + self.problem.served_weight(self.taken)

    def mean(self, target_weights: ArrayLike | None) -> None:
        """Check the mean loss and its bound, against the losses themselves.

        Args:
            target_weights: weight of each target, as given to the method.
        """
        cover, sets, fail = self.cover, self.sets, self.failures.append
        if sets.losses is None:
            fail("a mean loss is claimed of sets without losses")
            return
        if cover.budget is None or cover.size > cover.budget:
            fail(f"{cover.size} sources are more than budget={cover.budget}")
            return
        weights = np.ones(sets.n_targets)
        if target_weights is not None:
            weights = np.array(target_weights, np.float64)
        weights[cover.uncoverable] = 0.0  # the mean is over targets that can be served

        problem = MeanProblem(sets, weights, cover.include, cover.exclude)
        total = sum((Fraction(w) for w in weights.tolist()), Fraction(0))
        cost = problem.cost(cover.sources.tolist())
        if cost is None or not total:
            fail("a mean loss is claimed, but some target is not served")
            return
        mean, claimed = cost / total, Fraction(cover.mean_loss or 0)
        low, slack = Fraction(cover.lower_bound), abs(cost / total) / 2**50
        n_failures = len(self.failures)
        if abs(claimed - mean) > slack:
            fail(f"mean_loss={cover.mean_loss} is claimed, but it is {float(mean)}")
        if low > mean:
            fail(f"lower_bound={cover.lower_bound} exceeds the mean {float(mean)}")
        if cover.optimal and mean - low > slack:
            fail(
                f"optimal is claimed, but lower_bound={cover.lower_bound} is not the "
                f"mean {float(mean)}"
            )
        if len(self.failures) == n_failures:
            what = (
                f"lower_bound={cover.lower_bound} (mean loss of selections that leave "
                f"no loss above the tolerance, {cover.lower_bound_kind})"
            )
            room = min(cover.budget - len(cover.include), len(problem.free))
            budget, taken = cover.budget, cover.include.tolist()
            self._by_prices(
                what,
                low * total,
                lambda prices: problem.price_bound(prices, budget),
                self._selections(len(problem.free), [room]),
                lambda chosen: problem.cost([*taken, *problem.free[list(chosen)]]),
            )

    def bound(self) -> None:
        """Prove the lower bound again, by its prices or the knapsack bound."""
        cover, rest, what = self.cover, self.rest, self.claim
        if cover.share is not None:
            self._share(cover.share)
            return
        if cover.lower_bound == 0:
            return
        if cover.lower_bound_kind == "knapsack" or cover.budget is not None:
            bound = knapsack_bound(rest, rest.served_weight(self.chosen))
            how, is_complete = "computing it anew", False
        elif cover.prices is None:
            self.open.append(
                f"{what} was not refuted, and was not proven again: no prices"
            )
            return
        else:
            bound, fault = price_bound(cover.prices, rest)
            if unserved := self._n_unserved(rest.weights > 0):
                fault = (
                    "they bound covers of all targets that can be served, and this "
                    f"one leaves {unserved} of them"
                )
            if fault:
                self.failures.append(f"the prices of {what} prove nothing: {fault}")
                return
            how, is_complete = "its prices", cover.lower_bound_kind != "exact"
        bound += self.spent
        if bound >= Fraction(cover.lower_bound):
            self.proven.append(f"{what} is proven again by {how}")
        elif is_complete:
            self.failures.append(
                f"{what} is not proven by its prices, which prove {float(bound)}"
            )
        else:
            self.open.append(
                f"{what} was not proven again; {float(bound):.10g} is, by {how}"
            )

    def _n_unserved(self, counts: NDArray[np.bool_]) -> int:
        """Return how many of some targets could be served and are not."""
        rest = self.rest
        return int((counts & rest.needed & ~rest.sets.union(self.chosen)).sum())

    def cheaper(self) -> None:
        """Look for a selection that serves as much for less than the bound."""
        needed = self.rest.served_weight(self.chosen)
        for selection in _cheap_selections(self.rest, self.chosen.tolist(), needed):
            if self._refute(selection):
                return

    def _refute(self, selection: list[int]) -> bool:
        """Refute the bound by free sources that serve as much; whether they do."""
        total = self.spent + self.rest.cost(selection)
        if total >= Fraction(self.cover.lower_bound):
            return False
        self.failures.append(
            f"lower_bound={self.cover.lower_bound} is refuted: "
            f"{len(selection) + len(self.taken)} sources of cost {float(total)} serve "
            "as much"
        )
        return True

    def search(self) -> None:
        """Settle an open lower bound of a full cover by exhaustive search, if small."""
        cover, rest = self.cover, self.rest
        at = [k for k, text in enumerate(self.open) if text.startswith("lower_bound")]
        max_nodes = self.effort // max(1, int(rest.sets.sizes.sum()))
        # The search is for covers of all targets, those without weight too, and says
        # nothing of selections that need not serve all of them.
        is_full = not self._n_unserved(np.ones(rest.sets.n_targets, bool))
        is_all_asked = cover.share in (None, 1) and (rest.weights > 0).all()
        is_small = cover.size <= min(max_nodes, _MAX_DEPTH)
        if not (at and is_full and is_all_asked and is_small):
            return
        room = Fraction(cover.lower_bound) - self.spent
        selection = search_below(rest, room, max_nodes)
        if selection is None or (selection and self._refute(selection)):
            return
        del self.open[at[0]]
        self.proven.append(
            f"{self.claim} is proven again by searching through all cheaper selections"
        )


def _cheap_selections(
    problem: Problem, chosen: list[int], needed: int
) -> Iterator[list[int]]:
    """Yield selections that serve enough: a cover's and greedy's, without excess."""
    matrix, cost, weights = problem.sets.to_bool(), problem.costs, problem.weights
    if not len(matrix):
        yield []
        return
    greedy: list[int] = []
    unserved, served, relative = weights.copy(), 0, cost / cost.max()
    while served < needed:
        gains = matrix @ unserved
        best = int((gains.astype(np.float64) / relative).argmax())
        if gains[best] == 0:
            break
        greedy.append(best)
        served += int(gains[best])
        unserved[matrix[best]] = 0
    for sources in (chosen, greedy):
        times = matrix[sources].sum(axis=0)
        fewest = list(sources)
        for source in sorted(sources, key=lambda s: -cost[s]):  # dearest first
            fewer = times - matrix[source]
            if int(weights[fewer > 0].sum()) >= needed:
                times = fewer
                fewest.remove(source)
        if int(weights[times > 0].sum()) >= needed:
            yield fewest
