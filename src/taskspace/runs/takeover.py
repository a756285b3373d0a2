"""Who may write a run into a directory, and what becomes of what is there."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import no_links_out, plain
from taskspace.errors import RunStoreError, TaskspaceError
from taskspace.performance.ledger import Ledger
from taskspace.performance.store.disk import DiskStore
from taskspace.performance.store.records import Header
from taskspace.performance.table import DIMS
from taskspace.performance.work import Work
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.opening import TRAININGS, refuse_former
from taskspace.runs.stored import Stored
from taskspace.selection.log import LOG
from taskspace.spaces import space_from_dict

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None

OUR_NAMES = {
    "experiment.toml", TRAININGS, "results.json", "figures", ".lock",
    "selection.jsonl", "explore.html",
}  # fmt: skip

SAME = 1e-12
"""Contexts that differ by this share of an axis' range are one, rounded otherwise."""


def check_ours(path: Path) -> None:
    """Refuse to write into a directory with anything else in it, or with links out.

    Args:
        path: where a run shall be written.
    """
    if path.exists() and not path.is_dir():
        raise RunStoreError(f"{path} must be a directory, but is a file.")
    if not path.is_dir():
        return
    refuse_former(path)
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
    """Return the first value in which two plain structures differ, as a clause.

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
        if (path / LOG).exists():
            raise RunStoreError(
                f"{path} holds a selection, but neither its manifest nor {file.name} "
                "says which one. Nothing was changed. Choose another directory with "
                "--out."
            ) from None
        (path / "results.json").unlink(missing_ok=True)  # it may be of another table
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


def set_aside(path: Path) -> None:
    """Keep what was trained for other contexts, until the run is done.

    Args:
        path: the run directory.
    """
    (path / "results.json").unlink(missing_ok=True)
    if (path / TRAININGS).is_dir():
        number = len(list(path.glob("earlier-*")))
        (path / TRAININGS).rename(path / f"earlier-{number}")


class Before:
    """What stores that were set aside hold of what is asked for now.

    A trainer is a pure function of context and seed, and a cell of the table one of
    policy and target, so both stay right when other contexts join.

    Args:
        ledger: what is asked for.
        earlier: the stores.
    """

    def __init__(self, ledger: Ledger, earlier: Sequence[DiskStore]):
        self._ledger, self._earlier, self.n_cells = ledger, earlier, 0
        places = {row: k for k, row in enumerate(_keys(ledger.task.targets))}
        self._columns = []
        for store in earlier:
            targets = _keys(store.header.target_rows)
            pairs = [(k, places[row]) for k, row in enumerate(targets) if row in places]
            self._columns.append(np.array(pairs, np.int64).reshape(-1, 2))

    def policies(self) -> int:
        """Take over the policies that are there; returns how many these are."""
        n_sources, store = 0, self._ledger.store
        for work in self._ledger.ask():
            if work.stage != "train":
                continue
            for old in self._earlier:
                left = store.missing(store.sources[n] for n in work.numbers)
                there = [source for source in left if old.has(source)]
                try:
                    if there:
                        store.append(there, old.read(there))
                        n_sources += len(there)
                except RunStoreError:
                    continue  # damaged: trained again
        return n_sources * self._ledger.task.trainer.n_policies

    def cells(self, work: Work) -> Work:
        """Return an evaluation with the cells of the table that are known.

        Args:
            work: an evaluation, or anything else, which stays as it is.
        """
        if work.stage != "evaluate" or not self._earlier:
            return work
        store, keep = self._ledger.store, self._ledger.task.keep
        known = np.zeros((len(work.numbers), len(self._ledger.task.targets)), bool)
        values: dict[str, Any] = {}
        for old, columns in zip(self._earlier, self._columns, strict=True):
            names = set(old.header.layout.variables)
            if not (names >= set(keep) and names & {"performance", "best"}):
                continue
            for place, number in enumerate(work.numbers):
                source = store.sources[number]
                if known[place].any() or not old.is_evaluated(source):
                    continue
                try:
                    rows = old.variables(keep, np.array([old.number(source)]))
                    rows = {name: rows[name].values for name in keep}
                except RunStoreError:
                    continue  # damaged: evaluated again
                for name, row in rows.items():
                    axis = DIMS[name].index("target")
                    if name not in values:
                        shape = list(row.shape)
                        shape[0], shape[axis] = known.shape
                        values[name] = np.full(shape, np.nan, row.dtype)
                    here = np.moveaxis(values[name], axis, 1)
                    there = np.moveaxis(row, axis, 1)
                    here[place, columns[:, 1]] = there[0, columns[:, 0]]
                known[place, columns[:, 1]] = True
        if not values:
            return work
        self.n_cells += int(known.sum()) * self._ledger.task.trainer.n_policies
        return replace(work, values=values, known=known)


def _keys(rows: NDArray[np.float64]) -> list[tuple[float, ...]]:
    return [tuple(row) for row in (rows + 0.0).tolist()]


# --- one writer at a time ------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run directory; another process that holds it is an error.

    The operating system lets go of the lock when its holder ends, however it ends, so
    there are no stale ones.

    Args:
        path: the run directory; made if it is not there.
    """
    path.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    file = _take(path)
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
    finally:
        (path / ".lock").unlink(missing_ok=True)
        file.close()


def _no_link(name: str, flags: int) -> int:
    """Open a file, but not what a link in its place points to."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)


def _take(path: Path) -> IO[str]:
    """Hold the lock file that is there, not one just removed."""
    assert fcntl is not None
    while True:
        file = open(path / ".lock", "a+", opener=_no_link)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise RunStoreError(
                f"{path} is being written by another process (number {holder}). Wait "
                "until it has ended, or choose another directory with --out."
            ) from None
        try:
            if os.stat(path / ".lock").st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()
