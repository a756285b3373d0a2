"""The continuum as a probability: how large a share of contexts is served.

For every system, also plain functions and Gymnasium: draw contexts from a stated
distribution, apply the selection as it is deployed, and count. The bound is that of
Clopper and Pearson, so it holds whatever the system is. Played with one episode per
draw, it is a statement about a random context and a random start. The bound is read at
numbers of draws that were chosen before, which share the level: when time is up depends
on what was drawn, where episodes that fail are shorter.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from taskspace._util.arrays import Array
from taskspace._util.betting import check_confidence, share_bound
from taskspace._util.clock import Clock
from taskspace.certificates.case import Case
from taskspace.certificates.identity import describe_selection, sample_seed
from taskspace.certificates.statements import Certificate, count
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.spaces import Points, Space
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem, random_episodes

NAME = "share of contexts"
BATCH = 256
N_SAMPLES, MAX_SAMPLES = 1000, 100_000
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
        contents: what tells it from others, as plain values or arrays. Where it is
            another object, each certificate draws anew.
    """

    words: str
    names: tuple[str, ...]
    sample: Callable[[int, np.random.Generator], Array]
    contents: Any


def law_of(distribution: Any, space: Space) -> Law:
    """Return how contexts are drawn.

    Args:
        distribution: `"uniform"` or `"loguniform"` on the box of a space; a frozen
            distribution of `scipy.stats` for each axis by name; or one object with
            `rvs(size=..., random_state=...)` for all axes together.
        space: the contexts whose box is meant; its names are the columns.
    """
    names = tuple(space.names)
    low, high = space.points.min(0), space.points.max(0)
    words, contents = "from the distribution given", distribution
    if isinstance(distribution, Mapping):
        if set(distribution) != set(names):
            raise InvalidInputError(
                f"A distribution must have one entry for each of {', '.join(names)}, "
                f"but has {', '.join(map(str, distribution))}."
            )
        laws = [distribution[name] for name in names]
        parts = [f"{name} ~ {distribution[name].dist.name}" for name in names]
        words = f"with {', '.join(parts)}"
        contents = [[law.dist.name, list(law.args), dict(law.kwds)] for law in laws]

        def sample(n: int, rng: np.random.Generator) -> Array:
            return np.stack([law.rvs(size=n, random_state=rng) for law in laws], -1)

    elif hasattr(distribution, "rvs"):

        def sample(n: int, rng: np.random.Generator) -> Array:
            rows = distribution.rvs(size=n, random_state=rng)
            return np.reshape(rows, (n, len(names)))

    elif distribution in ("uniform", "loguniform"):
        is_log = distribution == "loguniform"
        if is_log and not (low > 0).all():
            raise InvalidInputError(
                "The distribution 'loguniform' needs contexts above 0, but the box "
                f"begins at {low.tolist()}."
            )
        words = f"{'log-' if is_log else ''}uniformly from the box"
        contents = [distribution, low, high]

        def sample(n: int, rng: np.random.Generator) -> Array:
            share = rng.random((n, len(names)))
            if not is_log:
                return low + share * (high - low)
            rows = np.exp(np.log(low) + share * (np.log(high) - np.log(low)))
            return np.clip(rows, low, high)

    else:
        raise InvalidInputError(
            "A distribution must be 'uniform' or 'loguniform', in Python also one of "
            f"scipy.stats, but got {distribution!r}."
        )
    return Law(words, names, sample, contents)


def certify_share(case: Case) -> list[Certificate]:
    """Bound the share of contexts that the selection serves as it is deployed.

    Args:
        case: what there is to certify with; nothing is said without a distribution.
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
    # Distances are in shares of the box, axis by axis, so units do not matter.
    width = np.ptp(targets.points, axis=0)
    width = np.where(width > 0, width, 1.0)

    def select(rows: Array) -> NDArray[np.int64]:
        apart = cdist(rows / width, targets.points / width)
        chosen = assignment[apart.argmin(1)]
        if continuum is None:
            return chosen
        certain = continuum.source_at(system.contexts(Points(targets.names, rows)))
        return np.where(certain >= 0, certain, chosen)

    boxes: list[NDArray[Any]] = []
    if continuum is not None:
        corners = continuum.boxes.low, continuum.boxes.high
        boxes = [*corners, continuum.status, continuum.assignment]
    seed = sample_seed(
        "draws",
        case.seed,
        describe_selection(case.table, question, assignment, system, policies),
        [system.contexts(sources), system.contexts(targets)],
        boxes,
        [law.words, law.names, law.contents],
    )

    def play(rows: Array, before: int) -> NDArray[np.bool_]:
        contexts = system.contexts(Points(targets.names, rows))
        chosen, served = select(rows), np.zeros(len(rows), np.bool_)
        for source in np.unique(chosen[chosen >= 0]).tolist():
            places = np.flatnonzero(chosen == source)
            own = policies[source : source + 1], system.contexts(sources)[[source]]
            where = contexts[places], seed, before + places
            served[places] = np.all(
                [_meets(demand, system, *own, *where) for demand in question.demands],
                axis=0,
            )
        return served

    try:
        question.check_exact("A share of drawn contexts")
        certificate = served_share(
            play,
            law,
            question,
            confidence=case.confidence,
            n_samples=case.n_samples or N_SAMPLES,
            seed=seed,
            time_limit=case.clock.left,
            with_starts=isinstance(system, EpisodicSystem),
        )
    except InvalidInputError as error:
        certificate = Certificate(NAME, False, "vacuous", str(error))
    return [certificate]


def _meets(
    question: Question,
    system: System,
    stack: Any,
    home: Array,
    contexts: Array,
    seed: int,
    draws: NDArray[np.integer],
) -> NDArray[np.bool_]:
    """Return which contexts a source serves, by one demand.

    An episodic system plays one fresh episode per draw. There the reference of
    `regret` and `ratio` is the largest return that is possible, since the best policy
    of a new context is not known; elsewhere it is the optimum.
    """
    rule = question.rule

    def best() -> Array:
        known = system.optimum(contexts)
        if known is None and isinstance(system, EpisodicSystem):
            limits = system.return_bounds(contexts)
            known = None if limits is None else limits[:, 1]
        if known is None:
            raise InvalidInputError(
                f"criterion={question.criterion!r} at new contexts needs the "
                f"optimum there, which {system.id} does not know. Use 'signed' or "
                "'floor'."
            )
        return np.asarray(known, np.float64)

    against = rule.against(
        best=best, home=lambda: system.home_performance(stack, home)[0][:, None]
    )
    if isinstance(system, EpisodicSystem):
        # Draws are independent: each has its own episode.
        played = [
            system.returns(
                stack, context[None], episodes=random_episodes(seed, 1, first=int(draw))
            )[0, :, 0, 0]
            for context, draw in zip(contexts, draws, strict=True)
        ]
        scores = np.stack(played, axis=1).astype(np.float64)
    else:
        scores = system.scores(rule.measure, stack, contexts)[0]
    losses = rule.loss(scores, against)
    loss = losses.max(0) if question.judge == "worst" else losses.min(0)
    return loss <= question.epsilon


def served_share(
    play: Callable[[Array, int], NDArray[np.bool_]],
    law: Law,
    question: Question,
    *,
    seed: int,
    confidence: float = 0.999,
    n_samples: int = N_SAMPLES,
    time_limit: float | None = None,
    with_starts: bool = False,
) -> Certificate:
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
        time_limit: wall-clock seconds; the bound is then that of the looks reached.
        with_starts: whether each draw has a random start too.

    Returns:
        A certificate of kind `"confidence"`; its values hold the share and the first
        contexts that were not served.
    """
    level = check_confidence(confidence)
    if not 1 <= n_samples <= MAX_SAMPLES:
        raise InvalidInputError(
            f"1 <= n_samples <= {MAX_SAMPLES:,} must hold, but got "
            f"n_samples={n_samples}."
        )
    rng, clock = np.random.default_rng(seed), Clock(time_limit, on_wall=True)
    looks = [(n_samples, level)] if time_limit is None else _looks(n_samples, level)
    failures = [np.empty((0, len(law.names)))]
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
    n_seen, n_missed, bound = best
    of_what = "contexts and starts" if with_starts else "contexts"
    values = {
        **question.to_dict(),
        "confidence": confidence,
        "distribution": law.words,
        "share": bound,
        "n_samples": n,
        "n_failed": n_failed,
        "look_samples": n_seen,
        "look_failed": n_missed,
        "seed": str(seed),
        "failing_contexts": [
            dict(zip(law.names, row, strict=True))
            for row in np.concatenate(failures)[:SHOWN_FAILURES].tolist()
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
    kind = "confidence" if bound > 0 else "vacuous"
    scope = f"{of_what} drawn {law.words}"
    return Certificate(NAME, bound > 0, kind, why, values, scope)


def _looks(n_samples: int, level: float) -> list[tuple[int, float]]:
    """Return looks at all draws, half of them, a quarter, …; their levels sum up."""
    looks = [(n_samples, LAST_LOOK * level)]
    n, share = n_samples // 2, (1 - LAST_LOOK) * level / 2
    while n >= FEWEST_SAMPLES:
        looks.insert(0, (n, share))
        n, share = n // 2, share / 2
    return looks
