"""What every command shares: output formats, progress, and how errors look."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = [
    "Format",
    "FormatOption",
    "console",
    "number",
    "print_json",
    "stage_progress",
]


class Format(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[
    Format,
    typer.Option("--format", help="text for people, json for programs (on stdout)."),
]

console = Console()
progress_console = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout and nothing else."""
    print(json.dumps(value, allow_nan=False))


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}g}"


@contextmanager
def stage_progress() -> Iterator[Any]:
    """A progress bar a stage, with ETA, on stderr.

    Yields:
        A function of a stage's name, how many pieces are done, of how many, and a
        note on what is going on.
    """
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=progress_console) as progress:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int, note: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total, note=note)
            progress.update(tasks[stage], completed=done, total=total, note=note)

        yield report
