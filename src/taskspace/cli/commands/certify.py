"""`taskspace certify`: what is proven around and between the grid points."""

from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr
from rich.table import Table

from taskspace._util import memory as _memory
from taskspace.certificates import Certificate, CertifyResult, LossBounds, Sampling
from taskspace.certificates import certify as certify_table
from taskspace.certificates.statements.words import context_words
from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.kernels import box_kernels, compile_kernels
from taskspace.cli.numbers import source_places
from taskspace.cli.options import (
    EpsilonOption,
    MemoryOption,
    SeedOption,
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
)
from taskspace.cover import Cover
from taskspace.cover.answer import source_names
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.systems.base import System

SHOWN_SOURCES = 12
NOT_PROVEN = 3  # exit code
MARKS = {
    "proof": "green",
    "confidence": "cyan",
    "estimate": "yellow",
    "vacuous": "dim",
}


@grouped
def certify(
    path: Annotated[Path, typer.Argument(help="A run directory or a matrix file.")],
    epsilon: EpsilonOption = None,
    asking: Asking = NO_ASKING,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Radius r of the loss rates; a tenth of the diameter by default.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="A Lipschitz constant of the loss that you know: once, or once for "
            "each axis.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="Of statements from fresh episodes and from draws."),
    ] = 0.999,
    max_episodes: Annotated[
        int,
        typer.Option(
            help="Fresh episodes for each source that is tried at a target, where the "
            "system is played in episodes."
        ),
    ] = 4096,
    pilot: Annotated[
        tuple[int, int] | None,
        typer.Option(
            help="A pilot first: so many SOURCES are played again in so many "
            "other EPISODES, and the cover that fresh episodes judge is chosen on "
            "these, e.g. --pilot 16 256.",
            metavar="SOURCES EPISODES",
            show_default=False,
        ),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(
            help="Draw contexts and bound the share that is served: uniform, "
            "loguniform, or a CSV file of contexts.",
            show_default=False,
        ),
    ] = None,
    n_samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            help="How many contexts to draw; which ones depends on what is judged.",
            show_default=False,
        ),
    ] = None,
    target_share: Annotated[
        float | None,
        typer.Option(
            help="Draw until the bound on the share is above this (0.99 without "
            "--samples).",
            show_default=False,
        ),
    ] = None,
    sources: Annotated[
        str | None,
        typer.Option(
            help="Certify these sources, by number or name, e.g. 3,17,40; by default "
            "few are searched for.",
            show_default=False,
        ),
    ] = None,
    cover: Annotated[
        Path | None,
        typer.Option(
            help="Certify the sources of a cover that `taskspace cover --save` wrote.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for the whole command.")
    ] = 20.0,
    seed: SeedOption = 0,
    figures: Annotated[
        Path | None,
        typer.Option(help="Write figures and their data into this directory."),
    ] = None,
    memory: MemoryOption = None,
    reading: Reading = PLAIN,
    output: FormatOption = Format.TEXT,
) -> None:
    """Certify: loss rates, balls, bounds, and a cover of the whole box.

    Where the system has bounds over boxes, the last line is about every context of
    the box, not only the grid, by interval arithmetic. Where it is played in episodes,
    the cover is played again on episodes that its selection never saw. The confidence
    is that of one certificate: certifying again after a change is another statement.

    Exit code 3 where the last line is no proof and no confidence that holds: neither
    was reached, or there are only estimates.
    """
    clock = Clock(time_limit, began=began())
    if distribution is None and (n_samples is not None or target_share is not None):
        option = "--samples" if n_samples is not None else "--target-share"
        raise InvalidInputError(
            f"{option} says how often to draw contexts; say from what: "
            "--distribution uniform."
        )
    _memory.limit(memory)
    question = asking.question(path, epsilon)
    with progress_console.status("load"):
        study = reading.study(path)
    selection = selected(sources, cover, study.table)
    left = clock.left
    needed = ["greedy", "search", *box_kernels(study.system)]
    with stage_progress() as report:
        if compile_kernels(report, needed):
            clock = Clock(left)
    with stage_progress() as report:
        result = certify_table(
            study,
            question,
            sampling=Sampling(
                confidence=confidence,
                max_episodes=max_episodes,
                pilot=pilot,
                distribution=distribution,
                n_samples=n_samples,
                target_share=target_share,
            ),
            bounds=LossBounds(radius=radius, rates=_rates(rate)),
            selection=selection,
            time_limit=clock.left,
            seed=seed,
            progress=report,
        )
        written = []
        if figures is not None:
            from taskspace.show.figures.tolerance import (  # matplotlib loads slowly
                save_certificate_figures,
            )

            report("draw", 0, 1)
            written = save_certificate_figures(result, study, figures)
            report("draw", 1, 1)
    if output == Format.JSON:
        print_json(
            {
                "path": str(path),
                **question.to_dict(),
                "objective": _objective(study.system),
                "certificates": [c.to_dict() for c in result.certificates],
                "figures": [str(file) for file in written],
                "notes": study.notes,
            }
        )
    else:
        for note in study.notes:
            console.print(f"Note: {shown(note)}")
        if cost := study.table.attrs.get("cost"):
            console.print(shown(str(cost)))
        _show(result)
        for file in written:
            console.print(f"Figure {shown(file)}")
    if not is_proven(result.certificates[-1]):
        raise typer.Exit(NOT_PROVEN)


def is_proven(certificate: Certificate) -> bool:
    """Whether a statement holds, by a proof or with a stated confidence.

    Args:
        certificate: the statement.
    """
    return certificate.holds and certificate.kind in ("proof", "confidence")


def selected(
    sources: str | None, cover: Path | None, table: xr.Dataset
) -> list[int] | None:
    """The sources that the options name, None where they name none.

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


def _objective(system: System | None) -> dict[str, Any] | None:
    return None if system is None else system.objective.to_dict()


def _rates(given: list[float] | None) -> float | list[float] | None:
    if not given:
        return None
    return given[0] if len(given) == 1 else given


def _show(result: CertifyResult) -> None:
    console.print(f"Asked: {result.question.statement}.")
    bounds = Table(title="How many sources?", title_justify="left")
    for name in ("bound", "side", "value", "kind", "of", "why"):
        bounds.add_column(name, justify="right" if name == "value" else "left")
    other = Table(title="Certificates", title_justify="left")
    for name in ("certificate", "holds", "kind", "of", "why"):
        other.add_column(name)
    silent: dict[str, list[str]] = {}
    for item in result.certificates[:-1]:
        if item.kind == "vacuous":
            silent.setdefault(item.why, []).append(item.name)
            continue
        kind = f"[{MARKS[item.kind]}]{item.kind}[/]"
        if "side" in item.values:
            value = number(item.values["value"])
            bounds.add_row(
                item.name, item.values["side"], value, kind, item.scope, item.why
            )
        else:
            holds = "[green]yes[/]" if item.holds else "no"
            other.add_row(item.name, holds, kind, item.scope, item.why + _numbers(item))
    console.print(bounds)
    console.print(other)
    for why, names in silent.items():
        console.print(f"[dim]Say nothing here: {', '.join(names)}. {shown(why)}[/]")
    last = result.certificates[-1]
    said = last.holds or last.kind == "vacuous"
    label = last.kind if said else f"no {last.kind}"
    colour = MARKS[last.kind] if said else "yellow"
    console.print(f"[bold {colour}]{label}[/]: {shown(last.why)}")
    contexts = last.values.get("source_contexts", [])
    if contexts:
        more = "; ..." if len(contexts) > SHOWN_SOURCES else ""
        words = [context_words(c, list(c)) for c in contexts[:SHOWN_SOURCES]]
        console.print(f"Sources that serve: {shown('; '.join(words))}{more}.")


def _numbers(item: Certificate) -> str:
    shown_values = {
        "loss rates": ("radius", "largest", "largest_slope", "largest_bound"),
        "inner balls": ("smallest_inner", "largest_inner", "captured_share"),
    }.get(item.name, ())
    parts = [
        f"{name} {number(item.values[name])}"
        for name in shown_values
        if name in item.values
    ]
    return f" ({', '.join(parts)})" if parts else ""
