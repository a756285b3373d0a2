"""`taskspace report`: the summary and the figures of a run or an archive."""

from dataclasses import dataclass
from pathlib import Path

from taskspace._util.files import inside
from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, show_notes, stage_progress
from taskspace.cli.render.summary import print_summary
from taskspace.errors import DamagedFileError, InvalidInputError
from taskspace.performance.study import Study
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results, answer

EXAMPLES = (
    "taskspace report runs/msd-lqr",
    "taskspace report examples/data/cartpole.npz",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace report` may be told."""

    path: Path = argument("A run or an archive of one.")
    out: Path | None = option("Folder for the figures; by default the run's own.")


@as_command
def report(options: Options) -> Answer:
    """Draw the figures of a run again, and print its summary."""
    path = options.path
    with stage_progress() as progress:
        study = open_study(path)
        experiment = study.experiment
        if experiment is None:
            raise InvalidInputError(
                f"{path} is a bare matrix; a report needs a run or an archive of one. "
                f"Try: taskspace cover {path} --epsilon 1"
            )
        results = _stored(path) or answer(
            study.table, experiment, progress, solved_return=study.solved_return
        )
        progress("draw", 0, 1)
        figures, trouble = _draw(path, options.out, study, results)
        progress("draw", 1, 1)

    def show() -> None:
        show_notes(study.notes)
        cost = str(study.table.attrs.get("cost", ""))
        print_summary(path, experiment, results, figures, trouble, cost)

    return Answer(
        lambda: {
            "covers": results.to_dict()["covers"],
            "figures": [str(file) for file in figures],
            "notes": study.notes,
        },
        show,
    )


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
    from taskspace.show.figures.coverage import save_figures  # matplotlib is slow

    folder = out or path.with_name(f"{path.stem}-figures")
    if out is None and path.is_dir():
        folder = inside(path, path / "figures")
    try:
        return save_figures(study, results, folder), ""
    except OSError as error:
        reason = error.strerror or str(error)
        return [], f"No figures: {folder} cannot be written ({reason}). Use --out."
