"""Options that several commands share, each with one wording."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from taskspace._util.memory import size_in_bytes
from taskspace.criteria import CRITERIA
from taskspace.questions import Question

__all__ = [
    "ContextsOption",
    "CriterionOption",
    "EpsilonOption",
    "HeaderOption",
    "IgnoreOption",
    "JudgeOption",
    "LowerIsBetterOption",
    "MemoryOption",
    "MissingOption",
    "OverridesOption",
    "RowNamesOption",
    "SchedulerOption",
    "SeedOption",
    "TargetsOption",
    "TrustOption",
    "WorkersOption",
    "command_options",
    "question_options",
]

CriterionOption = Annotated[
    str | None,
    typer.Option(
        help=f"What loss means: {', '.join(CRITERIA)}. If left out, that of the run's "
        "experiment, else regret.",
        show_default=False,
    ),
]
JudgeOption = Annotated[
    str | None,
    typer.Option(
        help="Which policy of each source's family counts: worst, best. If left out, "
        "that of the run's experiment, else worst.",
        show_default=False,
    ),
]
EpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="Tolerance; that of the run's experiment if left out.",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of random choices.")]
LowerIsBetterOption = Annotated[
    bool | None,
    typer.Option(
        "--lower-is-better/--higher-is-better",
        help="The matrix holds costs, or scores.",
        show_default=False,
    ),
]
ContextsOption = Annotated[
    Path | None,
    typer.Option(
        help="A CSV, TSV or Parquet file with the contexts of a matrix, one a target.",
        show_default=False,
    ),
]
TargetsOption = Annotated[
    str | None,
    typer.Option(help="Targets of a matrix, by name: a,b,c.", show_default=False),
]
IgnoreOption = Annotated[
    str | None,
    typer.Option(
        help="Columns of a matrix that are no targets: seed,algo.", show_default=False
    ),
]
MissingOption = Annotated[
    str, typer.Option(help="Empty cells of a matrix: error, not-served.")
]
HeaderOption = Annotated[
    str | None,
    typer.Option(
        help="Whether the first row of a matrix file holds names.",
        metavar="yes|no",
        show_default=False,
    ),
]
RowNamesOption = Annotated[
    str | None,
    typer.Option(
        help="Whether the first column of a matrix file holds names.",
        metavar="yes|no",
        show_default=False,
    ),
]
OverridesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Replace a value, e.g. --set trainer.noise=0.2 or --set space.n=20.",
        metavar="KEY=VALUE",
        show_default=False,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Processes; 0 works in this one. By default what suits the work.",
        show_default=False,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, or local to start one here.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        help="Memory that may be used, e.g. 4G; by default all that there is.",
        metavar="SIZE",
        parser=size_in_bytes,
        show_default=False,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import code that a run or an archive names: it may do anything.",
    ),
]


def question_options(question: Question) -> str:
    """The options that ask a question again, for the next command to try.

    Args:
        question: what was asked.
    """
    # All of it: what is left out would be that of the run's experiment.
    return (
        f"--epsilon {_shortest(question.epsilon)} --criterion {question.criterion} "
        f"--judge {question.judge}"
    )


def command_options(path: Path, question: Question | None, **given: Any) -> str:
    """A path and the options that ask the same of it again, as a shell takes them.

    Args:
        path: the run or file.
        question: what was asked, None for a set-cover file.
        **given: the other options by their names in Python; None and False are left
            out, and True is a flag.
    """
    words = [shlex.quote(str(path))]
    if question is not None:
        words.append(question_options(question))
    for name, value in given.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(shlex.quote(str(value)))
    return " ".join(words)


def _shortest(value: float) -> str:
    """The shortest text that is read as the same number."""
    text = f"{value:g}"
    return text if float(text) == value else repr(float(value))
