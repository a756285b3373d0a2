"""`taskspace export`: a policy library to deploy."""

import inspect
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Any

import typer

from taskspace.certificates import Certificate, certify
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
from taskspace.deploy import PolicyLibrary, ScheduleLibrary, library
from taskspace.deploy.operation import with_operation
from taskspace.deploy.schedules import DRIFT
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export import EXPORTERS, SCHEDULE_EXPORTERS
from taskspace.export.base import options_of
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.schedules import Schedule

EXAMPLES = (
    "taskspace export runs/msd-lqr --ask 'regret <= 0.2' --to library",
    "taskspace export scores.csv --ask 'regret <= 5' --to library",
)

SHOWN_POLICIES = 12


SECONDS = 20.0
"""Processor seconds to look for few sources, and for a proof."""


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
    schedule: Path | None = option(
        "An interpolated schedule that `taskspace schedule --save` wrote, in place of "
        "a cover; exports are c and tables."
    )
    outside: str = option(
        "Outside the range: refuse, or clamp to the nearest.", "refuse"
    )
    formats: str = option(
        f"Exports beside the library: {', '.join(EXPORTERS)}; or none.",
        "c,tables",
        name="--as",
    )
    switching: bool = option(
        "Prove what holds of linear gains while the context moves and "
        "policies are switched, and write it into the contract.",
        False,
    )


def _exporter_options() -> type[Any]:
    """Return the options of all exporters as a group, read from their signatures."""
    found: dict[str, tuple[inspect.Parameter, list[str], str]] = {}
    for name, write in EXPORTERS.items():
        lines = inspect.getdoc(write) or ""
        for key, parameter in options_of(write).items():
            _, _, text = lines.partition(f"    {key}: ")
            said = text.split("\n")[0].replace("`", "").replace('"', "")
            found.setdefault(key, (parameter, [], said))[1].append(name)
    group = []
    for key, (parameter, names, text) in found.items():
        is_needed = parameter.default is inspect.Parameter.empty
        default = "" if is_needed else f" Default: {parameter.default}."
        words = f"Of {', '.join(names)}: {text.rstrip('.')}.{default}"
        group.append((key, parameter.annotation | None, option(words)))
    return make_dataclass("Exporting", group, frozen=True)


Exporting: Any = _exporter_options()


@as_command
def export(
    options: Options,
    asking: Asking,
    reading: Reading,
    exporting: Exporting,  # type: ignore[valid-type]
) -> Answer:
    """Write a policy library: which policy in which context, and what is guaranteed.

    DIR holds the library (JSON, arrays, CSV, a contract) and a folder for each
    export: C99 with a self-test, ONNX, PI and PID controllers as C99, look-up tables.
    """
    question = asking.question(options.path)
    given = {f.name: getattr(exporting, f.name) for f in fields(exporting)}
    given = {name: value for name, value in given.items() if value is not None}
    _check_new(options.to)
    with progress_console.status("load") as status:
        study = reading.study(options.path)
        if reading.trust and study.experiment is not None:
            study.require_system()  # its module may register exporters
        if options.schedule is not None:
            return _export_schedule(options, study, question, given)
        formats = _formats(options.formats, given, EXPORTERS, options.switching)
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
                hysteresis=given.get("hysteresis", 0.02),
                time_limit=SECONDS,
            )
            status.update("write")
        _write(product, options.to, formats, given, EXPORTERS)
    return Answer(
        lambda: _record(product, options.to, question, formats),
        lambda: _show(product, study, options, formats, reading.trust),
    )


def _export_schedule(
    options: Options, study: Study, question: Question, given: dict[str, Any]
) -> Answer:
    """Write the library of an interpolated schedule."""
    assert options.schedule is not None
    if options.sources or options.cover or options.switching:
        raise InvalidInputError(
            "Give --schedule alone, without --sources, --cover or --switching."
        )
    schedule = Schedule.load(options.schedule)
    formats = _formats(options.formats, given, SCHEDULE_EXPORTERS)
    proof = None
    if options.certified:
        limit = SECONDS
        proof = certify(study, question, schedule=schedule, time_limit=limit)
        _check_proven(proof.certificates[0])
    made = library(
        study,
        schedule,
        question,
        proof=proof,
        outside=options.outside,  # type: ignore[arg-type]
    )
    _write(made, options.to, formats, given, SCHEDULE_EXPORTERS)
    record = {
        "library": str(options.to),
        **question.to_dict(),
        "size": schedule.size,
        "shape": list(schedule.shape),
        "outside": made.outside,
        "guarantee": made.guarantee.to_dict(),
        "formats": formats,
    }

    def show() -> None:
        for line in schedule.rows:
            console.print(shown(line), soft_wrap=True)
        console.print(f"{shown(made.guarantee.statement)} {DRIFT}", soft_wrap=True)
        things = ", ".join(["library", *formats])
        console.print(f"Written {shown(options.to)}: {things}.")

    return Answer(lambda: record, show)


def _selection(options: Options, study: Study, question: Question) -> Any:
    """Return the sources that are named, saved, certified, or found."""
    if options.certified:
        return _certified(options, study, question)
    if options.sources is not None:
        return _numbers(options.sources)
    if options.cover is not None:
        return Cover.load(options.cover)
    return minimum_cover(study, question, time_limit=SECONDS)


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
        "regions": len(made.regions.policy),
        "region_kind": made.regions.kind,
        "outside": made.outside,
        "guarantee": made.guarantee.to_dict(),
        "formats": formats,
    }


def _formats(
    text: str,
    given: dict[str, Any],
    exporters: Mapping[str, Callable[..., Path]],
    switching: bool = False,
) -> list[str]:
    """Return the exporters that are named; refuse options that none of them takes."""
    names = [word.strip() for word in text.split(",") if word.strip()]
    names = [] if names == ["none"] else names
    for name in names:
        if name not in exporters:
            raise UnknownNameError("export format", name, [*exporters, "none"])
    takes = {name: options_of(exporters[name]) for name in names}
    for name, parameters in takes.items():
        for key, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty and key not in given:
                raise InvalidInputError(
                    f"--as {name} needs --{key}, but there is none. Give both."
                )
    for key in given:
        others = [n for n, write in exporters.items() if key in options_of(write)]
        if switching and key == "hysteresis":
            continue  # the proof of switching takes it
        if not any(key in parameters for parameters in takes.values()):
            of = f"of --as {' or '.join(others)}" if others else "of no such export"
            raise InvalidInputError(f"--{key} is an option {of}, but got --as {text}.")
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
        time_limit=SECONDS,
    )
    if result.continuum is None:
        raise InvalidInputError(
            f"Nothing is certified between the targets: {result.certificates[-1].why} "
            "Export without --certified."
        )
    _check_proven(result.continuum.certificate)
    return result.continuum


def _check_proven(certificate: Certificate) -> None:
    """Say why nothing is written, and exit, where a certificate is no proof."""
    if not is_proven(certificate):
        progress_console.print(f"Nothing was written: {shown(certificate.why)}")
        raise typer.Exit(NOT_PROVEN)


def _write(
    made: PolicyLibrary | ScheduleLibrary,
    to: Path,
    formats: list[str],
    given: dict[str, Any],
    exporters: Mapping[str, Callable[..., Path]],
) -> None:
    """Write to a temporary folder and rename it, so that a failure leaves nothing."""
    command = shlex.join(["taskspace", *sys.argv[1:]])
    draft = to.with_name(f".partial-{os.getpid()}-{to.name}")
    try:
        made.save(draft, command=command)
        for name in formats:
            write = exporters[name]
            own = {key: given[key] for key in options_of(write) if key in given}
            write(made, draft / name, command=command, **own)
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
        f"[bold]{made.size} policies[/bold] in {len(made.regions.policy):,} "
        f"{made.regions.plural}. {kind.capitalize()}: {shown(made.guarantee.statement)}"
    )
    if options.switching:
        why = made.guarantee.values["operation"].get("why", "")
        console.print(shown(made.guarantee.operation or why))
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
