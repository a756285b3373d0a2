"""A run directory: readable by people, written block by block, safe to kill.

```
experiment.toml   the resolved experiment; re-runs it exactly
manifest.json     format, versions, and how the work is cut into blocks
policies/         one npz a block of sources: arrays, kind, scores at home
table.zarr/       the performance table; one chunk a block of sources
blocks/           an empty file for each finished block of the table
results.json      covers, curves and costs; the same bytes however often it was killed
figures/          pictures, and the numbers behind them as JSON
```

A block counts as finished when its marker is there and its chunks have their full
size; anything else is computed again. Every file is written under another name and
then renamed, so a reader never sees half of one.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from taskspace.errors import RunStoreError
from taskspace.performance import kept_variables
from taskspace.performance.table import DIMS, make_table
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.runs.experiment import Experiment
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers import Trained

__all__ = ["RunStore", "is_run", "replacing", "write_atomically"]

FORMAT_VERSION = 1
# A block of the table holds about this many cells of each variable (20 MB), or
# plays about this many episodes of a simulated system (a minute or less).
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000


@dataclass(frozen=True)
class Layout:
    """How the work is cut: sources a block of training and of evaluation.

    Args:
        n_sources: number of sources.
        n_policies: members of a family.
        n_targets: number of targets.
        n_episodes: episodes a target, 0 for a system that is not simulated.
        train_rows: sources trained in one block.
        table_rows: sources evaluated in one block.
        variables: variables of the table that are written by blocks.
    """

    n_sources: int
    n_policies: int
    n_targets: int
    n_episodes: int
    train_rows: int
    table_rows: int
    variables: tuple[str, ...]

    @classmethod
    def of(cls, experiment: Experiment) -> "Layout":
        """The layout of a new run."""
        system, trainer = experiment.built_system, experiment.built_trainer
        n_sources, n_targets = experiment.sources.size, experiment.target_space.size
        variables = kept_variables(
            n_sources, trainer.n_policies, n_targets, experiment.families
        )
        per_source = n_targets
        if "performance" in variables:
            per_source *= trainer.n_policies
        n_episodes, cells = 0, BLOCK_CELLS
        if isinstance(system, SimulatedSystem):
            n_episodes = system.n_episodes
            variables = ("performance", "returns")
            per_source = trainer.n_policies * n_targets * n_episodes
            cells = BLOCK_EPISODES
        return cls(
            n_sources=n_sources,
            n_policies=trainer.n_policies,
            n_targets=n_targets,
            n_episodes=n_episodes,
            train_rows=min(trainer.sources_per_block, n_sources),
            table_rows=min(max(1, cells // per_source), n_sources),
            variables=variables,
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dim."""
        return {
            "source": self.n_sources,
            "policy": self.n_policies,
            "target": self.n_targets,
            "episode": self.n_episodes,
        }

    def blocks(self, stage: str) -> list[slice]:
        """The stretches of sources of `"train"` or `"table"`."""
        step = self.train_rows if stage == "train" else self.table_rows
        return [
            slice(first, min(first + step, self.n_sources))
            for first in range(0, self.n_sources, step)
        ]

    def chunk(self, variable: str) -> tuple[int, ...]:
        """Shape of one chunk of a variable."""
        sizes = self.sizes | {"source": self.table_rows}
        return tuple(sizes[dim] for dim in DIMS[variable])


class RunStore:
    """The directory of one run.

    Args:
        path: an existing run directory; see `create` and `open`.
        experiment: what it holds, resolved.
        layout: how the work is cut.
    """

    def __init__(self, path: Path, experiment: Experiment, layout: Layout):
        self.path, self.experiment, self.layout = path, experiment, layout

    @classmethod
    def create(cls, path: str | Path, experiment: Experiment) -> "RunStore":
        """The run of an experiment: a new directory, or the one that is there.

        Args:
            path: the directory.
            experiment: what to run; a directory of another one is refused.
        """
        path = Path(path)
        experiment = experiment.resolved()
        if is_run(path):
            store = cls.open(path)
            difference = _difference(store.experiment.to_dict(), experiment.to_dict())
            if difference:
                raise RunStoreError(
                    f"{path} holds another experiment: {difference}. Nothing was "
                    "changed. Choose another directory with --out, or remove this one."
                )
            return store
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunStoreError(
                f"{path} exists and is not a run directory. Nothing was changed. "
                "Choose another directory with --out."
            )
        layout = Layout.of(experiment)
        path.mkdir(parents=True, exist_ok=True)
        for folder in ("policies", "blocks", "figures"):
            (path / folder).mkdir(exist_ok=True)
        store = cls(path, experiment, layout)
        store._create_table()
        packages = ("taskspace", "numpy", "scipy", "jax", "numba", "xarray", "zarr")
        manifest = {
            "format": "taskspace-run",
            "version": FORMAT_VERSION,
            "layout": {**vars(layout), "variables": list(layout.variables)},
            "packages": {name: version(name) for name in packages},
        }
        write_atomically(path / "manifest.json", json.dumps(manifest, indent=1) + "\n")
        # The experiment comes last: a directory with one is a complete new run.
        write_atomically(path / "experiment.toml", experiment.to_toml())
        return store

    @classmethod
    def open(cls, path: str | Path) -> "RunStore":
        """A run directory that is there."""
        path = Path(path)
        if not is_run(path):
            raise RunStoreError(
                f"{path} is not a run directory: it has no experiment.toml and "
                "manifest.json. Make one with: taskspace run msd"
            )
        try:
            manifest = json.loads((path / "manifest.json").read_text())
            found = manifest["version"]
            layout = Layout(
                **{
                    **manifest["layout"],
                    "variables": tuple(manifest["layout"]["variables"]),
                }
            )
            experiment = Experiment.from_toml(
                (path / "experiment.toml").read_text(),
                origin=str(path / "experiment.toml"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RunStoreError(
                f"{path} is damaged: its manifest or experiment cannot be read "
                f"({error}). Remove the directory and run the experiment again."
            ) from error
        if found != FORMAT_VERSION:
            raise RunStoreError(
                f"{path} has run format {found}, this taskspace reads "
                f"{FORMAT_VERSION}. Use the taskspace that wrote it."
            )
        return cls(path, experiment, layout)

    # --- policies ---------------------------------------------------------------

    def has_policies(self, block: int) -> bool:
        """Whether a block of sources is trained."""
        return self._policy_file(block).is_file()

    def write_policies(
        self, block: int, trained: Trained, home: NDArray[np.float64]
    ) -> None:
        """Store what training gave for a block of sources.

        Args:
            block: number of the block.
            trained: policies and counts.
            home: J at each policy's own source.
        """
        policies = trained.policies
        header = {"kind": policies.kind, "settings": policies.settings()}
        arrays = {f"policy_{k}": v for k, v in policies.arrays().items()}
        arrays |= {f"log_{k}": v for k, v in trained.log.items()}
        with replacing(self._policy_file(block)) as temporary:
            np.savez(
                temporary,
                allow_pickle=False,
                header=np.array(json.dumps(header)),
                home=home,
                environment_steps=trained.environment_steps,
                **arrays,
            )

    def read_policies(self, rows: slice) -> tuple[Trained, NDArray[np.float64]]:
        """Policies of a stretch of sources, and their J at home."""
        parts: list[Trained] = []
        homes = []
        for block, stretch in enumerate(self.layout.blocks("train")):
            first, stop = max(rows.start, stretch.start), min(rows.stop, stretch.stop)
            if first >= stop:
                continue
            inside = slice(first - stretch.start, stop - stretch.start)
            trained, home = _read_policy_file(self._policy_file(block), inside)
            parts.append(trained)
            homes.append(home)
        return Trained.concatenate(parts), np.concatenate(homes)

    def _policy_file(self, block: int) -> Path:
        return self.path / "policies" / f"block-{block:05d}.npz"

    # --- table ------------------------------------------------------------------

    def has_rows(self, block: int) -> bool:
        """Whether a block of the table is finished and all there."""
        return self._marker(block).is_file() and not self._short_chunk(block)

    def write_rows(
        self,
        block: int,
        variables: dict[str, NDArray],
        top: NDArray[np.float64],
    ) -> None:
        """Store a finished block of the table.

        Args:
            block: number of the block.
            variables: rows of each variable.
            top: best J seen at each target.
        """
        rows = self.layout.blocks("table")[block]
        group = zarr.open_group(self.path / "table.zarr", mode="r+")
        for name, values in variables.items():
            _array(group, name)[rows] = values
        _array(group, "block_best")[block] = top
        write_atomically(self._marker(block), "")

    def best_seen(self) -> NDArray[np.float64]:
        """Best J seen at each target, over all blocks."""
        group = zarr.open_group(self.path / "table.zarr", mode="r")
        return np.asarray(_array(group, "block_best")[:]).max(0)

    def write_best_known(self, values: NDArray[np.float64], kind: str) -> None:
        """Store the reference of regret, which completes the table."""
        record = {"kind": kind, "best_known": values.tolist()}
        write_atomically(self.path / "best_known.json", json.dumps(record) + "\n")

    def is_complete(self) -> bool:
        """Whether every block of the table is there, and the reference of regret."""
        n_blocks = len(self.layout.blocks("table"))
        return (self.path / "best_known.json").is_file() and all(
            self.has_rows(block) for block in range(n_blocks)
        )

    def table(self) -> xr.Dataset:
        """The performance table; large variables are read as they are needed."""
        for block in range(len(self.layout.blocks("table"))):
            if not self._marker(block).is_file():
                raise RunStoreError(
                    f"{self.path} is not finished: block {block} of its table is "
                    f"missing. Finish it with: {self.resume_command}"
                )
            short = self._short_chunk(block)
            if short:
                raise RunStoreError(
                    f"{self.path} is damaged: {short} is missing or cut short. "
                    f"Mend it with: {self.resume_command}"
                )
        try:
            reference = json.loads((self.path / "best_known.json").read_text())
        except (OSError, ValueError) as error:
            raise RunStoreError(
                f"{self.path} is not finished or damaged: best_known.json cannot be "
                f"read. Mend it with: {self.resume_command}"
            ) from error
        trained, home = self.read_policies(slice(0, self.layout.n_sources))
        small = make_table(
            {
                "home_performance": home,
                "environment_steps": trained.environment_steps,
                "best_known": reference["best_known"],
            },
            self.experiment.sources,
            self.experiment.target_space,
            {
                "system": self.experiment.built_system.id,
                "trainer": self.experiment.built_trainer.id,
                "seed": self.experiment.seed,
                "best_known_kind": reference["kind"],
            },
        )
        stored = xr.open_zarr(
            self.path / "table.zarr", chunks=None, consolidated=False
        ).drop_vars("block_best")
        return small.merge(stored)

    @property
    def resume_command(self) -> str:
        """What to type to finish or mend this run."""
        return f"taskspace run {self.path / 'experiment.toml'} --out {self.path}"

    def _marker(self, block: int) -> Path:
        return self.path / "blocks" / f"table-{block:05d}"

    def _short_chunk(self, block: int) -> str:
        """A chunk file of the block that is not whole, `""` if all are."""
        for name in self.layout.variables:
            chunk = self.layout.chunk(name)
            index = "/".join([str(block)] + ["0"] * (len(chunk) - 1))
            file = self.path / "table.zarr" / name / "c" / index
            expected = int(np.prod(chunk)) * _dtype(name).itemsize
            if not file.is_file() or file.stat().st_size != expected:
                return str(file.relative_to(self.path))
        return ""

    def _create_table(self) -> None:
        shutil.rmtree(self.path / "table.zarr", ignore_errors=True)
        group = zarr.open_group(self.path / "table.zarr", mode="w")
        sizes = self.layout.sizes
        for name in self.layout.variables:
            group.create_array(
                name,
                shape=tuple(sizes[dim] for dim in DIMS[name]),
                chunks=self.layout.chunk(name),
                dtype=_dtype(name),
                # Without compression a chunk has a known size, and is fast.
                compressors=None,
                fill_value=np.nan,
                config={"write_empty_chunks": True},
                dimension_names=DIMS[name],
            )
        n_blocks, n_targets = len(self.layout.blocks("table")), self.layout.n_targets
        group.create_array(
            "block_best",
            shape=(n_blocks, n_targets),
            chunks=(1, n_targets),
            dtype="float64",
            compressors=None,
            fill_value=-np.inf,
            dimension_names=("block", "target"),
        )


def is_run(path: str | Path) -> bool:
    """Whether a path is a run directory."""
    path = Path(path)
    return (path / "experiment.toml").is_file() and (path / "manifest.json").is_file()


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `path` once it is written."""
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _dtype(variable: str) -> np.dtype:
    return np.dtype(np.float32 if variable == "returns" else np.float64)


def _array(group: zarr.Group, name: str) -> zarr.Array:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


def _read_policy_file(path: Path, rows: slice) -> tuple[Trained, NDArray[np.float64]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            header = json.loads(str(data["header"]))
            kind: type[Policy] = POLICY_KINDS[header["kind"]]
            groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
            for name in data.files:
                group, _, rest = name.partition("_")
                if group in groups and rest:
                    groups[group][rest] = data[name][rows]
            trained = Trained(
                kind.from_arrays(groups["policy"], header["settings"]),
                data["environment_steps"][rows],
                groups["log"],
            )
            return trained, data["home"][rows]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RunStoreError(
            f"Policies cannot be read from {path} ({error}). Remove that file and run "
            "the experiment again."
        ) from error


def _difference(there: Any, here: Any, path: str = "") -> str:
    """The first value in which two plain structures differ, as a clause."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in there | here:
            inner = _difference(there.get(key), here.get(key), f"{path}.{key}")
            if inner:
                return inner
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for i, (a, b) in enumerate(zip(there, here, strict=True)):
            inner = _difference(a, b, f"{path}.{i}")
            if inner:
                return inner
        return ""
    if there == here:
        return ""
    return f"{path.lstrip('.')} is {there!r} there and {here!r} here"
