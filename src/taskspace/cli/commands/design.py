"""`taskspace design`: the fewest gains of any design, with a bound over all of them."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from taskspace._util.files import inside
from taskspace.certificates import certify
from taskspace.certificates.statements import Certificate
from taskspace.cli.options import (
    Asking,
    OverridesOption,
    SeedOption,
    TrustOption,
    argument,
    as_command,
    option,
    question_options,
)
from taskspace.cli.output import (
    Answer,
    console,
    number,
    progress_console,
    search_progress,
    show_table,
    shown,
    stage_progress,
)
from taskspace.designs import Design
from taskspace.designs import design as design_gains
from taskspace.designs.tasks import can_design
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs import builtin_experiments, load_experiment
from taskspace.runs.opening import open_study
from taskspace.spaces import Space
from taskspace.systems.base import System

EXAMPLES = (
    "taskspace design msd-lqr --ask 'regret <= 0.5' --certify",
    "taskspace design runs/msd-lqr --k 2",
)

SHOWN_ENTRIES = 8
"""Entries of a gain in the table, at most."""


@dataclass(frozen=True)
class Options:
    """What `taskspace design` may be told beside the question."""

    path: str = argument(
        "A run, a TOML file, or a built-in experiment (msd, ...).",
        metavar="PATH|FILE|NAME",
    )
    k: int | None = option("Number of gains; finds the smallest ε they reach.")
    mask: str | None = option(
        "Free entries of a gain, a row per input: 1100,0011.",
        metavar="ROWS",
    )
    certify: Annotated[
        bool,
        typer.Option(help="Design for the whole box, and prove the gains there."),
    ] = False
    out: Path | None = option("Folder for the gains as they are found.")
    overrides: OverridesOption = None
    time_limit: float = option("Processor seconds.", 60.0)
    seed: SeedOption = 0
    trust: TrustOption = False

    def free_entries(self) -> list[list[int]] | None:
        """Return the mask as rows of 0 and 1."""
        if self.mask is None:
            return None
        if set(self.mask) - set("01,"):
            raise InvalidInputError(
                "--mask must be rows of 0 and 1, e.g. 1100,0011, but got "
                f"{self.mask!r}."
            )
        rows = [list(map(int, row)) for row in self.mask.split(",")]
        if len({len(row) for row in rows}) > 1:
            raise InvalidInputError(
                f"--mask must have rows of the same length, but got {self.mask!r}."
            )
        return rows


@dataclass(frozen=True)
class Task:
    """What gains are designed for: what is known, where to serve, what is asked.

    Args:
        known: a study, or a system.
        space: the targets; those of the study if None.
        question: what is asked.
        folder: where gains and figures are kept.
    """

    known: Study | System
    space: Space | None
    question: Question
    folder: Path


@as_command
def design(options: Options, asking: Asking) -> Answer:
    """Design the fewest static gains that serve a range, and bound their number.

    The bound holds over all gains there are, not over candidates. The best gains are
    kept as they are found: the same command goes on from there.
    """
    free = options.free_entries()
    task = _task(options, asking)
    question = task.question
    what = f"k{options.k}" if options.k else f"{question.epsilon:g}"
    keep = task.folder / f"design-{question.criterion}-{what}.json"
    with stage_progress() as report:
        made = design_gains(
            task.known,
            task.space,
            question,
            k=options.k,
            mask=free,
            whole=options.certify and options.k is None,
            time_limit=options.time_limit,
            seed=options.seed,
            keep=keep,
            progress=search_progress(report, options.time_limit, ""),
        )
        proof = _proof(options, made, report) if options.certify else None
    figures = _draw(made, keep)
    record = {"kept": str(keep), "figures": list(map(str, figures))}
    if proof is not None:
        record["certificate"] = proof.to_dict()
    return Answer(
        lambda: made.to_dict() | record,
        lambda: _show(made, proof, keep, options, figures),
    )


def _draw(made: Design, keep: Path) -> list[Path]:
    """Return the picture of gains with two entries."""
    if made.gains[0].size != 2:
        return []
    from taskspace.show.figures.gains import gains  # matplotlib loads slowly
    from taskspace.show.style import save

    return save(gains(made), keep.with_name(f"{keep.stem}-gains"))[:1]


def _task(options: Options, asking: Asking) -> Task:
    """Return what gains are designed for, from a run or an experiment."""
    path = Path(options.path)
    is_experiment = path.suffix == ".toml" or (
        not path.exists() and options.path in builtin_experiments()
    )
    if not is_experiment:
        if options.overrides:
            raise InvalidInputError("--set is for an experiment, but this is a run.")
        question = asking.question(path, needs_bound=options.k is None)
        study = open_study(path, trust=options.trust)
        inner = inside(path, path / "designs") if path.is_dir() else Path("designs")
        return Task(study, None, question, options.out or inner)
    experiment = load_experiment(
        options.path, options.overrides or (), trust=options.trust
    )
    fitting = [
        asked
        for asked in experiment.questions
        if can_design(experiment.built_system, asked)
    ]
    own = next(iter(fitting), experiment.questions[0].as_regret())
    question = own if asking.ask is None else Question(asking.ask)
    folder = options.out or Path("runs") / f"{experiment.name}-design"
    return Task(experiment.built_system, experiment.target_space, question, folder)


def _proof(options: Options, made: Design, report: Progress) -> Certificate:
    """Return what is proven of the designed gains on the whole box."""
    proofs = certify(
        made.study,
        made.question,
        selection=range(made.size),
        time_limit=options.time_limit,
        seed=options.seed,
        progress=report,
    )
    return proofs["continuum cover"]


def _show(
    made: Design,
    proof: Certificate | None,
    keep: Path,
    options: Options,
    figures: list[Path],
) -> None:
    """Print the design, and the next command."""
    console.print(f"[bold]{shown(made.statement)}[/bold]")
    losses = made.question.losses(made.study).values[: made.size]
    best = losses.argmin(0)
    rows = []
    for i, gain in enumerate(made.gains):
        entries = ", ".join(number(x) for x in gain.ravel()[:SHOWN_ENTRIES])
        more = " …" if gain.size > SHOWN_ENTRIES else ""
        own = losses[i][best == i]
        worst = number(own.max() if len(own) else None)
        rows.append((str(i), entries + more, f"{len(own):,}", worst))
    columns = ("gain", "K (u = −K x)", "served best", "worst loss there")
    show_table(columns, rows, texts=columns[:2])
    if proof is not None:
        mark = "[green]proven[/green]" if proof.holds else "[red]not proven[/red]"
        console.print(f"Whole box: {mark}. {shown(proof.why)}")
    console.print(f"Stopped: {made.stop_reason} ({made.seconds:.1f} s).")
    progress_console.print(f"Gains in {shown(keep)}")
    if proof is None:
        words = [shlex.quote(options.path), question_options(made.question)]
        words += [f"--set {shlex.quote(value)}" for value in options.overrides or ()]
        again = f"taskspace design {' '.join(words)} --certify"
        console.print(f"Next: {shown(again)}", soft_wrap=True)
    for figure in figures:
        progress_console.print(f"Figure {shown(figure)}")
