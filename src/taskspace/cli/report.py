"""`taskspace report`: the summary and the figures of a run or an archive."""

import json
from pathlib import Path
from typing import Annotated

import typer

from taskspace.cli.inputs import load_table
from taskspace.cli.output import Format, FormatOption, print_json, stage_progress
from taskspace.cli.run import print_summary, without_assignment
from taskspace.errors import InvalidInputError
from taskspace.runs.answer import answer


def report(
    path: Annotated[Path, typer.Argument(help="A run or an archive of one.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the figures; by default the run's own."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Draw the figures of a run again, and print its summary."""
    with stage_progress() as progress:
        loaded = load_table(path)
        if loaded.experiment is None:
            raise InvalidInputError(
                f"{path} is a bare matrix; a report needs a run or an archive of one. "
                f"Try: taskspace cover {path} --epsilon 1"
            )
        folder = out or (path / "figures" if path.is_dir() else _beside(path))
        stored = path / "results.json"
        if stored.is_file():
            results = json.loads(stored.read_text())
        else:
            results = answer(loaded.table, loaded.experiment, progress)
        progress("draw", 0, 1)
        from taskspace.show import save_figures  # matplotlib takes a while to load

        figures = save_figures(loaded.experiment, results, folder)
        progress("draw", 1, 1)
    if output == Format.JSON:
        covers = [without_assignment(cover) for cover in results["covers"]]
        print_json({"covers": covers, "figures": [str(file) for file in figures]})
        return
    print_summary(path, loaded.experiment, results, figures)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-figures")
