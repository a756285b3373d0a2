"""`taskspace select`: train only what the answer needs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from taskspace.cli.commands.fill import choose_cells, is_table
from taskspace.cli.options import (
    Asking,
    OverridesOption,
    Reading,
    SchedulerOption,
    WorkersOption,
    grouped,
    option,
    question_options,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    progress_console,
    shown,
    stage_progress,
)
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import Experiment, SelectionRun, load_experiment, run_selection
from taskspace.runs.opening import open_study
from taskspace.runs.specs import SelectSpec
from taskspace.selection import SELECTORS, SelectResult

EXAMPLES = (
    "taskspace select msd-lqr --epsilon 0.5",
    "taskspace select experiment.toml --out runs/selected",
)

SHOWN_STEPS = 12


@dataclass(frozen=True)
class Options:
    """What `taskspace select` may be told."""

    experiment: Annotated[
        str,
        typer.Argument(
            help="A TOML file, a built-in experiment (msd, ...), or a matrix file with "
            "cells that were not measured.",
            metavar="FILE|NAME",
        ),
    ]
    out: Annotated[
        Path | None, option("Run directory; runs/NAME-select by default.")
    ] = None
    overrides: OverridesOption = None
    selector: Annotated[str | None, option(f"{', '.join(SELECTORS)}.")] = None
    epsilon: Annotated[
        float | None, option("Tolerance; that of the first question if left out.")
    ] = None
    budget: Annotated[
        int | None, option("Trainings, at most; of a matrix, cells to measure next.")
    ] = None
    n_parallel: Annotated[int | None, option("Trainings under way at a time.")] = None
    full_table: Annotated[
        Path | None,
        option("A run or file with the table of all candidates, to compare with."),
    ] = None
    workers: WorkersOption = None
    scheduler: SchedulerOption = None
    fill: Annotated[
        Path | None,
        option("Of a matrix: a CSV of the cells to measure next, to fill in."),
    ] = None

    def load(self, trust: bool) -> tuple[Experiment, Question]:
        """Return the experiment, with what the options replace, and its question."""
        loaded = load_experiment(self.experiment, self.overrides or (), trust=trust)
        names = ("selector", "budget", "n_parallel")
        stated = {name: getattr(self, name) for name in names}
        spec = replace(
            loaded.select or SelectSpec(),
            **{name: value for name, value in stated.items() if value is not None},
        )
        question = loaded.questions[0]
        if self.epsilon is not None:
            question = question.at(self.epsilon)
        return replace(loaded, select=spec), question


@grouped
def select(
    options: Options,
    asking: Asking,
    reading: Reading,
    output: FormatOption = Format.TEXT,
) -> None:
    """Train one policy after the other, where it helps most, until all is covered.

    A target counts as covered by an evaluation only. The sources that were trained are
    an ordinary run; after an interruption the same command goes on with the same
    sequence. A TOML file of your own may name code, which is imported and run.

    Of a matrix with empty cells it names those to measure next, until it is known how
    many sources are needed.
    """
    path = Path(options.experiment)
    if is_table(path):
        choose_cells(
            replace(reading, missing="unknown").study(path),
            asking.question(path, options.epsilon),
            path,
            options.fill,
            n_cells=options.budget,
            output=output,
        )
        return
    if asking != Asking() or reading != Reading(trust=reading.trust) or options.fill:
        raise InvalidInputError(
            "An experiment states its question and its table in its file: options of "
            "criteria, of reading and --fill are for a matrix file. Use --set."
        )
    experiment, question = options.load(reading.trust)
    table = None
    if options.full_table is not None:
        table = open_study(options.full_table, trust=reading.trust).table
    with stage_progress() as report:
        report("cover", 0, experiment.target_space.size, question.statement)
        found = run_selection(
            experiment,
            options.out or Path("runs") / f"{experiment.name}-select",
            question=question,
            workers=options.workers,
            scheduler=options.scheduler,
            full_table=table,
            progress=report,
            say=progress_console.print,
        )
    figures = draw(found)
    if output == Format.JSON:
        record = {"run": str(found.path), **found.result.record()}
        print_json(record | {"figures": [str(figure) for figure in figures]})
        return
    _show(found, figures)


def draw(found: SelectionRun) -> list[Path]:
    """Return the picture of a selection.

    Args:
        found: the selection.
    """
    from taskspace.show.figures.history import (  # takes long
        save_selection,
        selection_plot,
    )

    plot = selection_plot(found.result)
    return save_selection(plot, found.path / "figures")


def _show_saved(result: SelectResult) -> None:
    """Return what others would have spent, if the table of all candidates is known."""
    saved = result.saved
    if saved is None:
        console.print(
            "How few trainings any selector needs is not known without the table of "
            "all candidates (--full-table)."
        )
        return
    if saved.why_no_bound:
        console.print(f"The full table bounds no selector here: {saved.why_no_bound}.")
    else:
        console.print(
            "No selector that serves with policies trained at these candidates needs "
            f"fewer than {saved.lower_bound} trainings."
        )
    low, high = saved.minimum
    view = Table("", "trainings", "environment steps", "evaluations", "coverage")
    steps = saved.environment_steps
    whole = f"{saved.n_candidates:,}", "-" if steps is None else f"{steps:,}"
    for name, size in (
        ("greedy", f"{len(saved.greedy)}"),
        ("minimum", f"{high}" if low == high else f"{low} to {high}"),
    ):
        reached = f"{100 * saved.greedy[-1]:.4g} %" if saved.greedy else "0 %"
        view.add_row(
            f"oracle's {name}: {size} of", *whole, f"{saved.evaluations:,}", reached
        )
    for rival in saved.rivals:
        done = rival.trainings
        at = len(rival.coverage) - 1 if done is None else done - 1
        if at >= 0:
            view.add_row(
                rival.name,
                f"{at + 1}",
                f"{rival.environment_steps[at]:,}",
                f"{rival.evaluations[at]:,}",
                f"{100 * rival.coverage[at]:.4g} %",
            )
    view.add_row(
        f"[bold]{result.selector}[/bold]",
        f"{result.trainings}",
        f"{result.environment_steps:,}",
        f"{result.evaluations:,}",
        _share(result),
    )
    console.print(view)


def _share(result: SelectResult) -> str:
    """Return the coverage for people; at least so much where it is not known."""
    at_least = "" if result.coverage is not None else "at least "
    return f"{at_least}{100 * result.covered_at_least:.4g} %"


def _show_without_reference(result: SelectResult) -> None:
    """Print what is not known for want of a reference, and what to state."""
    n_lacking, n_targets = len(result.without_reference), result.cover.n_targets
    if not n_lacking:
        return
    console.print(
        f"[red]![/red] Coverage is unknown: {n_lacking:,} of {n_targets:,} targets "
        f"have no reference. A {result.question.criterion} compares with the best that "
        "is possible at a target, which is not known where no policy was trained, "
        "no optimum is known and none is stated. What to do: state the best "
        "performance (--set select.reference=J), or ask for a level of performance "
        '(criterion = "floor"), or train at every context (taskspace run).'
    )


def _show(found: SelectionRun, figures: list[Path]) -> None:
    result = found.result
    some = "training" if result.trainings == 1 else "trainings"
    console.print(
        f"[bold]{result.trainings} {some}[/bold] by {result.selector} cover "
        f"{_share(result)} of {result.cover.n_targets:,} targets: "
        f"{result.stop_reason}."
    )
    _show_without_reference(result)
    console.print(f"Asked: {result.question.statement}; against: {result.reference}.")
    console.print(
        f"Spent: {result.environment_steps:,} environment steps, "
        f"{result.evaluations:,} evaluations of a policy at a target."
    )
    enough = "enough" if result.coverage is not None else "enough for these targets"
    console.print(f"{result.cover.size} of the sources are {enough}.")
    _show_saved(result)
    if len(result.unserved):
        first = ", ".join(map(str, result.unserved[:5].tolist()))
        more = ", ..." if len(result.unserved) > 5 else ""
        console.print(
            f"[red]![/red] {len(result.unserved)} targets are served by no source: "
            f"{first}{more}."
        )
    for failure in result.failures[:5]:
        context = ", ".join(f"{k}={number(v)}" for k, v in failure["context"].items())
        console.print(
            f"[red]![/red] The training at {shown(context)} with seed "
            f"{failure['seed']} is {failure['state']}: {shown(failure['reason'])}."
        )
    view = Table("trainings", "coverage", "environment steps", "evaluations")
    history = result.history
    step = max(1, -(-len(history) // SHOWN_STEPS))
    kept = sorted({*range(0, len(history), step), len(history) - 1} - {-1})
    for place in kept:
        entry = history[place]
        view.add_row(
            str(entry["trainings"]),
            f"{100 * entry['coverage']:.4g} %",
            f"{entry['environment_steps']:,}",
            f"{entry['evaluations']:,}",
        )
    console.print(view)
    console.print(f"{shown(result.statement)}")
    for figure in figures[:1]:
        console.print(f"Figure {shown(figure)}")
    console.print(
        f"Run in {shown(found.path)} ({found.seconds:.1f} s). Next: taskspace cover "
        f"{shown(found.path)} {question_options(result.question)}"
    )
