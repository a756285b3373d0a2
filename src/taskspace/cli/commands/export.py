"""`taskspace export`: a policy library to deploy."""

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from taskspace.certificates import certify
from taskspace.cli.commands.certify import NOT_PROVEN, is_proven, selected
from taskspace.cli.options import (
    Asking,
    Reading,
    argument,
    as_command,
    option,
)
from taskspace.cli.output import (
    Answer,
    console,
    number,
    progress_console,
    show_notes,
    show_table,
    shown,
)
from taskspace.cover import Cover, minimum_cover
from taskspace.deploy import PolicyLibrary, library
from taskspace.deploy.operation import with_operation
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export import EXPORTERS
from taskspace.performance.study import Study
from taskspace.questions import Question

EXAMPLES = (
    "taskspace export runs/msd-lqr --ask 'regret <= 0.2' --to library",
    "taskspace export scores.csv --ask 'regret <= 5' --to library",
)

SHOWN_POLICIES = 12


@dataclass(frozen=True)
class Options:
    """What `taskspace export` may be told beside the question and the reading."""

    path: Path = argument("A run, or a matrix file (without policies).")
    to: Path = option("New folder for the library.", ...)
    certified: bool = option(
        "Certify every context, not only the grid, of sources that are "
        "searched for, or of --sources or --cover. Without a proof of the whole "
        "box nothing is written, and the exit code is 3.",
        False,
    )
    sources: str | None = option("Sources chosen by hand, e.g. 3,17.")
    cover: Path | None = option("A cover that `taskspace cover --save` wrote.")
    outside: str = option(
        "Outside the range: refuse, or clamp to the nearest.", "refuse"
    )
    formats: str = option(
        f"Exports beside the library: {', '.join(EXPORTERS)}; or none.",
        "c,tables",
        name="--as",
    )
    precision: str = option("Numbers in C: double or float.", "double")
    name: str = option("Prefix of names in C.", "library")
    hysteresis: float = option("Of select_held in C, share of each axis' width.", 0.02)
    dt: float | None = option("Time step of PI and PID controllers in C (--as pid).")
    switching: bool = option(
        "Prove what holds of linear gains while the context moves and "
        "policies are switched, and write it into the contract.",
        False,
    )
    time_limit: float = option("Processor seconds to look for few sources.", 20.0)


@as_command
def export(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Write a policy library: which policy in which context, and what is guaranteed.

    DIR holds the library (JSON, arrays, CSV, a contract) and a folder for each
    export: C99 with a self-test, ONNX, PI and PID controllers as C99, look-up tables.
    """
    question = asking.question(options.path)
    formats = _formats(options.formats, options.dt)
    _check_new(options.to)
    with progress_console.status("load") as status:
        study = reading.study(options.path)
        if reading.trust and study.experiment is not None:
            study.require_system()
        status.update("choose sources")
        selection = _selection(options, study, question)
        status.update("write")
        product = library(
            study,
            selection,
            question,
            outside=options.outside,  # type: ignore[arg-type]
        )
        if options.switching:
            status.update("switching")
            product = with_operation(
                product,
                study.require_system(),
                hysteresis=options.hysteresis,
                time_limit=options.time_limit,
            )
            status.update("write")
        _write(product, options, formats)
    return Answer(
        lambda: _record(product, options.to, question, formats),
        lambda: _show(product, study, options, formats, reading.trust),
    )


def _selection(options: Options, study: Study, question: Question) -> Any:
    """Return the sources that are named, saved, certified, or found."""
    if options.certified:
        return _certified(options, study, question)
    if options.sources is not None:
        return _numbers(options.sources)
    if options.cover is not None:
        return Cover.load(options.cover)
    return minimum_cover(study, question, time_limit=options.time_limit)


def _record(
    made: PolicyLibrary, to: Path, question: Question, formats: list[str]
) -> dict[str, Any]:
    """Return the library as JSON."""
    return {
        "library": str(to),
        **question.to_dict(),
        "size": made.size,
        "sources": [entry.source for entry in made.entries],
        "names": [entry.name for entry in made.entries],
        "regions": made.regions.n_regions,
        "region_kind": made.regions.kind,
        "outside": made.outside,
        "guarantee": made.guarantee.to_dict(),
        "formats": formats,
    }


def _formats(text: str, dt: float | None) -> list[str]:
    names = [word.strip() for word in text.split(",") if word.strip()]
    names = [] if names == ["none"] else names
    for name in names:
        if name not in EXPORTERS:
            raise UnknownNameError("export format", name, [*EXPORTERS, "none"])
    if ("pid" in names) != (dt is not None):
        raise InvalidInputError(
            "--as pid and --dt STEP belong together: the controllers run in steps of "
            f"dt, but got --as {text} and {'no --dt' if dt is None else f'--dt {dt}'}."
        )
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


def _certified(options: Options, study: Study, question: Question) -> Any:
    """Return a cover of the whole box; where none is proven, nothing is written."""
    numbers = selected(options.sources, options.cover, study.table)
    if study.policies is None:
        raise InvalidInputError(
            "--certified needs a run whose system has bounds over boxes; a matrix file "
            "has none."
        )
    result = certify(
        study,
        question,
        selection=numbers,
        time_limit=options.time_limit,
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


def _write(made: PolicyLibrary, options: Options, formats: list[str]) -> None:
    """Everything into a folder beside, which then takes its place: all or nothing."""
    to, command = options.to, shlex.join(["taskspace", *sys.argv[1:]])
    both = {"name": options.name, "hysteresis": options.hysteresis}
    own: dict[str, dict[str, Any]] = {
        "c": {**both, "precision": options.precision},
        "pid": {**both, "dt": options.dt},
    }
    draft = to.with_name(f".partial-{os.getpid()}-{to.name}")
    try:
        made.save(draft, command=command)
        for name in formats:
            EXPORTERS[name](made, draft / name, command=command, **own.get(name, {}))
        if to.exists():
            to.rmdir()
        draft.replace(to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _show(
    made: PolicyLibrary,
    study: Study,
    options: Options,
    formats: list[str],
    trust: bool,
) -> None:
    """Print the library, and the next command."""
    show_notes(study.notes)
    kind = made.guarantee.kind
    console.print(
        f"[bold]{made.size} policies[/bold] in {made.regions.n_regions:,} "
        f"{made.regions.plural}. {kind.capitalize()}: {shown(made.guarantee.statement)}"
    )
    if options.switching:
        why = made.guarantee.values["operation"].get("why", "")
        console.print(shown(made.operation or why))
    if made.policies is None:
        console.print("The library holds names: no policies came with this table.")
    axes, shares = list(made.entries[0].context), made.shares()
    rows = [
        [
            str(i),
            shown(entry.name),
            f"{100 * shares[i]:.3g} %",
            *(number(entry.context[axis]) for axis in axes),
        ]
        for i, entry in enumerate(made.entries[:SHOWN_POLICIES])
    ]
    columns = ["policy", "name", "used in", *map(shown, axes)]
    show_table(columns, rows, texts=columns[:2])
    if made.size > SHOWN_POLICIES:
        console.print(f"... and {made.size - SHOWN_POLICIES} more; see policies.csv.")
    things = ", ".join(["library", *formats])
    console.print(f"Written {shown(options.to)}: {things}.")
    if made.policies is not None:
        words = ["taskspace", "evaluate", str(options.to), str(options.path)]
        words += ["--trust"] if trust else []
        console.print(f"Next: {shown(shlex.join(words))}")
