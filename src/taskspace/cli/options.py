"""Options that several commands share, each with one wording, and groups of them.

A command takes dataclasses of options: its own, and the groups `Asking` and `Reading`.
`as_command` shows their fields to the command line as options, and prints the answer.
"""

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from taskspace.cli.output import Answer, Format
from taskspace.cli.reading import own_question, parse_keywords
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.runs.opening import open_study


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


def question_options(question: Question) -> str:
    """Return the option that asks a question again, for the next command to try.

    Args:
        question: what was asked.
    """
    return f"--ask {shlex.quote(str(question))}"


def command_options(path: Path, question: Question, **values: Any) -> str:
    """Return a path and the options that ask the same of it again, as a shell does.

    Args:
        path: the run or file.
        question: what was asked.
        **values: the other options by their names in Python; None and False are left
            out, and True is a flag.
    """
    words = [shlex.quote(str(path)), question_options(question)]
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(shlex.quote(str(value)))
    return " ".join(words)
