"""`taskspace certify`: what is proven around and between the grid points."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from taskspace.certificates import Certificate, CertifyResult
from taskspace.certificates import certify as certify_study
from taskspace.certificates.statements import context_words
from taskspace.cli.options import (
    Asking,
    Reading,
    SeedOption,
    argument,
    as_command,
    option,
    source_places,
)
from taskspace.cli.output import Answer, figure_file, progress_console, stage_progress
from taskspace.cover import Cover
from taskspace.cover.cover import names_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.schedules import Schedule

EXAMPLES = (
    "taskspace certify runs/msd-lqr --ask 'regret <= 0.2'",
    "taskspace certify runs/cartpole --ask 'score >= 475' --pilot 10 256",
)

SHOWN_SOURCES = 12
WIDTH = 86
NOT_PROVEN = 3  # exit code


@dataclass(frozen=True)
class Options:
    """What `taskspace certify` may be told beside the question and the reading."""

    path: Path = argument("A run directory or a matrix file.")
    confidence: float = option("Of statements from samples.", 0.999)
    max_episodes: int = option("Fresh episodes per target.", 4096)
    pilot: tuple[int, int] | None = option(
        "Choose the cover from S sources in E new episodes.", metavar="S E"
    )
    distribution: str | None = option("Draw contexts: uniform or loguniform.")
    n_samples: int | None = option("Contexts to draw (1000).", name="--samples")
    sources: str | None = option("Certify these sources: 3,17,40.")
    cover: Path | None = option("Certify the sources of a saved cover.")
    schedule: Path | None = option("Certify a schedule that schedule --save wrote.")
    time_limit: float = option("Processor seconds.", 20.0)
    seed: SeedOption = 0
    plot: Path | None = option("Draw the certified boxes here: .png, .pdf or .svg.")


@as_command
def certify(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Certify a cover: on the table, between its targets, on fresh samples.

    The statement that reaches furthest is printed first, unless it is vacuous. Exit
    code 3 where it is neither a proof nor a confidence that holds. A confidence is that
    of one statement: certifying again after a change is another one.
    """
    figure_file(options.plot)
    question = asking.question(options.path)
    with progress_console.status("load"):
        study = reading.study(options.path)
    selection = selected(options.sources, options.cover, study.table)
    schedule = None if options.schedule is None else Schedule.load(options.schedule)
    if schedule is not None and selection is not None:
        raise InvalidInputError("Give --schedule alone, without --sources or --cover.")
    with stage_progress() as report:
        result = certify_study(
            study,
            question,
            selection=selection,
            schedule=schedule,
            confidence=options.confidence,
            max_episodes=options.max_episodes,
            pilot=options.pilot,
            distribution=options.distribution,
            n_samples=options.n_samples,
            time_limit=options.time_limit,
            seed=options.seed,
            progress=report,
        )
    notes = list(study.notes)
    if options.plot is not None:
        from taskspace.show import boxes  # matplotlib loads slowly

        try:
            boxes(study, result).savefig(options.plot, dpi=200)
        except InvalidInputError as error:
            notes.append(f"{options.plot} was not drawn. {error}")
    system = study.system
    return Answer(
        {
            "path": str(options.path),
            **question.to_dict(),
            "objective": None if system is None else system.objective.to_dict(),
            "certificates": [c.to_dict() for c in result.certificates],
            "notes": notes,
        },
        _words(result, study),
        notes,
        0 if is_proven(result.certificates[-1]) else NOT_PROVEN,
    )


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
        numbers = source_places(sources, names_of(table, "source"), n)
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


def _words(result: CertifyResult, study: Study) -> str:
    """Return a block for each statement that says something, the furthest first."""
    *others, last = result.certificates
    told = [c for c in others if c.kind != "vacuous" and "side" not in c.values]
    blocks = [_block(certificate) for certificate in reversed(told)]
    blocks.insert(len(blocks) if last.kind == "vacuous" else 0, _block(last))
    lines = [f"Asked: {result.question.statement}.", *blocks]
    if n := len(others) - len(told):
        lines.append(f"{n} more that bound less or do not apply: --format json.")
    if cost := study.table.attrs.get("cost"):
        lines.append(str(cost))
    return "\n".join(lines)


def _block(certificate: Certificate) -> str:
    """Return a statement: its name and kind in a line, then why, indented."""
    holds = certificate.holds or certificate.kind == "vacuous"
    missing = "" if holds else ", does not hold"
    lines = [f"{certificate.name}: {certificate.kind}{missing}"]
    why = textwrap.wrap(certificate.why, WIDTH, break_on_hyphens=False)
    lines += [f"  {line}" for line in why]
    contexts = certificate.values.get("source_contexts", [])
    if contexts:
        words = [context_words(c, list(c)) for c in contexts[:SHOWN_SOURCES]]
        more = "; ..." if len(contexts) > SHOWN_SOURCES else ""
        lines.append(f"  Sources that serve: {'; '.join(words)}{more}.")
    return "\n".join(lines)
