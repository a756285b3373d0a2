"""One compact file for a run: its table, its experiment, and what reading must know.

An npz file that needs neither taskspace nor the user's code to be read:
`performance` with dims (source, policy, target), `home_performance`, `best_known`,
`environment_steps`, `standard_error` where numbers are sampled, the experiment as TOML
text, and notes as JSON. Every array has its checksum.
"""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from taskspace._files import checksum, replacing
from taskspace.errors import InvalidInputError
from taskspace.performance import make_table
from taskspace.performance.table import DIMS
from taskspace.runs.experiment import Experiment
from taskspace.runs.objects import Code
from taskspace.runs.store import RunStore
from taskspace.systems import SYSTEMS

__all__ = ["Archive", "is_archive", "read_archive", "write_archive"]

ARRAYS = (
    "performance",
    "home_performance",
    "best_known",
    "environment_steps",
    "standard_error",
)
FORMAT_VERSION = 2
# An archive holds at most this many bytes of arrays; a header may claim anything.
MAX_BYTES = 2**33


class Archive:
    """What an archive holds.

    Args:
        table: the performance table.
        experiment: the experiment, whose code is not imported.
        system: what reading must know of the system: its axes, what is solved.
    """

    def __init__(
        self, table: xr.Dataset, experiment: Experiment, system: dict[str, Any]
    ):
        self.table, self.experiment, self.system = table, experiment, system


def write_archive(run: RunStore, path: str | Path) -> Path:
    """Write the table of a run into one compressed file, without loss.

    Args:
        run: a run that holds J itself (not only its reductions).
        path: the file, ending in `.npz`.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInputError(f"An archive must end in .npz, but got {path.name}.")
    table = run.table()
    if "performance" not in table:
        raise InvalidInputError(
            f"{run.path} holds only reductions of J, too many numbers for one file."
        )
    if int(table.attrs.get("n_planned", 0)):
        raise InvalidInputError(
            f"{run.path} is not finished. Go on with: {run.resume_command}"
        )
    arrays = {name: table[name].values for name in ARRAYS if name in table}
    for name in ("performance", "standard_error"):
        # Means of a power of two of whole returns fit into half the bytes.
        if name in arrays:
            short = arrays[name].astype(np.float32)
            if name == "standard_error" or (short == arrays[name]).all():
                arrays[name] = short
    notes = {
        "format": "taskspace-archive",
        "version": FORMAT_VERSION,
        "attrs": dict(table.attrs),
        "system": run.system,
        "crc32c": {name: checksum(a.tobytes()) for name, a in arrays.items()},
    }
    if "source_kind" in table.coords:
        notes["source_kind"] = table["source_kind"].values.tolist()
    text = run.experiment.to_toml()
    notes["crc32c"]["experiment"] = checksum(text.encode())
    body = json.dumps(notes)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            experiment=np.array(text),
            notes=np.array(body),
            notes_crc32c=np.array(checksum(body.encode())),
            **arrays,
        )
    return path


def is_archive(path: str | Path) -> bool:
    """Whether a file is such an archive.

    Args:
        path: any path.
    """
    path = Path(path)
    try:
        if path.suffix != ".npz" or not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as file:
            return "experiment.npy" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_archive(path: str | Path, *, trust: bool = False) -> Archive:
    """The table and the experiment of an archive; no code that it names is imported.

    Args:
        path: the file.
        trust: code that it names may be imported later, where it is needed.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as file:
            claimed = sum(item.file_size for item in file.infolist())
        if claimed > MAX_BYTES:
            raise InvalidInputError(
                f"{path} claims to hold {claimed:,} bytes, more than an archive may."
            )
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            values = {name: data[name] for name in data.files}
        text = str(values["experiment"])
        notes = _notes(values)
        for name, seal in notes["crc32c"].items():
            raw = text.encode() if name == "experiment" else values[name].tobytes()
            if checksum(raw) != seal:
                raise ValueError(f"the checksum of {name} does not fit")
        arrays = {name: values[name] for name in ARRAYS if name in values}
        for name, array in arrays.items():
            if array.ndim != len(DIMS[name]):
                raise ValueError(f"{name} must have {len(DIMS[name])} dims")
        code = Code(trust, (path.parent,), checks_types=True)
        origin = f"the experiment in {path}"
        experiment = Experiment.from_toml(text, origin=origin, code=code)
        for name in ("performance", "standard_error"):
            if name in arrays:
                arrays[name] = arrays[name].astype(np.float64)
        if "notes" not in values and experiment.system.get("id") in SYSTEMS:
            known = SYSTEMS[experiment.system["id"]].provenance
            notes["attrs"]["provenance"] = known
        table = make_table(
            arrays, experiment.sources, experiment.target_space, notes["attrs"]
        )
        if kinds := notes.get("source_kind"):
            table = table.assign_coords(source_kind=("source", kinds))
        return Archive(table, experiment, notes["system"])
    except InvalidInputError:
        raise
    except (
        OSError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        EOFError,
        MemoryError,
        RecursionError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InvalidInputError(
            f"{path} is not a whole archive of a run: {error}."
        ) from error


def _notes(values: dict[str, Any]) -> dict[str, Any]:
    """The notes of an archive; an old one has none, and says nothing of its numbers."""
    if "notes" not in values:
        kind = str(values["best_known_kind"])
        attrs = {"best_known_kind": kind, "provenance": "given"}
        return {"attrs": attrs, "system": {"axes": []}, "crc32c": {}}
    body = str(values["notes"])
    if checksum(body.encode()) != str(values["notes_crc32c"]):
        raise ValueError("the checksum of its notes does not fit")
    notes = json.loads(body)
    if notes["version"] != FORMAT_VERSION:
        raise InvalidInputError(
            f"The archive has format {notes['version']}, this taskspace reads "
            f"{FORMAT_VERSION}. Use the taskspace that wrote it."
        )
    return notes
