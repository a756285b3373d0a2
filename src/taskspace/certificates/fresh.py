"""Selected on some episodes, certified on others.

A cover that was chosen from estimated returns is optimistic: of many noisy numbers it
took the lucky ones. So the pairs that it uses, and only these, are played again on
episodes that selection never saw, one sequential test per target (`BettingTests`), each
stopped as soon as it decides. The level is split over the targets; part of it is kept
for trying another source where the first one fails: a selected one that the table
believes in, or else the one that it believes to serve most of what failed.

Another selection is judged on other episodes: which ones depends on the policies that
are tried, where, and by which question (`identity.py`).

Where a table is noisier than ε, a cover of it is a choice among lucky numbers. Then a
pilot plays some sources at every target in more episodes, and the cover is chosen on
these. Three sets of episodes, none of which meets another's choice: those of the table,
those of the pilot, and the fresh ones that judge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.betting import BettingTests, check_confidence
from taskspace._util.clock import Clock
from taskspace.certificates.case import Case, certifier
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.statements import Certificate, context_words, count
from taskspace.cover import least_cover, minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import make_table, source_space, target_space
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import pack
from taskspace.spaces import Points, Space
from taskspace.systems.episodic import (
    FIRST_FRESH,
    EpisodicSystem,
    random_episodes,
    standard_error,
)

CERTIFIED, UNDECIDED, REFUTED = 0, 1, 2
STATUS = ("certified", "undecided", "refuted")

# Episodes that are played between two looks at the clock.
BATCH = 64
# Sources that are tried at a target, and the share of the level for each try.
SHARES = (0.5, 0.25, 0.25)
# Returns may pass their declared bounds by this share: they are sums in float32.
ROUNDING = 1e-5
SHOWN_TARGETS = 20
# Share of the time for fresh episodes where contexts are drawn as well, and of that
# share for a pilot.
FRESH_SHARE, PILOT_SHARE = 0.6, 0.5
SHOWN_UNDECIDED = 5


@dataclass(frozen=True, eq=False)
class FreshCheck:
    """What fresh episodes say of a cover.

    Args:
        question: what the cover answers.
        confidence: that all of it is true.
        status: of each target: `CERTIFIED`, `UNDECIDED` or `REFUTED`.
        assignment: the source that was tried last at each target, −1 for none.
        before: the source of each target in the cover.
        n_episodes: fresh episodes played at each target, over all policies and tries.
        expected: episodes for a source at each target that may decide it.
        targets: contexts of the targets.
        source_contexts: contexts of all sources.
        is_cut: whether the time limit ended it.
        pilot: the shortlist that the cover was chosen from, if there was one.
    """

    question: Question
    confidence: float
    status: NDArray[np.int8]
    assignment: NDArray[np.int64]
    before: NDArray[np.int64]
    n_episodes: NDArray[np.int64]
    expected: Array
    targets: Space
    source_contexts: Space
    is_cut: bool
    pilot: "Pilot | None" = None

    @cached_property
    def certificate(self) -> Certificate:
        """The statement, of kind `"confidence"`."""
        status, before, targets = self.status, self.before, self.targets
        counts = {name: int((status == code).sum()) for code, name in enumerate(STATUS)}
        n_certified, n_untried = counts["certified"], int((before < 0).sum())
        served = status == CERTIFIED
        n_moved = int((served & (self.assignment != before)).sum())
        serving = np.unique(self.assignment[served])
        n_added, played = len(np.setdiff1d(serving, before)), self.n_episodes
        values = {
            **self.question.to_dict(),
            "confidence": self.confidence,
            "n_targets": len(status),
            **{f"n_{name}": n for name, n in counts.items()},
            "n_untried": n_untried,
            "n_reassigned": n_moved,
            "n_added": n_added,
            "sources": serving,
            "source_contexts": [self.source_contexts.context(int(s)) for s in serving],
            "episodes": int(played.sum()),
            "largest_episodes": int(played.max(initial=0)),
            "median_episodes": float(np.median(played)) if len(played) else 0.0,
        }
        for code, name in ((REFUTED, "refuted"), (UNDECIDED, "undecided")):
            few = np.flatnonzero(status == code)[:SHOWN_TARGETS]
            values[f"{name}_contexts"] = [targets.context(int(t)) for t in few]
        undecided = np.flatnonzero((status == UNDECIDED) & (played > 0))
        n_expected = float(self.expected[undecided].max(initial=0.0))
        if 0 < n_expected < np.inf:
            values["n_expected_episodes"] = n_expected
        what = (
            f"{self.question.clause} (confidence {100 * self.confidence:.6g} %, "
            f"{values['episodes']:,} fresh episodes)"
        )
        if n_certified == len(status):
            parts = [f"Every one of the {len(status):,} targets {what}."]
        else:
            untried = f", at {n_untried:,} of them no source was tried"
            parts = [
                f"{n_certified:,} of {count(len(status), 'target')} certainly so: "
                f"{what}.",
                f"{counts['refuted']:,} certainly not, {counts['undecided']:,} "
                f"undecided{untried if n_untried else ''}.",
            ]
            if len(undecided):
                parts.append(self._what_would_decide(undecided, n_expected))
                if self.is_cut:
                    parts.append(
                        "The time limit ended it: a longer one may decide more."
                    )
        if n_moved:
            new = f"source, {n_added:,} added" if n_added else "selected source"
            parts.append(f"{count(n_moved, 'target')} of these by another {new}.")
        if self.pilot is not None:
            n_selected, n_pilot = len(np.unique(before)), self.pilot.n_episodes
            values |= {
                "shortlist": self.pilot.sources.tolist(),
                "n_selected": n_selected,
                "pilot_episodes": n_pilot,
            }
            parts.append(
                f"Selected were {count(n_selected, 'source')} of a shortlist of "
                f"{len(self.pilot.sources)}, on {n_pilot:,} other episodes."
            )
        kind = "confidence" if n_certified or counts["refuted"] else "vacuous"
        return Certificate(
            "fresh episodes",
            n_certified == len(status),
            kind,
            " ".join(parts),
            values,
            "every target of the grid",
        )

    def _what_would_decide(self, undecided: NDArray[np.intp], expected: float) -> str:
        """Return which targets are undecided, and what would decide them."""
        names = self.targets.names
        few = [
            context_words(self.targets.context(int(t)), names)
            for t in undecided[:SHOWN_UNDECIDED]
        ]
        n_more = len(undecided) - len(few)
        which = f"Undecided: {'; '.join(few)}" + f" and {n_more:,} more" * (n_more > 0)
        if math.isinf(expected):
            return (
                f"{which}. Their means lie too near the level, against the range of "
                "returns, to say how many episodes would decide."
            )
        digits = 10 ** max(0, math.floor(math.log10(expected)) - 1)
        n_episodes = math.ceil(expected / digits) * digits
        wide = ", for the range of returns is wide against their margins"
        return (
            f"{which}. By what was seen, about {n_episodes:,} episodes for each "
            f"(max_episodes) would decide{wide if n_episodes > 1000 else ''}."
        )


@certifier("fresh episodes", before="draws")
def certify_fresh(case: Case) -> list[Certificate]:
    """Judge the cover's pairs on episodes that its selection never saw.

    Args:
        case: gets the check; nothing is said of a system without episodes.
    """
    system, policies, pilot = case.study.system, case.study.policies, None
    if not isinstance(system, EpisodicSystem) or policies is None:
        return []
    share = 1.0 if case.distribution is None else FRESH_SHARE
    clock = Clock(share * case.clock.left, on_wall=True)
    table, assignment = case.table, case.cover.assignment
    try:
        case.question.check_exact("Fresh episodes")
        if case.pilot is not None:
            pilot = play_pilot(
                table,
                case.question,
                system,
                policies,
                n_sources=case.pilot[0],
                n_episodes=case.pilot[1],
                time_limit=PILOT_SHARE * clock.left,
                progress=case.progress,
            )
            table, policies = pilot.table, policies[pilot.sources]
            assignment = least_assignment(table, case.question)
        check = check_on_fresh_episodes(
            table,
            case.question,
            assignment,
            system,
            policies,
            confidence=case.confidence,
            max_episodes=case.max_episodes,
            time_limit=clock.left,
            seed=case.seed,
            progress=case.progress,
        )
    except InvalidInputError as error:
        return [Certificate("fresh episodes", False, "vacuous", str(error))]
    if pilot is not None:  # rows of the shortlist are sources of the whole table
        check = replace(
            check,
            assignment=pilot.source_of(check.assignment),
            before=pilot.source_of(check.before),
            source_contexts=case.study.sources,
            pilot=pilot,
        )
    case.found["fresh"] = check
    return [check.certificate]


def check_on_fresh_episodes(
    table: xr.Dataset,
    question: Question,
    assignment: NDArray[np.integer],
    system: EpisodicSystem,
    policies: Policy,
    *,
    confidence: float = 0.999,
    max_episodes: int = 4096,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FreshCheck:
    """Play the pairs of a cover on fresh episodes until each target is decided.

    With the stated confidence every certified target is served within ε and no
    refuted one is, all at once, whatever the returns look like within their bounds.
    That is the confidence of one statement: of several about changed selections, each
    may be wrong. A target without a source stays undecided, since none was tried.
    `regret` and `ratio` are against the best known score of the table, as a number.

    Args:
        table: the table that the cover was chosen on.
        question: what the cover answers.
        assignment: source of each target, −1 for none.
        system: the tasks, with `return_bounds`.
        policies: the stack that the table was made with.
        confidence: that all of it is true.
        max_episodes: for each source that is tried at a target.
        time_limit: wall-clock seconds after which targets stay undecided.
        seed: of the draw of episodes, together with all that is judged.
        progress: told how many targets are decided.
    """
    level = check_confidence(confidence)
    clock = Clock(time_limit, on_wall=True)
    sources, targets = source_space(table), target_space(table)
    if sources is None or targets is None:
        raise InvalidInputError("Playing again needs the contexts of both sides.")
    game = _Game(table, question, system, policies, sources, targets)
    n_targets = len(assignment)
    assignment = np.asarray(assignment, np.int64)
    status = np.full(n_targets, UNDECIDED, np.int8)
    current = np.array(assignment, np.int64)
    tried: list[NDArray[np.int64]] = []
    played = np.zeros(n_targets, np.int64)
    expected = np.full(n_targets, np.inf)
    shares = SHARES[: table.sizes["source"]]
    waiting = np.flatnonzero(assignment >= 0)
    for number, share in enumerate(shares):
        if not len(waiting):
            break
        # The last try takes all that is left of the level.
        spent = sum(SHARES[:number])
        part = 1.0 - spent if number == len(shares) - 1 else share
        tried.append(current.copy())
        judged = np.full(n_targets, -1, np.int64)
        judged[waiting] = current[waiting]
        # Every try has episodes of its own, drawn when it is known what is tried.
        samples = sample_seed(
            "episodes",
            seed,
            number,
            describe_selection(table, question, judged, system, policies),
            game.contents(),
        )
        outcome, counts, expected[waiting] = game.play(
            waiting,
            current[waiting],
            level * part / len(waiting),
            samples,
            max_episodes,
            clock,
            progress,
        )
        status[waiting] = outcome
        played[waiting] += counts
        if number + 1 == len(shares) or clock.left <= 0:
            break
        refuted = waiting[outcome == REFUTED]
        other = _others(table, question, refuted, tried)
        waiting = refuted[other >= 0]
        current[waiting] = other[other >= 0]
        status[waiting] = UNDECIDED
    return FreshCheck(
        question,
        confidence,
        status,
        current,
        assignment,
        played,
        expected,
        targets,
        sources,
        is_cut=clock.left <= 0,
    )


def _others(
    table: xr.Dataset,
    question: Question,
    targets: NDArray[np.int64],
    tried: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return the next source to try at targets where some have failed, −1 for none.

    Selected ones come first. Where none of them is believed to serve, sources are
    added one after the other, each time the one that is believed to serve most.

    Args:
        table: the table that the cover was chosen on.
        question: what the cover answers.
        targets: where a source has failed.
        tried: source of every target in each try so far.
    """
    if not len(targets):
        return np.empty(0, np.int64)
    losses = np.concatenate([rows[:, targets] for _, rows in question.blocks(table)])
    for sources in tried:
        losses[sources[targets], np.arange(len(targets))] = np.inf
    served = losses <= question.epsilon
    used = np.unique(np.concatenate(tried))
    allowed = np.zeros(len(losses), np.bool_)
    allowed[used[used >= 0]] = True
    while True:
        gain = served[:, ~served[allowed].any(0)].sum(1)
        best = int(gain.argmax())
        if not gain[best]:
            break
        allowed[best] = True
    open_losses = np.where(allowed[:, None] & served, losses, np.inf)
    return np.where(np.isfinite(open_losses).any(0), open_losses.argmin(0), -1)


class _Game:
    """Plays pairs and tests them; knows what a return must be to serve."""

    def __init__(
        self,
        table: xr.Dataset,
        question: Question,
        system: EpisodicSystem,
        policies: Policy,
        sources: Space,
        targets: Space,
    ):
        self.table, self.question = table, question
        self.system, self.policies = system, policies
        self.n_policies = policies.stack_shape[1]
        self.source_rows = system.contexts(sources)
        self.target_rows = system.contexts(targets)
        rule = question.rule
        self.against_home = rule.compares_with_home
        at_targets = self._bounds(self.target_rows)
        if self.against_home:
            self.home_bounds = self._bounds(self.source_rows)
        none = np.zeros(len(self.target_rows))  # what is played is less that at home
        best = table["best_known"].values
        reference = none + rule.against(best=lambda: best, home=lambda: none)
        self.return_bounds = at_targets
        self.threshold = rule.threshold(question.epsilon, reference)

    def contents(self) -> list[Array]:
        """Return contexts of both sides, and the score that each target asks for."""
        return [self.source_rows, self.target_rows, self.threshold]

    def _bounds(self, rows: Array) -> Array:
        limits = self.system.return_bounds(rows)
        if limits is None:
            raise InvalidInputError(
                "A statement of confidence needs bounded returns, but "
                f"{self.system.id} declares no return_bounds."
            )
        return np.asarray(limits, np.float64)

    def play(
        self,
        targets: NDArray[np.int64],
        sources: NDArray[np.int64],
        level: float,
        seed: int,
        max_episodes: int,
        clock: Clock,
        progress: Progress | None,
    ) -> tuple[NDArray[np.int8], NDArray[np.int64], Array]:
        """Return status of each pair, episodes that it took, and that it may take.

        The last is an extrapolation, per policy: the capital of the bets goes on
        growing as it did so far.
        """
        n_policies = self.n_policies
        low, high = self._range(targets, sources)
        need = (self.threshold[targets] - low) / (high - low)
        outcome = np.full(len(targets), UNDECIDED, np.int8)
        outcome[need <= 0] = CERTIFIED
        outcome[need > 1] = REFUTED
        # Worst: all policies must serve, and one that fails decides. Best: one serves.
        worst = self.question.judge == "worst"
        one, every = level / n_policies, level
        tests = BettingTests(
            np.repeat(np.clip(need, 0, 1), n_policies),
            above=every if worst else one,
            below=one if worst else every,
        )
        counts = np.zeros(len(targets), np.int64)
        used = 0
        while used < max_episodes and clock.left > 0:
            going = np.flatnonzero(outcome == UNDECIDED)
            if not len(going):
                break
            n = min(BATCH, max_episodes - used)
            episodes = random_episodes(seed, n, first=used)
            samples = self._samples(targets[going], sources[going], episodes)
            broken = (samples == -np.inf).any(2)  # a mean of −inf, surely
            span = (high - low)[going, None, None]
            scaled = (samples - low[going, None, None]) / span
            self._check(scaled[~broken])
            streams = (going[:, None] * n_policies + np.arange(n_policies)).ravel()
            clipped = np.clip(np.where(broken[..., None], 0, scaled), 0, 1)
            tests.update(streams, clipped.reshape(len(streams), -1))
            tests.refute(streams[broken.ravel()])
            counts[going] += n * n_policies
            used += n
            above = tests.is_above.reshape(-1, n_policies)
            below = tests.is_below.reshape(-1, n_policies)
            served = np.asarray(above.all(1) if worst else above.any(1))
            failed = np.asarray(below.any(1) if worst else below.all(1))
            outcome[going[served[going]]] = CERTIFIED
            outcome[going[failed[going]]] = REFUTED
            if progress is not None:
                n_decided = int((outcome != UNDECIDED).sum())
                progress("fresh", n_decided, len(outcome), f"after {used} episodes")
        above, below = (one.reshape(-1, n_policies) for one in tests.expected_samples())
        served = above.max(1) if worst else above.min(1)
        failed = below.min(1) if worst else below.max(1)
        return outcome, counts, np.minimum(served, failed)

    def _range(
        self, targets: NDArray[np.int64], sources: NDArray[np.int64]
    ) -> tuple[Array, Array]:
        low, high = self.return_bounds[targets].T
        if self.against_home:
            home_low, home_high = self.home_bounds[sources].T
            low, high = low - home_high, high - home_low
        if not (high > low).all():
            raise InvalidInputError(
                "return_bounds must leave room between the smallest and the largest "
                f"return, but {self.system.id} declares {low[0]} to {high[0]}."
            )
        return low, high

    def _samples(
        self,
        targets: NDArray[np.int64],
        sources: NDArray[np.int64],
        episodes: Sequence[int],
    ) -> Array:
        """Return what must be large: returns, or returns minus those at home."""
        samples = np.empty((len(targets), self.n_policies, len(episodes)))
        for source in np.unique(sources):
            at_source = sources == source
            stack = self.policies[int(source) : int(source) + 1]
            rows = self.target_rows[targets[at_source]]
            played = self.system.returns(stack, rows, episodes=episodes)[0]
            played = np.moveaxis(played.astype(np.float64), 0, 1)
            if self.against_home:
                own = self.source_rows[int(source) : int(source) + 1]
                home = self.system.returns(stack, own, episodes=episodes)[0, :, 0]
                with np.errstate(invalid="ignore"):
                    played = np.where(
                        played == -np.inf, -np.inf, played - home.astype(np.float64)
                    )
            samples[at_source] = played
        return samples

    def _check(self, scaled: Array) -> None:
        if not ((scaled >= -ROUNDING) & (scaled <= 1 + ROUNDING)).all():
            raise InvalidInputError(
                f"Returns must lie in the return_bounds of {self.system.id}, "
                "but one does not: no statement of confidence would hold."
            )


@dataclass(frozen=True, eq=False)
class Pilot:
    """A few sources of a table, played in more episodes.

    Args:
        sources: which ones, as rows of the table that they were taken from.
        table: their performance table, over the new episodes alone. `best_known` is
            that of the first table, so losses are against the same numbers.
    """

    sources: NDArray[np.int64]
    table: xr.Dataset

    @property
    def n_episodes(self) -> int:
        """How many episodes were played for each policy at each target."""
        return int(self.table.attrs["n_episodes"])

    def source_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return sources of the first table for rows of this one, −1 for none.

        Args:
            rows: rows of the table of the shortlist, −1 for none.
        """
        return np.where(rows >= 0, self.sources[rows], -1)


def shortlist(table: xr.Dataset, question: Question, n: int) -> NDArray[np.int64]:
    """Return sources that are worth a pilot: those of one cover after another.

    A greedy cover of the table, then one of the sources that are left, and so on;
    of sources that serve as many open targets, the one that serves most of all.

    Args:
        table: a performance table.
        question: what the covers answer.
        n: how many sources, if there are as many.

    Returns:
        Rows of the table, ascending.
    """
    if n < 1:
        raise InvalidInputError(f"A shortlist needs n >= 1 sources, but got n={n}.")
    parts = [block <= question.epsilon for _, block in question.blocks(table)]
    served = np.concatenate(parts)
    total = served.sum(1)
    free = np.ones(len(served), np.bool_)
    chosen: list[int] = []
    is_open = np.zeros(served.shape[1], np.bool_)
    while len(chosen) < min(n, len(served)):
        if not is_open.any():  # a new cover, of what the free sources can serve
            is_open = served[free].any(0)
        gain = np.where(free, served[:, is_open].sum(1), -1)
        best = int(np.lexsort((-total, -gain))[0])
        chosen.append(best)
        free[best] = False
        is_open &= ~served[best]
        is_open &= served[free].any(0)
    return np.array(sorted(chosen), np.int64)


def play_pilot(
    table: xr.Dataset,
    question: Question,
    system: EpisodicSystem,
    policies: Policy,
    *,
    n_sources: int = 16,
    n_episodes: int = 256,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Pilot:
    """Play a shortlist of sources at every target, in episodes that are new.

    Args:
        table: the table that says which sources are worth it.
        question: what a cover is to answer.
        system: the tasks.
        policies: the stack that the table was made with.
        n_sources: length of the shortlist.
        n_episodes: for each policy at each target; enough that the standard error is
            well below ε.
        time_limit: wall-clock seconds after which no source is begun; the first is
            always played.
        progress: told how many sources were played.
    """
    clock = Clock(time_limit, on_wall=True)
    sources, targets = source_space(table), target_space(table)
    if sources is None or targets is None:
        raise InvalidInputError("Playing again needs the contexts of both sides.")
    seen = table.attrs.get("first_episode", 0) + table.attrs.get("n_episodes", 0)
    first = max(system.n_episodes, int(seen))
    if n_episodes < 2 or first + n_episodes > FIRST_FRESH:
        raise InvalidInputError(
            f"2 <= n_episodes <= {FIRST_FRESH - first} must hold for a pilot, but "
            f"got n_episodes={n_episodes}."
        )
    episodes = range(first, first + n_episodes)
    rows, own = system.contexts(targets), system.contexts(sources)
    short = shortlist(table, question, n_sources)
    means, errors, homes = [], [], []
    for number, source in enumerate(short.tolist()):
        if number and clock.left <= 0:
            break
        if progress is not None:
            progress("pilot", number, len(short))
        stack = policies[source : source + 1]
        returns = system.returns(stack, rows, episodes=episodes)[0]
        means.append(returns.mean(-1, dtype=np.float64))
        errors.append(standard_error(returns))
        home = system.returns(stack, own[source : source + 1], episodes=episodes)
        homes.append(home[0, :, 0].mean(-1, dtype=np.float64))
    short = short[: len(means)]
    variables = {
        "performance": np.stack(means),
        "standard_error": np.stack(errors),
        "home_performance": np.stack(homes),
        "best_known": table["best_known"].values,
    }
    notes = {
        "provenance": "sampled",
        "n_episodes": n_episodes,
        "first_episode": first,
        "best_known_kind": table.attrs.get("best_known_kind", "best of the table"),
    }
    chosen = Points(sources.names, sources.points[short])
    return Pilot(short, make_table(variables, chosen, targets, notes))


def least_assignment(table: xr.Dataset, question: Question) -> NDArray[np.int64]:
    """Assign targets to a cover of the fewest sources that loses least.

    The largest loss that it leaves is the smallest that this number of sources can
    leave, at the targets that some source serves. Every target has a source, also
    where none serves: the selected one of least loss.

    Args:
        table: a small performance table.
        question: what the cover answers.

    Returns:
        Row of each target.
    """
    losses = question.losses(table).values
    can = (losses <= question.epsilon).any(0)
    if not can.any():
        return losses.argmin(0)
    inner = losses[:, can]
    cover = minimum_cover(pack(inner <= question.epsilon))
    selected = np.sort(least_cover(cover, inner).sources)
    return selected[losses[selected].argmin(0)]
