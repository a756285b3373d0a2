"""A library as a folder: JSON, plain arrays, and checksums.

```
library.json    what it is, and the SHA-256 of the other files and of itself
contract.json   inputs, outputs, law of selection, what is guaranteed where
arrays.npz      policies and regions, bit for bit; a schedule has none
```

All of it is readable without taskspace. The checksums find damage and careless edits;
they are no signature. Tables for a spreadsheet are an export.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import UNREADABLE, plain, read_record
from taskspace.deploy.base import Guarantee
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import REGION_KINDS
from taskspace.deploy.schedules import ScheduleLibrary
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.schedules.table import Schedule

FORMAT = "taskspace-library"
FORMAT_VERSION = 2
MANIFEST = "library.json"
CONTRACT = "contract.json"
ARRAYS = "arrays.npz"


def save_library(
    library: PolicyLibrary | ScheduleLibrary,
    folder: str | Path,
    command: str | None = None,
) -> Path:
    """Write a library as a folder; the same library gives the same bytes.

    Args:
        library: the library.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    record: dict[str, Any] = {f.name: getattr(library, f.name) for f in fields(library)}
    record |= {"format": FORMAT, "version": FORMAT_VERSION}
    record["guarantee"] = library.guarantee.to_dict()
    files = {CONTRACT: json_bytes(library.contract(command=command))}
    if isinstance(library, ScheduleLibrary):
        record["schedule"] = library.schedule.to_dict()
    else:
        stack, data = writable(library.policies), io.BytesIO()
        parts = {"region": library.regions.arrays()}
        parts["policy"] = {} if stack is None else stack.arrays()
        arrays = {f"{p}_{k}": x for p, named in parts.items() for k, x in named.items()}
        np.savez(data, **arrays)  # type: ignore[arg-type]
        files[ARRAYS] = data.getvalue()
        record |= {"regions": library.regions.kind, "policies": None}
        if stack is not None:
            settings = plain(stack.settings(), nonfinite="text")
            record["policies"] = {"kind": stack.kind, "settings": settings}
    record = plain(record, nonfinite="keep")
    record["files"] = {name: _sha(data) for name, data in files.items()}
    record["checksum"] = digest(record)
    return write_new(folder, {**files, MANIFEST: json_bytes(record)})


def writable(policies: Policy | None) -> Policy | None:
    """Return policies; refuse those that no file can hold.

    Args:
        policies: the stack of a library.
    """
    if policies is not None and policies.kind not in POLICY_KINDS:
        raise InvalidInputError(
            f"Policies must be arrays ({', '.join(POLICY_KINDS)}) to be written, but "
            f"these are of kind {policies.kind!r}. Write their names alone: "
            "dataclasses.replace(library, policies=None)."
        )
    return policies


def load_library(folder: str | Path) -> PolicyLibrary | ScheduleLibrary:
    """Load the library of a folder; refuse one that was changed or cut short.

    Args:
        folder: what `save_library` wrote.
    """
    folder = Path(folder)
    try:
        record = _manifest(folder)
        guarantee = Guarantee.from_dict(record["guarantee"])
        if "schedule" in record:
            _read(folder, record, CONTRACT)
            given: dict[str, Any] = {"schedule": Schedule.from_dict(record["schedule"])}
            kind: type[Any] = ScheduleLibrary
        else:
            data = _read(folder, record, CONTRACT, ARRAYS)
            given = _policies_and_regions(record, data)
            kind = PolicyLibrary
    except InvalidInputError:
        raise
    except UNREADABLE as error:
        raise InvalidInputError(
            f"{folder} must be a library written by taskspace, but it cannot be read: "
            f"{error!r}."
        ) from error
    given["guarantee"] = guarantee
    return read_record(record, kind, str(folder / MANIFEST), **given)


def _manifest(folder: Path) -> dict[str, Any]:
    """Return what `library.json` says; refuse another format, and a changed file."""
    file = folder / MANIFEST
    if not file.is_file():
        raise InvalidInputError(
            f"{folder} must be a library folder, but it has no {MANIFEST}. Make one "
            "with: taskspace export RUN --ask QUESTION --to DIR"
        )
    record = json.loads(file.read_text(encoding="utf-8"))
    found = record["format"], record["version"]
    if found != (FORMAT, FORMAT_VERSION):
        raise InvalidInputError(
            f"{file} must have format {FORMAT} {FORMAT_VERSION}, but has {found[0]} "
            f"{found[1]}. Export the library again."
        )
    if record.pop("checksum", None) != digest(record):
        raise _damaged(file, "that it records of itself")
    return record


def _read(folder: Path, record: Mapping[str, Any], *names: str) -> bytes:
    """Return the last of some files; refuse any that was changed or is missing."""
    data, sums = b"", record["files"]
    if sorted(sums) != sorted(names):
        raise InvalidInputError(
            f"{folder / MANIFEST} must name the files {', '.join(names)}, but names "
            f"{', '.join(sums)}."
        )
    for name in names:
        file = folder / name
        data = file.read_bytes() if file.is_file() else b""
        if _sha(data) != sums[name]:
            raise _damaged(file, f"that {MANIFEST} records")
    return data


def _damaged(file: Path, which: str) -> InvalidInputError:
    return InvalidInputError(
        f"{file} must have the checksum {which}, but it is missing, was changed or cut "
        "short. Export the library again."
    )


def _policies_and_regions(record: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """Return the fields of a policy library that are arrays."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        found = dict(arrays)

    def arrays_of(thing: str) -> dict[str, NDArray[Any]]:
        names = [name for name in found if name.startswith(thing)]
        return {name.removeprefix(thing): found[name] for name in names}

    if record["regions"] not in REGION_KINDS:
        raise UnknownNameError("kind of regions", record["regions"], REGION_KINDS)
    regions = REGION_KINDS[record["regions"]].from_arrays(arrays_of("region_"))
    stack, policies = None, record["policies"]
    if policies is not None:
        settings = {
            k: float(v) if v in ("inf", "-inf") else v
            for k, v in policies["settings"].items()
        }
        kind = POLICY_KINDS[policies["kind"]]
        stack = kind.from_arrays(arrays_of("policy_"), settings)
    return {"regions": regions, "policies": stack}


# --- bytes ------------------------------------------------------------------------


def write_new(folder: str | Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder that is new or empty.

    Args:
        folder: the folder.
        files: contents by name; the last is written last.
    """
    folder = Path(folder)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInputError(
                f"{folder} must be a new or empty folder, but something is there. "
                "Nothing was changed; choose another one."
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise InvalidInputError(
            f"{folder} must be a folder that can be written: {error}."
        ) from error
    return folder


def json_bytes(record: Mapping[str, Any]) -> bytes:
    """Return a record as a JSON file.

    Args:
        record: plain values.
    """
    text = json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def digest(record: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, which lacks that of itself.

    Args:
        record: plain values.
    """
    return _sha(json.dumps(record, sort_keys=True, allow_nan=False).encode())


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
