"""Selected on some episodes, certified on others.

A cover that was chosen from estimated returns is optimistic: of many noisy numbers it
took the lucky ones. So the pairs that it uses, and only these, are played again on
episodes that selection never saw, one sequential test per target (`BettingTests`), each
stopped as soon as it decides. The level is split over the targets.

Another selection is judged on other episodes: which ones depends on the policies that
are tried, where, and by which question (`identity.py`).
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
from taskspace.certificates.case import Case
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.pilot import Pilot, both_sides, least_assignment, play_pilot
from taskspace.certificates.statements import Certificate, context_words, count
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.episodic import (
    EpisodicSystem,
    random_episodes,
)

CERTIFIED, UNDECIDED, REFUTED = 0, 1, 2
STATUS = ("certified", "undecided", "refuted")

# Episodes that are played between two looks at the clock.
BATCH = 64
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
        assignment: the source that was tried at each target, −1 for none.
        n_episodes: fresh episodes played at each target, over all policies.
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
    n_episodes: NDArray[np.int64]
    expected: Array
    targets: Space
    source_contexts: Space
    is_cut: bool
    pilot: Pilot | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """The statement, of kind `"confidence"`."""
        status, n = self.status, len(self.status)
        places = {name: np.flatnonzero(status == i) for i, name in enumerate(STATUS)}
        counts = {name: len(found) for name, found in places.items()}
        n_certified, n_episodes = counts["certified"], int(self.n_episodes.sum())
        serving = np.unique(self.assignment[places["certified"]])
        values = {
            **self.question.to_dict(),
            "confidence": self.confidence,
            "n_targets": n,
            **{f"n_{name}": number for name, number in counts.items()},
            "n_untried": int((self.assignment < 0).sum()),
            "sources": serving,
            "source_contexts": self._contexts(serving, self.source_contexts),
            "episodes": n_episodes,
            "refuted_contexts": self._contexts(places["refuted"][:SHOWN_TARGETS]),
            "undecided_contexts": self._contexts(places["undecided"][:SHOWN_TARGETS]),
        }
        what = (
            f"{self.question.clause} (confidence {100 * self.confidence:.6g} %, "
            f"{n_episodes:,} fresh episodes)"
        )
        parts = [f"Every one of the {n:,} targets {what}."]
        if n_certified < n:
            untried = f", at {values['n_untried']:,} of them no source was tried"
            parts = [
                f"{n_certified:,} of {count(n, 'target')} certainly so: {what}.",
                f"{counts['refuted']:,} certainly not, {counts['undecided']:,} "
                f"undecided{untried if values['n_untried'] else ''}.",
            ]
        undecided = places["undecided"][self.n_episodes[places["undecided"]] > 0]
        if len(undecided):
            expected = float(self.expected[undecided].max())
            if 0 < expected < np.inf:
                values["n_expected_episodes"] = expected
            parts.append(self._what_would_decide(undecided, expected))
            if self.is_cut:
                parts.append("The time limit ended it: a longer one may decide more.")
        if self.pilot is not None:
            n_pilot = int(self.pilot.table.attrs["n_episodes"])
            values["shortlist"] = self.pilot.sources.tolist()
            values["pilot_episodes"] = n_pilot
            selected = count(len(np.unique(self.assignment)), "source")
            parts.append(
                f"Selected were {selected} of a shortlist of "
                f"{len(self.pilot.sources)}, on {n_pilot:,} other episodes."
            )
        return Certificate(
            "fresh episodes",
            n_certified == n,
            "confidence" if n_certified or counts["refuted"] else "vacuous",
            " ".join(parts),
            values,
            "every target of the grid",
        )

    def _contexts(
        self, places: NDArray[np.integer], space: Space | None = None
    ) -> list[dict[str, float]]:
        space = self.targets if space is None else space
        return [space.context(int(place)) for place in places]

    def _what_would_decide(self, undecided: NDArray[np.intp], expected: float) -> str:
        """Return which targets are undecided, and what would decide them."""
        few = self._contexts(undecided[:SHOWN_UNDECIDED])
        n_more = len(undecided) - len(few)
        which = "; ".join(context_words(context, list(context)) for context in few)
        which = f"Undecided: {which}" + f" and {n_more:,} more" * (n_more > 0)
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
            assignment=pilot.sources[check.assignment],
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
        max_episodes: at each target.
        time_limit: wall-clock seconds after which targets stay undecided.
        seed: of the draw of episodes, together with all that is judged.
        progress: told how many targets are decided.
    """
    level = check_confidence(confidence)
    clock = Clock(time_limit, on_wall=True)
    game = _Game(table, question, system, policies)
    assignment = np.asarray(assignment, np.int64)
    n_targets = len(assignment)
    status = np.full(n_targets, UNDECIDED, np.int8)
    played, expected = np.zeros(n_targets, np.int64), np.full(n_targets, np.inf)
    tried = np.flatnonzero(assignment >= 0)
    if len(tried):
        samples = sample_seed(
            "episodes",
            seed,
            describe_selection(table, question, assignment, system, policies),
            [game.source_rows, game.target_rows, game.threshold],
        )
        status[tried], played[tried], expected[tried] = game.play(
            tried,
            assignment[tried],
            level / len(tried),
            samples,
            max_episodes,
            clock,
            progress,
        )
    return FreshCheck(
        question,
        confidence,
        status,
        assignment,
        played,
        expected,
        game.targets,
        game.sources,
        is_cut=clock.left <= 0,
    )


class _Game:
    """Plays pairs and tests them; knows what a return must be to serve."""

    def __init__(
        self,
        table: xr.Dataset,
        question: Question,
        system: EpisodicSystem,
        policies: Policy,
    ):
        self.system, self.policies = system, policies
        self.n_policies = policies.stack_shape[1]
        self.sources, self.targets = both_sides(table)
        self.source_rows = system.contexts(self.sources)
        self.target_rows = system.contexts(self.targets)
        # Worst: all policies must serve, and one that fails decides. Best: one serves.
        self.is_worst = question.judge == "worst"
        rule = question.rule
        self.against_home = rule.compares_with_home
        none = np.zeros(len(self.target_rows))  # what is played is less that at home
        best = table["best_known"].values
        reference = none + rule.against(best=lambda: best, home=lambda: none)
        self.threshold = rule.threshold(question.epsilon, reference)

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
        n_policies, worst = self.n_policies, self.is_worst
        low, high = self._range(targets, sources)
        need = (self.threshold[targets] - low) / (high - low)
        outcome = np.full(len(targets), UNDECIDED, np.int8)
        outcome[need <= 0] = CERTIFIED
        outcome[need > 1] = REFUTED
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
            inside = (scaled >= -ROUNDING) & (scaled <= 1 + ROUNDING)
            if not inside[~broken].all():
                raise InvalidInputError(
                    f"Returns must lie in the return_bounds of {self.system.id}, "
                    "but one does not: no statement of confidence would hold."
                )
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
        """Return the smallest and the largest sample that is possible, by pair."""
        limits = self.system.return_bounds(self.target_rows[targets])
        homes = self.system.return_bounds(self.source_rows[sources])
        if limits is None or homes is None:
            raise InvalidInputError(
                "A statement of confidence needs bounded returns, but "
                f"{self.system.id} declares no return_bounds."
            )
        low, high = np.asarray(limits, np.float64).T
        if self.against_home:
            home_low, home_high = np.asarray(homes, np.float64).T
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
        for source in np.unique(sources).tolist():
            at_source = sources == source
            stack = self.policies[source : source + 1]
            rows = self.target_rows[targets[at_source]]
            played = self.system.returns(stack, rows, episodes=episodes)[0]
            played = np.moveaxis(played.astype(np.float64), 0, 1)
            if self.against_home:
                own = self.source_rows[source : source + 1]
                home = self.system.returns(stack, own, episodes=episodes)[0, :, 0]
                with np.errstate(invalid="ignore"):
                    played = np.where(
                        played == -np.inf, -np.inf, played - home.astype(np.float64)
                    )
            samples[at_source] = played
        return samples
