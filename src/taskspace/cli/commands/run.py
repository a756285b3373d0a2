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
from taskspace.cli.output import Answer, stage_progress
from taskspace.runs import load_experiment, run_experiment

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
    out = options.out or Path("runs") / experiment.name
    if options.out is None and overrides:  # a changed version of it
        text = experiment.resolved().to_toml().encode()
        out = out.with_name(f"{out.name}-{hashlib.sha256(text).hexdigest()[:6]}")
    with stage_progress() as report:
        result = run_experiment(
            experiment,
            out,
            workers=options.workers,
            scheduler=options.scheduler,
            report=report,
        )
        report("draw", 0, 1)
        from taskspace.show.curves import draw_run  # matplotlib is slow

        figures = [str(file) for file in draw_run(result.path, result.results)]
        report("draw", 1, 1)
    drawn = [f"Figure {file}" for file in figures]
    text = "\n".join([str(result), *drawn, result.next_command])
    return Answer(result.to_dict() | {"figures": figures}, text)
