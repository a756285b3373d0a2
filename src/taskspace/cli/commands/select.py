"""`taskspace select`: train only what the answer needs."""

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
    question_options,
)
from taskspace.cli.output import (
    Answer,
    console,
    first_few,
    number,
    percent,
    progress_console,
    show_table,
    shown,
    stage_progress,
    warn,
)
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import Experiment, SelectionRun, load_experiment, run_selection
from taskspace.runs.opening import open_study
from taskspace.runs.specs import SelectSpec
from taskspace.selection import SELECTORS, SelectResult

EXAMPLES = (
    "taskspace select msd-lqr --ask 'regret <= 0.5'",
    "taskspace select cartpole --ask 'score >= 475'",
)

SHOWN_STEPS = 12


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

    def load(self, asking: Asking, trust: bool) -> tuple[Experiment, Question]:
        """Return the experiment, with what the options replace, and its question."""
        loaded = load_experiment(self.experiment, self.overrides or (), trust=trust)
        names = ("selector", "budget", "n_parallel")
        values = {name: getattr(self, name) for name in names}
        spec = replace(
            loaded.select or SelectSpec(),
            **{name: value for name, value in values.items() if value is not None},
        )
        question = loaded.questions[0]
        if asking.ask is not None:
            question = asking.question(Path(self.experiment))
            loaded = replace(loaded, ask=(question,))
        return replace(loaded, select=spec), question


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
    experiment, question = options.load(asking, options.trust)
    table = None
    if options.full_table is not None:
        table = open_study(options.full_table, trust=options.trust).table
    with stage_progress() as report:
        report("cover", 0, experiment.target_space.size, question.statement)
        run = run_selection(
            experiment,
            options.out or Path("runs") / f"{experiment.name}-select",
            question=question,
            workers=options.workers,
            scheduler=options.scheduler,
            full_table=table,
            progress=report,
            say=progress_console.print,
        )
    from taskspace.show.figures.history import history  # slow
    from taskspace.show.style import save

    figures = save(history(run.result), run.path / "figures" / "selection")
    files = {"figures": [str(figure) for figure in figures]}
    return Answer(
        lambda: {"run": str(run.path), **run.result.record()} | files,
        lambda: _show(run, figures),
    )


def _show_fewest(result: SelectResult) -> None:
    """Print how few trainings any selector needs, if that is known."""
    fewest = result.fewest
    if fewest is None:
        console.print(
            "How few trainings any selector needs is not known without the table of "
            "all candidates (--full-table)."
        )
    elif fewest.why_no_bound:
        console.print(f"The full table bounds no selector here: {fewest.why_no_bound}.")
    else:
        console.print(
            "No selector that serves with policies trained at these candidates needs "
            f"fewer than {fewest.lower_bound} trainings{fewest.of}. The smallest cover "
            f"found of that table has {fewest.size} sources."
        )


def _share(result: SelectResult) -> str:
    """Return the coverage for people; at least so much where it is not known."""
    at_least = "" if result.coverage is not None else "at least "
    return f"{at_least}{percent(result.covered_at_least)}"


def _show_without_reference(result: SelectResult) -> None:
    """Print what is not known for want of a reference, and what to state."""
    n_lacking, n_targets = len(result.without_reference), result.cover.n_targets
    if not n_lacking:
        return
    warn(
        f"Coverage is unknown: {n_lacking:,} of {n_targets:,} targets "
        f"have no reference. A {result.question.criterion} compares with the best that "
        "is possible at a target, which is not known where no policy was trained, "
        "no optimum is known and none is stated. What to do: state the best "
        "performance (--set select.reference=J), or ask for a level (--ask 'score >= "
        "J'), or train at every context (taskspace run)."
    )


def _show_failures(result: SelectResult) -> None:
    """Print the first trainings that failed, and why."""
    for failure in result.failures[:5]:
        context = ", ".join(f"{k}={number(v)}" for k, v in failure["context"].items())
        warn(
            f"The training at {shown(context)} with seed {failure['seed']} is "
            f"{failure['state']}: {shown(failure['reason'])}."
        )


def _show(run: SelectionRun, figures: list[Path]) -> None:
    """Print what was selected and spent, and the next command."""
    result = run.result
    things = "training" if result.trainings == 1 else "trainings"
    console.print(
        f"[bold]{result.trainings} {things}[/bold] by {result.selector} cover "
        f"{_share(result)} of {result.cover.n_targets:,} targets{result.scope}: "
        f"{result.stop_reason}."
    )
    if len(result.close):
        warn(
            f"{len(result.close)} of these targets meet the question by less than two "
            "standard errors, so fresh episodes may refute some of them: "
            f"{first_few([str(target) for target in result.close])}."
        )
    _show_without_reference(result)
    asked = result.question
    compares = any(not demand.rule.is_absolute for demand in asked.demands)
    against = f"; against: {result.reference}" if compares else ""
    console.print(f"Asked: {asked.statement}{against}.")
    console.print(
        f"Spent: {result.environment_steps:,} environment steps, "
        f"{result.evaluations:,} evaluations of a policy at a target."
    )
    enough = "enough" if result.coverage is not None else "enough for these targets"
    console.print(f"{result.cover.size} of the sources are {enough}.")
    _show_fewest(result)
    if len(result.unserved):
        warn(
            f"{len(result.unserved)} targets are served by no source: "
            f"{first_few([str(target) for target in result.unserved])}."
        )
    _show_failures(result)
    step = max(1, -(-len(result.history) // SHOWN_STEPS))
    entries = result.history[::step]
    if (len(result.history) - 1) % step:
        entries = [*entries, result.history[-1]]
    show_table(
        ("trainings", "coverage", "environment steps", "evaluations"),
        [
            (
                str(entry["trainings"]),
                percent(entry["coverage"]),
                f"{entry['environment_steps']:,}",
                f"{entry['evaluations']:,}",
            )
            for entry in entries
        ],
    )
    console.print(f"{shown(result.statement)}")
    for figure in figures[:1]:
        console.print(f"Figure {shown(figure)}")
    console.print(
        f"Run in {shown(run.path)} ({run.seconds:.1f} s). Next: taskspace certify "
        f"{shown(run.path)} {question_options(result.question)}"
    )
