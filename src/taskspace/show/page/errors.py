"""The error of measured contexts on a page: a slider over a few multiples of it.

Each multiple is a layer of its own, whose losses are the largest within the error. So
sets, covers, bounds and contexts that nothing serves are exact at every step.
"""

from collections.abc import Sequence

from taskspace.questions import Question

MULTIPLES = (1.0, 0.0, 0.25, 0.5, 0.75)
"""Of the error that was asked for, which is shown first."""


def error_steps(asked: Sequence[Question]) -> list[Question]:
    """Return questions with smaller errors, down to none, behind each that has one.

    Args:
        asked: what is asked.
    """
    steps = [
        question.measured_with(question.error and question.error.times(multiple))
        for question in asked
        for multiple in (MULTIPLES if question.error is not None else (0.0,))
    ]
    return list(dict.fromkeys(steps))
