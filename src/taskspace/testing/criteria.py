"""What a criterion must satisfy, ours or yours.

Its losses fall as scores rise, its threshold and its losses decide alike, its
enclosures contain its losses, and its text reads back to it. Numbers are random, in
units from 1e-3 to 1e3.
"""

from collections.abc import Iterator

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.decimals import fraction_of
from taskspace.criteria import Criterion
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.questions import Question
from taskspace.testing.checks import Check, assert_all, first_problems

__all__ = ["assert_criterion", "check_criterion"]

N_TARGETS = 200
# Losses of bounds may exceed those inside by so much of the numbers they are made of.
ROUNDING = 1e-12


def check_criterion(
    rule: Criterion, *, n_targets: int = N_TARGETS, seed: int = 0
) -> list[Check]:
    """Return what holds of a criterion, one check for each promise.

    Args:
        rule: the criterion, with its parameters.
        n_targets: numbers that are tried in each unit; as many as the criterion has
            targets, where it knows a number for each.
        seed: of the random numbers.
    """
    problems = [
        problem
        for numbers in _trials(rule, n_targets, seed)
        for problem in _problems(rule, *numbers)
    ]
    if text := _text_problem(rule):
        problems.append(("text", text))
    names = ("order", "failures", "threshold", "enclosure", "decimals", "text")
    return first_problems(names, problems, "holds for random numbers")


def assert_criterion(rule: Criterion, *, n_targets: int = N_TARGETS) -> None:
    """Raise an AssertionError that names every promise which a criterion breaks.

    Args:
        rule: the criterion, with its parameters.
        n_targets: as in `check_criterion`.
    """
    assert_all(check_criterion(rule, n_targets=n_targets))


def _trials(
    rule: Criterion, n_targets: int, seed: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield scores, references that the criterion accepts, and tolerances."""
    rng = np.random.default_rng(seed)
    for unit in (1e-3, 1.0, 1e3):
        for sign in (-1.0, 1.0):
            best = sign * unit * (0.05 + rng.exponential(size=n_targets))
            try:
                reference = rule.against(best=lambda b=best: b, home=lambda b=best: b)
            except InvalidInputError:
                continue
            reference = np.broadcast_to(reference, n_targets).astype(np.float64)
            scores = best - unit * rng.exponential(size=n_targets)
            losses = rule.loss(scores, reference)
            middle = losses[np.isfinite(losses)]
            if len(middle):
                yield scores, reference, np.quantile(middle, [0.1, 0.5, 0.9])


def _problems(
    rule: Criterion, scores: Array, reference: Array, epsilons: Array
) -> Iterator[tuple[str, str]]:
    """Yield each promise that some number breaks, and how."""
    size = np.abs(scores) + np.abs(reference)
    losses = rule.loss(scores, reference)
    step = np.abs(scores).mean() * np.array([0.0, 1e-3, 0.1, 1.0])[:, None]
    rising = rule.loss(scores + step, reference)
    if (np.diff(rising, axis=0) > ROUNDING * np.abs(rising[1:])).any():
        yield "order", "The loss must fall as the score rises, but it rises."
    with np.errstate(invalid="ignore"):
        failed = rule.loss(np.full_like(scores, -np.inf), reference)
    if not (failed == np.inf).all():
        yield "failures", f"The loss of a failure must be inf, but is {failed.min()}."
    for epsilon in epsilons.tolist():
        least = rule.threshold(epsilon, reference)
        above = rule.loss(least + ROUNDING * size, reference)
        below = rule.loss(least - ROUNDING * size - 1e-300, reference)
        slack = ROUNDING * (1 + abs(epsilon)) * (1 + np.abs(size))
        known = np.isfinite(least)
        if (known & ((above > epsilon + slack) | (below < epsilon - slack))).any():
            yield "threshold", f"The score that just meets {epsilon:g} does not."
        served = rule.served(scores, reference, epsilon)
        clear = np.abs(scores - least) > ROUNDING * size
        wrong = clear & (served != (scores >= least))
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            yield (
                "threshold",
                (
                    f"At epsilon = {epsilon:g} a score of {scores[place]:g} against "
                    f"{reference[place]:g} must be served if and only if it reaches "
                    f"{least[place]:g}, the threshold, but served is {served[place]}."
                ),
            )
    yield from _enclosure_problems(rule, scores, reference)
    decimal, problem = rule.decimal_loss(scores, reference), ""
    if not np.allclose(decimal, losses, rtol=1e-9, atol=1e-12 * size.max()):
        problem = (
            "The loss of decimals differs from that of floats by more than rounding."
        )
    for place in range(0, len(scores), 20):
        pair = fraction_of(scores[place]), fraction_of(reference[place])
        exact = rule.quotient(*pair, fraction_of)
        if exact is not None and exact[1] and np.isfinite(decimal[place]):
            true = exact[0] / exact[1]
            if not true <= fraction_of(decimal[place]) <= true + abs(true) / 10**12:
                problem = (
                    f"The loss {decimal[place]!r} is not {float(true)!r} rounded up."
                )
    if problem:
        yield "decimals", problem


def _enclosure_problems(
    rule: Criterion, scores: Array, reference: Array
) -> Iterator[tuple[str, str]]:
    """Yield where a loss inside bounds of its numbers is outside its own bounds."""
    for width in (0.0, 0.1, 2.0):
        low_score, low_best = scores - width * np.abs(scores), reference
        high_score, high_best = scores, reference + 0.4 * width * np.abs(reference)
        low, high = rule.enclose((low_score, high_score), (low_best, high_best))
        for share in (0.0, 0.3, 0.7, 1.0):
            for other in (0.0, 0.5, 1.0):
                score = low_score + share * (high_score - low_score)
                best = low_best + other * (high_best - low_best)
                loss = rule.loss(score, best)
                slack = ROUNDING * (1 + np.abs(loss))
                if ((loss < low - slack) | (loss > high + slack)).any():
                    yield "enclosure", "A loss lies outside the bounds of losses."
                    return


def _text_problem(rule: Criterion) -> str:
    """Return why the text does not read back to the criterion, empty if it does."""
    try:
        for epsilon in (0.0, 0.02, 1 / 3):
            question = Question(rule, epsilon=epsilon)
            if Question(str(question)) != question:
                return f"The text {str(question)!r} reads back to another question."
    except TaskspaceError as error:
        return f"The text of the criterion cannot be read: {error}"
    return ""
