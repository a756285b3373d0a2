"""Runs and selections of format 2, read as what they would be today.

Their policies and chunks are those of today. What differs is the manifest: one JSON
file, one record per block in `blocks/`, `best_known.json`, and for a selection
`selection.json` with everything in it.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from taskspace._util.files import checksum, read_sealed
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.store.base import TRAINED, Source
from taskspace.performance.store.records import (
    Chunk,
    Failure,
    FileFacts,
    Header,
    Layout,
    Number,
    Record,
    Reference,
    SystemFacts,
)
from taskspace.performance.work import Stage
from taskspace.runs.select_spec import rename_former_keys
from taskspace.selection.log import Line, Proposal, Step

__all__ = [
    "FORMER",
    "former_header",
    "former_log",
    "former_records",
    "former_sources",
]

FORMER = "manifest.json"
"""The manifest of format 2."""


class FormerManifest(msgspec.Struct):
    """`manifest.json`."""

    version: int
    experiment: str
    data: dict[str, Any]
    layout: Layout
    notes: dict[str, Any]
    system: SystemFacts
    modules: tuple[str, ...]


class FormerBlock(msgspec.Struct):
    """A record in `blocks/`."""

    files: dict[str, FileFacts]
    failures: dict[str, str] = {}
    top: tuple[Number, ...] | None = None


class FormerReference(msgspec.Struct):
    """`best_known.json`."""

    kind: str
    best_known: tuple[Number, ...]


class FormerSource(msgspec.Struct):
    """A source in `selection.json`."""

    context: tuple[float, ...]
    seed: int
    kind: str
    place: int | None = None
    failure: str | None = None
    columns: tuple[tuple[int, int], ...] | None = None
    made_from: tuple[int, ...] | None = None


class FormerSelection(msgspec.Struct):
    """`selection.json`."""

    asked: dict[str, Any]
    sources: tuple[FormerSource, ...]
    history: tuple[dict[str, int | float], ...]
    hours: float


def former_header(path: Path) -> Header:
    """Return what a run of format 2 says of itself.

    Args:
        path: the run directory.
    """
    try:
        manifest = read_sealed(path / FORMER, FormerManifest)
    except DamagedFileError:
        try:
            old = msgspec.json.decode((path / FORMER).read_bytes(), type=dict)
        except (OSError, ValueError, RecursionError):
            old = {}
        if old.get("version") == 1:
            raise RunStoreError(
                f"{path} has run format 1, this taskspace reads 2 and 3. Use the "
                "taskspace that wrote it, or run the experiment into another directory."
            ) from None
        raise
    data = manifest.data
    if (path / "selection.json").is_file():
        data = rename_former_keys(_selection(path).asked)
    return Header(
        data,
        manifest.layout,
        manifest.notes,
        manifest.system,
        manifest.modules,
        manifest.experiment,
        version=2,
    )


def former_sources(path: Path, sources: list[Source]) -> list[Source]:
    """Return the sources of a run of format 2 with their own seeds and kinds.

    Args:
        path: the run directory.
        sources: those of its experiment.
    """
    if not (path / "selection.json").is_file():
        return sources
    done = [entry for entry in _selection(path).sources if entry.place is not None]
    done.sort(key=lambda entry: entry.place or 0)
    return [
        Source.at(np.array(source.contexts), entry.seed, entry.kind, source.how)[0]
        for source, entry in zip(sources, done, strict=True)
    ]


def former_records(
    path: Path, layout: Layout, sources: list[Source]
) -> tuple[list[Record], list[str]]:
    """Return what a run of format 2 holds, and what is wrong with it.

    Args:
        path: the run directory.
        layout: how its work is cut.
        sources: its sources, in order.
    """
    records: list[Record] = []
    damage: list[str] = []
    failed: dict[Source, str] = {}
    for file in sorted((path / "blocks").glob("*-*.json"), reverse=True):
        stage: Stage = "train" if file.name.startswith("train") else "evaluate"
        block, step = int(file.stem.partition("-")[2]), layout.rows(stage)
        try:
            record = read_sealed(file, FormerBlock)
        except DamagedFileError as error:
            damage.append(str(error))
            continue
        stretch = sources[block * step : (block + 1) * step]
        if stage == "evaluate":
            facts = {name.split("/")[1]: f for name, f in record.files.items()}
            of = checksum(msgspec.json.encode(stretch))
            places = tuple(k for k, s in enumerate(stretch) if s not in failed)
            records.append(Chunk(stage, block, facts, (), of, places, record.top))
            continue
        failed |= {stretch[int(place)]: why for place, why in record.failures.items()}
        if record.files:
            # The file has blanks for what failed, which nobody asks for.
            kept = [
                msgspec.structs.replace(s, kind="blank") if s in failed else s
                for s in stretch
            ]
            facts = {"policies": next(iter(record.files.values()))}
            records.append(Chunk(stage, block, facts, tuple(kept)))
    records += [Failure(source, why) for source, why in failed.items()]
    try:
        reference = read_sealed(path / "best_known.json", FormerReference)
        records.append(Reference(reference.kind, reference.best_known))
    except DamagedFileError as error:
        if (path / "best_known.json").exists():
            damage.append(str(error))
    return records, damage


def former_log(path: Path) -> list[Line]:
    """Return the log of a selection of format 2.

    Args:
        path: the run directory.
    """
    record = _selection(path)
    proposals = [
        Proposal(
            entry.context,
            entry.seed,
            TRAINED if entry.kind == TRAINED else entry.kind,
            entry.columns,
            entry.made_from or (),
        )
        for entry in record.sources
    ]
    ended = tuple(
        number
        for number, entry in enumerate(record.sources)
        if entry.place is not None or entry.failure is not None
    )
    last = len(record.history) - 1
    steps = [
        msgspec.convert(
            {**entry, "done": ended if number == last else (), "hours": record.hours},
            Step,
        )
        for number, entry in enumerate(record.history)
    ]
    return [*proposals, *steps]


def _selection(path: Path) -> FormerSelection:
    return read_sealed(path / "selection.json", FormerSelection)
