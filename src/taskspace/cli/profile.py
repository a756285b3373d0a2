"""`taskspace profile`: complexity against the tolerance."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from taskspace.cli.inputs import load_table
from taskspace.cli.options import (
    ContextsOption,
    CriterionOption,
    FamilyOption,
    IgnoreOption,
    JudgeOption,
    LowerIsBetterOption,
    MissingOption,
    SeedOption,
    TargetsOption,
    asked,
    question_options,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    shown,
    stage_progress,
)
from taskspace.cover import complexity_profile


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
    criterion: CriterionOption = "regret",
    judge: JudgeOption = "worst",
    family: FamilyOption = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for all of it.")] = 60.0,
    seed: SeedOption = 0,
    lower_is_better: LowerIsBetterOption = False,
    contexts: ContextsOption = None,
    targets: TargetsOption = None,
    ignore: IgnoreOption = None,
    missing: MissingOption = "error",
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Picture to write, without suffix; in a run profile-CRITERION.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """How many sources each tolerance needs: lower bound, best found, greedy."""
    questions = [asked(criterion, judge, family, e) for e in epsilon or [0.0]]
    question = questions[0]
    with stage_progress() as report:
        report("load", 0, 1)
        loaded = load_table(
            path,
            lower_is_better=lower_is_better,
            contexts=contexts,
            targets=targets,
            ignore=ignore,
            missing=missing,
        )
        losses = question.losses(loaded.table)
        report("load", 1, 1)
        points = complexity_profile(
            losses,
            epsilon,
            n_epsilons=n_epsilons,
            time_limit=time_limit,
            seed=seed,
            progress=lambda p: report(
                "search", int(p.seconds), int(time_limit), p.phase
            ),
        )
    if plot is None and path.is_dir():
        plot = path / "figures" / f"profile-{question.criterion}-{question.judge}"
    figure = None
    if plot is not None:
        from taskspace.show.profile import save_profile  # matplotlib loads slowly

        figure = save_profile(points, question, plot)
    if output == Format.JSON:
        print_json([asdict(point) for point in points])
        return
    for note in loaded.notes:
        console.print(f"Note: {shown(note)}")
    table = Table(
        title=f"Complexity by {question.criterion}, the {question.judge} policy of "
        "each source",
        title_justify="left",
    )
    for name in ("ε", "lower", "upper", "greedy", "unserved targets"):
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(
            number(point.epsilon),
            number(point.lower),
            number(point.upper),
            number(point.greedy),
            number(point.n_uncoverable),
        )
    console.print(table)
    if figure is not None:
        console.print(f"Figure {shown(figure)}")
    middle = points[len(points) // 2]
    console.print(
        f"Next: taskspace cover {shown(path)} "
        f"{question_options(question.at(float(f'{middle.epsilon:.4g}')))} "
        "--method minimum"
    )
