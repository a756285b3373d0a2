"""Groups of options that several commands share, each spelled out once.

A command takes a group as one argument; `grouped` shows its fields to the command line
as options of their own.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from taskspace.cli.asked import asked_question
from taskspace.cli.inputs import load_study, reading_options
from taskspace.cli.options import (
    ContextsOption,
    CriterionOption,
    HeaderOption,
    IgnoreOption,
    JudgeOption,
    LowerIsBetterOption,
    MissingOption,
    RowNamesOption,
    TargetsOption,
    TrustOption,
)
from taskspace.performance.study import Study
from taskspace.questions import Question

__all__ = ["NO_ASKING", "PLAIN", "Asking", "Reading", "grouped"]


@dataclass(frozen=True)
class Asking:
    """By which criterion a command asks, and which policy of a family counts."""

    criterion: CriterionOption = None
    judge: JudgeOption = None

    def question(
        self, path: Path, epsilon: float | None, *, any_epsilon: bool = False
    ) -> Question:
        """Return what is asked; what is left out is as in the run's experiment.

        Args:
            path: a run, an archive, or any other file.
            epsilon: `--epsilon`, None if left out.
            any_epsilon: the command finds tolerances by itself, so none is needed.
        """
        return asked_question(
            path, self.criterion, self.judge, epsilon, any_epsilon=any_epsilon
        )


@dataclass(frozen=True)
class Reading:
    """How a matrix file is read, and whether code that a run names is trusted."""

    lower_is_better: LowerIsBetterOption = None
    contexts: ContextsOption = None
    targets: TargetsOption = None
    ignore: IgnoreOption = None
    missing: MissingOption = "error"
    header: HeaderOption = None
    row_names: RowNamesOption = None
    trust: TrustOption = False

    def study(self, path: Path) -> Study:
        """Open a run directory, an archive or a matrix file.

        Args:
            path: what the command names.
        """
        return load_study(path, **vars(self))

    @property
    def options(self) -> dict[str, Any]:
        """How a matrix file is read, as `taskspace.open` takes it; no defaults."""
        return reading_options(**self.record)

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


NO_ASKING, PLAIN = Asking(), Reading()
"""What stands in a signature; the command line fills in what it was given."""


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take groups: their fields become options of the command line.

    Args:
        command: a function some of whose arguments are dataclasses of options.
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
                default=field.default,
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
