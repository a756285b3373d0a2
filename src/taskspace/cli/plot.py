"""`taskspace plot`: one figure for a paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskspace.cli.asked import asked_question
from taskspace.cli.inputs import TableInput, load_table
from taskspace.cli.options import (
    ContextsOption,
    CriterionOption,
    HeaderOption,
    IgnoreOption,
    JudgeOption,
    LowerIsBetterOption,
    MissingOption,
    RowNamesOption,
    SeedOption,
    TargetsOption,
    TrustOption,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    figure_file,
    print_json,
    progress_console,
    shown,
)
from taskspace.cover.methods import find_cover
from taskspace.errors import UnknownNameError
from taskspace.questions import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("map", "coverage", "profile", "transfer", "tolerance", "boxes", "history")


def plot(
    path: Annotated[Path, typer.Argument(help="A run, an archive or a matrix file.")],
    kind: Annotated[
        str, typer.Argument(help=f"What to draw: {', '.join(KINDS)}.", metavar="KIND")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Tolerance; that of the experiment's first question if left out.",
            show_default=False,
        ),
    ] = None,
    criterion: CriterionOption = None,
    judge: JudgeOption = None,
    method: Annotated[
        str, typer.Option(help="Method of the cover that a map shows.")
    ] = "minimum",
    source: Annotated[
        int | None,
        typer.Option(
            help="Source of a tolerance figure; one of the widest if left out.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file: .png, .pdf or .svg; KIND.png if left out.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for searches and certificates.")
    ] = 20.0,
    seed: SeedOption = 0,
    lower_is_better: LowerIsBetterOption = None,
    contexts: ContextsOption = None,
    targets: TargetsOption = None,
    ignore: IgnoreOption = None,
    missing: MissingOption = "error",
    header: HeaderOption = None,
    row_names: RowNamesOption = None,
    trust: TrustOption = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Draw one figure for a paper.

    map: who serves whom; coverage: against the number of sources; profile: sources
    against the tolerance; transfer: losses of sources at targets, like beside like;
    tolerance: the set that one source serves, with its balls (criterion signed);
    boxes: what is certified between the targets; history: of a selection.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of figure", kind, KINDS)
    file = out or Path(f"{kind}.png")
    figure_file(file)
    if kind == "history":
        from taskspace import show  # matplotlib loads slowly

        show.history(path).savefig(file, dpi=200)
        if output == Format.JSON:
            print_json({"file": str(file), "kind": kind})
        else:
            console.print(f"{shown(file)}: {kind}")
        return
    with progress_console.status("load") as status:
        loaded = load_table(
            path,
            lower_is_better=lower_is_better,
            contexts=contexts,
            targets=targets,
            ignore=ignore,
            missing=missing,
            header=header,
            row_names=row_names,
            trust=trust,
        )
        finds = kind == "profile"
        question = asked_question(path, criterion, judge, epsilon, any_epsilon=finds)
        loaded = loaded.asked(question)
        status.update(f"draw {kind}")
        figure = _draw(loaded, kind, question, method, source, time_limit, seed)
        figure.savefig(file, dpi=200)
    if output == Format.JSON:
        print_json({"file": str(file), "kind": kind, **question.to_dict()})
        return
    console.print(f"{shown(file)}: {kind}, {shown(question.statement)}")


def _draw(
    loaded: TableInput,
    kind: str,
    question: Question,
    method: str,
    source: int | None,
    time_limit: float,
    seed: int,
) -> "Figure":
    from taskspace import show  # matplotlib loads slowly

    table = loaded.table
    labels = {axis["name"]: axis["label"] for axis in loaded.system.get("axes", ())}
    if kind == "tolerance":
        return show.tolerance(table, question, source=source, labels=labels)
    if kind == "boxes":
        return _boxes(loaded, question, labels, time_limit, seed)
    if kind == "coverage":
        methods = (
            ("greedy", "uniform", "random") if loaded.shape else ("greedy", "random")
        )
        return show.coverage(table, question, methods=methods, seed=seed)
    if kind == "profile":
        return show.profile(table, question, time_limit=time_limit, seed=seed)
    cover = find_cover(
        question.sets(table),
        method,
        shape=loaded.shape,
        time_limit=time_limit,
        seed=seed,
    )
    if kind == "transfer":
        return show.transfer(table, question, cover=cover)
    return show.map(table, cover, question, labels=labels)


def _boxes(
    loaded: TableInput,
    question: Question,
    labels: dict[str, str],
    time_limit: float,
    seed: int,
) -> "Figure":
    from taskspace import show
    from taskspace.certificates import certify

    result = certify(
        loaded.table, question, time_limit=time_limit, seed=seed, **loaded.setting
    )
    return show.boxes(result, loaded.table, labels=labels)
