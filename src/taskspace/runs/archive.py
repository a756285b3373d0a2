"""One compact file for a run: its table, its experiment, policies, and what to know.

An npz file that needs neither taskspace nor the user's code to be read:
`performance` with dims (source, policy, target), `home_performance`, `best_known`,
`environment_steps`, `standard_error` where numbers are sampled, the policies of some or
all sources (`policy_…`, of the sources `policy_sources`), the experiment as TOML text,
and notes as JSON. Every array has its checksum.

Version 2 has no policies; it is read too.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import checksum, plain, replacing
from taskspace.cover import METHODS
from taskspace.errors import (
    InvalidInputError,
    TaskspaceError,
    UnknownNameError,
)
from taskspace.performance import make_table
from taskspace.performance.io.limits import read_arrays
from taskspace.performance.store.blocks import UNREADABLE, PolicyFacts
from taskspace.performance.store.records import SystemFacts
from taskspace.performance.study import Study, StudyParts
from taskspace.policies import Policy
from taskspace.runs.experiment import Experiment
from taskspace.runs.objects import Code
from taskspace.runs.recheck import check_archived_plant
from taskspace.runs.results import Results
from taskspace.runs.store import RunStore
from taskspace.systems.base import System

ARRAYS = (
    "performance",
    "home_performance",
    "best_known",
    "environment_steps",
    "standard_error",
    "trained_on",
)
FORMAT_VERSION = 3
READABLE_VERSIONS = (2, 3)
MAX_BYTES = 2**32
"""An archive holds at most this many bytes of arrays."""

ALL_POLICIES_BYTES = 2**23
"""Policies of all sources come along if they take no more than this."""

KEPT_POLICIES = ("auto", "all", "covers", "none")


class ArchiveNotes(msgspec.Struct):
    """What an archive says of itself.

    Args:
        attrs: attributes of the table.
        system: what reading must know of the system.
        version: version of the format.
        policies: what the policies are beside their arrays.
        crc32c: checksums of the arrays, by name.
        source_kind: where the policies of each source come from, if not all are
            trained.
    """

    attrs: dict[str, Any]
    system: SystemFacts
    version: int
    policies: PolicyFacts | None = None
    crc32c: dict[str, str] = {}
    source_kind: list[str] | None = None


def write_archive(run: RunStore, path: str | Path, *, policies: str = "auto") -> Path:
    """Write a run into one compressed file, without loss.

    Args:
        run: a run that holds J itself (not only its reductions).
        path: the file, ending in `.npz`.
        policies: whose policies come along: of `"all"` sources, of those that the
            stored `"covers"` select, of `"none"`; or `"auto"`, all if they take no
            more than 8 MB, otherwise those of the covers.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInputError(f"An archive must end in .npz, but got {path.name}.")
    if policies not in KEPT_POLICIES:
        raise UnknownNameError("choice of policies:", policies, KEPT_POLICIES)
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
    stack = run.table_policies()
    numbers = _kept_sources(run, stack, policies)
    if len(numbers):
        kept = {k: np.asarray(v[numbers]) for k, v in stack.arrays().items()}
        arrays |= {f"policy_{name}": values for name, values in kept.items()}
        arrays["policy_sources"] = numbers
    total = sum(array.nbytes for array in arrays.values())
    if total > MAX_BYTES:
        raise InvalidInputError(
            f"An archive holds at most {MAX_BYTES:,} bytes, but {run.path} has "
            f"{total:,}. Leave policies out with --policies none."
        )
    notes = {
        "format": "taskspace-archive",
        "version": FORMAT_VERSION,
        "attrs": dict(table.attrs),
        "system": msgspec.to_builtins(run.system),
        "policies": {
            "kind": stack.kind,
            "settings": plain(stack.settings(), nonfinite="text"),
        },
        "crc32c": {name: checksum(array) for name, array in arrays.items()},
    }
    if "source_kind" in table.coords:
        notes["source_kind"] = table["source_kind"].values.tolist()
    text = run.trained_experiment().to_toml()
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


def _kept_sources(run: RunStore, stack: Policy, policies: str) -> NDArray[np.int64]:
    """Numbers of the sources, in the table, whose policies come along."""
    arrays = stack.arrays().values()
    n_sources = len(next(iter(arrays)))
    if policies == "auto":
        small = sum(array.nbytes for array in arrays) <= ALL_POLICIES_BYTES
        policies = "all" if small else "covers"
    if policies == "all":
        return np.arange(n_sources)
    if policies == "none":
        return np.zeros(0, np.int64)
    covers = [found.cover for found in Results.load(run.path / "results.json").covers]
    # Those that were chosen; a random cover takes almost every source.
    chosen = [cover for cover in covers if METHODS[cover.method].needs_whole_table]
    return np.unique([k for c in chosen or covers for k in c.sources]).astype(int)


def read_archive(path: str | Path, *, trust: bool = False) -> Study:
    """Return the study of an archive; no code that it names is imported.

    Args:
        path: the file.
        trust: code that it names may be imported later, where it is needed.
    """
    path = Path(path)
    try:
        values = read_arrays(path, str(path))
        text, notes = str(values.pop("experiment")), _notes(values)
        for name, seal in notes.crc32c.items():
            raw = text.encode() if name == "experiment" else values[name]
            if checksum(raw) != seal:
                raise ValueError(f"the checksum of {name} does not fit")
        experiment = Experiment.from_toml(
            text,
            origin=f"the experiment in {path}",
            code=Code(trust, (path.parent,)),
        )
        sources, targets = experiment.sources, experiment.target_space
        arrays = {name: values[name] for name in ARRAYS if name in values}
        for name in ("performance", "standard_error"):
            if name in arrays:
                arrays[name] = arrays[name].astype(np.float64, copy=False)
        table = make_table(arrays, sources, targets, notes.attrs)
        if kinds := notes.source_kind:
            table = table.assign_coords(source_kind=("source", kinds))
        policies, without = _policies(values, notes, sources.size)
    except InvalidInputError:
        raise
    except (*UNREADABLE, TaskspaceError) as error:
        raise InvalidInputError(
            f"{path} is not a whole archive of a run: {error}."
        ) from error

    def system() -> System:
        built = experiment.built_system
        if policies is not None and without is not None and not without.any():
            check_archived_plant(str(path), table, policies, experiment)
        return built

    return Study(
        StudyParts(
            origin=str(path),
            table=lambda: table,
            system=system,
            axes=lambda: notes.system.context_axes,
            solved_return=lambda: notes.system.solved_return,
            policies=lambda: policies,
            without_policies=lambda: without,
            targets=lambda: experiment.target_space,
            experiment=lambda: experiment,
        )
    )


def _notes(values: dict[str, Any]) -> ArchiveNotes:
    body = str(values["notes"])
    if checksum(body.encode()) != str(values["notes_crc32c"]):
        raise ValueError("the checksum of its notes does not fit")
    notes = msgspec.json.decode(body, type=ArchiveNotes)
    if notes.version not in READABLE_VERSIONS:
        raise InvalidInputError(
            f"The archive has format {notes.version}, this taskspace reads up to "
            f"{FORMAT_VERSION}. Use the taskspace that wrote it."
        )
    return notes


def _policies(
    values: dict[str, Any], notes: ArchiveNotes, n_sources: int
) -> tuple[Policy | None, NDArray[np.bool_] | None]:
    """Return the policies that came along, and which sources have none."""
    if "policy_sources" not in values or notes.policies is None:
        return None, None
    numbers = values["policy_sources"]
    without = ~np.isin(np.arange(n_sources), numbers)
    # A source without policies has those of another one, which are not used.
    place = np.searchsorted(numbers, np.arange(n_sources)).clip(max=len(numbers) - 1)
    arrays = {
        name.removeprefix("policy_"): array[place]
        for name, array in values.items()
        if name.startswith("policy_") and name != "policy_sources"
    }
    return notes.policies.policies(arrays), without
