"""`taskspace select`: train only what the answer needs."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from taskspace.cli.options import (
    Asking,
    OverridesOption,
    SchedulerOption,
    TrustOption,
    WorkersOption,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import Answer, stage_progress
from taskspace.errors import InvalidInputError
from taskspace.runs import load_experiment, run_selection
from taskspace.runs.experiment import SelectSpec
from taskspace.runs.opening import open_study
from taskspace.selection import SELECTORS

EXAMPLES = (
    "taskspace select msd-lqr --ask 'regret <= 0.5'",
    "taskspace select cartpole --ask 'score >= 475'",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace select` may be told."""

    experiment: str = argument(
        "A TOML file, or a built-in experiment (msd, ...).",
        metavar="FILE|NAME",
    )
    out: Path | None = option("Run directory; runs/NAME-select by default.")
    overrides: OverridesOption = None
    selector: str | None = option(f"{', '.join(SELECTORS)}.")
    budget: int | None = option("Trainings, at most.")
    n_parallel: int | None = option("Trainings under way at a time.")
    full_table: Path | None = option(
        "A run or file with the table of all candidates, to compare with."
    )
    workers: WorkersOption = None
    scheduler: SchedulerOption = None
    trust: TrustOption = False


@as_command
def select(options: Options, asking: Asking) -> Answer:
    """Train one policy after the other, where it helps most, until all is covered.

    A target counts as covered by an evaluation only. The sources that were trained are
    an ordinary run; after an interruption the same command goes on with the same
    sequence. A TOML file of your own may name code, which is imported and run.
    """
    path = Path(options.experiment)
    if path.is_file() and path.suffix.lower() != ".toml":
        raise InvalidInputError(
            f"select trains policies, so it needs an experiment (.toml), but got "
            f"{path}. For a table with unmeasured cells see docs/recipes.md."
        )
    experiment = load_experiment(
        options.experiment, options.overrides or (), trust=options.trust
    )
    given = {
        name: value
        for name in ("selector", "budget", "n_parallel")
        if (value := getattr(options, name)) is not None
    }
    how = replace(experiment.select or SelectSpec(), **given)
    experiment = replace(experiment, select=how)
    if asking.ask is not None:
        experiment = replace(experiment, ask=(asking.question(path),))
    question = experiment.ask[0]
    table = None
    if options.full_table is not None:
        table = open_study(options.full_table, trust=options.trust).table
    with stage_progress() as report:
        report("cover", 0, experiment.target_space.size, question.statement)
        run = run_selection(
            experiment,
            options.out or Path("runs") / f"{experiment.name}-select",
            workers=options.workers,
            scheduler=options.scheduler,
            full_table=table,
            progress=report,
        )
    from taskspace.show import history  # matplotlib loads slowly
    from taskspace.show.style import save

    result = run.result
    figures = [str(f) for f in save(history(result), run.path / "figures/selection")]
    words = ["taskspace", "certify", str(run.path), "--ask", str(result.question)]
    lines = [*result.sentences, *(f"! {warning}" for warning in result.warnings)]
    lines.append(f"Figure {figures[0]}")
    lines.append(f"Run in {run.path} ({run.seconds:.1f} s).")
    lines.append(f"Next: {shlex.join(words)}")
    record = {"run": str(run.path), **result.record(), "figures": figures}
    return Answer(record, "\n".join(lines))
