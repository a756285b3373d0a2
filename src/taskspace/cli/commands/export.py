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
from taskspace.cli.options import Asking, Reading, argument, as_command, option
from taskspace.cli.output import Answer, progress_console, shown
from taskspace.cover import minimum_cover
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
    "taskspace export scores.csv --ask 'regret <= 5' --to library --as none",
)
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
        f"Exports of the library: {', '.join(EXPORTERS)}; or none.",
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
    takers: dict[str, list[str]] = {}
    for name, write in EXPORTERS.items():
        for key in options_of(write):
            takers.setdefault(key, []).append(name)
    group = []
    for key, names in takers.items():
        write = EXPORTERS[names[0]]
        _, _, text = (inspect.getdoc(write) or "").partition(f"    {key}: ")
        said = text.split("\n")[0].replace("`", "").replace('"', "")
        kind = options_of(write)[key].annotation | None
        group.append((key, kind, option(f"Of {', '.join(names)}: {said}")))
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

    DIR holds the library (JSON, arrays, a contract) and a folder for each export:
    C99 with a self-test, ONNX, PI and PID controllers as C99, look-up tables.
    """
    question, to = asking.question(options.path), options.to
    given = {f.name: getattr(exporting, f.name) for f in fields(exporting)}
    given = {name: value for name, value in given.items() if value is not None}
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InvalidInputError(
            f"{to} must be a new or empty folder, but something is there. Nothing was "
            "changed; choose another one with --to."
        )
    exporters = EXPORTERS if options.schedule is None else SCHEDULE_EXPORTERS
    with progress_console.status("load") as status:
        study = reading.study(options.path)
        if reading.trust and study.experiment is not None:
            study.require_system()  # its module may register exporters
        formats = _formats(options, given, exporters)
        status.update("choose")
        made: Any = library(
            study, question=question, outside=options.outside,  # type: ignore[arg-type]
            **_chosen(options, study, question),
        )  # fmt: skip
        if options.switching:
            status.update("switching")
            band, system = given.get("hysteresis", 0.02), study.require_system()
            made = with_operation(made, system, hysteresis=band, time_limit=SECONDS)
        status.update("write")
        _write(made, to, {name: exporters[name] for name in formats}, given)

    lines = _words(made)
    lines.append(f"Written {to}: {', '.join(['library', *formats])}.")
    if isinstance(made, PolicyLibrary) and made.policies is not None:
        words = ["taskspace", "evaluate", str(to), str(options.path)]
        words += ["--trust"] if reading.trust else []
        lines.append(f"Next: {shlex.join(words)}")
    record = {"library": str(to), "formats": formats, "size": made.size}
    return Answer({**record, **made.contract()}, "\n".join(lines), study.notes)


def _chosen(options: Options, study: Study, question: Question) -> dict[str, Any]:
    """Return the cover or the schedule that is named, certified, or found."""
    if options.schedule is not None:
        if options.sources or options.cover or options.switching:
            raise InvalidInputError(
                "Give --schedule alone, without --sources, --cover or --switching."
            )
        schedule = Schedule.load(options.schedule)
        if not options.certified:
            return {"cover": schedule}
        proof = certify(study, question, schedule=schedule, time_limit=SECONDS)
        _check_proven(proof.certificates[0])
        return {"cover": schedule, "proof": proof}
    sources = selected(options.sources, options.cover, study.table)
    if not options.certified:
        found = sources or minimum_cover(study, question, time_limit=SECONDS)
        return {"cover": found}
    result = certify(study, question, selection=sources, time_limit=SECONDS)
    if result.continuum is None:
        raise InvalidInputError(
            f"Nothing is certified between the targets: {result.certificates[-1].why} "
            "Export without --certified."
        )
    _check_proven(result.continuum.certificate)
    return {"cover": result.continuum}


def _check_proven(certificate: Certificate) -> None:
    """Say why nothing is written, and exit, where a certificate is no proof."""
    if not is_proven(certificate):
        progress_console.print(f"Nothing was written: {shown(certificate.why)}")
        raise typer.Exit(NOT_PROVEN)


def _formats(
    options: Options,
    given: dict[str, Any],
    exporters: Mapping[str, Callable[..., Path]],
) -> list[str]:
    """Return the exporters that are named; refuse options that none of them takes."""
    names = [word.strip() for word in options.formats.split(",")]
    names = [] if names == ["none"] else list(dict.fromkeys(names))
    taken = {"hysteresis"} if options.switching else set()
    for name in names:
        if name not in exporters:
            raise UnknownNameError("export format", name, [*exporters, "none"])
        for key, parameter in options_of(exporters[name]).items():
            taken.add(key)
            if parameter.default is inspect.Parameter.empty and key not in given:
                raise InvalidInputError(
                    f"--as {name} needs --{key}, but there is none. Give both."
                )
    for key in given.keys() - taken:
        of = [name for name, write in exporters.items() if key in options_of(write)]
        raise InvalidInputError(
            f"--{key} is an option of --as {' or '.join(of) or 'no such export'}, but "
            f"got --as {options.formats}."
        )
    return names


def _write(
    made: PolicyLibrary | ScheduleLibrary,
    to: Path,
    exporters: Mapping[str, Callable[..., Path]],
    given: dict[str, Any],
) -> None:
    """Write to a temporary folder and rename it, so that a failure leaves nothing."""
    command = shlex.join(["taskspace", *sys.argv[1:]])
    draft = to.with_name(f".partial-{os.getpid()}-{to.name}")
    try:
        made.save(draft, command=command)
        for name, write in exporters.items():
            own = {key: given[key] for key in options_of(write) if key in given}
            write(made, draft / name, command=command, **own)
        if to.exists():
            to.rmdir()
        draft.replace(to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _words(made: PolicyLibrary | ScheduleLibrary) -> list[str]:
    """Return what is in a library, and what is known of it."""
    guarantee = made.guarantee
    if isinstance(made, ScheduleLibrary):
        return [*made.schedule.rows, f"{guarantee.statement} {DRIFT}"]
    lines = [
        f"{made.size} policies in {len(made.regions.policy):,} {made.regions.plural}. "
        f"{guarantee.kind.capitalize()}: {guarantee.statement}"
    ]
    if operation := guarantee.values.get("operation"):
        lines.append(operation.get("statement") or operation.get("why", ""))
    if made.policies is None:
        lines.append("The library holds names: no policies came with this table.")
    return lines
