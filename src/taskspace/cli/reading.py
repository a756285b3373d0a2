"""What commands read: a question, the way a matrix is read, numbers and names."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cli.output import progress_console, shown
from taskspace.cover.problem import CoverProblem
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import label, number_of
from taskspace.performance.io.text import read_text
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.runs.opening import check_exists, is_run


def own_question(path: Path, needs_bound: bool) -> Question:
    """Return the question of a run's experiment, and print it.

    Of several questions the worst policy's regret counts, else the first.

    Args:
        path: a run or any other file.
        needs_bound: the command needs a tolerance or a level; else the regret is asked
            of what has no question of its own.
    """
    check_exists(path)
    questions = _own_questions(path)
    if not questions and needs_bound:
        raise InvalidInputError(
            f"--ask is needed, e.g. --ask 'regret <= 0.2': {path} has no question of "
            "its own."
        )
    plain = Question("regret")
    usual = [question for question in questions if question.at(None) == plain]
    asked = next(iter([*usual, *questions]), plain)
    if questions:
        words = f"As in the run's experiment: --ask '{asked}'."
        progress_console.print(shown(words), highlight=False)
    return asked


def _own_questions(path: Path) -> list[Question]:
    """Return the questions of a run's experiment; none for other files."""
    if is_run(path):
        from taskspace.runs.folder import RunFolder  # a matrix needs none of it

        run = RunFolder.open(path)
        questions = list(run.experiment.ask)
        if run.is_selection and "ask" in run.info.notes:
            return [Question(run.info.notes["ask"]), *questions[1:]]
        return questions
    return []


def parse_keywords(text: str, name: str) -> dict[str, Any]:
    """Return keyword arguments, written as the inside of a TOML inline table.

    Args:
        text: e.g. `lower_is_better, ignore=["seed"]`; a bare key means true.
        name: the option that holds the text, for errors.

    Examples:
        >>> parse_keywords('lower_is_better, ignore=["a,b", "c"]', "--read")
        {'lower_is_better': True, 'ignore': ['a,b', 'c']}
    """
    pairs = []
    for words in _split_outside(text):
        is_pair = "=" in words.partition('"')[0]
        pairs.append(words if is_pair else f"{words} = true")
    try:
        return tomllib.loads(f"given = {{{', '.join(pairs)}}}")["given"]
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(
            f"{name} takes keywords with values as in TOML, e.g. {name} "
            f"'lower_is_better, ignore=[\"seed\"]', but got {text!r}: {error}."
        ) from error


def _split_outside(text: str) -> list[str]:
    """Split a text at the commas that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += (not quote) * ((character in "[{") - (character in "]}"))
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def place_of(word: str, names: Sequence[str] | None, size: int, kind: str) -> int:
    """Return the index of a source or target, given by its name or its index.

    Args:
        word: the name, or the number where no name is written so.
        names: names, None where there are none.
        size: how many there are.
        kind: `"source"` or `"target"`.
    """
    if names is not None and word in names:
        return list(names).index(word)
    if word.isdecimal() and int(word) < size:
        return int(word)
    if names is not None:
        raise UnknownNameError(kind, word, names)
    raise InvalidInputError(
        f"A {kind} must be a number from 0 to {size - 1}, but got {word!r}."
    )


def source_places(
    words: str | None, names: Sequence[str] | None, size: int
) -> list[int]:
    """Return the indices of sources, given as `a,b,3` by name or index.

    Args:
        words: what the option holds; None for nothing.
        names: names of the sources, None where there are none.
        size: how many sources there are.
    """
    names_given = [word.strip() for word in (words or "").split(",") if word.strip()]
    return [place_of(word, names, size, "source") for word in names_given]


def load_numbers(
    path: Path, names: Sequence[str] | None, size: int, kind: str
) -> NDArray[np.float64]:
    """Return one number per source or target, from a text file.

    Args:
        path: one number per line in the order of the table, or two columns: the name
            (or number) of each, and its number.
        names: names of the sources or targets, None where there are none.
        size: how many there are.
        kind: `"source"` or `"target"`.
    """
    if not path.is_file():
        raise InvalidInputError(f"{path} must be a file of numbers, one per {kind}.")
    frame = read_text(path, header=False).map(label)
    frame = frame.iloc[int(len(frame) == size + 1) :]  # names of the columns
    if frame.shape[1] not in (1, 2) or len(frame) != size:
        raise InvalidInputError(
            f"{path} must hold one number for each of the {size} {kind}s, or a name "
            f"and a number, but has {len(frame)} rows and {frame.shape[1]} columns."
        )
    found: dict[int, float] = {}
    for index, (line, cells) in enumerate(zip(frame.index, frame.values, strict=True)):
        value = number_of(cells[-1])
        if not math.isfinite(value):
            raise InvalidInputError(
                f"{path} must hold finite numbers, but row {line} has {cells[-1]!r}."
            )
        place = index if len(cells) == 1 else place_of(cells[0], names, size, kind)
        if place in found:
            raise InvalidInputError(
                f"{path} must name each {kind} once, but row {line} names "
                f"{cells[0]!r} again."
            )
        found[place] = value
    return np.array([found[place] for place in range(size)])


def read_problem(
    study: Study,
    question: Question,
    *,
    costs: str | Path | None,
    weights: str | Path | None,
) -> CoverProblem:
    """Return the covering problem, with costs and weights from files.

    Args:
        study: what is known.
        question: what is asked of the study.
        costs: file with the cost of each source; empty for none.
        weights: file with the weight of each target, likewise.
    """
    problem = CoverProblem(study, question)
    if costs:
        names, n = problem.source_names, study.n_sources
        numbers = load_numbers(Path(costs), names, n, "source")
        problem = replace(problem, costs=numbers)
    if weights:
        names, n = problem.target_names, study.n_targets
        numbers = load_numbers(Path(weights), names, n, "target")
        problem = replace(problem, target_weights=numbers)
    return problem
