"""`taskspace profile`: complexity against the tolerance."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from taskspace._util import memory as _memory
from taskspace._util.files import inside
from taskspace.cli.budget import smallest, smallest_record
from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.kernels import compile_kernels
from taskspace.cli.options import (
    MemoryOption,
    SeedOption,
    command_options,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    began,
    console,
    number,
    print_json,
    progress_console,
    shown,
    stage_progress,
    writable,
)
from taskspace.cover import SmallestEpsilon, complexity_profile
from taskspace.cover.base import Clock
from taskspace.cover.tolerance.profile import Profile
from taskspace.cover.tolerance.thresholds import default_epsilons, losses_of
from taskspace.performance.study import Study
from taskspace.questions import Question

SHOWN = 40
"""Rows of the table, at most."""


@grouped
def profile(
    path: Annotated[Path, typer.Argument(help="A run, an archive or a matrix file.")],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            help="A tolerance; repeat for more. Chosen from the losses if left out.",
            show_default=False,
        ),
    ] = None,
    n_epsilons: Annotated[
        int, typer.Option("--n", help="How many tolerances to choose.")
    ] = 20,
    asking: Asking = NO_ASKING,
    time_limit: Annotated[float, typer.Option(help="Seconds for all of it.")] = 60.0,
    seed: SeedOption = 0,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Also the smallest ε within which so many sources serve all.",
            show_default=False,
        ),
    ] = None,
    memory: MemoryOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Picture to write, without suffix; in a run profile-CRITERION.",
            show_default=False,
        ),
    ] = None,
    reading: Reading = PLAIN,
    output: FormatOption = Format.TEXT,
) -> None:
    """How many sources each tolerance needs: lower bound, best found, greedy."""
    clock = Clock(time_limit, began=began())
    _memory.limit(memory)
    writable(plot)
    first = epsilon[0] if epsilon else None
    question = asking.question(path, first, any_epsilon=True)
    for each in epsilon or ():
        question.at(each)  # a wrong one shows before anything is loaded
    with stage_progress() as report:
        report("load", 0, 1)
        study = reading.study(path)
        report("load", 1, 1)
        left = clock.left
        if compile_kernels(report, ["greedy", "search"]):
            clock = Clock(left)
        least = None
        if budget is not None:
            least = smallest(
                question.table_of(study),
                question,
                budget,
                time_limit=clock.left / 2,
                seed=seed,
                report=report,
            )
            chosen = epsilon or default_epsilons(
                losses_of(study, question),
                n_epsilons,
                allow_negative=question.rule.allows_negative_epsilon,
            )
            epsilon = [*map(float, chosen), least.upper]
        points = complexity_profile(
            study,
            question,
            epsilons=epsilon,
            n_epsilons=n_epsilons,
            time_limit=clock.left,
            seed=seed,
            progress=report,
        )
    if output == Format.JSON:
        records = [asdict(point) for point in points]
        for record in records:
            record["provenance"] = points.provenance
            if least is not None and record["epsilon"] == least.upper:
                record["smallest_epsilon"] = smallest_record(least)
        print_json(records)
    else:
        middle = points[len(points) // 2]
        again = command_options(
            path,
            question.at(float(f"{middle.epsilon:.4g}")),
            **reading.again,
        )
        _print(points, question, again, study, least)
    _draw(points, question, path, plot)


def _draw(points: Profile, question: Question, path: Path, plot: Path | None) -> None:
    """The picture; a run that cannot be written gets none, and the result is there."""
    if plot is not None:
        folder = plot.parent
    elif path.is_dir():
        folder = inside(path, path / "figures")
        plot = folder / f"profile-{question.criterion}-{question.judge}"
    else:
        return
    from taskspace.show.figures.profile import save_profile  # matplotlib loads slowly

    try:
        figure = save_profile(points, question, plot)
    except OSError as error:
        reason = error.strerror or str(error)
        progress_console.print(
            f"No figure: {shown(folder)} cannot be written ({shown(reason)}). "
            "Use --plot."
        )
    else:
        progress_console.print(f"Figure {shown(figure)}")


def _print(
    points: Profile,
    question: Question,
    again: str,
    study: Study,
    least: SmallestEpsilon | None,
) -> None:
    for note in study.notes:
        console.print(f"Note: {shown(note)}")
    if least is not None:
        console.print(shown(least.say(scope=points.scope)))
    where = f" {points.scope}" if points.scope else ""
    table = Table(
        title=f"Complexity{where} by {question.criterion}, the {question.judge} "
        "policy of each source",
        title_justify="left",
    )
    for name in ("ε", "lower", "upper", "greedy", "unserved targets"):
        table.add_column(name, justify="right")
    shown_points = [
        points[k]
        for k in np.unique(np.linspace(0, len(points) - 1, SHOWN).round().astype(int))
    ]
    for point in shown_points:
        table.add_row(
            number(point.epsilon),
            number(point.lower),
            number(point.upper),
            number(point.greedy),
            number(point.n_uncoverable),
        )
    console.print(table)
    if len(shown_points) < len(points):
        console.print(
            f"{len(shown_points)} of {len(points):,} tolerances; --format json has all."
        )
    words = f"taskspace cover {again} --method minimum"
    console.print(f"Next: {shown(words)}", soft_wrap=True)
