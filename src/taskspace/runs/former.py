"""Runs and selections of format 2, read as what they would be today.

Their policies and chunks are those of today. What differs is the manifest: one JSON
file, one record per block in `blocks/`, `best_known.json`, and for a selection
`selection.json` with everything in it.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import checksum, read_sealed
from taskspace.errors import RunStoreError
from taskspace.performance.store.base import Source
from taskspace.performance.store.records import (
    Chunk,
    Failure,
    Header,
    Record,
    Reference,
)
from taskspace.runs.manifest import FORMER
from taskspace.runs.specs import rename_former_keys
from taskspace.selection.log import Line

Values = dict[str, Any]


def read_former(path: Path) -> tuple[Header, Values | None]:
    """Return what a run of format 2 says of itself, and the record of a selection.

    Args:
        path: the run directory.
    """
    manifest, file = read_sealed(path / FORMER, Values), path / "selection.json"
    if manifest["version"] != 2:
        raise RunStoreError(
            f"{path} has run format {manifest['version']}, this taskspace reads 2 and "
            "3. Use the taskspace that wrote it, or run the experiment into another "
            "directory."
        )
    selection = read_sealed(file, Values) if file.is_file() else None
    if selection is not None:
        manifest["data"] = rename_former_keys(selection["asked"])
    return msgspec.convert(manifest | {"line": "header"}, Header), selection


def former_sources(
    rows: NDArray[np.float64], how: str, header: Header, selection: Values | None
) -> list[Source]:
    """Return the sources of a run of format 2, in the order of its table.

    Args:
        rows: full context rows of its sources.
        how: what stands for the system and the trainer.
        header: what it says of itself.
        selection: the record of a selection.
    """
    if selection is None:
        return Source.at(rows, header.data["seed"], how=how)
    done = [each for each in selection["sources"] if each.get("place") is not None]
    done.sort(key=lambda each: each["place"])
    return [
        Source.at(row[None], each["seed"], each["kind"], how)[0]
        for row, each in zip(rows, done, strict=True)
    ]


def former_records(path: Path, header: Header, sources: list[Source]) -> list[Record]:
    """Return what a run of format 2 holds.

    Args:
        path: the run directory.
        header: what it says of itself.
        sources: its sources, in order.
    """
    records: list[Any] = []
    failed: dict[Source, str] = {}
    # Trainings first: an evaluation leaves out what failed.
    for file in sorted((path / "blocks").glob("*-*.json"), reverse=True):
        stage, number = ("train" if file.name[:2] == "tr" else "evaluate"), file.stem
        block, step = int(number.partition("-")[2]), header.layout.rows(stage)
        stretch = sources[block * step : (block + 1) * step]
        values = read_sealed(file, Values)
        for place, why in values.pop("failures", {}).items():
            failed[stretch[int(place)]] = why
        names = {name: name.split("/")[1] for name in values["files"]}
        if stage == "train":
            names = dict.fromkeys(names, "policies")
            # The file has blanks for what failed, which no reader asks for.
            blanks = [(s, "blank" if s in failed else s.kind) for s in stretch]
            values["sources"] = [msgspec.structs.replace(s, kind=k) for s, k in blanks]
        else:
            values["of"] = checksum(msgspec.json.encode(stretch))
            values["places"] = [k for k, s in enumerate(stretch) if s not in failed]
        values["files"] = {names[name]: f for name, f in values["files"].items()}
        if values["files"]:
            values |= {"line": "chunk", "stage": stage, "block": block}
            records.append(msgspec.convert(msgspec.to_builtins(values), Chunk))
    records += [Failure(source, why) for source, why in failed.items()]
    if (path / "best_known.json").is_file():
        known = read_sealed(path / "best_known.json", Values) | {"line": "reference"}
        records.append(msgspec.convert(known, Reference))
    return records


def former_log(selection: Values) -> list[Line]:
    """Return the log of a selection of format 2.

    Args:
        selection: its record.
    """
    sources, history = selection["sources"], selection["history"]
    ended = [k for k, each in enumerate(sources) if {"place", "failure"} & set(each)]
    last = {"done": ended, "hours": selection["hours"]}
    proposals = [each | {"line": "proposal"} for each in sources]
    steps = [each | {"line": "step"} for each in history]
    steps[-1:] = [each | last for each in steps[-1:]]
    return msgspec.convert([*proposals, *steps], list[Line])
