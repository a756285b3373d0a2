"""The continuum as a probability: how large a share of contexts is served.

For every system, also plain functions and Gymnasium: draw contexts from a stated
distribution, apply the selection as it is deployed, and count. The bound is that of
Clopper and Pearson, so it holds whatever the system is. Played with one episode per
draw, it is a statement about a random context and a random start. The bound is read at
numbers of draws that were chosen before, which share the level: when time is up depends
on what was drawn, where episodes that fail are shorter.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.betting import check_confidence, share_bound
from taskspace._util.clock import Clock
from taskspace.certificates.case import Case, certifier
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.statements import Certificate, count
from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import numbers
from taskspace.performance.io.text import read_text
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.spaces import Points, Space
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem, random_episodes

NAME = "share of contexts"
BATCH = 256
MAX_SAMPLES = 100_000
# Share of the level for the last look, where time may end the draws before it.
LAST_LOOK = 0.9
FEWEST_SAMPLES = 64
SHOWN_FAILURES = 20


class Law(NamedTuple):
    """How contexts are drawn.

    Args:
        words: for sentences, e.g. `"uniformly from the box"`.
        names: columns of the contexts.
        sample: contexts for a number of draws and a generator.
        contents: what tells it from others, as plain values or arrays. Without it
            each certificate draws anew.
    """

    words: str
    names: tuple[str, ...]
    sample: Callable[[int, np.random.Generator], Array]
    contents: Any


def law_of(distribution: Any, space: Space) -> Law:
    """Return how contexts are drawn.

    Args:
        distribution: `"uniform"` or `"loguniform"` on the box of a space; a CSV file
            with a header, of which each draw takes a row, all with the same chance; a
            frozen distribution of `scipy.stats` for each axis by name; or one object
            with `rvs(size=..., random_state=...)` for all axes together.
        space: the contexts whose box is meant; its names are the columns.
    """
    names, n_axes = tuple(space.names), len(space.names)
    low, high = space.points.min(0), space.points.max(0)
    if isinstance(distribution, Mapping):
        if set(distribution) != set(names):
            raise InvalidInputError(
                f"A distribution must have one entry for each of {', '.join(names)}, "
                f"but has {', '.join(map(str, distribution))}."
            )
        axes = [distribution[name] for name in names]

        def sample(n: int, rng: np.random.Generator) -> Array:
            return np.stack([axis.rvs(size=n, random_state=rng) for axis in axes], -1)

        known = [[axis.dist.name, list(axis.args), dict(axis.kwds)] for axis in axes]
        words = [
            f"{name} ~ {axis.dist.name}" for name, axis in zip(names, axes, strict=True)
        ]
        return Law(f"with {', '.join(words)}", names, sample, known)
    if hasattr(distribution, "rvs"):
        return Law(
            "from the distribution given",
            names,
            lambda n, rng: np.reshape(
                distribution.rvs(size=n, random_state=rng), (n, n_axes)
            ),
            object(),
        )
    if distribution == "uniform":
        return Law(
            "uniformly from the box",
            names,
            lambda n, rng: low + rng.random((n, n_axes)) * (high - low),
            [distribution, low, high],
        )
    if distribution == "loguniform":
        if not (low > 0).all():
            raise InvalidInputError(
                "The distribution 'loguniform' needs contexts above 0, but the box "
                f"begins at {low.tolist()}."
            )
        start, width = np.log(low), np.log(high) - np.log(low)
        return Law(
            "log-uniformly from the box",
            names,
            lambda n, rng: np.clip(
                np.exp(start + rng.random((n, n_axes)) * width), low, high
            ),
            [distribution, low, high],
        )
    path = Path(distribution)
    if not path.is_file():
        raise InvalidInputError(
            "A distribution must be 'uniform', 'loguniform', a CSV file of contexts, "
            f"or of scipy.stats, but got {str(distribution)!r}."
        )
    rows = _read_contexts(path, names)
    return Law(
        f"from the {len(rows):,} contexts of {path.name}",
        names,
        lambda n, rng: rows[rng.integers(len(rows), size=n)],
        rows,
    )


@dataclass(frozen=True, eq=False)
class ShareCheck:
    """What draws from a distribution say.

    Args:
        certificate: the statement, of kind `"confidence"`.
        bound: the share that is served, from below.
        n_samples: contexts drawn.
        failures: contexts that were not served, one row each. They may become targets
            of the next table, which is then judged on other draws.
    """

    certificate: Certificate
    bound: float
    n_samples: int
    failures: Array


def _read_contexts(path: Path, names: Sequence[str]) -> Array:
    frame = read_text(path, header=True)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"{path} must have a column for each of {', '.join(names)}, but "
            f"{', '.join(missing)} are missing."
        )
    rows = numbers(frame, [frame.columns.tolist().index(n) for n in names], str(path))
    if not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            f"{path} must hold at least one context, and finite numbers only."
        )
    return rows


@certifier("draws")
def certify_share(case: Case) -> list[Certificate]:
    """Bound the share of contexts that the selection serves as it is deployed.

    Args:
        case: gets the check; nothing is said without a distribution.
    """
    study, question, continuum = case.study, case.question, case.found.get("continuum")
    system, policies = study.system, study.policies
    sources, targets = case.sources, study.targets
    if case.distribution is None:
        return []
    if system is None or policies is None or not sources or not targets:
        why = "Drawing contexts needs the system and the policies, and contexts."
        return [Certificate(NAME, False, "vacuous", why)]
    law = law_of(case.distribution, targets)
    fresh = case.found.get("fresh")
    assignment = case.cover.assignment if fresh is None else fresh.assignment
    nearest = nearest_source(assignment, targets)

    def select(rows: Array) -> NDArray[np.int64]:
        chosen = nearest(rows)
        if continuum is None:
            return chosen
        certain = continuum.source_at(system.contexts(Points(targets.names, rows)))
        return np.where(certain >= 0, certain, chosen)

    boxes: list[NDArray[Any]] = []
    if continuum is not None:
        corners = continuum.boxes.low, continuum.boxes.high
        boxes = [*corners, continuum.status, continuum.assignment]
    contexts = system.contexts(sources)
    seed = sample_seed(
        "draws",
        case.seed,
        describe_selection(case.table, question, assignment, system, policies),
        [contexts, system.contexts(targets)],
        boxes,
        [law.words, law.names, law.contents],
    )
    play = Deployed(system, policies, contexts, targets.names, question, select, seed)
    try:
        question.check_exact("A share of drawn contexts")
        case.found["share"] = share = served_share(
            play,
            law,
            question,
            confidence=case.confidence,
            n_samples=case.n_samples,
            target_share=case.target_share,
            seed=seed,
            time_limit=case.clock.left,
            of_what=play.of_what,
        )
    except InvalidInputError as error:
        return [Certificate(NAME, False, "vacuous", str(error))]
    return [share.certificate]


def nearest_source(
    assignment: NDArray[np.integer], targets: Space
) -> Callable[[Array], NDArray[np.int64]]:
    """Return the selection as deployed: the source of the nearest target.

    Distances are in shares of the box, axis by axis, so units do not matter.

    Args:
        assignment: source of each target, −1 for none.
        targets: contexts of the targets.
    """
    points = np.asarray(targets.points)
    width = np.ptp(points, axis=0)
    width = np.where(width > 0, width, 1.0)

    def select(rows: Array) -> NDArray[np.int64]:
        apart = np.zeros((len(rows), len(points)))
        for column in range(points.shape[1]):
            step = rows[:, None, column] - points[None, :, column]
            apart += (step / width[column]) ** 2
        return np.asarray(assignment, np.int64)[apart.argmin(1)]

    return select


def served_share(
    play: Callable[[Array, int], NDArray[np.bool_]],
    law: Law,
    question: Question,
    *,
    seed: int,
    confidence: float = 0.999,
    n_samples: int | None = None,
    target_share: float | None = None,
    time_limit: float | None = None,
    of_what: str = "contexts",
) -> ShareCheck:
    """Return a lower bound on the share of contexts that a selection serves.

    Args:
        play: which of some contexts are served, given their rows and how many draws
            there were before; the selection as it will be deployed.
        law: how contexts are drawn.
        question: what "served" means, for the sentence.
        seed: of the draws. A selection that was changed after its draws were seen
            needs another seed; `certify` takes one from all that it judges.
        confidence: that the bound holds.
        n_samples: how many, decided before. Without a time limit all of the level is
            for the end; with one a tenth of it is for looks on the way.
        target_share: draw until the bound is above this share. Looks are taken when
            the number of draws has doubled, and share the level, so that stopping early
            costs nothing of the confidence. Without either, 0.99.
        time_limit: wall-clock seconds; the bound is then that of the looks reached.
        of_what: what is counted.
    """
    level = check_confidence(confidence)
    if n_samples is not None and target_share is not None:
        raise InvalidInputError("Give either n_samples or target_share, not both.")
    if n_samples is not None and not 1 <= n_samples <= MAX_SAMPLES:
        raise InvalidInputError(
            f"1 <= n_samples <= {MAX_SAMPLES:,} must hold, but got "
            f"n_samples={n_samples}."
        )
    goal = 0.99 if n_samples is None and target_share is None else target_share
    if goal is not None and not 0 < goal < 1:
        raise InvalidInputError(
            f"0 < target_share < 1 must hold, but got target_share={goal}."
        )
    rng, clock = np.random.default_rng(seed), Clock(time_limit, on_wall=True)
    if n_samples is None:
        looks = _looks_until(goal or 0.5, level)
    elif time_limit is None:
        looks = [(n_samples, level)]
    else:
        looks = _looks_before(n_samples, level)
    failures: list[Array] = []
    n, n_failed = 0, 0
    best = 0, 0, 0.0  # draws, failures, and the bound of the best look
    for stop, share in looks:
        while n < stop and clock.left > 0:
            rows = law.sample(min(BATCH, stop - n), rng)
            served = np.asarray(play(rows, n), bool)
            failures.append(rows[~served])
            n_failed += int((~served).sum())
            n += len(rows)
        if n < stop:  # a number of draws that time has chosen says nothing
            break
        bound = share_bound(n - n_failed, n, 1 - share)
        if bound >= best[2]:
            best = n, n_failed, bound
        if goal is not None and best[2] > goal:
            break
    n_seen, n_missed, bound = best
    failed = np.concatenate([*failures, np.empty((0, len(law.names)))])
    values = {
        **question.to_dict(),
        "confidence": confidence,
        "distribution": law.words,
        "share": bound,
        "target_share": goal,
        "n_samples": n,
        "n_failed": n_failed,
        "look_samples": n_seen,
        "look_failed": n_missed,
        "seed": str(seed),
        "failing_contexts": [
            dict(zip(law.names, row, strict=True))
            for row in failed[:SHOWN_FAILURES].tolist()
        ],
    }
    why = (
        f"No bound on the share of {of_what} that are served, drawn {law.words}: time "
        f"was up after {count(n, 'draw')}, before the first number of draws at which "
        "a bound was to be read."
    )
    if n_seen:
        lost = f"{n_missed:,} failed" if n_missed else "none failed"
        if n > n_seen:
            lost += f"; {n:,} were drawn in all"
        why = (
            f"At least {100 * bound:.4g} % of {of_what} are served, drawn {law.words}: "
            f"each {question.clause} (confidence {100 * confidence:.6g} %; {n_seen:,} "
            f"draws, {lost})."
        )
    holds = bound > (goal or 0.0)
    kind = "confidence" if bound > 0 else "vacuous"
    scope = f"{of_what} drawn {law.words}"
    certificate = Certificate(NAME, holds, kind, why, values, scope)
    return ShareCheck(certificate, bound, n, failed)


def _looks_until(goal: float, level: float) -> list[tuple[int, float]]:
    """Return numbers of draws at which to look, and levels, which sum up."""
    first = math.ceil(math.log(level / 2) / math.log(goal))
    looks = []
    n, share = max(1, first), level / 2
    while n < MAX_SAMPLES:
        looks.append((n, share))
        n, share = 2 * n, share / 2
    return [*looks, (max(MAX_SAMPLES, first), share)]


def _looks_before(n_samples: int, level: float) -> list[tuple[int, float]]:
    """Return looks at all draws, half of them, a quarter, …; their levels sum up."""
    looks = [(n_samples, LAST_LOOK * level)]
    n, share = n_samples // 2, (1 - LAST_LOOK) * level / 2
    while n >= FEWEST_SAMPLES:
        looks.insert(0, (n, share))
        n, share = n // 2, share / 2
    return looks


class Deployed:
    """Whether a selection serves contexts, as `served_share` asks.

    An episodic system plays one fresh episode per draw. There the reference of
    `regret` and `ratio` is the largest return that is possible, since the best policy
    of a new context is not known; elsewhere it is the optimum.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        names: columns of the contexts that are drawn.
        question: what "served" means.
        select: the source for each context, −1 for none.
        seed: of the draw of episodes, where the system is played in some.
    """

    def __init__(
        self,
        system: System,
        policies: Policy,
        sources: Array,
        names: Sequence[str],
        question: Question,
        select: Callable[[Array], NDArray[np.int64]],
        seed: int,
    ):
        self._seed = seed
        self._system, self._policies, self._sources = system, policies, sources
        self._names, self._question, self._select = names, question, select

    @property
    def of_what(self) -> str:
        """What is drawn: with episodes also a start."""
        episodic = isinstance(self._system, EpisodicSystem)
        return "contexts and starts" if episodic else "contexts"

    def __call__(self, rows: Array, before: int) -> NDArray[np.bool_]:
        """Return which contexts are served.

        Args:
            rows: contexts, one column per name.
            before: draws before these.
        """
        contexts = self._system.contexts(Points(self._names, rows))
        chosen = self._select(rows)
        parts = [
            self._meets(demand, contexts, chosen, before)
            for demand in self._question.demands
        ]
        return np.logical_and.reduce(parts)

    def _meets(
        self,
        question: Question,
        contexts: Array,
        chosen: NDArray[np.integer],
        before: int,
    ) -> NDArray[np.bool_]:
        """Return which contexts meet one demand."""
        rule = question.rule
        served = np.zeros(len(contexts), np.bool_)
        for source in np.unique(chosen[chosen >= 0]).tolist():
            places = np.flatnonzero(chosen == source)
            stack = self._policies[source : source + 1]
            against = rule.against(
                best=partial(self._best, question, contexts[places]),
                home=partial(self._home, source),
            )
            scores = self._scores(rule.measure, stack, contexts, places, before)
            losses = rule.loss(scores, against)
            loss = losses.max(0) if question.judge == "worst" else losses.min(0)
            served[places] = loss <= question.epsilon
        return served

    def _scores(
        self,
        measure: str,
        stack: Policy,
        contexts: Array,
        places: NDArray[np.intp],
        before: int,
    ) -> Array:
        """Return J, or the return of one fresh episode, dims `(policy, context)`."""
        system = self._system
        if not isinstance(system, EpisodicSystem):
            return system.scores(measure, stack, contexts[places])[0]
        # Draws are independent: each has an episode of its own.
        played = [
            system.returns(
                stack,
                contexts[i : i + 1],
                episodes=random_episodes(self._seed, 1, first=before + int(i)),
            )[0, :, 0, 0]
            for i in places
        ]
        return np.stack(played, axis=1).astype(np.float64)

    def _home(self, source: int) -> Array:
        """Return J of the policies of a source at home, dims `(policy, 1)`."""
        some = slice(source, source + 1)
        own = self._system.home_performance(self._policies[some], self._sources[some])
        return own[0][:, None]

    def _best(self, question: Question, contexts: Array) -> Array:
        """Return the best J at contexts, or what is known to be above it."""
        system = self._system
        best = system.optimum(contexts)
        if best is None and isinstance(system, EpisodicSystem):
            limits = system.return_bounds(contexts)
            best = None if limits is None else limits[:, 1]
        if best is None:
            raise InvalidInputError(
                f"criterion={question.criterion!r} at new contexts needs the "
                f"optimum there, which {system.id} does not know. Use 'signed' or "
                "'floor'."
            )
        return np.asarray(best, np.float64)
