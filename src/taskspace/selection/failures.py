"""Trainings that failed, and which of them to try again."""

from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_text
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import REGION, TRAINED
from taskspace.questions import Question
from taskspace.selection.selectors.base import Known


def bad_sources(
    ledger: Ledger, question: Question, seen: Known
) -> list[dict[str, Any]]:
    """Return trained sources that failed or are bad at home, one record each.

    Args:
        ledger: what is trained so far; what is under way is left out.
        question: what shall be covered.
        seen: what the ledger says about it.
    """
    if not ledger.n_sources:
        return []
    bad: list[dict[str, Any]] = []
    points = ledger.target_space.points
    places = np.cumsum(ledger.evaluated) - 1
    pending = ledger.pending
    for number, (state, reason) in enumerate(ledger.states):
        kind = ledger.kinds[number]
        if kind not in (TRAINED, REGION) or pending[number]:
            continue
        problem = state, reason
        if state in ("ok", "not trained"):
            if not ledger.evaluated[number] or kind != TRAINED:
                continue
            home = (points == ledger.sources.points[number]).all(1)
            losses = seen.losses[places[number], home]
            if not len(losses) or losses.min() <= question.epsilon:
                continue
            problem = (
                "bad at home",
                f"its loss at home is {losses.min():g}, more than "
                f"{decimal_text(question.epsilon)}",
            )
        bad.append(
            {
                "source": number,
                "context": ledger.sources.context(number),
                "seed": ledger.seeds[number],
                "state": problem[0],
                "reason": problem[1],
            }
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
    if not retries:
        return []
    points = ledger.target_space.points
    contexts = []
    for record in bad_sources(ledger, question, seen):
        number = record["source"]
        if ledger.kinds[number] != TRAINED:
            continue
        planned = ledger.sources.points
        context = planned[number]
        tries = np.flatnonzero((seen.planned == context).all(1))
        last = np.flatnonzero((planned == context).all(1))[-1]
        home = (points == context).all(1)
        if (
            len(tries) <= retries
            and number == last
            and not (home.any() and seen.covered[home].all())
        ):
            contexts.append(context)
    return contexts
