"""A run whose space grows: what it holds stays, and joins what is added.

A trainer is a pure function of context and seed, and a cell of the table one of policy
and target, so both stay right when other contexts join. The old policies are gathered
in `policies/kept.npz`, and a stored table moves to `kept/`, a small run directory of
its own without policies; both are on the disk before anything is removed. Killed at any
moment, the next call goes on from both.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import PARTIAL, read_sealed, write_atomically, write_sealed
from taskspace.errors import RunStoreError, TaskspaceError
from taskspace.performance.ledger import Rows, Task, Work
from taskspace.performance.table import DIMS
from taskspace.runs.kept import Kept, key_of, not_there, set_aside
from taskspace.runs.layout import Layout
from taskspace.runs.manifest import difference
from taskspace.runs.recheck import check_plant

if TYPE_CHECKING:
    from taskspace.runs.store import RunStore

__all__ = ["Cells", "Part", "Partly", "evaluate_parts", "forget_kept", "take_over"]

SPACES = ("space", "targets")


def take_over(store: "RunStore", there: dict[str, Any]) -> None:
    """Keep what a run with fewer contexts holds; refuse any other one.

    Args:
        store: what the directory shall hold.
        there: the manifest of what it holds.
    """
    here = store.manifest()["data"]
    what = difference(there["data"], here)
    if all(there["data"][k] == here[k] for k in here if k not in SPACES):
        given = {key: there["data"][key] for key in SPACES}
        old = replace(store.experiment, **given)
        lost = not_there(old, store.experiment)
        what = f"{what}; {lost}" if lost else ""
    else:
        old = store.experiment
    if what:
        raise RunStoreError(
            f"{store.path} holds another experiment: {what}. Nothing was changed. "
            "Contexts can be added to it, but none taken away. Choose another "
            "directory with --out."
        )
    layout = Layout.from_dict(there["layout"])
    before = type(store)(store.path, old, layout, store.notes, store.system)
    check_plant(before)
    contexts = old.built_system.contexts(old.sources)
    whole = set_aside(store.path, before.trainings, contexts)
    _keep_table(before, whole)
    # Whatever is removed first, nothing that was done is lost from here on.
    for file in ("results.json", "best_known.json", "blocks", "table.zarr"):
        _remove(store.path / file)
    for file in (store.path / "policies").glob("block-*.npz"):
        file.unlink()


def _keep_table(before: "RunStore", whole: NDArray[np.bool_]) -> None:
    """Move a stored table aside; one that is there already holds as good cells.

    Args:
        before: the run as it was.
        whole: sources whose policies are kept, so that their cells may be.
    """
    kept = before.path / "kept"
    if before.layout.is_computed or not before.known().any() or kept.exists():
        return
    draft = before.path / f"{PARTIAL}kept"
    _remove(draft)
    (draft / "blocks").mkdir(parents=True)
    write_atomically(draft / "experiment.toml", before.experiment.to_toml())
    write_sealed(draft / "manifest.json", before.manifest())
    write_sealed(draft / "whole.json", np.flatnonzero(whole).tolist())
    for file in (before.path / "blocks").glob("table-*.json"):
        file.rename(draft / "blocks" / file.name)
    (before.path / "table.zarr").rename(draft / "table.zarr")
    draft.rename(kept)


def forget_kept(path: Path) -> None:
    """Remove what was set aside: every block has what it needs.

    Args:
        path: the run directory.
    """
    Kept.remove(path)
    _remove(path / "kept")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Part:
    """Sources of a block that are to be evaluated at the same targets.

    Args:
        places: which sources, by place in the block.
        columns: which targets; all if None.
    """

    places: NDArray[np.int64]
    columns: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Partly:
    """A block of the table of which some cells are known.

    Args:
        parts: what is left to evaluate.
        places: sources with known cells, by place in the block.
        columns: the targets of these cells.
        known: rows of these sources and targets, by variable.
    """

    parts: tuple[Part, ...]
    places: NDArray[np.int64]
    columns: NDArray[np.int64]
    known: dict[str, NDArray[Any]]

    @property
    def n_cells(self) -> int:
        """Pairs of a source and a target that are known."""
        return len(self.places) * len(self.columns)

    def join(self, n_sources: int, n_targets: int, done: Sequence[Rows]) -> Rows:
        """The whole block, of what was evaluated and what is known.

        Args:
            n_sources: sources of the block.
            n_targets: all targets.
            done: what evaluating the parts gave.
        """
        variables = {}
        for name, known in self.known.items():
            place = DIMS[name].index("target")
            shape = [n_sources, *known.shape[1:]]
            shape[place] = n_targets
            whole = np.empty(shape, known.dtype)
            for part, rows in zip(self.parts, done, strict=True):
                # Rows of some targets only are filled up at the others.
                whole[part.places] = rows.variables[name]
            index: list[Any] = [np.arange(n) for n in shape]
            index[0], index[place] = self.places, self.columns
            whole[np.ix_(*index)] = known
            variables[name] = whole
        best = variables.get("best", variables.get("performance"))
        assert best is not None
        return Rows(variables, best.reshape(-1, best.shape[-1]).max(0))


class Cells:
    """The cells of the table that a run had before it grew.

    Args:
        store: the old table.
        task: what is evaluated now.
        sources: numbers in the old run of the sources whose cells may be used.
    """

    def __init__(self, store: "RunStore", task: Task, sources: NDArray[np.int64]):
        self._store, self._task = store, task
        system, old = task.system, store.experiment
        contexts = system.contexts(old.sources)
        self._block_of = np.full(len(contexts), -1)
        for block, rows in enumerate(store.layout.blocks("evaluate")):
            if store.has("evaluate", block):
                self._block_of[rows] = block
        self._number = {
            key_of(contexts[k]): int(k) for k in sources if self._block_of[k] >= 0
        }
        places = {key_of(row): k for k, row in enumerate(task.targets)}
        at = [places.get(key_of(row), -1) for row in system.contexts(old.target_space)]
        now = np.array(at)  # where each old target is; an axis may be rounded anew
        self._there = np.flatnonzero(now >= 0)
        self._columns = now[self._there]
        self._rest = np.setdiff1d(np.arange(len(task.targets)), self._columns)

    @classmethod
    def load(cls, path: Path, task: Task) -> "Cells | None":
        """What a run has set aside; None where there is nothing to use.

        Args:
            path: the run directory.
            task: what is evaluated now.
        """
        from taskspace.runs.store import RunStore  # a store grows by this module

        if not (path / "kept").is_dir():
            return None
        try:
            store = RunStore.open(path / "kept")
            whole = np.array(read_sealed(path / "kept" / "whole.json"), np.int64)
            names = set(store.layout.variables)
            usable = (
                names >= set(task.keep)
                and names & {"performance", "best"}
                and whole.ndim == 1
                and ((whole >= 0) & (whole < store.layout.n_sources)).all()
            )
            return cls(store, task, whole) if usable else None
        except (TaskspaceError, TypeError, ValueError, OSError):
            return None  # damaged: evaluated again

    def of(self, work: Work) -> Partly | None:
        """What is known of a block; None if nothing is.

        Args:
            work: an evaluation, or anything else, of which nothing is known.
        """
        if work.stage != "evaluate":
            return None
        numbers = [self._number.get(key_of(row), -1) for row in work.contexts]
        old = np.array(numbers, np.int64)
        here, new = np.flatnonzero(old >= 0), np.flatnonzero(old < 0)
        if not len(here) or not len(self._columns):
            return None
        try:
            known = {name: self._read(name, old[here]) for name in self._task.keep}
        except RunStoreError:
            return None  # damaged: evaluated again
        parts = [Part(new, None)] if len(new) else []
        if len(self._rest):
            parts.append(Part(here, self._rest))
        return Partly(tuple(parts), here, self._columns, known)

    def _read(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of the old table, at the targets that are still there."""
        stretches, blocks = (
            self._store.layout.blocks("evaluate"),
            self._block_of[numbers],
        )
        place, found = DIMS[name].index("target"), None
        for block in np.unique(blocks).tolist():
            rows = self._store.read_chunk(name, block)
            mine = blocks == block
            wanted = rows[numbers[mine] - stretches[block].start]
            wanted = np.take(wanted, self._there, axis=place)
            if found is None:
                found = np.empty((len(numbers), *wanted.shape[1:]), wanted.dtype)
            found[mine] = wanted
        assert found is not None
        return found


def evaluate_parts(task: Task, work: Work, parts: Sequence[Part]) -> list[Rows]:
    """Evaluate what is left of a block.

    Args:
        task: system and targets.
        work: an evaluation, with its policies.
        parts: what of it is to be done.
    """
    assert work.policies is not None
    return [task.rows(work.policies[part.places], part.columns) for part in parts]
