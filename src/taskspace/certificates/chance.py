"""The continuum as a probability: how large a share of contexts is served.

For every system, also plain functions and Gymnasium: draw contexts from a stated law,
apply the selection as it is deployed, and count. The bound is that of Clopper and
Pearson, so it holds whatever the system is. Played with one episode a draw, it is a
statement about a random context and a random start.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.base import Certificate
from taskspace.certificates.confidence import check_confidence, share_bound
from taskspace.certificates.sentences import share_sentence
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.spaces import Points, Space
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem, fresh_episodes

__all__ = [
    "Deployed",
    "Law",
    "ShareCheck",
    "law_of",
    "nearest_source",
    "served_share",
]

LAWS = ("uniform", "loguniform")
BATCH = 256
MAX_DRAWS = 100_000
# Draws begin where the tries of targets on fresh episodes have ended.
FIRST_EPISODE = 2**24
SHOWN_FAILURES = 20


@dataclass(frozen=True, eq=False)
class Law:
    """How contexts are drawn.

    Args:
        description: for sentences, e.g. `"uniformly from the box"`.
        names: names of the columns.
        sample: contexts for a number of draws and a generator.
    """

    description: str
    names: tuple[str, ...]
    sample: Callable[[int, np.random.Generator], NDArray[np.float64]]


def law_of(name: str | Path, space: Space) -> Law:
    """A law by name, or one that draws rows of a file.

    Args:
        name: `"uniform"` or `"loguniform"` on the box of a space, or a CSV file with a
            header: each draw takes one of its rows, all with the same chance.
        space: the contexts whose box is meant; its names are the columns.
    """
    names = tuple(space.names)
    low, high = space.points.min(0), space.points.max(0)
    if name == "uniform":
        return Law(
            "uniformly from the box",
            names,
            lambda n, rng: low + rng.random((n, len(names))) * (high - low),
        )
    if name == "loguniform":
        if not (low > 0).all():
            raise InvalidInputError(
                "The law 'loguniform' needs contexts above 0, but the box begins at "
                f"{low.tolist()}."
            )
        start, stop = np.log(low), np.log(high)
        return Law(
            "log-uniformly from the box",
            names,
            lambda n, rng: np.clip(
                np.exp(start + rng.random((n, len(names))) * (stop - start)), low, high
            ),
        )
    path = Path(name)
    if not path.is_file():
        raise InvalidInputError(
            f"A law must be one of {', '.join(LAWS)} or a CSV file of contexts, but "
            f"{str(name)!r} is neither."
        )
    rows = _read_contexts(path, names)
    return Law(
        f"from the {len(rows):,} contexts of {path.name}",
        names,
        lambda n, rng: rows[rng.integers(len(rows), size=n)],
    )


def _read_contexts(path: Path, names: Sequence[str]) -> NDArray[np.float64]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [n for n in names if n not in (reader.fieldnames or [])]
        if missing:
            raise InvalidInputError(
                f"{path} must have a column for each of {', '.join(names)}, but "
                f"{', '.join(missing)} are missing."
            )
        try:
            rows = np.array([[float(row[n]) for n in names] for row in reader])
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{path} must hold a number in every cell, but: {error}."
            ) from error
    if not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            f"{path} must hold at least one context, and finite numbers only."
        )
    return rows


@dataclass(frozen=True, eq=False)
class ShareCheck:
    """What draws from a law say.

    Args:
        certificate: the statement, of kind `"confidence"`.
        bound: the share that is served, from below.
        n_draws: contexts drawn.
        failures: contexts that were not served, one a row; they can become targets.
    """

    certificate: Certificate
    bound: float
    n_draws: int
    failures: NDArray[np.float64]


def served_share(
    play: Callable[[NDArray[np.float64], int], NDArray[np.bool_]],
    law: Law,
    question: Question,
    *,
    confidence: float = 0.999,
    draws: int | None = None,
    until: float | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    of_what: str = "contexts",
) -> ShareCheck:
    """A lower bound on the share of contexts that a selection serves.

    Args:
        play: which of some contexts are served, given their rows and how many draws
            there were before; the selection as it will be deployed.
        law: how contexts are drawn.
        question: what "served" means, for the sentence.
        confidence: that the bound holds.
        draws: how many; decided before, so all of the level is for the end.
        until: draw until the bound is above this share. Looks are taken when the
            number of draws has doubled, and share the level, so that stopping early
            costs nothing of the confidence. Without either, 0.99.
        seed: of the draws.
        time_limit: seconds; with `draws` fewer draws use all of the level still, since
            time does not know of failures.
        of_what: what is counted.
    """
    level = check_confidence(confidence)
    if draws is not None and until is not None:
        raise InvalidInputError("Give either draws or until, not both.")
    if draws is not None and not 1 <= draws <= MAX_DRAWS:
        raise InvalidInputError(
            f"1 <= draws <= {MAX_DRAWS:,} must hold, but got draws={draws}."
        )
    goal = 0.99 if draws is None and until is None else until
    if goal is not None and not 0 < goal < 1:
        raise InvalidInputError(f"0 < until < 1 must hold, but got until={goal}.")
    rng, clock = np.random.default_rng(seed), Clock(time_limit)
    looks = [(draws, level)] if draws is not None else _looks(goal or 0.5, level)
    failures: list[NDArray[np.float64]] = []
    n, n_failed, bound = 0, 0, 0.0
    for stop, share in looks:
        while n < stop and clock.left > 0:
            rows = law.sample(min(BATCH, stop - n), rng)
            served = np.asarray(play(rows, n), bool)
            failures.append(rows[~served])
            n_failed += int((~served).sum())
            n += len(rows)
        if n:
            bound = max(bound, share_bound(n - n_failed, n, 1 - share))
        if n < stop or (goal is not None and bound > goal):
            break
    failed = np.concatenate([*failures, np.empty((0, len(law.names)))])
    holds = bound > (goal or 0.0)
    values = {
        **question.to_dict(),
        "confidence": confidence,
        "law": law.description,
        "share": bound,
        "until": goal,
        "n_draws": n,
        "n_failed": n_failed,
        "failing_contexts": [
            dict(zip(law.names, row, strict=True))
            for row in failed[:SHOWN_FAILURES].tolist()
        ],
    }
    why = share_sentence(
        question,
        law.description,
        bound=bound,
        confidence=confidence,
        n_draws=n,
        n_failed=n_failed,
        of_what=of_what,
    )
    kind = "confidence" if bound > 0 else "vacuous"
    scope = f"{of_what} drawn {law.description}"
    certificate = Certificate("share of contexts", holds, kind, why, values, scope)
    return ShareCheck(certificate, bound, n, failed)


def _looks(goal: float, level: float) -> list[tuple[int, float]]:
    """Numbers of draws at which to look, and the level of each look; they sum up."""
    first = math.ceil(math.log(level / 2) / math.log(goal))
    looks = []
    n, share = max(1, first), level / 2
    while n < MAX_DRAWS:
        looks.append((n, share))
        n, share = 2 * n, share / 2
    return [*looks, (max(MAX_DRAWS, first), share)]


def nearest_source(
    assignment: NDArray[np.integer], targets: Space
) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    """The selection as deployed: the source that the nearest target is assigned to.

    Distances are in shares of the box, axis by axis, so units do not matter.

    Args:
        assignment: source of each target, −1 for none.
        targets: contexts of the targets.
    """
    points = np.asarray(targets.points)
    width = np.ptp(points, axis=0)
    width = np.where(width > 0, width, 1.0)

    def select(rows: NDArray[np.float64]) -> NDArray[np.int64]:
        apart = np.zeros((len(rows), len(points)))
        for column in range(points.shape[1]):
            step = rows[:, None, column] - points[None, :, column]
            apart += (step / width[column]) ** 2
        return np.asarray(assignment, np.int64)[apart.argmin(1)]

    return select


class Deployed:
    """Whether a selection serves contexts, as `served_share` asks.

    An episodic system plays one fresh episode a draw. There the reference of
    `regret` and `ratio` is the largest return that is possible, since the best policy
    of a new context is not known; elsewhere it is the optimum.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        names: columns of the contexts that are drawn.
        question: what "served" means.
        select: the source for each context, −1 for none.
    """

    def __init__(
        self,
        system: System,
        policies: Policy,
        sources: NDArray[np.float64],
        names: Sequence[str],
        question: Question,
        select: Callable[[NDArray[np.float64]], NDArray[np.int64]],
    ):
        self._system, self._policies, self._sources = system, policies, sources
        self._names, self._question, self._select = names, question, select

    @property
    def of_what(self) -> str:
        """What is drawn: with episodes also a start."""
        episodic = isinstance(self._system, EpisodicSystem)
        return "contexts and starts" if episodic else "contexts"

    def __call__(self, rows: NDArray[np.float64], before: int) -> NDArray[np.bool_]:
        """Which contexts are served.

        Args:
            rows: contexts, one column a name.
            before: draws before these.
        """
        contexts = self._system.contexts(Points(self._names, rows))
        chosen = self._select(rows)
        rule = self._question.rule
        reference = self._reference(contexts)
        served = np.zeros(len(rows), np.bool_)
        for source in np.unique(chosen[chosen >= 0]).tolist():
            mine = np.flatnonzero(chosen == source)
            stack = self._policies[source : source + 1]
            against: NDArray[np.float64] = reference[mine]
            if rule.reference == "home":
                own = self._sources[source : source + 1]
                against = self._system.home_performance(stack, own)[0][:, None]
            losses = rule.loss(self._scores(stack, contexts, mine, before), against)
            worst = self._question.judge == "worst"
            loss = losses.max(0) if worst else losses.min(0)
            served[mine] = loss <= self._question.epsilon
        return served

    def _scores(
        self,
        stack: Policy,
        contexts: NDArray[np.float64],
        mine: NDArray[np.intp],
        before: int,
    ) -> NDArray[np.float64]:
        """J, or the return of one fresh episode, dims `(policy, context)`."""
        system = self._system
        if not isinstance(system, EpisodicSystem):
            return system.performance(stack, contexts[mine])[0]
        # Draws are independent: each has an episode of its own.
        played = [
            system.returns(
                stack,
                contexts[i : i + 1],
                episodes=fresh_episodes(1, FIRST_EPISODE + before + int(i)),
            )[0, :, 0, 0]
            for i in mine
        ]
        return np.stack(played, axis=1).astype(np.float64)

    def _reference(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._question.rule.reference != "best known":
            return np.zeros(len(contexts))
        system = self._system
        best = system.optimum(contexts)
        if best is None and isinstance(system, EpisodicSystem):
            limits = system.return_bounds(contexts)
            best = None if limits is None else limits[:, 1]
        if best is None:
            raise InvalidInputError(
                f"criterion={self._question.criterion!r} at new contexts needs the "
                f"optimum there, which {system.id} does not know. Use 'signed' or "
                "'floor'."
            )
        return np.asarray(best, np.float64)
