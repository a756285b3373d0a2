"""The question that the options of a command ask, completed by that of the run."""

from pathlib import Path

from taskspace.cli.output import progress_console, shown
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import RunStore
from taskspace.runs.archive import is_archive, read_archive
from taskspace.runs.manifest import is_run

__all__ = ["asked_question", "has_questions"]


def asked_question(
    path: Path,
    criterion: str | None,
    judge: str | None,
    epsilon: float | None,
    *,
    any_epsilon: bool = False,
) -> Question:
    """What a command asks; what is left out is as in the run's own experiment.

    Of several questions of an experiment that the given options fit, the worst policy's
    regret counts, else the first. A line says what was taken from the run. Without a
    run it is the worst policy's regret.

    Args:
        path: a run, an archive, or any other file.
        criterion: `--criterion`, None if left out.
        judge: `--judge`, None if left out.
        epsilon: `--epsilon`, None if left out.
        any_epsilon: the command finds tolerances by itself, so none is needed.
    """
    fitting = [
        question
        for question in _own_questions(path)
        if criterion in (None, question.criterion) and judge in (None, question.judge)
    ]
    plain = Question("regret", "worst", epsilon=0.0)
    usual = [question for question in fitting if question.at(0.0) == plain]
    own = next(iter([*usual, *fitting]), None)
    basis = own or plain
    if epsilon is None and not any_epsilon:
        if own is None:
            raise InvalidInputError(
                f"--epsilon is needed, e.g. --epsilon 0.2: {path} has no tolerance of "
                "its own for this question."
            )
        tolerance = own.epsilon
    else:
        tolerance = 0.0 if epsilon is None else epsilon
    found = Question(
        criterion or basis.criterion, judge or basis.judge, epsilon=tolerance
    )
    taken = [
        f"--{name} {value}"
        for name, given, value, plainly in (
            ("criterion", criterion, found.criterion, plain.criterion),
            ("judge", judge, found.judge, plain.judge),
            ("epsilon", epsilon, f"{tolerance:g}", "0" if any_epsilon else ""),
        )
        if given is None and value != plainly
    ]
    if taken:
        progress_console.print(f"As in the run's experiment: {shown(' '.join(taken))}.")
    return found


def has_questions(path: Path) -> bool:
    """Whether a path brings questions of its own: a run or an archive.

    Args:
        path: any path.
    """
    return is_run(path) or (path.is_file() and is_archive(path))


def _own_questions(path: Path) -> list[Question]:
    """What the experiment of a run or an archive asks; nothing for other files."""
    if is_run(path):
        run = RunStore.open(path)
        questions = list(run.experiment.questions)
        tolerance = run.notes.get("epsilon")
        if run.is_selection and isinstance(tolerance, int | float) and questions:
            return [questions[0].at(tolerance), *questions[1:]]
        return questions
    if has_questions(path):
        return list(read_archive(path).experiment.questions)
    return []
