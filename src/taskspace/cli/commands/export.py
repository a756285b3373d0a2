"""`taskspace export`: a policy library to deploy."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from taskspace.certificates import certify
from taskspace.cli.commands.certify import NOT_PROVEN, is_proven, selected
from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.options import (
    EpsilonOption,
    SeedOption,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    progress_console,
    shown,
)
from taskspace.cover import METHODS, Cover, find_cover, settle_ties
from taskspace.deploy import ASSIGN_RULES, PolicyLibrary, library
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export import EXPORTERS
from taskspace.performance.study import Study
from taskspace.questions import Question

SHOWN_POLICIES = 12


@grouped
def export(
    path: Annotated[
        Path,
        typer.Argument(help="A run, an archive, or a matrix file (without policies)."),
    ],
    to: Annotated[Path, typer.Option(help="New folder for the library.")],
    epsilon: EpsilonOption = None,
    asking: Asking = NO_ASKING,
    certified: Annotated[
        bool,
        typer.Option(
            "--certified",
            help="Certify every context, not only the grid, of sources that are "
            "searched for, or of --sources or --cover. Without a proof of the whole "
            "box nothing is written, and the exit code is 3.",
        ),
    ] = False,
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")] = "minimum",
    sources: Annotated[
        str | None,
        typer.Option(help="Sources chosen by hand, e.g. 3,17.", show_default=False),
    ] = None,
    cover: Annotated[
        Path | None,
        typer.Option(
            help="A cover that `taskspace cover --save` wrote.", show_default=False
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help=f"Which of several policies that serve: {', '.join(ASSIGN_RULES)}."
        ),
    ] = "performance",
    outside: Annotated[
        str, typer.Option(help="Outside the range: refuse, or clamp to the nearest.")
    ] = "refuse",
    formats: Annotated[
        str,
        typer.Option(
            "--as", help=f"Exports beside the library: {', '.join(EXPORTERS)}; or none."
        ),
    ] = "c,tables",
    precision: Annotated[
        str, typer.Option(help="Numbers in C: double or float.")
    ] = "double",
    name: Annotated[str, typer.Option(help="Prefix of names in C.")] = "library",
    hysteresis: Annotated[
        float, typer.Option(help="Of select_held in C, share of each axis' width.")
    ] = 0.02,
    time_limit: Annotated[
        float, typer.Option(help="Seconds to look for few sources.")
    ] = 20.0,
    seed: SeedOption = 0,
    reading: Reading = PLAIN,
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a policy library: which policy in which context, and what is guaranteed.

    DIR holds the library (JSON, arrays, CSV, a contract) and a folder for each
    export: C99 with a self-test, ONNX, look-up tables.
    """
    question = asking.question(path, epsilon)
    wanted = _formats(formats)
    _check_new(to)
    with progress_console.status("load") as status:
        study = reading.study(path)
        if reading.trust and study.experiment is not None:
            study.require_system()
        status.update("choose sources")
        if certified:
            numbers = selected(sources, cover, study.table)
            selection: Any = _certified(study, question, numbers, time_limit, seed)
        elif sources is not None:
            selection = _numbers(sources)
        elif cover is not None:
            selection = Cover.load(cover)
        else:
            selection = find_cover(
                study,
                question,
                method=method,
                time_limit=time_limit,
                seed=seed,
            )
            if method == "minimum":
                selection = settle_ties(
                    selection, study, question, time_limit=time_limit / 4, seed=seed
                )
        status.update("write")
        made = library(
            study,
            selection,
            question,
            rule=rule,
            outside=outside,  # type: ignore[arg-type]
        )
        command = shlex.join(["taskspace", *sys.argv[1:]])
        options = {
            "c": {"name": name, "precision": precision, "hysteresis": hysteresis}
        }
        _write(made, to, wanted, command, options)
    if output == Format.JSON:
        print_json(
            {
                "library": str(to),
                **question.to_dict(),
                "size": made.size,
                "sources": [entry.source for entry in made.entries],
                "names": [entry.name for entry in made.entries],
                "regions": made.regions.n_regions,
                "region_kind": made.regions.kind,
                "rule": made.rule,
                "outside": made.outside,
                "guarantee": made.guarantee.to_dict(),
                "formats": wanted,
            }
        )
        return
    for note in study.notes:
        console.print(f"Note: {shown(note)}")
    _show(made, to, wanted, path, reading.trust)


def _formats(text: str) -> list[str]:
    names = [word.strip() for word in text.split(",") if word.strip()]
    names = [] if names == ["none"] else names
    for name in names:
        if name not in EXPORTERS:
            raise UnknownNameError("export format", name, [*EXPORTERS, "none"])
    return list(dict.fromkeys(names))


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise InvalidInputError(
            f"--sources must be numbers of sources, e.g. 3,17, but got {text!r}."
        ) from error


def _check_new(to: Path) -> None:
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidInputError(
            f"{to} must be a new or empty folder, but something is there. Nothing was "
            "changed; choose another one with --to."
        )


def _certified(
    study: Study,
    question: Question,
    numbers: list[int] | None,
    time_limit: float,
    seed: int,
) -> Any:
    if study.all_policies is None:
        raise InvalidInputError(
            "--certified needs a run, or an archive with all its policies, whose "
            "system has bounds over boxes; a matrix file has none."
        )
    result = certify(
        study, question, selection=numbers, time_limit=time_limit, seed=seed
    )
    if result.continuum is None:
        raise InvalidInputError(
            f"Nothing is certified between the targets: {result.certificates[-1].why} "
            "Export without --certified."
        )
    if not is_proven(result.continuum.certificate):
        progress_console.print(
            f"Nothing was written: {shown(result.continuum.certificate.why)}"
        )
        raise typer.Exit(NOT_PROVEN)
    return result.continuum


def _write(
    made: PolicyLibrary,
    to: Path,
    wanted: list[str],
    command: str,
    options: dict[str, dict[str, Any]],
) -> None:
    """Everything into a folder beside, which then takes its place: all or nothing."""
    draft = to.with_name(f".partial-{os.getpid()}-{to.name}")
    try:
        made.save(draft, command=command)
        for name in wanted:
            EXPORTERS[name](
                made, draft / name, command=command, **options.get(name, {})
            )
        if to.exists():
            to.rmdir()
        draft.replace(to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _show(
    made: PolicyLibrary, to: Path, wanted: list[str], path: Path, trust: bool
) -> None:
    kind = made.guarantee.kind
    console.print(
        f"[bold]{made.size} policies[/bold] in {made.regions.n_regions:,} "
        f"{made.regions.plural}. {kind.capitalize()}: {shown(made.guarantee.statement)}"
    )
    if made.policies is None:
        console.print("The library holds names: no policies came with this table.")
    view = Table("policy", "name", "used in")
    axes = list(made.entries[0].context)
    for axis in axes:
        view.add_column(shown(axis), justify="right")
    shares = made.shares()
    for i, entry in enumerate(made.entries[:SHOWN_POLICIES]):
        values = [number(entry.context[axis]) for axis in axes]
        view.add_row(str(i), shown(entry.name), f"{100 * shares[i]:.3g} %", *values)
    console.print(view)
    if made.size > SHOWN_POLICIES:
        console.print(f"... and {made.size - SHOWN_POLICIES} more; see policies.csv.")
    console.print(f"Written {shown(to)}: library{''.join(f', {w}' for w in wanted)}.")
    if made.policies is not None:
        words = ["taskspace", "evaluate", str(to), str(path)]
        words += ["--trust"] if trust else []
        console.print(f"Next: {shown(shlex.join(words))}")
