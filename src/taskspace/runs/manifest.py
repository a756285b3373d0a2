"""What is a run directory, whether it is ours, and in what two of them differ."""

from pathlib import Path
from typing import Any

from taskspace._util.files import no_links_out
from taskspace.errors import RunStoreError
from taskspace.performance.store.disk import MANIFEST

__all__ = [
    "TRAININGS",
    "check_ours",
    "difference",
    "is_in_a_run",
    "is_run",
    "is_selection",
]

TRAININGS = "trainings"
"""The folder of what is trained and tried."""

OUR_NAMES = {
    "experiment.toml", TRAININGS, "results.json", "figures", ".lock",
    "selection.jsonl", "explore.html",
    # of format 2
    "manifest.json", "best_known.json", "policies", "table.zarr", "blocks", "kept",
    "selection.toml", "selection.json",
}  # fmt: skip
MARKS = (
    TRAININGS, "selection.jsonl",
    "manifest.json", "selection.json", "best_known.json", "blocks", "table.zarr",
)  # fmt: skip
"""What tells a run directory from a folder where somebody keeps experiments."""


def is_run(path: str | Path) -> bool:
    """Return whether a path is a run directory.

    Args:
        path: any path.
    """
    path = Path(path)
    marks = (path / TRAININGS / MANIFEST, path / "manifest.json")
    return (path / "experiment.toml").is_file() and any(m.is_file() for m in marks)


def is_selection(path: str | Path) -> bool:
    """Return whether the sources of a run were chosen one after the other.

    Args:
        path: any path.
    """
    names = ("selection.jsonl", "selection.json")
    return any((Path(path) / name).is_file() for name in names)


def is_in_a_run(file: Path) -> bool:
    """Return whether a file lies in a run directory, also in what is left of one.

    Args:
        file: an experiment, or a link to one.
    """
    folders = (file.parent, file.resolve().parent)
    return any((folder / name).exists() for folder in folders for name in MARKS)


def check_ours(path: Path) -> None:
    """Refuse to write into a directory with anything else in it, or with links out.

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
        if item.name not in OUR_NAMES
        and not item.name.startswith((".partial-", "earlier-"))
    ]
    if foreign:
        raise RunStoreError(
            f"{path} is not a run directory and not empty (it holds {foreign[0]!r}). "
            "Nothing was changed. Choose another directory with --out."
        )
    no_links_out(path)


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
