"""Options that several commands share, each with one wording, and what they name.

A command takes dataclasses of options: its own, and the groups `Asking` and `Reading`.
`as_command` shows their fields to the command line as options, and prints the answer.
"""

import functools
import inspect
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer
from numpy.typing import NDArray

from taskspace.cli.output import Answer, Format, progress_console, shown
from taskspace.cover.problem import CoverProblem
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import label, number_of
from taskspace.performance.io.text import read_text
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.runs.opening import check_exists, is_run, open_study


def option(
    text: str, default: Any = None, *, name: str | None = None, **settings: Any
) -> Any:
    """Return an option as a field of a dataclass of options.

    Args:
        text: the help.
        default: its value if left out; `...` for one that must be given.
        name: `--name`, or `--name/--other` of a switch; that of the field by default.
        **settings: see `typer.Option`.
    """
    names = () if name is None else (name,)
    return _field(typer.Option(*names, help=text, **settings), default)


def argument(text: str, default: Any = ..., **settings: Any) -> Any:
    """Return an argument, which has no name to type, as a field.

    Args:
        text: the help.
        default: its value if left out; `...` for one that must be given.
        **settings: see `typer.Argument`.
    """
    return _field(typer.Argument(help=text, **settings), default)


def _field(words: Any, default: Any) -> Any:
    return field(default=MISSING if default is ... else default, metadata={"": words})


def _shared(text: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=text, show_default=False, **settings)


SeedOption = Annotated[int, typer.Option(help="Seed of random choices.")]
OverridesOption = Annotated[
    list[str] | None,
    _shared(
        "Replace a value, e.g. --set trainer.noise=0.2 or --set space.n=20.",
        "--set",
        metavar="KEY=VALUE",
    ),
]
WorkersOption = Annotated[
    int | None,
    _shared("Processes; 0 works in this one. By default what suits the work."),
]
SchedulerOption = Annotated[
    str | None,
    _shared("Address of a Dask scheduler.", metavar="ADDRESS"),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import code that a run names: it may do anything.",
    ),
]


@dataclass(frozen=True)
class Asking:
    """What a command asks."""

    ask: str | None = option(
        "The question, e.g. 'regret <= 0.2' or 'score >= 475'. If left out, that of "
        "the run's experiment.",
        metavar="QUESTION",
    )

    def question(self, path: Path, *, needs_bound: bool = True) -> Question:
        """Return what is asked; if that is left out, what the run's experiment asks.

        Args:
            path: a run or any other file.
            needs_bound: the command needs a tolerance or a level.
        """
        if self.ask is None:
            return own_question(path, needs_bound)
        asked = Question(self.ask)
        if needs_bound and asked.epsilon is None:
            raise InvalidInputError(
                f"--ask must have a bound, e.g. --ask '{self.ask.strip()} <= 0.2', but "
                f"got {self.ask!r}."
            )
        return asked


@dataclass(frozen=True)
class Reading:
    """How a matrix file is read, and whether code that a run names is trusted."""

    read: str | None = option(
        "How to read a matrix file, as keywords of ts.open: 'lower_is_better, "
        'ignore=["seed"]\'.',
        metavar="KEY=VALUE,...",
    )
    trust: TrustOption = False

    def study(self, path: Path) -> Study:
        """Open a run or a matrix file.

        Args:
            path: what the command names.
        """
        return open_study(path, trust=self.trust, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """How a matrix file is read, as `taskspace.open` takes it."""
        return {} if self.read is None else parse_keywords(self.read, "--read")


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as parameters that Typer understands."""
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for each in fields(group):
        hint, default = hints[each.name], each.default
        if words := each.metadata.get(""):
            if default is False and not words.param_decls:
                words.param_decls = (f"--{each.name.replace('_', '-')}",)  # no --no-
            hint = Annotated[hint, words]
        parameters.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=hint,
            )
        )
    return parameters


@dataclass(frozen=True)
class _Printing:
    output: Format = option(
        "text for people, json for programs (on stdout).", Format.TEXT, name="--format"
    )


def as_command(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """Return a command whose groups of options the command line sees one by one.

    Args:
        function: its arguments are dataclasses of options. What it returns is printed
            as `--format` says.
    """
    groups = get_type_hints(function)
    groups.pop("return")
    parameters = [p for g in (*groups.values(), _Printing) for p in _parameters(g)]

    @functools.wraps(function)
    def called(output: Format, **values: Any) -> None:
        arguments = {
            name: group(**{each.name: values[each.name] for each in fields(group)})
            for name, group in groups.items()
        }
        answer = function(**arguments)
        if answer is not None:
            answer.give(output)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def own_question(path: Path, needs_bound: bool) -> Question:
    """Return the question of a run's experiment, and print it.

    Of several questions the worst policy's regret counts, else the first.

    Args:
        path: a run or any other file.
        needs_bound: the command needs a tolerance or a level; else the regret is asked
            of what has no question of its own.
    """
    check_exists(path)
    questions: list[Question] = []
    if is_run(path):
        from taskspace.runs.folder import RunFolder  # a matrix needs none of it

        run = RunFolder.open(path)
        questions = list(run.experiment.ask)
        if run.is_selection and "ask" in run.info.notes:
            questions[:1] = [Question(run.info.notes["ask"])]
    if not questions and needs_bound:
        raise InvalidInputError(
            f"--ask is needed, e.g. --ask 'regret <= 0.2': {path} has no question of "
            "its own."
        )
    plain = Question("regret")
    usual = [question for question in questions if question.at(None) == plain]
    asked = next(iter([*usual, *questions]), plain)
    if questions:
        progress_console.print(f"As in the run's experiment: --ask '{shown(asked)}'.")
    return asked


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
