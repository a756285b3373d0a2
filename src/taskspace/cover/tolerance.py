"""Size against tolerance: losses, their sets at many tolerances, and what to search.

The smallest tolerance that a number of sources can meet is found with a proof.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util import files
from taskspace._util.clock import Clock
from taskspace._util.files import plain
from taskspace.cover.cover import Cover, listed
from taskspace.cover.greedy import cover_greedily, greedy_cover
from taskspace.cover.methods import find_cover
from taskspace.cover.minimum import N_ROUNDS, full_cover
from taskspace.cover.problem import CoverProblem, check_budget, losses_of, restrict
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.sets import TargetSets, pack

MAX_SETTLED_PAIRS = 10**6
"""Pairs of a source and a target up to which ties between covers are settled."""
_FIRST_STAGES = N_ROUNDS + 1  # of work at each tolerance, before any gets more
_TIE_STAGES = 3  # of work that settling ties may take at each tolerance


def loss_matrix(losses: Any) -> NDArray[Any]:
    """Return a loss matrix `(source, target)` of numbers, checked.

    Args:
        losses: xarray or NumPy; it may hold infinities.
    """
    if hasattr(losses, "dims"):
        if set(losses.dims) != {"source", "target"}:
            raise InvalidInputError(
                f"loss must have the dims (source, target), but got {losses.dims}."
            )
        losses = losses.transpose("source", "target").values
    matrix = np.asarray(losses)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InvalidInputError(
            "loss must be a matrix of numbers (source, target), but got "
            f"{matrix.dtype} of shape {matrix.shape}."
        )
    if np.isnan(matrix.min(initial=0)):
        raise InvalidInputError(
            f"loss must hold no NaN, but got {int(np.isnan(matrix).sum())}. A failed "
            "transfer is a loss of inf."
        )
    return matrix


# One search over tolerances: covers at some of them, and what follows at the others.
# Profiles, budgets and the slider of a page ask at different tolerances and in
# different orders. What they find is put together here.


class ToleranceSearch:
    """Bounds on the size of a minimum cover at each of many tolerances.

    A cover at one tolerance is a cover at every larger one, and a lower bound at one
    tolerance holds at every smaller one, as long as the same targets can be served.

    Args:
        losses: loss matrix `(source, target)`.
        epsilons: the tolerances, ascending.
        include: sources that every cover must hold.
        exclude: sources that no cover may hold.
        seed: of the random choices.

    Attributes:
        n_uncoverable: targets that no source serves, at each tolerance.
        lower: no cover of all targets that can be served is smaller.
        upper: such a cover of this size exists.
        lower_from: at which tolerance `lower` was proven, −1 where nowhere yet.
        upper_from: at which tolerance a cover of this size was found, or −1.
    """

    def __init__(
        self,
        losses: NDArray[Any],
        epsilons: NDArray[np.floating | np.integer],
        *,
        include: ArrayLike = (),
        exclude: ArrayLike = (),
        seed: int = 0,
    ):
        self.epsilons, self._seed, self._losses = epsilons, seed, losses
        self._kept: dict[int, TargetSets] = {}
        self._limits: dict[str, Any] = {"include": include, "exclude": exclude}
        best = losses.min(0) if len(losses) else np.full(losses.shape[1], np.inf)
        n_served = np.searchsorted(np.sort(best), epsilons, side="right")
        self.n_uncoverable = losses.shape[1] - n_served
        self.lower = np.minimum(1, n_served)
        self.upper = np.minimum(len(losses), n_served)
        self.lower_from = np.full(len(epsilons), -1)
        self.upper_from = np.full(len(epsilons), -1)

    def _sets(self, k: int) -> TargetSets:
        """Return the sets at one tolerance; an eighth of the memory keeps some."""
        if k not in self._kept:
            room = files.available_memory() // 8
            while self._kept and sum(s.nbytes for s in self._kept.values()) > room:
                self._kept.pop(next(iter(self._kept)))
            self._kept[k] = pack(self._losses <= self.epsilons[k])
        return replace(self._kept[k])  # what is computed from it is not kept

    def largest(self, k: int) -> int:
        """Return how many targets the most useful source serves.

        Args:
            k: number of the tolerance.
        """
        return int(self._sets(k).sizes.max(initial=0))

    def greedy(self, k: int) -> Cover:
        """Return greedy's cover at one tolerance, and learn from it.

        Args:
            k: number of the tolerance.
        """
        return self.learn(k, greedy_cover(self._sets(k), **self._limits))

    def minimum(self, k: int, clock: Clock, n_stages: int) -> Cover:
        """Return the smallest cover found at one tolerance, and learn from it.

        Args:
            k: number of the tolerance.
            clock: whose time limit counts.
            n_stages: stages of counted work, see `full_cover`.
        """
        instance = CoverProblem(self._sets(k), **self._limits)
        cover = full_cover(instance, clock, seed=self._seed, n_stages=n_stages)
        return self.learn(k, cover)

    def learn(self, k: int, cover: Cover) -> Cover:
        """Return a cover, after noting what it says about all tolerances.

        Args:
            k: number of the tolerance at which it was found.
            cover: one that leaves out more than it must says nothing.
        """
        n_left = int((cover.assignment < 0).sum())
        if n_left != self.n_uncoverable[k]:
            return cover
        alike = np.flatnonzero(self.n_uncoverable == n_left)
        lower, below, above = (
            int(cover.lower_bound),
            alike[alike <= k],
            alike[alike >= k],
        )
        below = below[(self.lower_from[below] < 0) | (self.lower[below] < lower)]
        above = above[(self.upper_from[above] < 0) | (self.upper[above] > cover.size)]
        self.lower[below] = np.maximum(self.lower[below], lower)
        self.upper[above] = cover.size
        self.lower_from[below], self.upper_from[above] = k, k
        return cover


# --- the smallest tolerance of a budget ---------------------------------------------


@dataclass(frozen=True, repr=False)
class SmallestEpsilon:
    """The least tolerance within which a budget of sources serves every target.

    Args:
        budget: number of sources.
        lower: no `budget` sources serve every target within less; −inf where they do
            within any tolerance.
        upper: `sources` do within this; inf where no selection of this size was found.
        sources: the selection, `len(sources) <= budget`, ascending.
        optimal: whether there is a selection and lower and upper are equal, so that
            the answer is proven.
        cover: the cover at `upper`, None where nothing serves all.
        seconds: wall-clock time.
        left_out: targets without a source of finite loss, which the answer is not
            about.
        scope: what must be said beside "proven": nothing for exact numbers.
        note: what was left unused of the question, if something was.
    """

    budget: int
    lower: float
    upper: float
    sources: tuple[int, ...]
    optimal: bool
    cover: Cover | None
    seconds: float
    left_out: tuple[int, ...] = ()
    scope: str = ""
    note: str = ""

    def __repr__(self) -> str:
        rest = self.cover or f"  sources: {listed(self.sources)}"
        return f"{self.statement} {self.note}".rstrip() + f"\n{rest}"

    @property
    def is_impossible(self) -> bool:
        """Whether it is proven that no such selection serves every target."""
        return self.lower == np.inf

    @property
    def statement(self) -> str:
        """The answer as a sentence."""
        many = "1 source" if self.budget == 1 else f"{self.budget} sources"
        proven = f"proven {self.scope}".rstrip()
        every = "every target"
        if self.left_out:
            every += f" but the {len(self.left_out):,} of no finite loss"
        if self.is_impossible:
            return f"No {many} serve {every} within any tolerance: {proven}."
        if self.upper == np.inf:
            return (
                f"No {many} that serve {every} were found in time; within less "
                f"than ε = {self.lower} there are none."
            )
        if not self.optimal:
            return (
                f"{many} can serve {every} within ε = {self.upper}, and not "
                f"within less than {self.lower}; what lies between is open."
            )
        return (
            f"ε = {self.upper} is the smallest tolerance within which {many} can serve "
            f"{every}: {proven}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the cover as JSON, and the tolerance as its `smallest_epsilon`."""
        names = ("budget", "lower", "upper", "optimal", "sources", "left_out")
        record = {} if self.cover is None else self.cover.to_dict()
        least = {name: getattr(self, name) for name in names}
        return record | {"smallest_epsilon": plain(least, nonfinite="keep")}


def smallest_epsilon(
    problem: Study | Any,
    budget: int,
    question: Question | str | None = None,
    *,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
    time_limit: float = 60.0,
    seed: int = 0,
    max_stages: int | None = None,
    progress: Progress | None = None,
) -> SmallestEpsilon:
    """Find the smallest tolerance at which a cover of `budget` sources exists.

    Between two values of the loss matrix no set changes, so the answer is one of
    them: a binary search, in which `minimum_cover` says yes by a cover, or no by its
    lower bound. What stays open after some stages of work at every tolerance gets more
    of them. Where it can say neither in time, the answer is an interval.

    Args:
        problem: a study, or a loss matrix `(source, target)`, xarray or NumPy, which
            may hold infinities.
        budget: number of sources, `>= 1`.
        question: what is asked of a study; a bound is not used, and the note says so.
        include: sources that must be selected.
        exclude: sources that must not be.
        time_limit: processor seconds for all of it.
        seed: of the random choices.
        max_stages: stages of counted work for each tolerance, at most; as many as
            time allows where not given.
        progress: called after each tolerance that was tried, with the interval in which
            the least one lies.

    Returns:
        The tolerance, or the interval in which it lies, and the selection.
    """
    clock, report = Clock(time_limit), progress or silent
    matrix = np.asarray(loss_matrix(losses_of(problem, question)), np.float64)
    wanted, unwanted = restrict(len(matrix), include, exclude)
    check_budget(budget, wanted, least=1)
    clock.restart()  # losses are there
    usable = np.setdiff1d(np.arange(len(matrix)), unwanted)
    values = np.unique(matrix[usable])
    if budget == len(wanted):
        usable = wanted
    # No tolerance below this one serves every target, whatever the budget.
    least = matrix[usable].min(0, initial=np.inf).max(initial=-np.inf)
    values = values[(values >= least) & (values < np.inf)]  # −inf may be one
    search = ToleranceSearch(
        matrix, values, include=wanted, exclude=unwanted, seed=seed
    )
    n_stages = _FIRST_STAGES if max_stages is None else min(_FIRST_STAGES, max_stages)
    covers: dict[int, Cover] = {}
    tried: set[int] = set()
    while True:
        is_open, first_open, first_met = _interval(search, budget)
        low, high = (
            float(np.append(values, np.inf)[k]) for k in (first_open, first_met)
        )
        if covers:
            report("search", low, high, f"epsilon={values[list(covers)[-1]]:g}")
        places = [k for k in np.flatnonzero(is_open).tolist() if k not in tried]
        if not places and is_open.any() and n_stages != max_stages:
            tried, n_stages = set(), n_stages + 1
            continue
        if not places or clock.left <= 0:
            break
        k = places[len(places) // 2]
        tried.add(k)
        covers.setdefault(k, search.greedy(k))
        if covers[k].lower_bound <= budget < covers[k].size:
            covers[k] = search.minimum(k, clock, n_stages)
    best, note = covers.get(first_met), ""
    if question is not None:
        note = as_question(question, needs_bound=False).unused_bound
    return SmallestEpsilon(
        budget=budget,
        lower=low,
        upper=high,
        sources=() if best is None else tuple(np.sort(best.sources).tolist()),
        optimal=low == high < np.inf,
        cover=best,
        seconds=clock.seconds,
        note=note,
    )


def _interval(
    search: ToleranceSearch, budget: int
) -> tuple[NDArray[np.bool_], int, int]:
    """Return which tolerances are open, the first that may do, the first that does."""
    is_met = (search.upper_from >= 0) & (search.upper <= budget)
    may_do = (search.lower <= budget) | is_met
    n = len(is_met)
    first_met = int(is_met.argmax()) if is_met.any() else n
    first_open = int(may_do.argmax()) if may_do.any() else n
    return may_do & ~is_met, first_open, first_met


def least_cover(
    cover: Cover, losses: ArrayLike, *, time_limit: float = 60.0, seed: int = 0
) -> Cover:
    """Return a cover of the same size with the least largest loss that is found.

    Args:
        cover: of as many targets as can be served, of sources that all cost 1.
        losses: loss matrix `(source, target)`.
        time_limit: processor seconds; the best that was found by then is kept.
        seed: of the random choices.

    Returns:
        A cover of the same targets, by no more sources. What is proven of its size
        stays: the bound is about every cover.
    """
    matrix = np.asarray(losses, np.float64)
    served = cover.assignment >= 0
    if cover.cost != cover.size or not served.any():
        return cover
    inner = matrix[:, served]
    worst = inner[cover.sources].min(0).max()
    least = smallest_epsilon(
        np.where(inner <= worst, inner, np.inf),
        cover.size,
        include=cover.include,
        exclude=cover.exclude,
        time_limit=time_limit,
        seed=seed,
        max_stages=_TIE_STAGES,
    )
    if least.cover is None or not least.upper < worst:
        return cover
    sources = np.array(least.sources, np.int64)
    assignment = np.full(cover.n_targets, -1, np.int64)
    assignment[served] = sources[inner[sources].argmin(0)]
    return replace(
        cover,
        sources=sources,
        assignment=assignment,
        size=len(sources),
        cost=float(len(sources)),
        seconds=cover.seconds + least.seconds,
    )


def settle_ties(
    cover: Cover,
    study: Study | xr.Dataset,
    question: Question,
    *,
    time_limit: float,
    seed: int = 0,
) -> Cover:
    """Return a cover of the same size with the least worst loss, in small tables.

    Most problems have many minimum covers.

    Args:
        cover: of the study, for the question.
        study: what is known, or a performance table.
        question: what is asked.
        time_limit: processor seconds.
        seed: of the random choices.
    """
    if not cover.size or cover.n_sources * cover.n_targets > MAX_SETTLED_PAIRS:
        return cover
    losses = question.losses(study).values
    return least_cover(cover, losses, time_limit=time_limit, seed=seed)


def find_best_cover(
    problem: CoverProblem,
    method: str,
    *,
    time_limit: float = 60.0,
    seed: int = 0,
    **options: Any,
) -> Cover:
    """Return a cover of a study; among minimum covers, one of least worst loss.

    Args:
        problem: what is to be covered.
        method: one of `METHODS`.
        time_limit: processor seconds.
        seed: of the random choices.
        options: `share`, `budget` and `progress`, as the method takes them.
    """
    sets, study = problem.sets, problem.study
    clock = Clock(time_limit)
    cover = find_cover(
        sets,
        method=method,
        shape=study.shape,
        costs=problem.costs,
        target_weights=problem.target_weights,
        include=problem.include,
        exclude=problem.exclude,
        time_limit=time_limit,
        seed=seed,
        **options,
    )
    if method != "minimum" or problem.costs is not None:  # else each costs 1
        return cover
    return settle_ties(cover, study, sets.question, time_limit=clock.left, seed=seed)


def smallest_tolerance(
    problem: CoverProblem, budget: int, **options: Any
) -> SmallestEpsilon:
    """Return the smallest tolerance that a budget meets, with its cover of the study.

    It is about the targets that some source serves at a finite loss.

    Args:
        problem: what is to be covered.
        budget: number of sources.
        options: `time_limit`, `seed`, `progress`: see `smallest_epsilon`.
    """
    losses = losses_of(problem.study, problem.question)
    allowed = np.delete(losses.values, problem.exclude, axis=0)
    is_served = np.isfinite(allowed).any(0)
    limits = {"include": problem.include, "exclude": problem.exclude}
    least = smallest_epsilon(
        losses.isel(target=np.flatnonzero(is_served)), budget, **limits, **options
    )
    if least.upper == np.inf:
        raise InvalidInputError(
            f"{least.statement} Ask with a bound: then a budget serves as many targets "
            "as it can. Or give more time with --time-limit."
        )
    asked = replace(problem, question=problem.question.at(least.upper))
    greedy = cover_greedily(asked)
    cover = asked.cover(
        "budget",
        least.sources,
        lower_bound=int(greedy.lower_bound),
        lower_bound_kind=greedy.lower_bound_kind,
        stop_reason="covered",
        prices=greedy.prices,
        seconds=least.seconds,
        notes=tuple(problem.notes) or None,
    ).about(problem.study)
    left_out = tuple(np.flatnonzero(~is_served).tolist())
    return replace(least, cover=cover, left_out=left_out, scope=cover.scope)
