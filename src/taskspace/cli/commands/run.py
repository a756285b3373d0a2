"""`taskspace run`: a whole experiment into a run directory."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from taskspace.cli.options import (
    OverridesOption,
    SchedulerOption,
    TrustOption,
    WorkersOption,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import (
    Answer,
    console,
    progress_console,
    shown,
    stage_progress,
)
from taskspace.cli.render.summary import print_summary
from taskspace.runs import Experiment, RunResult, load_experiment, run_experiment

EXAMPLES = (
    "taskspace run msd-lqr",
    "taskspace run experiment.toml --set space.n=20 --workers 2",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace run` may be told."""

    experiment: str = argument(
        "A built-in experiment (msd, ...) or a TOML file.", metavar="NAME|FILE"
    )
    out: Path | None = option("Run directory; runs/NAME by default.")
    overrides: OverridesOption = None
    workers: WorkersOption = None
    scheduler: SchedulerOption = None
    trust: TrustOption = False


@as_command
def run(options: Options) -> Answer:
    """Run an experiment: train, evaluate everywhere, cover, draw.

    Finished blocks are kept: run the same command again after an interruption and
    it goes on where it was; what is damaged is computed again. A TOML file of your
    own may name code, which is imported and run.
    """
    overrides = options.overrides or ()
    experiment = load_experiment(options.experiment, overrides, trust=options.trust)
    with stage_progress() as report:
        result = run_experiment(
            experiment,
            options.out or _default_directory(experiment, bool(overrides)),
            workers=options.workers,
            scheduler=options.scheduler,
            report=report,
            say=progress_console.print,
        )
        report("draw", 0, 1)
        from taskspace.show.figures.coverage import draw_run  # matplotlib is slow

        figures = draw_run(result.path, result.results)
        report("draw", 1, 1)
    found = result.results.to_dict()
    return Answer(
        lambda: {
            "run": str(result.path),
            "seconds": result.seconds,
            **{key: found[key] for key in ("covers", "schedules")},
            "figures": [str(figure) for figure in figures],
            "mended": list(result.mended),
            "trainings_kept": result.n_kept,
            "evaluations_kept": result.n_cells_kept,
            "failures": list(result.results.failures),
        },
        lambda: _show(result, experiment, figures),
    )


def _show(result: RunResult, experiment: Experiment, figures: list[Path]) -> None:
    """Print the run: what was kept, what was found, and the next command."""
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
        experiment,
        result.results,
        figures,
        f"Run {done} {shown(result.path)} ({result.seconds:.1f} s)",
        experiment.built_system.objective.statement,
    )


def _default_directory(experiment: Experiment, changed: bool) -> Path:
    """`runs/NAME`, or `runs/NAME-xxxxxx` for a changed version of it."""
    if not changed:
        return Path("runs") / experiment.name
    digest = hashlib.sha256(experiment.resolved().to_toml().encode()).hexdigest()
    return Path("runs") / f"{experiment.name}-{digest[:6]}"
