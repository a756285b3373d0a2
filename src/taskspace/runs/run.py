"""A whole experiment in one call."""

from collections.abc import Sequence
from pathlib import Path

from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.runs.execute import run_experiment
from taskspace.runs.experiment import Experiment, load_experiment
from taskspace.runs.opening import open_study

__all__ = ["run"]


def run(
    experiment: Experiment | str | Path,
    out: str | Path,
    *,
    overrides: Sequence[str] = (),
    workers: int | None = None,
    scheduler: str | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Run an experiment into a directory: train, evaluate everywhere, cover.

    What is there already is kept, so the same call resumes a run.

    Args:
        experiment: a built-in name, the path of a TOML file, or the experiment itself.
        out: the run directory.
        overrides: `a.b=value` each, of a name or a file; see `load_experiment`.
        workers: processes; 0 works in this one.
        scheduler: address of a Dask scheduler, or `"local"` to start one here.
        trust: import what an experiment in a run directory names.
        progress: told about progress.

    Returns:
        The study of the run; its covers are in `study.results`.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(str(experiment), overrides, trust=trust)
    run_experiment(
        experiment, out, workers=workers, scheduler=scheduler, report=progress
    )
    return open_study(out, trust=True)
