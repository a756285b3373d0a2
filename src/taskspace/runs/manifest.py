"""The manifest of a run directory: what is in it, and whether it is ours."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import no_links_out, read_sealed
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.ledger import Task, table_notes
from taskspace.performance.table import DIMS

__all__ = [
    "FORMAT_VERSION",
    "about",
    "check_about",
    "check_manifest",
    "check_ours",
    "difference",
    "from_text",
    "is_in_a_run",
    "is_run",
    "read_manifest",
    "usable_manifest",
]

FORMAT_VERSION = 2
OUR_NAMES = {
    "experiment.toml", "manifest.json", "best_known.json", "results.json", "policies",
    "table.zarr", "blocks", "figures", ".lock", "selection.toml", "selection.json",
    "kept", "explore.html",
}  # fmt: skip
COUNTED = ("sources", "policies", "targets", "episodes")
MARKS = ("manifest.json", "selection.json", "best_known.json", "blocks", "table.zarr")
"""What tells a run directory from a folder where somebody keeps experiments."""


def is_run(path: str | Path) -> bool:
    """Whether a path is a run directory.

    Args:
        path: any path.
    """
    path = Path(path)
    return (path / "experiment.toml").is_file() and (path / "manifest.json").is_file()


def is_in_a_run(file: Path) -> bool:
    """Whether a file lies in a run directory, also in what is left of one.

    Args:
        file: an experiment, or a link to one.
    """
    folders = (file.parent, file.resolve().parent)
    return any((folder / name).exists() for folder in folders for name in MARKS)


def check_ours(path: Path) -> None:
    """Refuse a directory with anything in it that is not ours, or not in it at all.

    Args:
        path: where a run shall be written.
    """
    if path.exists() and not path.is_dir():
        raise RunStoreError(f"{path} must be a directory, but is a file.")
    if not path.is_dir():
        return
    foreign = [
        item.name
        for item in path.iterdir()
        if item.name not in OUR_NAMES and not item.name.startswith(".partial-")
    ]
    if foreign:
        raise RunStoreError(
            f"{path} is not a run directory and not empty (it holds {foreign[0]!r}). "
            "Nothing was changed. Choose another directory with --out."
        )
    no_links_out(path)


def read_manifest(path: Path, strict: bool = False) -> dict[str, Any] | None:
    """The manifest of a run, None where there is none that can be used.

    Args:
        path: the run directory.
        strict: a damaged one is an error.
    """
    try:
        manifest = read_sealed(path / "manifest.json")
    except DamagedFileError:
        if strict or _old_format(path):
            _refuse_old(path)
            raise
        return None
    if not isinstance(manifest, dict):
        if not strict:
            return None
        raise DamagedFileError(f"{path / 'manifest.json'} is not a manifest.")
    if manifest.get("version") != FORMAT_VERSION:
        raise RunStoreError(
            f"{path} has run format {manifest.get('version')}, this taskspace reads "
            f"{FORMAT_VERSION}. Use the taskspace that wrote it."
        )
    return manifest


def check_manifest(manifest: dict[str, Any]) -> None:
    """Refuse a manifest that does not have what is read of it, of the right kind.

    Args:
        manifest: what `read_manifest` gave.
    """
    layout = manifest["layout"]
    counts = {f"n_{what}": layout[f"n_{what}"] for what in COUNTED}
    steps = (layout["train_rows"], layout["table_rows"])
    holds = (
        set(layout) == {*counts, "train_rows", "table_rows", "variables", "is_computed"}
        and all(_is_count(n) for n in [*counts.values(), *steps])
        and min(counts["n_sources"], counts["n_targets"], *steps) > 0
        and max(steps) <= counts["n_sources"]
        and isinstance(layout["is_computed"], bool)
        and len(layout["variables"]) > 0
        and set(layout["variables"]) <= DIMS.keys()
        and all(isinstance(folder, str) for folder in manifest["modules"])
    )
    if not holds:
        raise ValueError("it holds values that no run has")
    check_about(manifest["notes"], manifest["system"])


def about(task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of a run's table, and what reading must know of the system.

    Args:
        task: what is trained and where it is tried.
    """
    notes, system = table_notes(task, ""), task.system
    del notes["best_known_kind"]  # is kept with the reference itself
    return notes, {
        "id": system.id,
        "axes": [asdict(axis) | {"label": axis.label} for axis in system.axes],
        "solved_return": system.solved_return,
    }


def check_about(notes: dict[str, Any], system: dict[str, Any]) -> None:
    """Refuse what a run or an archive says of itself, if it is of the wrong kind.

    Args:
        notes: attributes of the table.
        system: what reading must know of the system.
    """
    plain = str | int | float | None
    solved = system["solved_return"]
    axes = [(axis["name"], axis["label"], axis["unit"]) for axis in system["axes"]]
    holds = (
        all(
            isinstance(value, plain) for name, value in notes.items() if name != "notes"
        )
        and all(isinstance(note, str) for note in notes.get("notes", []))
        and notes["provenance"] in ("exact", "sampled", "given")
        and isinstance(notes["system"], str)
        and _is_count(notes.get("n_episodes", 0))
        and all(isinstance(word, str) for axis in axes for word in axis)
        and (solved is None or type(solved) in (int, float))
    )
    if not holds:
        raise ValueError("it says of itself what no run says")


def usable_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest of a run; None for one that is lost, or that no run could have.

    Args:
        path: the run directory.
    """
    manifest = read_manifest(path)
    try:
        if manifest is not None:
            check_manifest(manifest)
            manifest["data"]["system"].items()
            manifest["data"]["space"].items()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return manifest


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _old_format(path: Path) -> bool:
    try:
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        return isinstance(manifest, dict) and manifest.get("version") == 1
    except (OSError, ValueError, RecursionError):
        return False


def _refuse_old(path: Path) -> None:
    if _old_format(path):
        raise RunStoreError(
            f"{path} has run format 1, this taskspace reads {FORMAT_VERSION}. Use the "
            "taskspace that wrote it, or run the experiment into another directory."
        )


def from_text(values: Sequence[float | str]) -> NDArray[np.float64]:
    """The numbers that `plain(..., nonfinite="text")` wrote.

    Args:
        values: numbers and text.
    """
    return np.array([float(value) for value in values])


def difference(there: Any, here: Any, path: str = "") -> str:
    """The first value in which two plain structures differ, as a clause.

    Args:
        there: what is stored.
        here: what is asked for.
        path: keys that lead to them.
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in there | here:
            inner = difference(there.get(key), here.get(key), f"{path}.{key}")
            if inner:
                return inner
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for i, (a, b) in enumerate(zip(there, here, strict=True)):
            inner = difference(a, b, f"{path}.{i}")
            if inner:
                return inner
        return ""
    if there == here:
        return ""
    return f"{path.lstrip('.')} is {there!r} there and {here!r} here"
