"""`ts.design`: the fewest gains for a space, with a bound over all gains there are."""

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.decimals import round_to_side
from taskspace.cover import Cover, minimum_cover
from taskspace.designs.bound import GainBound
from taskspace.designs.problem import DesignProblem
from taskspace.designs.search import DesignSearch
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import System

# Entries of a gain in a line of text, at most.
SHOWN_ENTRIES = 8


@dataclass(frozen=True, eq=False)
class Design:
    """Designed gains, what they serve, and how many any design needs.

    Args:
        gains: one K per row, u = −K x, shape `(gain, n_inputs, n_states)`.
        cover: of the study's targets, by some of its sources.
        epsilon: the tolerance asked for; with k given, the least that was reached, at
            the contexts between the targets, too, where these were designed for.
        lower_bound_all: no fewer gains of this structure serve within epsilon.
        bound: by which argument, at how many contexts.
        study: the designed gains and the candidates that they replace.
        question: what was asked, with `epsilon`.
        k: how many gains were asked for, None if as few as possible.
        n_candidates: how many gains the search began with.
        size_candidates: how many of these are needed, None where they do not suffice.
        stop_reason: why the search ended.
        n_between: contexts between the targets that were tried and are all served; 0
            where the gains were designed for the targets alone.
        seconds: wall-clock time.
    """

    gains: Array
    cover: Cover
    epsilon: float
    lower_bound_all: int
    bound: GainBound
    study: Study
    question: Question
    k: int | None
    n_candidates: int
    size_candidates: int | None
    stop_reason: str
    n_between: int
    seconds: float = field(repr=False)

    @property
    def size(self) -> int:
        """How many gains there are."""
        return len(self.gains)

    @property
    def worst(self) -> float:
        """The largest loss at a target of the gain that does best there."""
        return float(self._least.max())

    @property
    def _least(self) -> Array:
        return self.question.losses(self.study).values[: self.size].min(0)

    @property
    def statement(self) -> str:
        """What was found and what is proven, in sentences."""
        n_targets = self.study.n_targets
        rule = self.question.rule.sentence(self.epsilon)
        one = "gain serves" if self.size == 1 else "gains serve"
        between = f" and {self.n_between:,} contexts between" * bool(self.n_between)
        n_served = int((self._least <= self.epsilon).sum())
        whom = "all" if n_served == n_targets else f"{n_served:,} of"
        said = f"{self.size} designed {one} {whom} {n_targets:,} targets{between}"
        said += f", {rule}."
        if self.size_candidates is not None and self.k is None:
            said += (
                f" Of the {self.n_candidates:,} candidates {self.size_candidates} are "
                "needed."
            )
        if self.size == self.lower_bound_all and n_served == n_targets:
            said += " That is the least number of any design."
        return said if self.size == 1 else f"{said} {self.bound.statement}"

    def __str__(self) -> str:
        """Return the statement, then the gains, one per line."""
        lines = [self.statement]
        losses = self.question.losses(self.study).values[: self.size]
        best = losses.argmin(0)
        for i, gain in enumerate(self.gains):
            entries = ", ".join(f"{x:.6g}" for x in gain.ravel()[:SHOWN_ENTRIES])
            more = ", …" if gain.size > SHOWN_ENTRIES else ""
            own = losses[i][best == i]
            worst = f", worst loss there {own.max():.4g}" if len(own) else ""
            lines.append(f"K = [{entries}{more}]: best at {len(own):,} targets{worst}.")
        return "\n".join([*lines, f"Stopped: {self.stop_reason}."])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "size": self.size,
            "lower_bound_all": self.lower_bound_all,
            "k": self.k,
            "epsilon": self.epsilon,
            "gains": self.gains.tolist(),
            "cover": self.cover.to_dict(),
            "question": self.question.to_dict(),
            "worst": self.worst,
            "bound": self.bound.to_dict(),
            "n_candidates": self.n_candidates,
            "size_candidates": self.size_candidates,
            "stop_reason": self.stop_reason,
            "n_between": self.n_between,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        """Return the design in one line."""
        reached = round_to_side(self.epsilon, up=True, digits=4)
        least = f", at least {self.lower_bound_all} of any design"
        if self.lower_bound_all == 1 < self.size:
            least = ""  # that is no bound
        return (
            f"Design({self.size} gains{least}, {self.question.criterion} ≤ {reached})"
        )


def design(
    problem: Study | System,
    space: Space | Question | str | None = None,
    question: Question | str | None = None,
    *,
    k: int | None = None,
    mask: ArrayLike | None = None,
    whole: bool = False,
    time_limit: float = 60,
    seed: int = 0,
    progress: Progress | None = None,
) -> Design:
    """Design the fewest gains for a space, and bound their number over all gains.

    The candidates' minimum cover is where it starts. All gains are moved at once to
    lessen the worst loss; then one is taken away and the others repair what it served,
    until nothing gets smaller.

    Args:
        problem: a study of a linear family, or the family itself; then the candidates
            are the optimal gains of all contexts.
        space: the contexts to serve; of a study its targets where left out, so that
            the question may be the second argument.
        question: what it means to serve: regret, ratio or cost, of contexts that are
            known exactly. With k its tolerance does not matter.
        k: how many gains; then the least tolerance is sought that they reach.
        mask: which entries of a gain are free, shape `(n_inputs, n_states)`; the others
            are zero. All where left out.
        whole: the gains must serve contexts between the targets of a grid, too. Those
            that they serve worst are added to the targets, for the design and for the
            bound, until none are left on a grid up to eight times as fine. That is no
            proof for the box yet: `ts.certify` is.
        time_limit: processor seconds; the steps of the search are cut by counted work,
            and the limit ends them.
        seed: of the restarts.
        progress: told what is going on.

    Example:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 30))
        >>> question = ts.Question("ratio", epsilon=0.5)
        >>> ts.design(ts.systems.ScalarLqr(), space, question)
        Design(2 gains, at least 2 of any design, ratio ≤ 0.5)
    """
    clock = Clock(time_limit)
    report = progress or silent
    if isinstance(space, Question | str):
        space, question = None, space
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InvalidInputError(
            f"k >= 1 must hold for a number of gains, but got {k!r}."
        )
    asked = DesignProblem.of(problem, space, question, mask, needs_bound=k is None)
    report("design", 0, 1, f"{len(asked.pool):,} candidates")
    search = DesignSearch(asked, k, clock, seed, report, whole=whole)
    start, size_candidates = asked.start(k, clock, seed)
    selection, study, epsilon, bound = search.run(start)
    question = asked.question.at(epsilon)
    cover = minimum_cover(study, question, time_limit=5.0, seed=seed)
    is_least = bound.value == len(selection.gains)
    reason = "proven least of any design" if is_least else "nothing smaller was found"
    if not is_least and clock.left <= 0:
        reason = "time limit"
    return Design(
        selection.gains,
        cover,
        epsilon,
        bound.value,
        bound,
        study,
        question,
        k,
        len(asked.pool),
        size_candidates,
        reason,
        search.n_served_between(selection, epsilon),
        clock.seconds,
    )
