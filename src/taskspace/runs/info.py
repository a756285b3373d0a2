"""What a run says of itself in `run.json`, and who may write into its directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import checksum, no_links_out, plain, read_sealed
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.blocks import Layout
from taskspace.performance.table import table_notes
from taskspace.questions import Question
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.opening import EXPERIMENT, RUN, TRAININGS
from taskspace.selection.log import LOG
from taskspace.spaces import Space, space_from_dict
from taskspace.systems.base import ContextAxis

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None

FORMAT_VERSION = 6
OUR_NAMES = {
    *(EXPERIMENT, RUN, TRAININGS, LOG, "results.json", "figures", "explore.html"),
    ".lock",
}
SPACES = ("space", "targets")

SAME = 1e-12
"""Contexts that differ by this share of an axis' range are one, rounded otherwise."""

NOTHING_CHANGED = "Nothing was changed. Choose another directory with --out."

Number = float | Literal["inf", "-inf", "nan"]
"""JSON has no infinities: they are text."""


class Info(msgspec.Struct, frozen=True):
    """What a run says of itself, in `run.json`.

    Args:
        data: what its blocks depend on: system, trainer, seed, contexts and targets.
        layout: how the table is cut into blocks.
        notes: attributes of the table.
        axes: fields of the context axes of the system; a bound left out is infinite.
        modules: folders of the user's modules, seen from the run.
        experiment: checksum of `experiment.toml`.
        code: a hash of the user's code that it was made with.
        reference: what regret is against; empty until the table is complete.
        best_known: the reference at each target.
        n_lines: of a selection, the lines of its log when this was written.
        version: version of the format.
        taskspace: version of taskspace.
    """

    data: dict[str, Any]
    layout: Layout
    notes: dict[str, Any]
    axes: tuple[dict[str, str | float | bool], ...]
    modules: tuple[str, ...] = ()
    experiment: str = ""
    code: str = ""
    reference: str = ""
    best_known: tuple[Number, ...] = ()
    n_lines: int = 0
    version: int = FORMAT_VERSION
    taskspace: str = ""

    @classmethod
    def read(cls, path: Path) -> "Info":
        """Return what a run says of itself.

        Args:
            path: the run directory.
        """
        values = read_sealed(path / RUN, dict[str, Any])
        if values.get("version") != FORMAT_VERSION:
            raise RunStoreError(
                f"{path} has run format {values.get('version')}, this taskspace reads "
                f"{FORMAT_VERSION}. Run its experiment again into another directory."
            )
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise DamagedFileError(f"{path / RUN} is damaged: {error}.") from error

    @property
    def made_by(self) -> str:
        """What stands for system, trainer and seed in the keys of blocks."""
        made = {key: self.data.get(key) for key in ("system", "trainer", "seed")}
        return sha256(msgspec.json.encode(made, order="deterministic")).hexdigest()

    @property
    def context_axes(self) -> tuple[ContextAxis, ...]:
        """The context axes of the system."""
        return tuple(msgspec.convert(axis, ContextAxis) for axis in self.axes)

    def contexts(self, space: Space) -> NDArray[np.float64]:
        """Return full context rows, as `System.contexts` gives them, without code.

        Args:
            space: contexts.
        """
        columns = [
            space.points[:, space.names.index(axis.name)]
            if axis.name in space.names
            else np.full(space.size, axis.default)
            for axis in self.context_axes
        ]
        return np.stack(columns, axis=1)


# --- what a new run says of itself ---------------------------------------------------


def new_info(
    path: Path, experiment: Experiment, question: Question | None, layout: Layout
) -> Info:
    """Return what the directory of a run says of itself.

    Args:
        path: the run directory.
        experiment: what is run, resolved.
        question: of a selection, what shall be covered.
        layout: how the table is cut.
    """
    task = experiment.task(layout.variables)
    notes, values = table_notes(task.system, **task.made_by), experiment.to_dict()
    data = {key: values.get(key) for key in DATA_KEYS}
    if question is not None:
        assert experiment.select is not None
        how = dict(values["select"])
        for name in ("budget", "environment_steps"):
            how.pop(name, None)  # what may be spent can be raised later
        data |= {"question": question.to_dict(), "select": how}
        notes["selector"] = experiment.select.selector
        notes["asked"], notes["ask"] = question.statement, str(question)
    folders = experiment.code.folders if experiment.names_code else ()
    return Info(
        data=plain(data, nonfinite="text"),
        layout=layout,
        notes=plain(notes, nonfinite="text"),
        axes=tuple(
            {k: v for k, v in asdict(axis).items() if v not in (np.inf, -np.inf)}
            for axis in task.system.axes
        ),
        modules=tuple(os.path.relpath(folder, path) for folder in folders),
        experiment=checksum(experiment.to_toml().encode()),
        code=experiment.code_key,
        taskspace=version("taskspace"),
    )


# --- who may write a run into a directory --------------------------------------------


def check_ours(path: Path) -> None:
    """Refuse to write into a directory with anything else in it, or with links out.

    Args:
        path: where a run shall be written.
    """
    if path.exists() and not path.is_dir():
        raise RunStoreError(f"{path} must be a directory, but is a file.")
    if not path.is_dir():
        return
    for item in (*path.iterdir(), *path.glob(f"{TRAININGS}/*")):
        is_ours = item.name in OUR_NAMES or item.name.startswith(".partial-")
        if not is_ours and not (item.suffix == ".npz" and item.parent != path):
            raise RunStoreError(
                f"{path} is not a run directory and not empty (it holds "
                f"{item.name!r}). {NOTHING_CHANGED}"
            )
    no_links_out(path)


def asked_before(path: Path, experiment: Experiment) -> dict[str, Any]:
    """Return what the experiment of a directory without a whole `run.json` asks.

    Args:
        path: the directory.
        experiment: says which code may be imported.
    """
    try:
        text = (path / EXPERIMENT).read_text(encoding="utf-8")
        values = Experiment.from_toml(text, code=experiment.code).to_dict()
    except (TaskspaceError, TypeError, ValueError, OSError):
        if (path / LOG).exists():
            raise RunStoreError(
                f"{path} holds a selection, but neither {RUN} nor {EXPERIMENT} says "
                f"which one. {NOTHING_CHANGED}"
            ) from None
        return {}
    return plain({key: values.get(key) for key in DATA_KEYS}, nonfinite="text")


def check_same(
    path: Path, old: dict[str, Any], experiment: Experiment, info: Info
) -> None:
    """Refuse a directory of another experiment; one with fewer contexts is none.

    Args:
        path: the directory.
        old: what it depends on.
        experiment: what shall be run.
        info: what its directory would say of itself.
    """
    new = info.data
    if not old or old == new:
        return
    what = f"another experiment: {_difference(old, {key: new.get(key) for key in old})}"
    if "select" in old and "select" not in new:
        file = path / EXPERIMENT
        what = f"a selection; go on with it by taskspace select {file} --out {path}"
    elif "question" in new and "question" not in old and (path / RUN).exists():
        what = "a run that is not a selection"
    elif all(old[key] == new.get(key) for key in old if key not in SPACES):
        lost = "" if "select" in new else _taken_away(old, experiment)
        if not lost:
            return
        what = f"{what}; {lost}. Contexts can be added to it, but none taken away"
    raise RunStoreError(f"{path} holds {what}. {NOTHING_CHANGED}")


def _difference(there: Any, here: Any, path: str = "") -> str:
    """Return the first key in which two plain structures differ, as a clause."""
    if not (isinstance(there, dict) and isinstance(here, dict)):
        if there == here:
            return ""
        return f"{path.lstrip('.')} is {there!r} there and {here!r} here"
    keys = there | here
    found = (_difference(there.get(k), here.get(k), f"{path}.{k}") for k in keys)
    return next(filter(None, found), "")


def _taken_away(old: dict[str, Any], experiment: Experiment) -> str:
    """Return which contexts an experiment drops, as a clause; `""` if none."""
    from scipy.spatial import KDTree

    system, now = experiment.built_system, (experiment.sources, experiment.target_space)
    for key, space in zip(SPACES, now, strict=True):
        before = system.contexts(space_from_dict(old[key]))
        after = system.contexts(space)
        extent = np.ptp(np.concatenate([before, after]), axis=0)
        scale = np.where(extent > 0, extent, 1.0)
        far = KDTree(after / scale).query(before / scale, p=np.inf)[0] > SAME
        if far.any():
            return f"{int(far.sum())} of {len(before)} contexts of {key} are dropped"
    return ""


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
    lock = path / ".lock"
    # Not what a link in its place points to.
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.stat(lock).st_ino == os.fstat(handle).st_ino
        except (BlockingIOError, FileNotFoundError):
            is_ours = False  # held, or just removed
        if not is_ours:
            raise RunStoreError(
                f"{path} is being written by another process. Wait until it has "
                "ended, or choose another directory with --out."
            )
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
    finally:
        os.close(handle)
