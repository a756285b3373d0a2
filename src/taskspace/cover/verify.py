"""An independent check of a cover's claims, in plain NumPy and exact fractions.

Nothing here is shared with the methods that make covers, so that a mistake there
cannot hide here. Costs are the exact numbers that their floats are.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.cover import Cover, PriceProof, listed
from taskspace.cover.problem import sets_of
from taskspace.errors import InvalidInputError, require
from taskspace.performance.study import Study
from taskspace.sets import TargetSets

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
                f"costs must be {n} positive numbers, but got shape {cost.shape}."
            )
        needed = sets.coverable
        if weights is None:
            return cls(sets, cost, np.ones(m, np.int64), needed)
        array = np.asarray(weights, np.float64)
        if array.shape != (m,) or not (np.isfinite(array) & (array >= 0)).all():
            raise InvalidInputError(
                f"target_weights must be {m} numbers >= 0, but got {array.shape}."
            )
        exact = [Fraction(w) for w in array.tolist()]
        common = math.lcm(*(w.denominator for w in exact), 1)
        units = [int(w * common) for w in exact]
        divisor = math.gcd(*units) or 1
        whole = np.array([n // divisor for n in units] + [None], object)[:-1]
        return cls(sets, cost, whole, needed)

    def rest(self, include: set[int], exclude: set[int]) -> "Problem":
        """Return the problem that is left for the free sources.

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
        of_runs = prefix[self.sets.stops] - prefix[self.sets.starts]
        return np.diff(np.concatenate([zero, np.cumsum(of_runs)])[self.sets.offsets])


def price_bound(prices: PriceProof, problem: Problem) -> tuple[Fraction, str]:
    """Return what serving every target costs at least, or why prices prove nothing.

    Args:
        prices: the claim.
        problem: what it is about.

    Returns:
        The largest proven bound, and an empty text; or 0 and what is wrong.
    """
    dense, fault = _on_targets(prices, problem.needed & (problem.weights > 0))
    if fault:
        return Fraction(0), fault
    one, is_whole = Fraction(2) ** prices.shift, prices.is_whole
    distinct, which = np.unique(problem.costs, return_inverse=True)
    exact = [Fraction(cost) / prices.unit for cost in distinct.tolist()]
    costs = [math.floor(c) * one if is_whole else c * one for c in exact]
    most = math.inf if dense.dtype == object else _MOST
    limits = np.array([min(math.floor(c), most) for c in costs], dense.dtype)
    excess = problem.loads(dense) - limits[which]
    if (excess > 0).any():
        source = int(excess.argmax())
        return Fraction(0), f"the targets of source {source} cost more than it does"
    if not is_whole or not len(prices.targets):
        return int(dense.sum()) / one * prices.unit, ""
    sums: dict[int, int] = {}
    labels = _apart(problem.sets, prices.targets).tolist()
    for label, n in zip(labels, prices.units.tolist(), strict=True):
        sums[label] = sums.get(label, 0) + n
    return sum(math.ceil(n / one) for n in sums.values()) * prices.unit, ""


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
    one = Fraction(2) ** prices.shift
    if not fault and prices.unit != 1:
        fault = "their unit is not 1"
    elif not fault:
        pairs = zip(prices.units, problem.weights[prices.targets], strict=True)
        if any(int(unit) > one * int(weight) for unit, weight in pairs):
            fault = "a target has a price above its weight"
    if fault:
        return Fraction(0), fault
    units = (int(dense.sum()) - _best(problem.loads(dense), room)) / one
    return Fraction(max(0, math.ceil(units))), ""


def _on_targets(
    prices: PriceProof, may: NDArray[np.bool_], *, signed: bool = False
) -> tuple[NDArray[Any], str]:
    """Return a price per target, and a fault; only targets of `may` may have one."""
    targets, units = prices.targets, prices.units
    dense = np.zeros(len(may), units.dtype)
    if prices.unit <= 0:
        return dense, "their unit is not positive"
    if len(targets) == 0:
        return dense, ""
    inside = 0 <= targets.min() and targets.max() < len(dense)
    if not inside or not (np.diff(targets) > 0).all():
        return dense, "they are not on targets in ascending order"
    if not may[targets].all():
        return dense, "a target has a price that need not be served"
    if not signed and (units < 0).any():
        return dense, "a price is negative"
    dense[targets] = units
    too_large = int(np.abs(units.astype(object)).sum()) >= _MOST
    return dense, "they are too large" if too_large and dense.dtype != object else ""


def _best(gains: NDArray[Any], room: int) -> int:
    """Return the sum of the `room` largest gains, without negative ones."""
    return sum(sorted((max(0, int(gain)) for gain in gains), reverse=True)[:room])


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
        units, fault = _on_targets(prices, everywhere, signed=True)
        if fault or prices.unit != 1:
            return Fraction(0), fault or "their unit is not 1"
        gains = np.zeros(self.sets.n_sources, np.int64)
        for source in [*self.include.tolist(), *self.free.tolist()]:
            losses = self._row(source)
            # One step down, unless it is exact: the true product is not below that.
            is_exact = (self.weights == 1) | (self.weights == 0) | (losses == 0)
            with np.errstate(invalid="ignore", over="ignore"):
                product = np.where(self.weights == 0, 0.0, losses * self.weights)
                down = np.where(is_exact, product, np.nextafter(product, -np.inf))
                floor = np.floor(np.ldexp(down, prices.shift))
            least = np.clip(floor, -_LARGEST, _LARGEST)
            saved = np.maximum(units - least.astype(np.int64), 0)
            if (floor < least).any() or saved.sum(dtype=np.float64) >= 2 * _LARGEST:
                return Fraction(0), "the losses are too large in their unit"
            gains[source] = saved.sum()
        room = budget - len(self.include)
        left = int(units.sum()) - int(gains[self.include].sum())
        return (left - _best(gains[self.free], room)) / Fraction(2) ** prices.shift, ""


def _apart(sets: TargetSets, targets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return a label per target, equal for targets that a chain of sources joins."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n, n_sources = len(targets), sets.n_sources
    marks = np.zeros(sets.n_targets + 1, np.int32)
    marks[targets + 1] = 1
    before = np.cumsum(marks, dtype=np.int32)  # targets with a price before each one
    first, last = before[sets.starts], before[sets.stops]
    owner = np.repeat(np.arange(n_sources), np.diff(sets.offsets))[first < last]
    first, last = first[first < last], last[first < last]
    # Neighbours that a run joins have one label, and a source joins those of its runs.
    joins = np.bincount(first, minlength=n) - np.bincount(last - 1, minlength=n)
    labels = np.cumsum(np.append(0, np.cumsum(joins)[: n - 1] <= 0))
    n_labels = int(labels.max()) + 1
    graph = sparse.coo_array(
        (np.ones(len(first), bool), (n_labels + owner, labels[first])),
        shape=(n_labels + n_sources,) * 2,
    )
    return connected_components(graph, directed=False)[1][labels]


def knapsack_bound(problem: Problem, needed: int) -> Fraction:
    """Least cost of fractions of sources whose weights sum to `needed`.

    Args:
        problem: what it is about.
        needed: weight that is served.
    """
    gains, costs = problem.loads(problem.weights), problem.costs.tolist()
    pairs = [(Fraction(costs[s]), int(gains[s])) for s in np.flatnonzero(gains > 0)]
    spent, missing = Fraction(0), needed
    for cost, gain in sorted(pairs, key=lambda pair: pair[0] / pair[1]):
        spent += cost * min(Fraction(1), Fraction(missing, gain))
        missing -= gain
        if missing <= 0:
            break
    if not all(cost.is_integer() for cost in costs):
        return spent
    common = math.gcd(*map(int, set(costs)))
    return Fraction(-(-spent // common) * common) if common else spent


_STEP, _SLOW = 50, 20  # pairs that a selection is worth, and a target in fractions
_ROUNDED = Fraction(1, 2**50)  # relative error of a share or a mean that is a float


@dataclass(frozen=True, repr=False)
class Verification:
    """Which claims of a cover hold.

    Args:
        claim: what the cover claims in the first place.
        holds: whether no claim was refuted.
        failures: one sentence for each claim that does not hold.
        not_checked: claims that could be neither shown nor refuted.
        proven: one sentence for each bound that was proven again.
        conditions: one sentence for each restriction that the cover states itself.
            Bounds are about selections that keep to them; whether they were asked for
            is not in the sets.
    """

    claim: str
    holds: bool
    failures: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def refuted(self, failure: str) -> Self:
        """Return the verification with one more claim that does not hold, first.

        Args:
            failure: a sentence.
        """
        return replace(self, holds=False, failures=(failure, *self.failures))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return asdict(self)

    def __repr__(self) -> str:
        what = "The claim holds" if self.holds else "The claim does not hold"
        lines = [f"{what}: {self.claim}."]
        lines += [f"- {sentence}" for sentence in self.failures]
        lines += [f"{sentence}." for sentence in (*self.proven, *self.not_checked)]
        lines += [f"Provided that {sentence}." for sentence in self.conditions]
        return "\n".join(lines)


class CoverRefutedError(InvalidInputError):
    """A cover claims what the data do not bear out.

    Args:
        failures: one sentence for each claim that does not hold.
    """

    def __init__(self, failures: tuple[str, ...]):
        said = "; ".join(failures)
        super().__init__(
            f"Every claim of a cover must follow from its sets, but {said}."
        )
        self.failures = failures


def verify_cover(
    cover: Cover,
    problem: Study | TargetSets,
    costs: ArrayLike | None = None,
    *,
    target_weights: ArrayLike | None = None,
    raise_on_failure: bool = False,
    effort: int = 3_000_000,
) -> Verification:
    """Recompute everything that a cover claims from the sets themselves.

    A bound is proven again from the prices kept with the cover, in one pass of
    integer arithmetic. Prices that are too high, or that do not prove the bound they
    are kept for, refute the cover. A bound that an exact search found has no such
    prices: all selections of a small problem are tried, and where they are too many
    the bound is listed in `not_checked`.

    Args:
        cover: the claim.
        problem: the study that the cover is about, which its question is asked of
            again; or the targets that each source serves.
        costs: cost of each source, as given to the method that made the cover.
        target_weights: weight of each target, as given to that method.
        raise_on_failure: raise `CoverRefutedError` instead of returning failures.
        effort: (source, target) pairs to look at, at most, when all selections are
            tried; 0 tries none.

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
    failures = tuple(check.failures)
    if failures and raise_on_failure:
        raise CoverRefutedError(failures)
    held = (("must be in", cover.include), ("must not be in", cover.exclude))
    conditions = tuple(
        f"bounds are about selections in which sources {listed(sources.tolist(), 8)} "
        f"{what}"
        for what, sources in held
        if len(sources)
    )
    return Verification(
        f"{cover.size} sources serve {100 * cover.coverage:.4g} % of "
        f"{cover.n_targets:,} targets",
        not failures,
        failures,
        tuple(check.open),
        tuple(check.proven),
        conditions,
    )


class _Check:
    """Checks the claims of a cover one by one.

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
        """Separate forced from free sources."""
        cover = self.cover
        include, exclude = set(cover.include.tolist()), set(cover.exclude.tolist())
        self.rest, self.chosen = self.problem, np.asarray(cover.sources)
        self.taken = np.array(sorted(include), np.int64)
        self.spent = self.problem.cost(self.taken)
        self.before = self.problem.served_weight(self.taken)
        if include or exclude:
            fixed = include | exclude
            free = [s for s in range(cover.n_sources) if s not in fixed]
            chosen = [s for s in cover.sources.tolist() if s not in include]
            self.rest = self.problem.rest(include, exclude)
            self.chosen = np.searchsorted(np.array(free, np.int64), chosen)

    # --- what can be counted --------------------------------------------------------

    def _claimed(self, name: str, actual: Any) -> None:
        """Refuse a field of the cover that is not what it must be."""
        if (claimed := getattr(self.cover, name)) != actual:
            self.failures.append(f"{name}={claimed} is claimed, but it is {actual}")

    def shape(self) -> bool:
        """Return whether all sources and targets exist."""
        cover, n, fail = self.cover, self.sets.n_sources, self.failures.append
        self._claimed("n_sources", n)
        self._claimed("n_targets", self.sets.n_targets)
        for name in ("sources", "include", "exclude"):
            array = np.asarray(getattr(cover, name))
            if array.size and not (0 <= array.min() <= array.max() < n):
                fail(f"{name} names a source that does not exist")
        sources = set(cover.sources.tolist())
        if len(sources) != len(cover.sources):
            fail("a source is selected twice")
        if np.shape(cover.assignment) != (self.sets.n_targets,):
            fail(f"{np.size(cover.assignment)} targets are assigned, not all")
        if not set(cover.include.tolist()) <= sources:
            fail("a source that must be in is not selected")
        if set(cover.exclude.tolist()) & sources:
            fail("a source that must not be in is selected")
        return not self.failures

    def serving(self) -> None:
        """Check the assignment and the targets that no source serves."""
        cover, sets, fail = self.cover, self.sets, self.failures.append
        assignment = np.asarray(cover.assignment)
        is_served, is_coverable = (np.zeros(sets.n_targets, bool) for _ in range(2))
        is_right = assignment == -1
        for source in cover.sources.tolist():
            row = sets.row(source)
            is_served |= row
            is_right |= row & (assignment == source)
        wrong = np.flatnonzero(~is_right | (is_served != (assignment >= 0)))
        if len(wrong):
            fail(
                f"target {wrong[0]} is assigned to {assignment[wrong[0]]}, which is no "
                f"selected source that serves it ({len(wrong)} such targets)"
            )
        coverage = int(is_served.sum()) / sets.n_targets if sets.n_targets else 1.0
        if not abs(cover.coverage - coverage) <= 1e-12:
            fail(f"coverage={cover.coverage} is claimed, but it is {coverage}")
        for source in np.setdiff1d(np.arange(sets.n_sources), cover.exclude).tolist():
            is_coverable |= sets.row(source)
        if not np.array_equal(cover.uncoverable, np.flatnonzero(~is_coverable)):
            fail("uncoverable does not name the targets that no source serves")

    def numbers(self) -> bool:
        """Check size, cost and shares; return whether everything holds so far."""
        cover, fail = self.cover, self.failures.append
        self._claimed("size", len(cover.sources))
        total, low = self.problem.cost(cover.sources), cover.lower_bound
        # A float cost is rounded, and costs may be rounded multiples of one unit.
        slack = total / 2**46
        is_cost = math.isfinite(cover.cost)
        if not (is_cost and abs(Fraction(cover.cost) - total) <= slack):
            fail(f"cost={cover.cost} is claimed, but it is {float(total)}")
        self._check_share()
        if not (math.isfinite(low) and low >= 0):
            fail(f"lower_bound={low} is not a bound")
        elif Fraction(low) > total:
            fail(f"lower_bound={low} exceeds the cost {float(total)} of this cover")
        elif (
            cover.optimal
            and cover.coverage_bound is None
            and abs(Fraction(low) - total) > slack
        ):
            fail(f"optimal is claimed, but {self.claim} is not the cost")
        if not self.failures:
            self._decide()
        return not self.failures

    def _check_share(self) -> None:
        """Check whether the cover says truly that it misses the share asked for."""
        share, missed = self.cover.share, self.cover.missed_share
        fail, problem = self.failures.append, self.problem
        served = problem.served_weight(self.cover.sources)
        if any(value is not None and not 0 <= value <= 1 for value in (share, missed)):
            fail(f"share={share} or missed_share={missed} is no share")
        elif missed is not None:
            if served >= problem.asked_weight(missed):
                fail(f"missed_share={missed} is claimed, but so much is served")
            elif share not in (None, missed):
                fail(f"missed_share={missed} is not share={share}")
        # A share of 1 is also recorded where all that can be served was asked for.
        elif share not in (None, 1) and served < problem.asked_weight(share):
            fail(f"share={share} is not served, and the cover does not say so")

    # --- bounds -------------------------------------------------------------------

    def coverage(self) -> None:
        """Check that no selection of as many sources serves more than is claimed."""
        cover, problem, fail = self.cover, self.problem, self.failures.append
        what = f"coverage_bound={cover.coverage_bound} ({cover.lower_bound_kind})"
        if cover.coverage_bound is None:
            if cover.budget is not None:
                fail(f"budget={cover.budget} is claimed without a coverage_bound")
            return
        served, total = problem.served_weight(cover.sources), problem.total_weight
        share = Fraction(served, total) if total else Fraction(1)
        claimed = Fraction(cover.coverage_bound)
        budget = cover.size if cover.budget is None else cover.budget
        if claimed < share * (1 - _ROUNDED):
            fail(f"{what} is below the share {float(share)} that this cover serves")
        elif cover.optimal and not claimed <= share * (1 + _ROUNDED):
            fail(f"optimal is claimed, but {what} is above the share served")
        elif cover.size > budget:
            fail(f"size={cover.size} is more than {budget=}")
        else:
            # A share that is rounded up proves what the next smaller float would not.
            most = claimed * (1 + _ROUNDED) * (total or 1)
            room = budget - len(self.taken)
            self._unserved(what, self._servable - most, room)

    def bound(self) -> None:
        """Prove the lower bound again, by its prices or the knapsack bound."""
        cover, rest = self.cover, self.rest
        claim = Fraction(cover.lower_bound) - self.spent
        goal = rest.served_weight(self.chosen)
        if claim <= 0:
            return
        if cover.lower_bound_kind == "knapsack" or cover.coverage_bound is not None:
            if knapsack_bound(rest, goal) >= claim:
                self.proven.append(f"{self.claim} is proven again by computing it anew")
            else:
                self.open.append(f"{self.claim} was not proven again")
            return
        left = 0
        if cover.share is not None:
            asked = min(self.problem.asked_weight(cover.share), self._servable)
            if goal + self.before < asked:
                self.failures.append(f"share={cover.share} is claimed, not served")
                return
            goal = max(0, asked - self.before)
            left = self._servable - self.before - goal
        if left and (self.problem.costs != 1).any():
            self.open.append(f"{self.claim} was not proven again: sources have costs")
            return
        if left:  # one source fewer leaves more than that
            self._unserved(self.claim, Fraction(left + 1), math.ceil(claim) - 1)
            return

        def price(prices: PriceProof) -> tuple[Fraction, str]:
            if n := self._n_unserved():
                return Fraction(0), f"{n} targets that could be served are not"
            return price_bound(prices, rest)

        def cost(chosen: list[int]) -> Fraction | None:
            is_enough = rest.served_weight(chosen) >= goal
            return rest.cost(chosen) if is_enough else None

        n = rest.sets.n_sources
        self._settle(self.claim, claim, price, (n, range(n + 1)), cost)

    def _unserved(self, what: str, claim: Fraction, room: int) -> None:
        """Prove how much weight some free sources leave at least."""
        rest, servable = self.rest, self._servable - self.before
        room = min(room, rest.sets.n_sources)
        self._settle(
            what,
            claim,
            lambda prices: unserved_price_bound(prices, rest, room),
            (rest.sets.n_sources, [room]),
            lambda chosen: Fraction(servable - rest.served_weight(chosen)),
        )

    def _settle(
        self,
        what: str,
        claim: Fraction,
        bound_of: Callable[[PriceProof], tuple[Fraction, str]],
        selections: tuple[int, Iterable[int]],
        value: Callable[[list[int]], Fraction | None],
    ) -> None:
        """Prove a bound by prices, or by trying all selections of a small problem.

        Args:
            what: the claim in words.
            claim: no selection has a smaller value.
            bound_of: gives what prices prove, or what is wrong with them.
            selections: number of sources to choose from, and sizes of selections.
            value: of a selection; None for one that does not serve enough.
        """
        prices, weaker = self.cover.prices, ""
        if prices is not None:
            bound, fault = bound_of(prices)
            if fault:
                self.failures.append(f"the prices of {what} prove nothing: {fault}")
                return
            if bound >= claim:
                self.proven.append(f"{what} is proven again by its prices")
                return
            weaker = f"; its prices prove {float(claim - bound):.10g} less"
            if self.cover.lower_bound_kind != "exact":
                self.failures.append(f"{what} is not proven{weaker}")
                return
        n, sizes = selections[0], list(selections[1])
        per_target = _SLOW if self.cover.mean_loss is not None else 1
        most = self.effort / (_STEP + per_target * self.sets.n_targets)
        if sum(math.comb(n, k) for k in sizes) > most:
            self.open.append(f"{what} was not proven again{weaker}")
            return
        tried = (list(c) for k in sizes for c in itertools.combinations(range(n), k))
        if any(v is not None and v < claim for v in map(value, tried)):
            self.failures.append(f"{what} is refuted by a better selection")
        else:
            self.proven.append(f"{what} is proven again by trying all selections")

    @property
    def _servable(self) -> int:
        """Weight that sources can serve that may be selected."""
        return int(self.rest.weights[self.rest.needed].sum()) + self.before

    def _n_unserved(self) -> int:
        """Return how many targets that count could be served and are not."""
        rest = self.rest
        counts = (rest.weights > 0) & rest.needed
        return int((counts & ~rest.sets.union(self.chosen)).sum())

    def mean(self, target_weights: ArrayLike | None) -> None:
        """Check the mean loss and its bound, against the losses themselves.

        Args:
            target_weights: weight of each target, as given to the method.
        """
        cover, sets, fail = self.cover, self.sets, self.failures.append
        budget, low = cover.budget, Fraction(cover.lower_bound)
        if sets.losses is None:
            fail("a mean loss is claimed of sets without losses")
            return
        if budget is None or cover.size > budget:
            fail(f"size={cover.size} is more than {budget=}")
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
        mean, slack = cost / total, abs(cost / total) * _ROUNDED
        what = f"{self.claim} of means with no loss above the tolerance"
        if abs(Fraction(cover.mean_loss or 0) - mean) > slack:
            fail(f"mean_loss={cover.mean_loss} is claimed, but it is {float(mean)}")
        elif low > mean:
            fail(f"{what} exceeds the mean {float(mean)}")
        elif cover.optimal and mean - low > slack:
            fail(f"optimal is claimed, but {what} is not the mean {float(mean)}")
        else:
            free, taken = problem.free, cover.include.tolist()
            self._settle(
                what,
                low * total,
                lambda prices: problem.price_bound(prices, budget),
                (len(free), [min(budget - len(taken), len(free))]),
                lambda chosen: problem.cost([*taken, *free[chosen]]),
            )
