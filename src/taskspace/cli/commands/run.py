"""`taskspace run`: a whole experiment into a run directory."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from taskspace._util import memory as _memory
from taskspace._util.files import checksum, read_sealed, write_sealed
from taskspace.cli.kernels import compile_kernels, method_kernels, system_kernels
from taskspace.cli.options import (
    MemoryOption,
    OverridesOption,
    SchedulerOption,
    TrustOption,
    WorkersOption,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    print_json,
    progress_console,
    shown,
    stage_progress,
)
from taskspace.cli.render.summary import print_summary
from taskspace.errors import DamagedFileError
from taskspace.runs import (
    Experiment,
    RunResult,
    load_experiment,
    run_experiment,
)
from taskspace.runs.opening import open_study

RECORD = "drawn.json"
"""What was drawn, and from which results."""


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            help="A built-in experiment (msd, ...) or a TOML file.", metavar="NAME|FILE"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Run directory; runs/NAME by default.", show_default=False),
    ] = None,
    overrides: OverridesOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    memory: MemoryOption = None,
    trust: TrustOption = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run an experiment: train, evaluate everywhere, cover, draw.

    Finished blocks are kept: run the same command again after an interruption and
    it goes on where it was; what is damaged is computed again. A TOML file of your
    own may name code, which is imported and run.
    """
    _memory.limit(memory)
    loaded = load_experiment(experiment, overrides or (), trust=trust)
    path = out or _default_directory(loaded, bool(overrides))
    with stage_progress() as report:
        needed = method_kernels(loaded.cover.methods)
        compile_kernels(report, [*system_kernels(loaded.built_system), *needed])
        result = run_experiment(
            loaded,
            path,
            workers=workers,
            scheduler=scheduler,
            report=report,
            say=progress_console.print,
        )
        report("draw", 0, 1)
        figures = draw(result)
        report("draw", 1, 1)
    if output == Format.JSON:
        print_json(
            {
                "run": str(result.path),
                "seconds": result.seconds,
                "covers": result.results.to_dict()["covers"],
                "figures": [str(figure) for figure in figures],
                "mended": list(result.mended),
                "trainings_kept": result.n_kept,
                "evaluations_kept": result.n_cells_kept,
                "failures": list(result.results.failures),
            }
        )
        return
    for what in result.mended:
        console.print(f"Mended: {shown(what)}")
    if result.n_kept:
        spent, cells = result.results.spent, result.n_cells_kept
        beside = f" and {cells:,} of {spent.evaluations:,} evaluations" if cells else ""
        console.print(
            f"Reused {result.n_kept:,} of {spent.trainings:,} trainings{beside} that "
            "were in this run already."
        )
    done = "read from" if result.reused else "in"
    print_summary(
        result.path,
        loaded,
        result.results,
        figures,
        f"Run {done} {shown(result.path)} ({result.seconds:.1f} s)",
        loaded.built_system.objective.statement,
    )


def _default_directory(experiment: Experiment, changed: bool) -> Path:
    """`runs/NAME`, or `runs/NAME-xxxxxx` for a changed version of it."""
    if not changed:
        return Path("runs") / experiment.name
    digest = hashlib.sha256(experiment.resolved().to_toml().encode()).hexdigest()
    return Path("runs") / f"{experiment.name}-{digest[:6]}"


def draw(result: RunResult) -> list[Path]:
    """The figures of a run, drawn where they are not there as they were drawn.

    Args:
        result: what was run.
    """
    folder = result.path / "figures"
    drawn = _drawn(result.path)
    if drawn is not None:
        return [file for file in drawn if file.suffix == ".png"]
    from taskspace.show import save_figures  # matplotlib takes a while to load

    study = open_study(result.path)
    (folder / RECORD).unlink(missing_ok=True)
    figures = save_figures(study, result.results, folder)
    files = {file for figure in figures for file in folder.glob(f"{figure.stem}.*")}
    record = {
        "results": _checksum(result.path / "results.json"),
        "files": {file.name: _checksum(file) for file in sorted(files)},
    }
    write_sealed(folder / RECORD, record)
    return figures


def _drawn(path: Path) -> list[Path] | None:
    """The files of figures of these results, None if one is missing or damaged."""
    folder = path / "figures"
    try:
        record = read_sealed(folder / RECORD)
        files = {folder / Path(name).name: c for name, c in record["files"].items()}
        if record["results"] != _checksum(path / "results.json"):
            return None
        return list(files) if all(_checksum(f) == c for f, c in files.items()) else None
    except (DamagedFileError, OSError, AttributeError, KeyError, TypeError):
        return None


def _checksum(file: Path) -> str:
    return checksum(file.read_bytes())
