"""`taskspace certify`: what is proven around and between the grid points."""

from dataclasses import dataclass
from pathlib import Path

import xarray as xr
from rich.padding import Padding

from taskspace.certificates import Certificate, CertifyResult, Sampling
from taskspace.certificates import certify as certify_study
from taskspace.certificates.statements.words import context_words
from taskspace.cli.options import (
    Asking,
    Reading,
    SeedOption,
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
    show_notes,
    shown,
    stage_progress,
)
from taskspace.cli.reading import source_places
from taskspace.cover import Cover
from taskspace.cover.answer import source_names
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress

EXAMPLES = (
    "taskspace certify runs/msd-lqr --ask 'regret <= 0.2'",
    "taskspace certify runs/cartpole --ask 'score >= 475' --pilot 10 256",
)

SHOWN_SOURCES = 12
NOT_PROVEN = 3  # exit code
MARKS = {
    "proof": "green",
    "confidence": "cyan",
    "estimate": "yellow",
    "vacuous": "dim",
}


@dataclass(frozen=True)
class Options:
    """What `taskspace certify` may be told beside the question and the reading."""

    path: Path = argument("A run directory or a matrix file.")
    confidence: float = option(
        "Of statements from fresh episodes and from draws.", 0.999
    )
    max_episodes: int = option(
        "Fresh episodes of each source that is tried at a target.",
        4096,
    )
    pilot: tuple[int, int] | None = option(
        "Choose the cover on so many SOURCES, played again in so many EPISODES.",
        metavar="SOURCES EPISODES",
    )
    distribution: str | None = option(
        "Draw contexts and bound the share that is served: uniform, loguniform, "
        "or a CSV file of contexts."
    )
    n_samples: int | None = option(
        "How many contexts to draw.",
        name="--samples",
    )
    target_share: float | None = option(
        "Draw until the bound on the share is above this (0.99 without --samples)."
    )
    sources: str | None = option(
        "Certify these sources, by number or name, e.g. 3,17,40."
    )
    cover: Path | None = option("Certify a cover that `taskspace cover --save` wrote.")
    time_limit: float = option("Processor seconds for all proofs.", 20.0)
    seed: SeedOption = 0
    figures: Path | None = option("Write figures and their data into this directory.")

    @property
    def sampling(self) -> Sampling:
        """How episodes are played and contexts drawn."""
        counts = {"--samples": self.n_samples, "--target-share": self.target_share}
        for name, value in counts.items():
            if self.distribution is None and value is not None:
                raise InvalidInputError(
                    f"{name} says how often to draw contexts; say from what: "
                    "--distribution uniform."
                )
        return Sampling(
            confidence=self.confidence,
            max_episodes=self.max_episodes,
            pilot=self.pilot,
            distribution=self.distribution,
            n_samples=self.n_samples,
            target_share=self.target_share,
        )


@as_command
def certify(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Certify: loss rates, balls, bounds, and a cover of the whole box.

    Where the system has bounds over boxes, the last line is about every context of
    the box, not only the grid, by interval arithmetic. Where it is played in episodes,
    the cover is played again on episodes that its selection never saw. The confidence
    is that of one certificate: certifying again after a change is another statement.

    Exit code 3 where the last line is no proof and no confidence that holds: neither
    was reached, or there are only estimates.
    """
    sampling = options.sampling
    question = asking.question(options.path)
    with progress_console.status("load"):
        study = reading.study(options.path)
    selection = selected(options.sources, options.cover, study.table)
    with stage_progress() as report:
        result = certify_study(
            study,
            question,
            sampling=sampling,
            selection=selection,
            time_limit=options.time_limit,
            seed=options.seed,
            progress=report,
        )
        figures = _draw(result, study, options.figures, report)
    system = study.system
    return Answer(
        lambda: {
            "path": str(options.path),
            **question.to_dict(),
            "objective": None if system is None else system.objective.to_dict(),
            "certificates": [c.to_dict() for c in result.certificates],
            "figures": [str(file) for file in figures],
            "notes": study.notes,
        },
        lambda: _show(result, study, figures),
        0 if is_proven(result.certificates[-1]) else NOT_PROVEN,
    )


def _draw(
    result: CertifyResult, study: Study, folder: Path | None, report: Progress
) -> list[Path]:
    """Draw the figures that were asked for."""
    if folder is None:
        return []
    from taskspace.show.figures.tolerance import (  # matplotlib loads slowly
        save_certificate_figures,
    )

    report("draw", 0, 1)
    files = save_certificate_figures(result, study, folder)
    report("draw", 1, 1)
    return files


def is_proven(certificate: Certificate) -> bool:
    """Return whether a statement holds, by a proof or with a stated confidence.

    Args:
        certificate: the statement.
    """
    return certificate.holds and certificate.kind in ("proof", "confidence")


def selected(
    sources: str | None, cover: Path | None, table: xr.Dataset
) -> list[int] | None:
    """Return the sources that the options name, None where they name none.

    Args:
        sources: numbers or names, with commas between.
        cover: file of a saved cover.
        table: whose sources they are.
    """
    if sources is not None and cover is not None:
        raise InvalidInputError("Give either --sources or --cover, not both.")
    n = table.sizes["source"]
    if sources is not None:
        numbers = source_places(sources, source_names(table), n)
        if not numbers:
            raise InvalidInputError("--sources must name at least one, e.g. 3,17.")
        return numbers
    if cover is None:
        return None
    saved = Cover.load(cover)
    if (saved.n_sources, saved.n_targets) != (n, table.sizes["target"]):
        raise InvalidInputError(
            f"{cover} must be a cover of this table, {n} sources and "
            f"{table.sizes['target']} targets, but is one of {saved.n_sources} and "
            f"{saved.n_targets}."
        )
    return saved.sources.tolist()


def _show(result: CertifyResult, study: Study, figures: list[Path]) -> None:
    """Print the strongest statement first, then a short block for each other one."""
    show_notes(study.notes)
    *others, last = result.certificates
    console.print(f"Asked: {result.question.statement}.")
    _show_block(last)
    contexts = last.values.get("source_contexts", [])
    if contexts:
        more = "; ..." if len(contexts) > SHOWN_SOURCES else ""
        words = [context_words(c, list(c)) for c in contexts[:SHOWN_SOURCES]]
        console.print(f"  Sources that serve: {shown('; '.join(words))}{more}.")
    told = [c for c in others if c.kind != "vacuous" and "side" not in c.values]
    for certificate in reversed(told):
        _show_block(certificate)
    if len(told) < len(others):
        n = len(others) - len(told)
        console.print(f"{n} more that bound less or do not apply: --format json.")
    if cost := study.table.attrs.get("cost"):
        console.print(shown(str(cost)))
    for file in figures:
        console.print(f"Figure {shown(file)}")
    _hint(result, study)


def _show_block(certificate: Certificate) -> None:
    """Print a statement: its name and kind in a line, then why, indented."""
    kind, holds = certificate.kind, certificate.holds
    colour = MARKS[kind] if holds or kind == "vacuous" else "yellow"
    word = "" if holds else ", does not hold"
    console.print(f"[bold]{certificate.name}[/bold] [{colour}]{kind}{word}[/]")
    text = shown(certificate.why + _numbers(certificate))
    console.print(Padding(text, (0, 0, 0, 2)))


def _hint(result: CertifyResult, study: Study) -> None:
    """Say that other gains than these candidates may need fewer, where that is so."""
    from taskspace.designs.tasks import can_design  # loads slowly

    if study.system is None or not can_design(study.system, result.question):
        return
    words = f"taskspace design {study.origin} {question_options(result.question)}"
    console.print(
        f"All counts are of these {study.n_sources:,} candidates; other gains may need "
        f"fewer. The number over all gains: {shown(words)}",
        soft_wrap=True,
    )


def _numbers(item: Certificate) -> str:
    names = {
        "loss rates": ("radius", "largest", "largest_slope", "largest_bound"),
        "inner balls": ("smallest_inner", "largest_inner", "captured_share"),
    }.get(item.name, ())
    values = item.values
    parts = [f"{name} {number(values[name])}" for name in names if name in values]
    return f" ({', '.join(parts)})" if parts else ""
