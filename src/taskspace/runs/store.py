"""A run directory: readable by people, written block by block, safe to kill.

```
experiment.toml   the resolved experiment; re-runs it exactly
manifest.json     format, versions, layout, and what reading must know of the system
policies/         one npz a block of sources: arrays, kind, scores at home
table.zarr/       the performance table; one chunk a block of sources
blocks/           a record of each finished block, with checksums of its files
best_known.json   the reference of regret
results.json      covers, curves and costs; the same bytes however often it was killed
figures/          pictures, and the numbers behind them as JSON
```

A block counts as finished when its record is there and its files have the size that
the record says; their checksums are compared when they are read. Every file is
written under another name and then renamed, so a reader never sees half of one.
Reading needs no code of the user's: what the system would have to say is in the
manifest. The table of a built-in exact system that would be large is not stored but
computed from the policies as it is read, which is faster.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import (
    checksum,
    clean_leftovers,
    plain,
    read_sealed,
    write_atomically,
    write_sealed,
)
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.ledger import (
    Ledger,
    Rows,
    Stage,
    Task,
    TrainedBlock,
    assemble,
    contiguous,
)
from taskspace.performance.table import DIMS
from taskspace.policies import Policy
from taskspace.runs import chunks
from taskspace.runs.blocks import Blocks
from taskspace.runs.experiment import DATA_KEYS, Experiment
from taskspace.runs.grow import take_over
from taskspace.runs.layout import Layout
from taskspace.runs.manifest import (
    FORMAT_VERSION,
    about,
    check_manifest,
    check_ours,
    difference,
    from_text,
    is_run,
    read_manifest,
    usable_manifest,
)
from taskspace.runs.objects import Code
from taskspace.runs.recheck import check_plant
from taskspace.runs.results import Results
from taskspace.runs.selected import is_selection, stored_kinds
from taskspace.runs.trainings import Trainings

__all__ = ["RunStore"]


class RunStore:
    """The directory of one run.

    Args:
        path: an existing run directory; see `create` and `open`.
        experiment: what it holds, resolved.
        layout: how the work is cut.
        notes: attributes of the table.
        system: what reading must know of the system: its axes, what counts as solved.
    """

    def __init__(
        self,
        path: Path,
        experiment: Experiment,
        layout: Layout,
        notes: dict[str, Any],
        system: dict[str, Any],
    ):
        self.path, self.experiment, self.layout = path, experiment, layout
        self.notes, self.system = notes, system
        self._blocks = Blocks(path, layout, self.resume_command)
        self.trainings = Trainings(self._blocks, experiment)
        self._last_read: tuple[tuple[int, int], TrainedBlock] | None = None

    # --- making and opening -------------------------------------------------------

    @classmethod
    def create(cls, path: str | Path, experiment: Experiment) -> "RunStore":
        """The run of an experiment: a new directory, or the one that is there.

        A directory whose policies and table are those of the experiment is taken
        over, whatever was asked of it before; what is damaged in it is written anew.

        Args:
            path: the directory.
            experiment: what to run; a directory with other data is refused, unless
                this one only adds contexts: then its policies are kept.
        """
        path = Path(path)
        experiment = experiment.resolved()
        check_ours(path)
        store = cls._new(path, experiment)
        there = usable_manifest(path)
        if there is not None and there["data"] != store.manifest()["data"]:
            take_over(store, there)
            there = None
        elif there is None and not store._is_of(path / "experiment.toml"):
            # Nobody knows whose they are.
            for file in (path / "blocks").glob("train-*.json"):
                file.unlink()
            (path / "results.json").unlink(missing_ok=True)
        for folder in ("policies", "blocks"):
            (path / folder).mkdir(parents=True, exist_ok=True)
        clean_leftovers(path)
        stored = None if there is None else Layout.from_dict(there["layout"])
        if stored is not None and stored.serves(store.layout):
            store = cls(path, experiment, stored, store.notes, store.system)
            check_plant(store)
        else:
            # Other reductions are wanted, or the manifest was lost: policies stay.
            for block in (path / "blocks").glob("table-*.json"):
                block.unlink()
            (path / "best_known.json").unlink(missing_ok=True)
        if not store.layout.is_computed:
            chunks.create_arrays(path / "table.zarr", store)
        write_atomically(path / "experiment.toml", experiment.to_toml())
        write_sealed(path / "manifest.json", store.manifest())
        return store

    def _is_of(self, file: Path) -> bool:
        """Whether policies beside an experiment are of this one; another is refused."""
        if not file.is_file():
            return False
        try:
            text = file.read_text(encoding="utf-8")
            values = Experiment.from_toml(text, code=self.experiment.code)
            data = {key: values.to_dict().get(key) for key in DATA_KEYS}
            there = plain(data, nonfinite="text")
        except (TaskspaceError, TypeError, ValueError, OSError):
            return False
        if what := difference(there, self.manifest()["data"]):
            raise RunStoreError(
                f"{self.path} has no whole manifest, and its experiment is another "
                f"one: {what}. Nothing was changed. Choose another directory with "
                "--out."
            )
        return True

    @classmethod
    def _new(cls, path: Path, experiment: Experiment) -> "RunStore":
        layout = Layout.of(experiment)
        return cls(path, experiment, layout, *about(_task(experiment, layout)))

    def manifest(self) -> dict[str, Any]:
        """What the directory says of itself, beside the experiment."""
        text = self.experiment.to_toml()
        values = self.experiment.to_dict()
        folders = self.experiment.code.folders
        return plain(
            {
                "format": "taskspace-run",
                "version": FORMAT_VERSION,
                "taskspace": version("taskspace"),
                "experiment": checksum(text.encode()),
                "data": {key: values.get(key) for key in DATA_KEYS},
                "layout": asdict(self.layout)
                | {"variables": list(self.layout.variables)},
                "notes": self.notes,
                "system": self.system,
                # Where the user's modules are, seen from here.
                "modules": [os.path.relpath(folder, self.path) for folder in folders]
                if self.experiment.names_code
                else [],
            },
            nonfinite="text",
        )

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> "RunStore":
        """A run directory that is there; no code that it names is imported.

        Args:
            path: the directory.
            trust: code that it names may be imported later, where it is needed.
        """
        path = Path(path)
        if not is_run(path):
            raise RunStoreError(
                f"{path} is not a run directory: it has no experiment.toml and "
                "manifest.json. Make one with: taskspace run msd"
            )
        mend = f"Mend it with: taskspace run EXPERIMENT --out {path}"
        try:
            manifest = read_manifest(path, strict=True)
            assert manifest is not None
            check_manifest(manifest)
            folders = tuple(path / folder for folder in manifest["modules"])
            text = (path / "experiment.toml").read_text(encoding="utf-8")
            if checksum(text.encode()) != manifest["experiment"]:
                raise DamagedFileError(
                    f"{path / 'experiment.toml'} is not what was written"
                )
            experiment = Experiment.from_toml(
                text,
                origin=str(path / "experiment.toml"),
                code=Code(trust, (path, path.parent, *folders), checks_types=True),
            )
            layout = Layout.from_dict(manifest["layout"])
            spaces = experiment.sources, experiment.target_space
            if (layout.n_sources, layout.n_targets) != tuple(s.size for s in spaces):
                raise ValueError("the manifest is not of this experiment")
            return cls(path, experiment, layout, manifest["notes"], manifest["system"])
        except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
            raise RunStoreError(
                f"{path} is damaged: its manifest or experiment cannot be read "
                f"({error}). {mend}"
            ) from error

    def ledger(self) -> Ledger:
        """The ledger that this directory keeps; needs the system itself."""
        if self.is_selection and (missing := self._blocks.unfinished()):
            # Its sources have seeds and kinds of their own.
            raise self._blocks.damaged(missing[0])
        task = _task(self.experiment, self.layout)
        spaces = self.experiment.sources, self.experiment.target_space
        return Ledger(task, *spaces, storage=self)

    # --- blocks -------------------------------------------------------------------

    def blocks(self, stage: Stage) -> list[slice]:
        """The stretches of sources of a stage; none to evaluate if computed.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        return self._blocks.stretches(stage)

    def has(self, stage: Stage, block: int) -> bool:
        """Whether a block is finished and all there.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        return self._blocks.has(stage, block)

    def write_policies(self, block: int, done: TrainedBlock) -> None:
        """Store what training gave for a block of sources.

        Args:
            block: number of the block.
            done: policies, counts and scores at home.
        """
        self._last_read = None
        self.trainings.write(block, done)

    def read_policies(self, rows: slice) -> TrainedBlock:
        """Policies of a stretch of sources, and their J at home.

        Args:
            rows: the sources.
        """
        # Several parts of a table come from the same policies: they are read once.
        where = rows.start, rows.stop
        if self._last_read is None or self._last_read[0] != where:
            self._last_read = where, self.trainings.read(rows)
        return self._last_read[1]

    # --- table --------------------------------------------------------------------

    def write_rows(self, block: int, done: Rows) -> None:
        """Store a finished block of the table.

        Args:
            block: number of the block.
            done: rows of each variable, and the best J at each target.
        """
        files = {}
        for name, values in done.variables.items():
            file = self._chunk_file(name, block)
            file.parent.mkdir(parents=True, exist_ok=True)
            data = chunks.encode(values, self.layout.chunk(name), name)
            write_atomically(file, data)
            files[file] = checksum(data)
        self._blocks.seal(
            "evaluate", block, files, top=plain(done.top, nonfinite="text")
        )

    def _chunk_file(self, name: str, block: int) -> Path:
        index = [str(block)] + ["0"] * (len(DIMS[name]) - 1)
        return self.path.joinpath("table.zarr", name, "c", *index)

    def read_chunk(self, name: str, block: int) -> NDArray[Any]:
        """One variable of a block of the table.

        Args:
            name: the variable.
            block: number of the block.
        """
        data = self._blocks.checked("evaluate", block, self._chunk_file(name, block))
        try:
            values = chunks.decode(data, self.layout.chunk(name), name)
        except (RuntimeError, ValueError) as error:
            raise self._blocks.damaged(f"block {block} of {name} ({error})") from error
        rows = self.layout.blocks("evaluate")[block]
        return values[: rows.stop - rows.start]

    def read_rows(self, names: Sequence[str]) -> dict[str, xr.Variable]:
        """Variables of the finished blocks; read, or computed, as they are needed.

        Args:
            names: the variables.
        """
        if self.layout.is_computed:
            task = _task(self.experiment, self.layout)
            stack = self.read_policies(slice(0, self.layout.n_sources))
            return chunks.computed_variables(task, stack, self.layout.sizes, names)
        n_blocks = len(self.layout.blocks("evaluate"))
        done = [block for block in range(n_blocks) if self.has("evaluate", block)]
        return chunks.stored_variables(self, done, names)

    def block_top(self, block: int) -> NDArray[np.float64]:
        """Best J that the sources of a block reach at each target.

        Args:
            block: number of the block.
        """
        try:
            top = from_text(self._blocks.record("evaluate", block)["top"])
        except (DamagedFileError, KeyError, TypeError, ValueError) as error:
            raise self._blocks.damaged(
                f"block {block} does not say its best ({error})"
            ) from error
        if top.shape != (self.layout.n_targets,):
            raise self._blocks.damaged(f"block {block} has a best of other targets")
        return top

    def known(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table; a computed one needs policies."""
        stage: Stage = "train" if self.layout.is_computed else "evaluate"
        found = np.zeros(self.layout.n_sources, bool)
        for block, rows in enumerate(self.layout.blocks(stage)):
            found[rows] = self.has(stage, block)
        return found

    def table_policies(self) -> Policy:
        """The policies of the sources that the table has, in its order."""
        parts = [
            block[~block.failed]
            for rows in contiguous(np.flatnonzero(self.known()))
            for block in [self.read_policies(rows)]
        ]
        return TrainedBlock.concatenate(parts).trained.policies

    def top(self) -> NDArray[np.float64]:
        """Best J seen at each target, over the finished blocks."""
        if self.layout.is_computed:
            best = self.read_rows(["best"])["best"]
            stretches = self.layout.blocks("evaluate")
            return np.max([best[rows].values.max(0) for rows in stretches], axis=0)
        blocks = range(len(self.layout.blocks("evaluate")))
        seen = [self.block_top(b) for b in blocks if self.has("evaluate", b)]
        return np.max(seen, axis=0)

    def write_best_known(self, values: NDArray[np.float64], kind: str) -> None:
        """Store the reference of regret, which completes the table.

        Args:
            values: best known J at each target.
            kind: where it comes from.
        """
        record = {"kind": kind, "best_known": plain(values, nonfinite="text")}
        write_sealed(self.path / "best_known.json", record)

    def _read_best_known(self) -> tuple[NDArray[np.float64], str]:
        file = self.path / "best_known.json"
        record = read_sealed(file)
        try:
            values, kind = from_text(record["best_known"]), record["kind"]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{file} holds no reference: {error}.") from error
        if values.shape != (self.layout.n_targets,) or not isinstance(kind, str):
            raise DamagedFileError(f"{file} is of another table.")
        return values, kind

    def has_best_known(self) -> bool:
        """Whether the reference of regret is there and whole."""
        try:
            self._read_best_known()
        except DamagedFileError:
            return False
        return True

    def is_complete(self) -> bool:
        """Whether every block is there, and the reference of regret."""
        return self.has_best_known() and not self._blocks.unfinished()

    def damages(self) -> list[str]:
        """Everything that is missing or not what was written; reads every file."""
        found = self._blocks.damages(self._read)
        for check in (
            self._read_best_known,
            lambda: Results.load(self.path / "results.json"),
            lambda: stored_kinds(self.path),
        ):
            try:
                check()
            except DamagedFileError as error:
                found.append(str(error))
        return found

    def forget_damaged(self) -> list[str]:
        """Have every block that is damaged computed again.

        Returns:
            What was damaged, a clause each.
        """
        return self._blocks.forget_damaged(self._read)

    def _read(self, stage: Stage, block: int) -> None:
        """Read a block, whose files may be whole and yet not what a run has."""
        if stage == "train":
            self.trainings.check(block)
            return
        for name in self.layout.variables:
            self.read_chunk(name, block)
        self.block_top(block)

    def table(self) -> xr.Dataset:
        """The performance table; large variables are read as they are needed.

        A run that is not finished gives the table of the sources that are evaluated,
        with the note `n_planned`.
        """
        try:
            reference, kind = self._read_best_known()
        except DamagedFileError as error:
            if (self.path / "best_known.json").exists() or self.layout.is_computed:
                raise self._blocks.damaged(str(error)) from error
            reference, kind = None, "best of the table so far"
        missing = self._blocks.unfinished()
        if reference is not None and missing:
            raise self._blocks.damaged(missing[0])
        notes = {**self.notes, "best_known_kind": kind}
        known = self.known()
        if not known.any():
            raise RunStoreError(
                f"{self.path} is not finished: no source is evaluated yet. Go on with: "
                f"{self.resume_command}"
            )
        return assemble(
            self,
            self.layout.variables,
            self.experiment.sources,
            self.experiment.target_space,
            self.top() if reference is None else reference,
            notes,
            known,
            stored_kinds(self.path)[: len(known)],
        )

    @property
    def is_selection(self) -> bool:
        """Whether the sources were chosen one after the other."""
        return is_selection(self.path)

    @property
    def resume_command(self) -> str:
        """What to type to finish or mend this run."""
        command, file, more = "run", "experiment.toml", ""
        if self.is_selection:
            command, file = "select", "selection.toml"
            if "epsilon" in self.notes:
                more = f" --epsilon {self.notes['epsilon']}"
        elif self.experiment.names_code:
            more = " --trust"
        return f"taskspace {command} {self.path / file} --out {self.path}{more}"


def _task(experiment: Experiment, layout: Layout) -> Task:
    system = experiment.built_system
    return Task(
        system,
        experiment.built_trainer,
        system.contexts(experiment.target_space),
        experiment.seed,
        layout.variables,
    )
