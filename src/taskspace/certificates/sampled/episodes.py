"""Selected on some episodes, certified on others.

A cover that was chosen from estimated returns is optimistic: of many noisy numbers it
took the lucky ones. So the pairs that it uses, and only these, are played again on
episodes that selection never saw, one sequential test per target (`BettingTests`), each
stopped as soon as it decides. The level is split over the targets; part of it is kept
for trying another source where the first one fails: a selected one that the table
believes in, or else the one that it believes to serve most of what failed.

Another selection is judged on other episodes: which ones depends on the policies that
are tried, where, and by which question (`identity.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.betting import BettingTests, check_confidence
from taskspace._util.clock import Clock
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.statements.claims import Certificate
from taskspace.certificates.statements.words import FreshFacts, context_words
from taskspace.errors import InvalidInputError
from taskspace.performance import source_space, target_space
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.episodic import EpisodicSystem, random_episodes

CERTIFIED, UNDECIDED, REFUTED = 0, 1, 2
STATUS = ("certified", "undecided", "refuted")

# Episodes that are played between two looks at the clock.
BATCH = 64
# Sources that are tried at a target, and the share of the level for each try.
SHARES = (0.5, 0.25, 0.25)
# Returns may pass their declared bounds by this share: they are sums in float32.
ROUNDING = 1e-5
SHOWN_TARGETS = 20
SHOWN_UNDECIDED = 5


@dataclass(frozen=True, eq=False)
class FreshCheck:
    """What fresh episodes say of a cover.

    Args:
        certificate: the statement, of kind `"confidence"`.
        facts: what the sentence of the certificate is made from.
        status: of each target: `CERTIFIED`, `UNDECIDED` or `REFUTED`.
        assignment: the source that was tried last at each target, −1 for none.
        n_episodes: fresh episodes played at each target, over all policies and tries.
    """

    certificate: Certificate
    facts: FreshFacts
    status: NDArray[np.int8]
    assignment: NDArray[np.int64]
    n_episodes: NDArray[np.int64]


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
    certificate, facts = _certificate(
        question,
        confidence,
        status,
        current,
        assignment,
        played,
        expected,
        sources,
        targets,
        is_cut=clock.left <= 0,
    )
    return FreshCheck(certificate, facts, status, current, played)


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


def _certificate(
    question: Question,
    confidence: float,
    status: NDArray[np.int8],
    current: NDArray[np.int64],
    before: NDArray[np.integer],
    played: NDArray[np.int64],
    expected: Array,
    sources: Space,
    targets: Space,
    *,
    is_cut: bool,
) -> tuple[Certificate, FreshFacts]:
    counts = {name: int((status == code).sum()) for code, name in enumerate(STATUS)}
    moved = (status == CERTIFIED) & (current != before)
    serving = np.unique(current[status == CERTIFIED])
    added = np.setdiff1d(serving, before)
    n_untried = int((np.asarray(before) < 0).sum())
    values = {
        **question.to_dict(),
        "confidence": confidence,
        "n_targets": len(status),
        **{f"n_{name}": n for name, n in counts.items()},
        "n_untried": n_untried,
        "n_reassigned": int(moved.sum()),
        "sources": serving.tolist(),
        "source_contexts": [sources.context(int(s)) for s in serving],
        "n_added": len(added),
        "episodes": int(played.sum()),
        "largest_episodes": int(played.max(initial=0)),
        "median_episodes": float(np.median(played)) if len(played) else 0.0,
    }
    for code, name in ((REFUTED, "refuted"), (UNDECIDED, "undecided")):
        few = np.flatnonzero(status == code)[:SHOWN_TARGETS]
        values[f"{name}_contexts"] = [targets.context(int(t)) for t in few]
    undecided = np.flatnonzero((status == UNDECIDED) & (played > 0))
    n_expected = float(expected[undecided].max(initial=0.0))
    if 0 < n_expected < np.inf:
        values["n_expected_episodes"] = n_expected
    holds = counts["certified"] == len(status)
    facts = FreshFacts(
        question=question,
        confidence=confidence,
        n_targets=len(status),
        n_certified=counts["certified"],
        n_refuted=counts["refuted"],
        n_undecided=counts["undecided"],
        n_untried=n_untried,
        n_reassigned=values["n_reassigned"],
        n_added=values["n_added"],
        n_episodes=values["episodes"],
        is_cut=is_cut and counts["undecided"] > n_untried,
        undecided=tuple(
            context_words(targets.context(int(t)), targets.names)
            for t in undecided[:SHOWN_UNDECIDED]
        ),
        n_expected=n_expected,
    )
    kind = "confidence" if counts["certified"] or counts["refuted"] else "vacuous"
    scope = "every target of the grid"
    certificate = Certificate(
        "fresh episodes", holds, kind, facts.sentence, values, scope
    )
    return certificate, facts


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
