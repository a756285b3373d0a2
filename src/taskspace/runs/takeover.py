"""Whether a run may be written into a directory, and what becomes of what is there."""

from pathlib import Path
from typing import Any

import numpy as np

from taskspace._util.files import plain
from taskspace.errors import RunStoreError, TaskspaceError
from taskspace.performance.store.base import Source
from taskspace.performance.store.disk import DiskStore
from taskspace.performance.store.records import Header
from taskspace.performance.work import Rows, top_of
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.manifest import TRAININGS, difference
from taskspace.runs.stored import Stored, full_rows, how_made
from taskspace.selection.log import LOG
from taskspace.spaces import Points, space_from_dict

__all__ = ["check_added", "converted", "is_of", "set_aside"]

SAME = 1e-12
"""Contexts that differ by this share of an axis' range are one, rounded otherwise."""


def is_of(path: Path, experiment: Experiment, header: Header) -> bool:
    """Return whether what lies beside an experiment is of this one; refuse another.

    Args:
        path: the run directory, which has no whole manifest.
        experiment: what shall be run.
        header: what its directory would say of itself.
    """
    file = path / "experiment.toml"
    try:
        text = file.read_text(encoding="utf-8")
        values = Experiment.from_toml(text, code=experiment.code).to_dict()
    except (TaskspaceError, TypeError, ValueError, OSError):
        if (path / LOG).exists() or (path / "selection.json").exists():
            raise RunStoreError(
                f"{path} holds a selection, but neither its manifest nor {file.name} "
                "says which one. Nothing was changed. Choose another directory with "
                "--out."
            ) from None
        (path / "results.json").unlink(missing_ok=True)  # nobody knows whose it is
        return False
    there = plain({key: values.get(key) for key in DATA_KEYS}, nonfinite="text")
    if what := difference(there, {key: header.data[key] for key in DATA_KEYS}):
        raise RunStoreError(
            f"{path} has no whole manifest, and its experiment is another one: {what}. "
            "Nothing was changed. Choose another directory with --out."
        )
    return True


def check_added(there: Stored, experiment: Experiment, header: Header) -> None:
    """Refuse a directory of another experiment; one with fewer contexts is none.

    Args:
        there: what the directory holds.
        experiment: what shall be run.
        header: what its directory would say of itself.
    """
    old, new = there.header.data, header.data
    what = difference(old, new)
    kinds = "select" in old, "select" in new
    if kinds == (True, True):
        raise RunStoreError(
            f"{there.path} holds another selection: {what}. Nothing was changed. "
            "Choose another directory with --out."
        )
    if kinds == (False, True):
        raise RunStoreError(
            f"{there.path} holds a run that is not a selection. Nothing was changed. "
            "Choose another directory with --out."
        )
    if kinds == (True, False):
        raise RunStoreError(
            f"{there.path} holds a selection. Nothing was changed. Go on with it by: "
            f"taskspace select {there.path / 'experiment.toml'} --out {there.path}, or "
            "choose another directory with --out."
        )
    if all(old[key] == new[key] for key in new if key not in ("space", "targets")):
        lost = _not_there(old, experiment)
        what = f"{what}; {lost}" if lost else ""
    if what:
        raise RunStoreError(
            f"{there.path} holds another experiment: {what}. Nothing was changed. "
            "Contexts can be added to it, but none taken away. Choose another "
            "directory with --out."
        )


def _not_there(old: dict[str, Any], experiment: Experiment) -> str:
    """Which contexts an experiment drops, as a clause; `""` if none."""
    from scipy.spatial import KDTree

    system = experiment.built_system
    for key, now in (
        ("space", experiment.sources),
        ("targets", experiment.target_space),
    ):
        before, after = system.contexts(space_from_dict(old[key])), system.contexts(now)
        extent = np.ptp(np.concatenate([before, after]), axis=0)
        scale = np.where(extent > 0, extent, 1.0)
        far = KDTree(after / scale).query(before / scale, p=np.inf)[0] > SAME
        if far.any():
            what = "sources" if key == "space" else "targets"
            return f"{int(far.sum())} of its {len(before)} {what} are not in this one"
    return ""


def converted(there: Stored, header: Header) -> Stored | None:
    """Return a selection of format 2 in the format of today, if it is of this question.

    Args:
        there: what the directory holds.
        header: what the directory of this selection says of itself.
    """
    if there.header.data != header.data or there.log is None:
        return there
    old, folder = there.store(), there.path / TRAININGS
    folder.mkdir(exist_ok=True)
    store = DiskStore(folder, header)
    store.compact()
    there.log.rewrite()
    names = space_from_dict(header.data["targets"]).names
    for number, line in enumerate(there.log.proposals):
        rows = full_rows(header.system, Points(names, [line.context]))
        (source,) = Source.at(rows, line.seed, line.kind, how_made(header.data))
        store.plan([source])
        try:
            if old.is_evaluated(source):
                store.append([source], old.read([source]))
                kept = header.layout.variables
                values = old.variables(kept, np.array([old.number(source)]))
                arrays = {name: values[name].values for name in kept}
                store.append_rows([number], Rows(arrays, top_of(arrays)))
        except RunStoreError:
            continue  # damaged: trained again
    return Stored.read(there.path)


def set_aside(path: Path) -> None:
    """Keep what was trained for other contexts, until the run is done.

    Args:
        path: the run directory.
    """
    (path / "results.json").unlink(missing_ok=True)
    if (path / TRAININGS).is_dir():
        number = len(list(path.glob("earlier-*")))
        (path / TRAININGS).rename(path / f"earlier-{number}")
