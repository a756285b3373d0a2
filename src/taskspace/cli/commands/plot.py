"""`taskspace plot`: one figure for a paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.options import (
    SeedOption,
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
from taskspace.cover.methods.catalogue import find_cover
from taskspace.errors import UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("map", "coverage", "profile", "transfer", "tolerance", "boxes", "history")


@grouped
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
    asking: Asking = NO_ASKING,
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
    reading: Reading = PLAIN,
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
        study = reading.study(path)
        finds = kind == "profile"
        question = asking.question(path, epsilon, any_epsilon=finds)
        status.update(f"draw {kind}")
        figure = _draw(study, kind, question, method, source, time_limit, seed)
        figure.savefig(file, dpi=200)
    if output == Format.JSON:
        print_json({"file": str(file), "kind": kind, **question.to_dict()})
        return
    console.print(f"{shown(file)}: {kind}, {shown(question.statement)}")


def _draw(
    study: Study,
    kind: str,
    question: Question,
    method: str,
    source: int | None,
    time_limit: float,
    seed: int,
) -> "Figure":
    from taskspace import show  # matplotlib loads slowly

    if kind == "tolerance":
        return show.tolerance(study, question, source=source)
    if kind == "boxes":
        return _boxes(study, question, time_limit, seed)
    if kind == "coverage":
        methods = (
            ("greedy", "uniform", "random") if study.shape else ("greedy", "random")
        )
        return show.coverage(study, question, methods=methods, seed=seed)
    if kind == "profile":
        return show.profile(study, question, time_limit=time_limit, seed=seed)
    cover = find_cover(
        study,
        question,
        method=method,
        time_limit=time_limit,
        seed=seed,
    )
    if kind == "transfer":
        return show.transfer(study, question, cover=cover)
    return show.map(study, cover)


def _boxes(
    study: Study,
    question: Question,
    time_limit: float,
    seed: int,
) -> "Figure":
    from taskspace import show
    from taskspace.certificates import certify

    result = certify(study, question, time_limit=time_limit, seed=seed)
    return show.boxes(result, study)
