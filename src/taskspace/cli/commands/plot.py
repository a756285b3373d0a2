"""`taskspace plot`: one figure for a paper."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from taskspace.cli.options import (
    Asking,
    Reading,
    SeedOption,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import Answer, console, figure_file, progress_console, shown
from taskspace.cover import find_cover
from taskspace.errors import UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.show import KINDS

EXAMPLES = (
    "taskspace plot runs/msd-lqr map --epsilon 0.2",
    "taskspace plot scores.csv profile --out profile.pdf",
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Options:
    """What `taskspace plot` may be told beside the question and the reading."""

    path: Path = argument("A run, an archive or a matrix file.")
    kind: str = argument(f"What to draw: {', '.join(KINDS)}.", metavar="KIND")
    epsilon: float | None = option(
        "Tolerance; that of the experiment's first question if left out."
    )
    method: str = option("Method of the cover that a map shows.", "minimum")
    source: int | None = option(
        "Source of a tolerance figure; one of the widest if left out."
    )
    out: Path | None = option("The file: .png, .pdf or .svg; KIND.png if left out.")
    time_limit: float = option("Seconds for searches and certificates.", 20.0)
    seed: SeedOption = 0


@as_command
def plot(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Draw one figure for a paper.

    map: who serves whom; coverage: against the number of sources; profile: sources
    against the tolerance; transfer: losses of sources at targets, like beside like;
    tolerance: the set that one source serves, with its balls (criterion signed);
    boxes: what is certified between the targets; gains: loss against the number of
    designed gains; history: of a selection; price: policies kept against environment
    steps, of all selections in a folder.
    """
    path, kind = options.path, options.kind
    if kind not in KINDS:
        raise UnknownNameError("kind of figure", kind, KINDS)
    file = options.out or Path(f"{kind}.png")
    figure_file(file)
    question = None
    with progress_console.status("load") as status:
        if kind in ("history", "price"):
            from taskspace import show  # matplotlib loads slowly

            figure = getattr(show, kind)(path)
        else:
            study = reading.study(path)
            finds = kind in ("profile", "gains")
            question = asking.question(path, options.epsilon, any_epsilon=finds)
            status.update(f"draw {kind}")
            figure = _draw(options, study, question)
        figure.savefig(file, dpi=200)
    asked = {} if question is None else question.to_dict()
    words = "" if question is None else f", {question.statement}"
    return Answer(
        lambda: {"file": str(file), "kind": kind, **asked},
        lambda: console.print(f"{shown(file)}: {kind}{shown(words)}"),
    )


def _draw(options: Options, study: Study, question: Question) -> "Figure":
    from taskspace import show  # matplotlib loads slowly

    kind = options.kind
    effort = {"time_limit": options.time_limit, "seed": options.seed}
    if kind == "tolerance":
        return show.tolerance(study, question, source=options.source)
    if kind == "boxes":
        from taskspace.certificates import certify

        return show.boxes(certify(study, question, **effort), study)
    if kind == "coverage":
        methods = (
            ("greedy", "uniform", "random") if study.shape else ("greedy", "random")
        )
        return show.coverage(study, question, methods=methods, seed=options.seed)
    if kind in ("profile", "gains"):
        return getattr(show, kind)(study, question, **effort)
    cover = find_cover(study, question, method=options.method, **effort)
    if kind == "transfer":
        return show.transfer(study, question, cover=cover)
    return show.map(study, cover)
