"""A library as a folder: JSON, plain arrays, tables for a spreadsheet, checksums.

```
library.json    what it is, and the SHA-256 of every other file and of itself
contract.json   inputs, outputs, law of selection, what is guaranteed where
policies.csv    one row per policy: its source, its gains
map.csv         context -> policy -> gains, one row per region
arrays/*.npy    policies and regions, bit for bit
```

Everything is readable without taskspace: `json`, `numpy.load`, a spreadsheet. The
checksums find damage and careless edits; they are no signature.
"""

import csv
import hashlib
import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.files import plain
from taskspace._util.records import read_record
from taskspace.deploy.base import (
    Entry,
    Guarantee,
    Outside,
    PolicyLibrary,
    Status,
    signal_sizes,
)
from taskspace.deploy.regions import REGION_KINDS, BoxRegions, GridRegions
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import (
    POLICY_KINDS,
    LinearController,
    LinearGain,
    Mlp,
    Policy,
    TabularPolicy,
)

FORMAT = "taskspace-library"
SCHEDULE_FORMAT = "taskspace-schedule-library"
FORMAT_VERSION = 1
OUTSIDE_WORDS = {
    "refuse": "no policy (status refused)",
    "clamp": "the policy of the nearest context inside (status outside)",
}
MANIFEST = "library.json"
FILE_NAME = re.compile(r"(contract\.json|\w+\.csv|arrays/\w+\.npy)")


def save_library(
    library: PolicyLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write a library as a folder; the same library gives the same bytes.

    Policies that are Python objects cannot be written and are refused; see
    `writable`.

    Args:
        library: the library.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    files = {"contract.json": contract_bytes(library, command), **table_files(library)}
    stack = writable(library.policies)
    for name, array in library.regions.arrays().items():
        files[f"arrays/region_{name}.npy"] = _npy(array)
    for name, array in (stack.arrays() if stack is not None else {}).items():
        files[f"arrays/policy_{name}.npy"] = _npy(array)
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "names": list(library.names),
        "units": list(library.units),
        "log_axes": list(library.log_axes),
        "fixed": dict(library.fixed),
        "outside": library.outside,
        "rule": library.rule,
        "targets": list(library.targets),
        "regions": {"kind": library.regions.kind},
        "entries": [entry.to_dict() for entry in library.entries],
        "policies": None
        if stack is None
        else {
            "kind": stack.kind,
            "settings": plain(stack.settings(), nonfinite="text"),
        },
        "guarantee": library.guarantee.to_dict(),
        "provenance": dict(library.provenance),
    }
    return write_library(folder, record, files)


def write_library(
    folder: str | Path, record: Mapping[str, Any], files: Mapping[str, bytes]
) -> Path:
    """Write files, and last a manifest with the checksums of all of them.

    Args:
        folder: a folder that does not exist or is empty.
        record: the manifest.
        files: contents by path within the folder.
    """
    sums = {name: _sha(data) for name, data in sorted(files.items())}
    record = {**record, "files": sums}
    record["checksum"] = _digest(record)
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


def load_library(folder: str | Path) -> PolicyLibrary:
    """Load the library of a folder; refuse one that was changed or cut short.

    Args:
        folder: what `save_library` wrote.
    """
    folder = Path(folder)
    record = read_record(read_manifest(folder), _Manifest, str(folder / MANIFEST))
    data = checked_files(folder, record.files)
    try:
        return _rebuild(record, data)
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, EOFError) as error:
        raise InvalidInputError(
            f"{folder} must be a library written by taskspace, but it cannot be read: "
            f"{error!r}."
        ) from error


def checked_files(folder: Path, files: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that a manifest names; refuse those that were changed.

    Args:
        folder: where they are.
        files: the SHA-256 of each by name.
    """
    data: dict[str, bytes] = {}
    for name, expected in files.items():
        if not FILE_NAME.fullmatch(name):
            raise InvalidInputError(
                f"{folder / MANIFEST} must name files of a library, but names {name!r}."
            )
        file = folder / name
        if not file.is_file():
            raise InvalidInputError(
                f"{folder} must hold every file of its library, but {name} is missing."
                " Export it again."
            )
        data[name] = file.read_bytes()
        if _sha(data[name]) != expected:
            raise InvalidInputError(
                f"{file} must have the checksum that {MANIFEST} records, but it was "
                "changed or cut short. Export the library again."
            )
    return data


class _Kind(msgspec.Struct):
    """What kind of regions or policies the arrays hold, and their settings."""

    kind: str
    settings: dict[str, Any] = {}


class _Manifest(msgspec.Struct):
    """What `library.json` says; the arrays are in files of their own."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    fixed: dict[str, float]
    outside: Outside
    rule: str
    regions: _Kind
    entries: tuple[Entry, ...]
    policies: _Kind | None
    guarantee: dict[str, Any]
    provenance: dict[str, Any]
    files: dict[str, str]
    log_axes: tuple[bool, ...] = ()
    targets: tuple[str, ...] = ()


def _rebuild(record: _Manifest, data: Mapping[str, bytes]) -> PolicyLibrary:
    def arrays_of(thing: str) -> dict[str, NDArray[Any]]:
        start = f"arrays/{thing}_"
        names = [name for name in data if name.startswith(start)]
        return {
            name.removeprefix(start).removesuffix(".npy"): np.load(
                io.BytesIO(data[name]), allow_pickle=False
            )
            for name in names
        }

    stack = None
    if record.policies is not None:
        settings = {
            k: float(v) if v in ("inf", "-inf") else v
            for k, v in record.policies.settings.items()
        }
        kind = POLICY_KINDS[record.policies.kind]
        stack = kind.from_arrays(arrays_of("policy"), settings)
    if record.regions.kind not in REGION_KINDS:
        raise UnknownNameError("kind of regions", record.regions.kind, REGION_KINDS)
    return PolicyLibrary(
        record.entries,
        REGION_KINDS[record.regions.kind].from_arrays(arrays_of("region")),
        Guarantee.from_dict(record.guarantee),
        record.names,
        record.units,
        stack,
        record.outside,
        record.fixed,
        record.rule,
        record.provenance,
        record.log_axes,
        record.targets,
    )


def read_manifest(folder: Path, kind: str = FORMAT) -> dict[str, Any]:
    """Return what `library.json` says; refuse another kind of library.

    Args:
        folder: where it is.
        kind: its format.
    """
    file = folder / MANIFEST
    if not file.is_file():
        raise InvalidInputError(
            f"{folder} must be a library folder, but it has no {MANIFEST}. Make one "
            "with: taskspace export RUN --ask QUESTION --to DIR"
        )
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        name, number = record["format"], record["version"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{file} must be a manifest written by taskspace, but it cannot be read: "
            f"{error!r}."
        ) from error
    if name != kind or number != FORMAT_VERSION:
        known = {FORMAT: "PolicyLibrary.load", SCHEDULE_FORMAT: "ScheduleLibrary.load"}
        reader = known.get(name, "the taskspace that wrote it")
        raise InvalidInputError(
            f"{file} must have format {kind} {FORMAT_VERSION}, but has {name} "
            f"{number}. Use {reader}."
        )
    if record.pop("checksum", None) != _digest(record):
        raise InvalidInputError(
            f"{file} must have the checksum that it records of itself, but it was "
            "changed. Export the library again."
        )
    return record


# --- the contract -----------------------------------------------------------------


def contract(
    library: PolicyLibrary,
    *,
    command: str | None = None,
    arithmetic: str = "double",
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a library takes, gives and promises, as plain JSON values.

    Args:
        library: the library.
        command: what was typed to make it.
        arithmetic: precision of the export that it lies beside.
        notes: what else its users must know.
    """
    axes = zip(library.names, library.units, library.low, library.high, strict=True)
    context: list[dict[str, Any]] = [
        {"name": n, "unit": u, "low": float(a), "high": float(b)} for n, u, a, b in axes
    ]
    if library.question is not None and library.question.error is not None:
        errors = library.question.error.to_dict()
        for axis in context:
            axis["error"] = errors.get(axis["name"], 0.0)
    if library.targets:
        context = [{"name": "target", "values": list(library.targets)}]
    signals = _signals(library)
    return {
        "format": "taskspace-contract",
        "version": 1,
        "inputs": {
            "context": context,
            "fixed": dict(library.fixed),
            "observation": signals["observation"],
        },
        "outputs": {
            "policy": {
                "values": [e.name for e in library.entries],
                "none": -1,
            },
            "status": {s.name.lower(): int(s) for s in Status},
            "action": signals["action"],
        },
        "selection": {
            "law": library.regions.law,
            "kind": library.regions.kind,
            **_borders(library),
            "regions": len(library.regions.policy),
            "rule": library.rule,
            "outside": OUTSIDE_WORDS[library.outside],
            "not_finite": "no policy (status refused)",
        },
        "guarantee": library.guarantee.to_dict() | {"applies": _applies(library)},
        "objective": library.provenance.get("objective")
        or {"statement": library.provenance.get("cost", "")},
        "arithmetic": arithmetic,
        "notes": list(notes),
        "made": {
            "command": command,
            "versions": versions(),
            "provenance": dict(library.provenance),
        },
    }


def contract_bytes(
    library: PolicyLibrary,
    command: str | None,
    arithmetic: str = "double",
    notes: Sequence[str] = (),
) -> bytes:
    """Return the contract as the file that lies beside every export.

    Args:
        library: the library.
        command: what was typed to make it.
        arithmetic: precision of the export.
        notes: what else its users must know.
    """
    record = contract(library, command=command, arithmetic=arithmetic, notes=notes)
    return json_bytes(record)


def _borders(library: PolicyLibrary) -> dict[str, Any]:
    """Of a grid: where on each axis one value ends and the next begins."""
    regions = library.regions
    if not isinstance(regions, GridRegions):
        return {}
    borders = zip(library.names, regions.borders, strict=True)
    return {"borders": {name: border.tolist() for name, border in borders}}


def _applies(library: PolicyLibrary) -> str:
    if not library.guarantee.speaks:
        return "to no single context"
    status = library.guarantee.status.name.lower()
    return f"where the status is {status}, and nowhere else"


def _signals(library: PolicyLibrary) -> dict[str, Any]:
    """Return what observations and actions are, None each where that is not known."""
    stack, sizes = library.policies, signal_sizes(library.policies)
    if sizes is None:
        return {"observation": None, "action": None}
    n_seen, n_actions = sizes
    seen: dict[str, Any] = {"size": n_seen}
    action: dict[str, Any] = {"size": n_actions}
    if isinstance(stack, LinearGain):
        seen |= {"meaning": "state x"} | _names(library, "states", n_seen)
        action |= {"meaning": "input u = -K x"} | _names(library, "inputs", n_actions)
    elif isinstance(stack, LinearController):
        seen["meaning"] = "measured outputs y"
        action["meaning"] = (
            "input u = -(C x_c + D y + D_r r), x_c the controller's "
            f"{stack.n_states} states"
        )
    elif isinstance(stack, Mlp):
        is_number = stack.head == "argmax"
        action["meaning"] = "number of the action" if is_number else "action"
    elif isinstance(stack, TabularPolicy):
        n_states, n_choices = stack.probabilities.shape[-2:]
        seen["meaning"] = f"state, 0 to {n_states - 1}"
        action["meaning"] = f"action, 0 to {n_choices - 1}"
    return {"observation": seen, "action": action}


def _names(library: PolicyLibrary, which: str, n: int) -> dict[str, Any]:
    """Return names of states or inputs in their order, where the system says them."""
    names = library.provenance.get("objective", {}).get(which, ())
    return {"names": list(names)} if len(names) == n else {}


def versions() -> dict[str, str]:
    """Return the versions of Python and of what computed a library."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("taskspace", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


# --- tables for a spreadsheet -------------------------------------------------------


def table_files(library: PolicyLibrary) -> dict[str, bytes]:
    """Return both tables as files by name.

    Args:
        library: the library.
    """
    tables = {"policies.csv": policy_table(library), "map.csv": map_table(library)}
    return {name: csv_text(*table).encode() for name, table in tables.items()}


def policy_table(library: PolicyLibrary) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the policies: source, share of the map, gains.

    Args:
        library: the library.
    """
    contexts = list(dict.fromkeys(n for e in library.entries for n in e.context))
    columns, gains = parameter_table(library)
    head = ["policy", "name", "source", "member", "share"]
    header = [*head, *(f"source_{n}" for n in contexts), *columns]
    rows = [
        [i, e.name, e.source, e.member, float(share)]
        + [e.context.get(n, "") for n in contexts]
        + gains[i].tolist()
        for i, (e, share) in enumerate(
            zip(library.entries, library.shares(), strict=True)
        )
    ]
    return header, rows


def map_table(library: PolicyLibrary) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the regions: context, policy, what is known, gains.

    Args:
        library: the library.
    """
    regions = library.regions
    if library.targets:
        header, where = ["target"], [[name] for name in library.targets]
    elif isinstance(regions, BoxRegions) and regions.nodes is None:
        header = [f"{n}_{end}" for n in library.names for end in ("low", "high")]
        corners = np.stack([regions.box_low, regions.box_high], -1)
        where = corners.reshape(len(corners), -1).tolist()
    else:
        header, where = list(library.names), regions.centres.tolist()
    columns, gains = parameter_table(library)
    blank = [""] * len(columns)
    rows = []
    for place, p, served, status, margin in zip(
        where,
        regions.policy.tolist(),
        regions.served.tolist(),
        library.statuses().tolist(),
        regions.margin.tolist(),
        strict=True,
    ):
        name = library.entries[p].name if p >= 0 else ""
        room = "" if np.isnan(margin) else margin
        gain = gains[p].tolist() if p >= 0 else blank
        word = Status(status).name.lower()
        rows.append([*place, p, name, int(served), word, room, *gain])
    head = ["policy", "name", "served", "status", "margin"]
    return [*header, *head, *columns], rows


def parameter_table(library: PolicyLibrary) -> tuple[list[str], Array]:
    """Return names and values of the gains or parameters, one row per policy.

    Args:
        library: the library; networks and tables of actions have none.
    """
    stack = library.policies
    if isinstance(stack, LinearController):
        assert stack.parameters is not None
        return list(stack.names), stack.parameters
    if not isinstance(stack, LinearGain):
        return [], np.empty((library.size, 0))
    _, n_inputs, n_states = stack.gain.shape
    places = product(range(1, n_inputs + 1), range(1, n_states + 1))
    return [f"K_{i}_{j}" for i, j in places], stack.gain.reshape(library.size, -1)


def csv_text(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as CSV, numbers with the digits they need to come back.

    Args:
        header: names of the columns.
        rows: the rows.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Put an apostrophe before a name that a spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(tuple("=+-@\t"))
    return f"'{value}" if is_formula else value


# --- bytes ------------------------------------------------------------------------


def write_new(folder: str | Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder that is new or empty.

    Args:
        folder: the folder.
        files: contents by path within it; the last is written last.
    """
    folder = Path(folder)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInputError(
                f"{folder} must be a new or empty folder, but something is there. "
                "Nothing was changed; choose another one."
            )
        for name, data in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
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


def _digest(record: Mapping[str, Any]) -> str:
    return _sha(json.dumps(record, sort_keys=True, allow_nan=False).encode())


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _npy(array: NDArray[Any]) -> bytes:
    raw = io.BytesIO()
    np.save(raw, np.ascontiguousarray(array), allow_pickle=False)
    return raw.getvalue()
