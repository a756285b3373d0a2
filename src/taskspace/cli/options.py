"""Options that several commands share, each with one wording, and groups of them.

A command takes a dataclass of its own options and the groups `Asking` and `Reading`;
`grouped` shows the fields of each to the command line as options.
"""

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from taskspace._util.memory import size_in_bytes
from taskspace.cli.reading import (
    choose_question,
    column_roles,
    missing_cells,
    split_names,
    yes_or_no,
)
from taskspace.criteria import CRITERIA
from taskspace.measured import ErrorBounds
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.runs.opening import NOT_GIVEN, open_study
from taskspace.systems.base import MEASURES


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return an option whose default is not shown, as most of ours.

    Args:
        text: the help.
        *names: `--name`; that of the field if left out.
        **settings: see `typer.Option`.
    """
    return typer.Option(*names, help=text, show_default=False, **settings)


EpsilonOption = Annotated[
    float | None, option("Tolerance; that of the run's experiment if left out.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of random choices.")]
OverridesOption = Annotated[
    list[str] | None,
    option(
        "Replace a value, e.g. --set trainer.noise=0.2 or --set space.n=20.",
        "--set",
        metavar="KEY=VALUE",
    ),
]
WorkersOption = Annotated[
    int | None,
    option("Processes; 0 works in this one. By default what suits the work."),
]
SchedulerOption = Annotated[
    str | None,
    option(
        "Address of a Dask scheduler, or local to start one here.", metavar="ADDRESS"
    ),
]
MemoryOption = Annotated[
    int | None,
    option(
        "Memory that may be used, e.g. 4G; by default all that there is.",
        metavar="SIZE",
        parser=size_in_bytes,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import code that a run or an archive names: it may do anything.",
    ),
]


@dataclass(frozen=True)
class Asking:
    """By which criterion a command asks, and which policy of a family counts."""

    criterion: Annotated[
        str | None,
        option(
            f"What loss means: {', '.join(CRITERIA)}. If left out, that of the run's "
            "experiment, else regret."
        ),
    ] = None
    judge: Annotated[
        str | None,
        option(
            "Which policy of each source's family counts: worst, best. If left out, "
            "that of the run's experiment, else worst."
        ),
    ] = None
    measure: Annotated[
        str | None,
        option(
            "With --criterion floor, what must be good enough in place of J: "
            f"{', '.join(MEASURES)}."
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        option(
            "A further demand, e.g. 'floor(disk_margin) <= -0.5'; may be repeated. A "
            "source serves a target if it meets all of them.",
            "--and",
        ),
    ] = None
    error: Annotated[
        str | None,
        option(
            "How far the true context may lie from the measured one, per axis, in its "
            "unit or in percent: a source must serve every context within it.",
            metavar="AXIS=5%,AXIS=20",
        ),
    ] = None

    def question(
        self, path: Path, epsilon: float | None, *, any_epsilon: bool = False
    ) -> Question:
        """Return what is asked; what is left out is as in the run's experiment.

        Args:
            path: a run, an archive, or any other file.
            epsilon: `--epsilon`, None if left out.
            any_epsilon: the command finds tolerances by itself, so none is needed.
        """
        asked = choose_question(
            path,
            self.criterion,
            self.judge,
            epsilon,
            measure=self.measure,
            also=self.also or (),
            any_epsilon=any_epsilon,
        )
        if self.error is None:
            return asked
        return asked.measured_with(ErrorBounds.parse(self.error))


@dataclass(frozen=True)
class Reading:
    """How a matrix file is read, and whether code that a run names is trusted."""

    lower_is_better: Annotated[
        bool | None,
        option(
            "The matrix holds costs, or scores.", "--lower-is-better/--higher-is-better"
        ),
    ] = None
    contexts: Annotated[
        Path | None,
        option(
            "A CSV, TSV or Parquet file with the contexts of a matrix, one per target."
        ),
    ] = None
    targets: Annotated[str | None, option("Targets of a matrix, by name: a,b,c.")] = (
        None
    )
    ignore: Annotated[
        str | None, option("Columns of a matrix that are no targets: seed,algo.")
    ] = None
    missing: Annotated[
        str, typer.Option(help="Empty cells of a matrix: error, not-served, unknown.")
    ] = "error"
    header: Annotated[
        str | None,
        option("Whether the first row of a matrix file holds names.", metavar="yes|no"),
    ] = None
    row_names: Annotated[
        str | None,
        option(
            "Whether the first column of a matrix file holds names.", metavar="yes|no"
        ),
    ] = None
    long: Annotated[
        str | None,
        option(
            "Columns of a table with one row per run: "
            "source=algorithm,target=instance_id,value=runtime."
        ),
    ] = None
    trust: TrustOption = False

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Reading":
        """Return how the matrix of a saved cover was read.

        Args:
            record: what `record` returned.
        """
        return cls(**{f.name: record[f.name] for f in fields(cls) if f.name in record})

    def study(self, path: Path) -> Study:
        """Open a run directory, an archive or a matrix file.

        Args:
            path: what the command names.
        """
        return open_study(path, trust=self.trust, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """How a matrix file is read, as `taskspace.open` takes it; no defaults."""
        options = {
            "lower_is_better": self.lower_is_better,
            "contexts": None if self.contexts is None else str(self.contexts),
            "targets": None if self.targets is None else split_names(self.targets),
            "ignore": split_names(self.ignore or ""),
            "missing": missing_cells(self.missing),
            "header": yes_or_no(self.header, "--header"),
            "row_names": yes_or_no(self.row_names, "--row-names"),
            "long": None if self.long is None else column_roles(self.long),
        }
        return {k: v for k, v in options.items() if v not in NOT_GIVEN}

    @property
    def record(self) -> dict[str, Any]:
        """The words of the command line, by name, for files and further commands."""
        words = {name: value for name, value in vars(self).items() if name != "trust"}
        return words | {"contexts": self.contexts and str(self.contexts)}

    @property
    def again(self) -> dict[str, Any]:
        """What a further command must be told to read the same; None is left out."""
        said = {k: v for k, v in self.record.items() if v not in (None, "error")}
        if said.get("lower_is_better") is False:
            said["higher_is_better"] = not said.pop("lower_is_better")
        return said


def _default(field: Field[Any]) -> Any:
    """Return the default of an option, and mark those that must be typed."""
    return inspect.Parameter.empty if field.default is MISSING else field.default


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose groups of options the command line sees one by one.

    Args:
        command: a function whose arguments are options, or dataclasses of options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=_default(field),
                annotation=kinds[field.name],
            )
            for field in fields(groups[name])
        ]

    @functools.wraps(command)
    def called(**values: Any) -> Any:
        for name, group in groups.items():
            own = [field.name for field in fields(group)]
            values[name] = group(**{field: values.pop(field) for field in own})
        return command(**values)

    # Options with defaults follow those without, as Python wants it.
    parameters.sort(key=lambda p: p.default is not inspect.Parameter.empty)
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def question_options(question: Question) -> str:
    """Return the options that ask a question again, for the next command to try.

    Args:
        question: what was asked.
    """
    # All of it: what is left out would be that of the run's experiment.
    words = (
        f"--epsilon {_shortest(question.epsilon)} --criterion {question.criterion} "
        f"--judge {question.judge}"
    )
    if "measure" in question.to_dict():
        words += f" --measure {question.measure}"
    for demand in question.also:
        inside = f"({demand.measure})" if "measure" in demand.to_dict() else ""
        text = f"{demand.criterion}{inside} <= {_shortest(demand.epsilon)}"
        if demand.judge != "worst":
            text += f" {demand.judge}"
        words += f" --and {shlex.quote(text)}"
    if question.error is not None:
        words += f" --error {question.error.typed}"
    return words


def command_options(path: Path, question: Question | None, **values: Any) -> str:
    """Return a path and the options that ask the same of it again, as a shell does.

    Args:
        path: the run or file.
        question: what was asked, None for a set-cover file.
        **values: the other options by their names in Python; None and False are left
            out, and True is a flag.
    """
    words = [shlex.quote(str(path))]
    if question is not None:
        words.append(question_options(question))
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(shlex.quote(str(value)))
    return " ".join(words)


def _shortest(value: float) -> str:
    """Return the shortest text that is read as the same number."""
    text = f"{value:g}"
    return text if float(text) == value else repr(float(value))
