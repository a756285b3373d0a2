"""`taskspace report`: the summary and the figures of a run or an archive."""

from pathlib import Path
from typing import Annotated

import typer

from taskspace._util.files import inside
from taskspace.cli.output import (
    Format,
    FormatOption,
    print_json,
    show_notes,
    stage_progress,
)
from taskspace.cli.render.summary import print_summary
from taskspace.errors import DamagedFileError, InvalidInputError
from taskspace.performance.study import Study
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results, answer

EXAMPLES = (
    "taskspace report runs/msd-lqr",
    "taskspace report examples/data/cartpole.npz",
)


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
        study = open_study(path)
        if study.experiment is None:
            raise InvalidInputError(
                f"{path} is a bare matrix; a report needs a run or an archive of one. "
                f"Try: taskspace cover {path} --epsilon 1"
            )
        results = _stored(path)
        if results is None:
            results = answer(
                study.table,
                study.experiment,
                progress,
                solved_return=study.solved_return,
            )
        progress("draw", 0, 1)
        figures, trouble = _draw(path, out, study, results)
        progress("draw", 1, 1)
    if output == Format.JSON:
        covers = results.to_dict()["covers"]
        files = [str(file) for file in figures]
        print_json({"covers": covers, "figures": files, "notes": study.notes})
    else:
        show_notes(study.notes)
        cost = str(study.table.attrs.get("cost", ""))
        print_summary(path, study.experiment, results, figures, trouble, cost)


def _stored(path: Path) -> Results | None:
    """Return the results of a run, None for an archive or a run that has none yet."""
    stored = path / "results.json"
    if not stored.exists():
        return None
    try:
        return Results.load(stored)
    except DamagedFileError as error:
        raise InvalidInputError(
            f"{error} Mend it with: taskspace run {path / 'experiment.toml'} --out "
            f"{path}"
        ) from error


def _draw(
    path: Path, out: Path | None, study: Study, results: Results
) -> tuple[list[Path], str]:
    """Draw the figures; where they cannot be written, what was in the way."""
    from taskspace.show.figures.coverage import (
        save_figures,
    )  # matplotlib takes a while to load

    folder = out or (path / "figures" if path.is_dir() else _beside(path))
    if out is None and path.is_dir():
        inside(path, folder)
    try:
        files = save_figures(study, results, folder)
    except OSError as error:
        reason = error.strerror or str(error)
        return [], f"No figures: {folder} cannot be written ({reason}). Use --out."
    return files, ""


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-figures")
