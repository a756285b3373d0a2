"""Trainings that failed, and which of them to try again."""

import numpy as np

from taskspace.performance.ledger import Ledger
from taskspace.performance.store.base import REGION, TRAINED
from taskspace.questions import Question
from taskspace.selection.selectors.base import Array, Known


def bad_sources(
    ledger: Ledger, question: Question, seen: Known
) -> dict[int, tuple[str, str]]:
    """Return trained sources that failed or are bad at home: state and reason.

    Args:
        ledger: what is trained so far; what is under way is left out.
        question: what shall be covered.
        seen: what the ledger says about it.
    """
    bad: dict[int, tuple[str, str]] = {}
    points = ledger.target_space.points
    places = np.cumsum(ledger.evaluated) - 1
    pending = ledger.pending
    for number, (state, reason) in enumerate(ledger.states):
        kind = ledger.kinds[number]
        if kind not in (TRAINED, REGION) or pending[number]:
            continue
        if state not in ("ok", "not trained"):
            bad[number] = state, reason
        elif ledger.evaluated[number] and kind == TRAINED:
            home = (points == ledger.sources.points[number]).all(1)
            losses = seen.losses[places[number], home]
            if len(losses) and not losses.min() <= question.epsilon:
                bad[number] = (
                    "bad at home",
                    f"its loss at home is {losses.min():g}, more than "
                    f"{question.epsilon:g}",
                )
    return bad


def contexts_to_retry(
    ledger: Ledger, question: Question, seen: Known, retries: int
) -> list[Array]:
    """Return contexts to train once more: bad at home, uncovered, attempts left.

    Args:
        ledger: what is trained so far.
        question: what shall be covered.
        seen: what the ledger says about it.
        retries: trainings with another seed after one that is bad at home.
    """
    if not retries or not ledger.n_sources:
        return []
    points, sources = ledger.target_space.points, ledger.sources
    contexts = []
    for number in bad_sources(ledger, question, seen):
        if ledger.kinds[number] != TRAINED:
            continue
        context = sources.points[number]
        tries = np.flatnonzero((seen.planned == context).all(1))
        last = np.flatnonzero((sources.points == context).all(1))[-1]
        home = (points == context).all(1)
        if (
            len(tries) <= retries
            and number == last
            and not (home.any() and seen.covered[home].all())
        ):
            contexts.append(context)
    return contexts
