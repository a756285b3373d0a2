"""What a cover method is given: a study and a question, or tolerance sets alone."""

from collections.abc import Sequence
from typing import Any

from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question, as_question
from taskspace.sets import TargetSets

__all__ = ["grid_shape", "losses_of", "sets_of"]


def sets_of(problem: Study | TargetSets, question: Question | None) -> TargetSets:
    """Return the tolerance sets of a study under a question, or given sets as they are.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study; None beside given sets.
    """
    if isinstance(problem, Study):
        return as_question(question).sets(problem)
    if question is not None:
        raise InvalidInputError(
            "Tolerance sets have a question in them already, but got another one: "
            f"{question}. Give a study, or the sets alone."
        )
    if not isinstance(problem, TargetSets):
        raise InvalidInputError(
            "This needs a study and a question, or tolerance sets "
            "(ts.tolerance_sets(losses, epsilon=...), or "
            "ts.sets.PackedSets.from_bool(matrix) of what each source serves), but "
            f"got {type(problem).__name__}."
        )
    return problem


def losses_of(problem: Study | Any, question: Question | None) -> Any:
    """Return the losses of a study under a question, or a given matrix as it is.

    Args:
        problem: a study, whose losses are at least 0 where a tolerance is; or a loss
            matrix `(source, target)`.
        question: what is asked of a study; None beside a matrix.
    """
    if isinstance(problem, Study):
        asked = as_question(question)
        losses = asked.losses(problem)
        return losses if asked.rule.allows_negative_epsilon else losses.clip(min=0.0)
    if question is not None:
        raise InvalidInputError(
            f"A loss matrix has a question in it already, but got another one: "
            f"{question}. Give a study, or the matrix alone."
        )
    return problem


def grid_shape(
    problem: Study | TargetSets, shape: Sequence[int] | None
) -> Sequence[int]:
    """Return the points on each axis of the grid of sources.

    Args:
        problem: a study, which knows its own, or tolerance sets.
        shape: what the user says.
    """
    if shape is None and isinstance(problem, Study):
        shape = problem.shape
    if shape is None:
        raise InvalidInputError(
            "A uniform selection needs sources on a grid, but these are a plain list. "
            "Give the points on each axis, e.g. shape=(20, 20), or use greedy, local, "
            "minimum or random."
        )
    return shape
