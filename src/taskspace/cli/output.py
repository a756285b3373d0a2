"""What every command prints: its answer and its progress; which files it may write."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from taskspace._util.clock import compilations_told
from taskspace._util.files import plain
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress


class Format(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


LOG_SECONDS = 30.0
"""How often a command says where it is, in a file or a pipe."""

progress_console = Console(stderr=True, emoji=False, markup=False, highlight=False)


def shown(value: object) -> str:
    """Return a user's text as it is, without control or direction characters.

    Args:
        value: a name, a path, or a sentence with some.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in str(value)
    )


@dataclass(frozen=True)
class Answer:
    """What a command found, for programs and for people.

    Args:
        record: plain values, or an object whose `to_dict` returns them.
        text: what is printed for people; `str` of it, line by line.
        notes: sentences that a person should know, printed last.
        code: exit code of the command.
    """

    record: Any
    text: object
    notes: Iterable[str] = ()
    code: int = 0

    def give(self, output: Format) -> None:
        """Print the answer: one JSON value on stdout and nothing else, or words.

        Args:
            output: which of both.
        """
        if output == Format.JSON:
            record = self.record
            values = record.to_dict() if hasattr(record, "to_dict") else record
            print(json.dumps(plain(values), allow_nan=False))
        else:
            lines = str(self.text).split("\n")
            for line in [*lines, *(f"Note: {note}" for note in self.notes)]:
                print(shown(line))
        if self.code:
            raise typer.Exit(self.code)


def writable(path: Path | None) -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Args:
        path: where a result shall go; None for nowhere.
    """
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise InvalidInputError(f"{path} must be a file, but is a directory.")
    if not folder.is_dir():
        raise InvalidInputError(
            f"{path} cannot be written: the directory {folder} does not exist."
        )
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"{path} cannot be written: {folder} is read-only.")


def figure_file(path: Path | None) -> None:
    """Refuse a picture that cannot be written, before any work is done for it.

    Args:
        path: where a picture shall go; None for nowhere.
    """
    if path is not None and path.suffix not in (".png", ".pdf", ".svg"):
        raise InvalidInputError(
            f"A figure must end in .png, .pdf or .svg, but got {path.name}."
        )
    writable(path)


def search_progress(
    report: Progress, time_limit: float, interval: str = "[{:g}, {:g}]"
) -> Progress:
    """Show a search as a bar of the time it may take, with what is known in the note.

    Args:
        report: draws the bar.
        time_limit: seconds that the search may take.
        interval: how to write a lower bound and the best that is found.
    """
    began = time.monotonic()

    def told(stage: str, done: float, total: float, note: str = "", /) -> None:
        seconds = int(time.monotonic() - began)
        bounds = interval.format(done, total)
        report(
            stage, min(seconds, int(time_limit)), int(time_limit), f"{bounds} {note}"
        )

    return told


@contextmanager
def stage_progress() -> Iterator[Progress]:
    """Show a progress bar per stage, with ETA, on stderr; in a log now and then a line.

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
    # Steps may take minutes: the speed is that of the last ten.
    with Bars(
        *columns, console=progress_console, speed_estimate_period=600.0
    ) as progress:
        tasks: dict[str, TaskID] = {}
        last_line = time.monotonic()

        def report(stage: str, done: float, total: float, note: str = "", /) -> None:
            nonlocal last_line
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total, note=note)
            progress.update(tasks[stage], completed=done, total=total, note=note)
            if (
                progress_console.is_terminal
                or time.monotonic() - last_line < LOG_SECONDS
            ):
                return
            last_line = time.monotonic()  # bars are drawn on terminals only
            bar = progress.tasks[list(tasks).index(stage)]
            spent, ahead = (
                "?" if seconds is None else str(timedelta(seconds=int(seconds)))
                for seconds in (bar.elapsed, bar.time_remaining)
            )
            progress_console.print(
                f"{stage} {done:g}/{total:g}, {spent} passed, ETA {ahead} {note}",
                markup=False,
                soft_wrap=True,
            )

        with _compilations_shown(report):
            yield report


@contextmanager
def _compilations_shown(report: Progress) -> Iterator[None]:
    """Show a bar for kernels that are compiled, once after an installation."""
    if "numba" not in sys.modules:
        yield  # nothing here needs kernels
        return
    n_done = n_begun = 0

    def tell(name: str, is_done: bool) -> None:
        nonlocal n_done, n_begun
        n_done, n_begun = n_done + is_done, n_begun + (not is_done)
        report("compile", n_done, n_begun, f"{name}, once after an installation")

    with compilations_told(tell):
        yield
