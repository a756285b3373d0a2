"""The smallest tolerance that a number of sources can meet, with a proof."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace._util.files import plain
from taskspace.cover.cover import Cover, listed
from taskspace.cover.greedy import cover_greedily
from taskspace.cover.methods import find_cover
from taskspace.cover.minimum import N_ROUNDS
from taskspace.cover.problem import CoverProblem, check_budget, losses_of, restrict
from taskspace.cover.thresholds import Losses, ToleranceSearch
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question

MAX_SETTLED_PAIRS = 10**6
"""Pairs of a source and a target up to which ties between covers are settled."""
_FIRST_STAGES = N_ROUNDS + 1  # of work at each tolerance, before any gets more
_TIE_STAGES = 3  # of work that settling ties may take at each tolerance


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
        if self.upper == -np.inf:
            return f"{many} can serve {every} within any tolerance: {proven}."
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
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    time_limit: float = 60.0,
    seed: int = 0,
    max_stages: int | None = None,
    progress: Progress | None = None,
) -> SmallestEpsilon:
    """Find the smallest tolerance at which a cover of `budget` sources exists.

    Between two values of the loss matrix no set changes, so the answer is one of
    them: a binary search, in which `minimum_cover` says yes by a cover, or no by its
    lower bound. Where it can say neither in time, the answer is an interval.

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
    clock = Clock(time_limit)
    losses = Losses(losses_of(problem, question))
    limits = restrict(losses.n_sources, include, exclude)
    check_budget(budget, limits[0], least=1)
    clock.restart()  # losses are there
    found = _smallest(
        losses, budget, limits, clock, seed, progress or silent, max_stages=max_stages
    )
    if question is None:
        return found
    note = as_question(question, needs_bound=False).unused_bound
    return replace(found, note=note)


def _smallest(
    losses: Losses,
    budget: int,
    limits: tuple[NDArray[np.int64], NDArray[np.int64]],
    clock: Clock,
    seed: int,
    progress: Progress,
    n_stages: int = _FIRST_STAGES,
    max_stages: int | None = None,
) -> SmallestEpsilon:
    """Find the smallest tolerance, with stages of work up to a number, or time.

    What stays open after some stages at every tolerance gets more of them.
    """
    matrix, (wanted, unwanted) = np.asarray(losses.matrix, np.float64), limits
    usable = np.setdiff1d(np.arange(len(matrix)), unwanted)
    values = np.unique(matrix[usable])
    if budget == len(wanted):
        usable = wanted
    # No tolerance below this one serves every target, whatever the budget.
    least = matrix[usable].min(0, initial=np.inf).max(initial=-np.inf)
    values = values[(values >= least) & (values < np.inf)]  # −inf may be one
    search = ToleranceSearch(
        losses, values, include=wanted, exclude=unwanted, seed=seed
    )
    covers: dict[int, Cover] = {}
    tried: set[int] = set()
    while True:
        is_open, first_open, first_met = _interval(search, budget)
        low, high = (
            float(np.append(values, np.inf)[k]) for k in (first_open, first_met)
        )
        if covers:
            progress("search", low, high, f"epsilon={values[list(covers)[-1]]:g}")
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
    best = covers.get(first_met)
    return SmallestEpsilon(
        budget=budget,
        lower=low,
        upper=high,
        sources=() if best is None else tuple(np.sort(best.sources).tolist()),
        optimal=low == high < np.inf,
        cover=best,
        seconds=clock.seconds,
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
    """Of the covers of this size, one whose largest loss is as small as it can be.

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
    least = _smallest(
        Losses(np.where(inner <= worst, inner, np.inf)),
        cover.size,
        (cover.include, cover.exclude),
        Clock(time_limit),
        seed,
        silent,
        n_stages=_TIE_STAGES,
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
    """Return the cover of least worst loss among those of its size, in small tables.

    A minimum cover is one of many, as a rule, and a person wants the one that leaves
    least.

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
    """Return a cover of a study; of minimum covers one of least worst loss.

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
