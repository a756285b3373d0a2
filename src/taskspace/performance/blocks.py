"""Blocks as npz files: the policies of some sources, and their rows of the table.

A file is named `NUMBER-KEY-CHECKSUM.npz`. The key stands for everything that its
numbers depend on, the checksum for its bytes. So a file that is there is the one that
is asked for, and a damaged one is noticed. It holds plain arrays and one JSON member;
nothing in it is pickled.
"""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace._util.files import UNREADABLE, checksum, write_atomically
from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.table import DIMS
from taskspace.performance.work import Before, Block, TrainedBlock, Work
from taskspace.policies import check_storable, policy_class
from taskspace.trainers.base import Trained

LEVEL = 1  # of compression: returns shrink tenfold, costs a little, both at once


class Layout(msgspec.Struct, frozen=True):
    """How a table is cut into blocks of rows, and what of it is stored.

    Args:
        n_policies: members of a family.
        n_targets: number of targets.
        n_episodes: episodes per target, 0 for a system that is not simulated.
        rows: sources in one block.
        variables: variables of the table.
        is_computed: the table is computed from the policies as it is read.
    """

    n_policies: int
    n_targets: int
    n_episodes: int
    rows: int
    variables: tuple[str, ...]
    is_computed: bool = False

    @property
    def stored(self) -> tuple[str, ...]:
        """Variables of the table that are in the files."""
        return () if self.is_computed else self.variables

    def serves(self, wanted: "Layout") -> bool:
        """Return whether a table that is cut so holds all that another one would.

        Args:
            wanted: the layout of a new run.
        """
        mine = msgspec.structs.replace(self, rows=wanted.rows, variables=())
        theirs = msgspec.structs.replace(wanted, variables=())
        return mine == theirs and set(self.variables) >= set(wanted.variables)


class _Facts(msgspec.Struct, frozen=True):
    """What a file holds beside arrays.

    Args:
        made_by: stands for system, trainer and seed.
        n: how many sources it is about.
        failures: why trainings failed, by their place.
        kind: of its policies, one of `POLICY_KINDS`.
        settings: of its policies: what is not an array.
    """

    made_by: str
    n: int
    failures: dict[str, str]
    kind: str = ""
    settings: dict[str, Any] = {}


def dtype_of(variable: str) -> np.dtype:
    """Type of a variable in a file.

    Args:
        variable: its name.
    """
    return np.dtype("<f4" if variable == "returns" else "<f8")


def pack(
    block: Block,
    made_by: str,
    contexts: NDArray[np.float64],
    targets: NDArray[np.float64],
) -> bytes:
    """Return the bytes of a file; equal blocks give equal bytes.

    Args:
        block: what trainings gave.
        made_by: stands for system, trainer and seed.
        contexts: full context rows of its sources, also of those that failed.
        targets: full context rows of the targets.
    """
    arrays = {"contexts": contexts}
    failures = {str(place): why for place, why in block.failures.items()}
    facts, rows = _Facts(made_by, len(contexts), failures), {}
    if block.policies is not None:
        trained = block.policies.trained
        policies = trained.policies
        check_storable(type(policies))
        settings = {
            key: str(value) if value in (np.inf, -np.inf) else value
            for key, value in policies.settings().items()
        }
        facts = msgspec.structs.replace(facts, kind=policies.kind, settings=settings)
        arrays |= {"home": block.policies.home, "steps": trained.environment_steps}
        arrays |= {f"policy_{k}": v for k, v in policies.arrays().items()}
        arrays |= {f"log_{k}": v for k, v in trained.log.items()}
    if block.top is not None:
        arrays |= {"targets": targets, "top": block.top}
        rows = {
            f"row_{name}": np.asarray(values, dtype_of(name))
            for name, values in block.variables.items()
        }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        # A date that is always the same; rows shrink, policies hardly.
        archive.writestr(zipfile.ZipInfo("facts.json"), msgspec.json.encode(facts))
        for name, values in {**arrays, **rows}.items():
            how = zipfile.ZIP_DEFLATED if name in rows else zipfile.ZIP_STORED
            member = io.BytesIO()
            plain = np.ascontiguousarray(values).reshape(np.shape(values))
            np.lib.format.write_array(member, plain, (1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(info, member.getbuffer(), how, compresslevel=LEVEL)
    return file.getvalue()


class StoredBlock:
    """A block in a file, whose arrays are read when they are needed.

    Args:
        path: the file.
        layout: what of the table it holds.
    """

    def __init__(self, path: Path, layout: Layout):
        self.path, self.layout = path, layout
        self.facts: _Facts = self._read(self._facts)
        self.failures = {int(place): why for place, why in self.facts.failures.items()}

    def _facts(self, archive: zipfile.ZipFile) -> _Facts:
        facts = msgspec.json.decode(archive.read("facts.json"), type=_Facts)
        if not {*map(int, facts.failures)} <= {*range(facts.n)}:
            raise ValueError("it names failures of sources that it has not")
        return facts

    def _read(self, read: Callable[[zipfile.ZipFile], Any]) -> Any:
        try:
            with zipfile.ZipFile(self.path) as archive:
                return read(archive)
        except (*UNREADABLE, TaskspaceError) as error:
            what = f"{self.path.name} cannot be read ({error})"
            raise DamagedFileError(what) from error

    @property
    def places(self) -> NDArray[np.int64]:
        """Places of the sources that did not fail."""
        return np.setdiff1d(np.arange(self.facts.n), list(self.failures))

    @cached_property
    def policies(self) -> TrainedBlock | None:
        """Policies of the sources that did not fail, None if all failed."""
        return self._read(self._policies) if len(self.places) else None

    def _policies(self, archive: zipfile.ZipFile) -> TrainedBlock:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
        for name in names:
            group, _, rest = name.partition("_")
            if group in groups:
                groups[group][rest] = _array(archive, name)
        home, steps = _array(archive, "home"), _array(archive, "steps")
        shape = len(self.places), self.layout.n_policies
        for array in (home, steps, *groups["policy"].values(), *groups["log"].values()):
            if array.shape[:2] != shape:
                raise ValueError("its arrays are not of the sources it should have")
        settings = {
            key: float(value) if value in ("inf", "-inf") else value
            for key, value in self.facts.settings.items()
        }
        kind = policy_class(self.facts.kind)
        policies = kind.from_arrays(groups["policy"], settings)
        return TrainedBlock(Trained(policies, steps, groups["log"]), home)

    def variable(self, name: str, n_targets: int | None = None) -> NDArray[Any]:
        """Return rows of one variable of the table.

        Args:
            name: its name.
            n_targets: of these rows, where they are not those of the table.
        """
        layout = self.layout
        sizes = {
            "source": len(self.places),
            "policy": layout.n_policies,
            "target": layout.n_targets if n_targets is None else n_targets,
            "episode": layout.n_episodes,
        }
        shape = tuple(sizes[dim] for dim in DIMS[name])
        return self._read(lambda archive: _array(archive, f"row_{name}", shape))

    @property
    def top(self) -> NDArray[np.float64]:
        """The best J at each target."""
        return self._read(lambda archive: _array(archive, "top"))

    def array(self, name: str) -> NDArray[np.float64]:
        """Return full context rows that the file holds.

        Args:
            name: `contexts` of its sources, also of those that failed, or `targets`.
        """
        return self._read(lambda archive: _array(archive, name))

    def holds(self, names: Iterable[str]) -> bool:
        """Return whether it has rows of some variables.

        Args:
            names: names of variables.
        """
        there = self._read(lambda archive: set(archive.namelist()))
        return {f"row_{name}.npy" for name in names} <= there

    def damage(self) -> str:
        """Return what is wrong with the file, `""` if nothing is; reads all of it."""
        if self.path.stem.rpartition("-")[2] != checksum(self.path.read_bytes()):
            return f"the checksum of {self.path.name} does not fit"
        try:
            _ = self.policies, self.array("contexts")
            for name in self.layout.stored if len(self.places) else ():
                if self.holds([name]):
                    self.variable(name, len(self.array("targets")))
        except DamagedFileError as error:
            return str(error)
        return ""


def _array(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """Return an array of an archive; one of another size is not unpacked."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        np.lib.format.read_magic(member)
        found, is_fortran, dtype = np.lib.format.read_array_header_1_0(member)
        wanted = dtype if shape is None else dtype_of(name.removeprefix("row_"))
        if is_fortran or dtype.kind not in "fiub" or dtype != wanted:
            raise ValueError(f"{name} has another type")
        if shape is None and info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed")
        if found != (found if shape is None else shape):
            raise ValueError(f"{name} has another shape")
        size = int(np.prod(found, dtype=object)) * dtype.itemsize
        if not 0 <= info.file_size - size <= 2**12:
            raise ValueError(f"{name} has another size")
        # zipfile compares the checksum of a member that is read to its end.
        return np.frombuffer(member.read(), dtype).reshape(found).copy()


class BlockFolder:
    """The files of blocks in a folder.

    Args:
        path: the folder; made when the first block is written.
        layout: how the table is cut.
        made_by: stands for system, trainer and seed.
        targets: full context rows of the targets.
    """

    def __init__(
        self,
        path: Path,
        layout: Layout,
        made_by: str,
        targets: NDArray[np.float64],
    ):
        self.path, self.layout, self.made_by = path, layout, made_by
        self.targets = targets
        self.names = {file.name for file in path.glob("*.npz")}
        self._by_prefix = {name.rpartition("-")[0]: name for name in sorted(self.names)}

    def prefix(self, number: int, what: Any) -> str:
        """Return how the name of a block begins: its number, and its key.

        Args:
            number: of the block.
            what: contexts of its sources, and anything else that its numbers depend on
                beside what this folder is about.
        """
        parts = [self.made_by, what]
        if stored := self.layout.stored:
            parts += [stored, checksum(self.targets.tobytes())]
        key = sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
        return f"{number:05d}-{key[:16]}"

    def asked(
        self, contexts: NDArray[np.float64]
    ) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield how the name of each block of a run begins, and its sources.

        Args:
            contexts: full context rows of all sources.
        """
        step = self.layout.rows
        for number, first in enumerate(range(0, len(contexts), step)):
            rows = contexts[first : first + step] + 0.0  # −0 is 0
            numbers = np.arange(first, first + len(rows))
            yield self.prefix(number, rows.tolist()), numbers

    def find(self, prefix: str) -> StoredBlock | None:
        """Return the block whose name begins so, None if it is not there.

        Args:
            prefix: see `prefix`.
        """
        name = self._by_prefix.get(prefix)
        return None if name is None else StoredBlock(self.path / name, self.layout)

    def write(
        self, prefix: str, block: Block, contexts: NDArray[np.float64]
    ) -> StoredBlock:
        """Write a block; it is there whole or not at all.

        Args:
            prefix: how its name begins.
            block: what trainings gave.
            contexts: full context rows of its sources.
        """
        data = pack(block, self.made_by, contexts, self.targets)
        name = f"{prefix}-{checksum(data)}.npz"
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / name, data)
        before = self._by_prefix.get(prefix)
        self.names.add(name)
        self._by_prefix[prefix] = name
        if before not in (None, name):
            self.remove([before])
        return StoredBlock(self.path / name, self.layout)

    def remove(self, names: Iterable[str]) -> None:
        """Remove some files.

        Args:
            names: their names.
        """
        for name in list(names):
            (self.path / name).unlink(missing_ok=True)
            self.names.discard(name)
            if self._by_prefix.get(name.rpartition("-")[0]) == name:
                del self._by_prefix[name.rpartition("-")[0]]


class Elsewhere:
    """What files of a folder hold that are no whole blocks of the table.

    A trainer is a pure function of context and seed, and a cell of the table one of
    policy and target. So both stay right when contexts join, or blocks are cut anew.

    Args:
        folder: the folder.
        names: names of the files.
    """

    def __init__(self, folder: BlockFolder, names: Iterable[str]):
        self._n_targets = len(folder.targets)
        self._read = lru_cache(maxsize=4)(StoredBlock.variable)
        # By its context each source: its file, its place there, and pairs of the
        # columns there and here that are the same target.
        self._sources: dict[bytes, tuple[StoredBlock, int, NDArray[np.int64]]] = {}
        stored, wanted = folder.layout.stored, _keys(folder.targets)
        can_join = not {"performance", "best"}.isdisjoint(stored)  # for the best J
        for name in sorted(names):
            try:
                block, pairs = StoredBlock(folder.path / name, folder.layout), []
                if block.facts.made_by != folder.made_by:
                    continue
                if can_join and block.holds(stored):
                    targets = enumerate(_keys(block.array("targets")))
                    there = {key: column for column, key in targets}
                    pairs = [(there[k], n) for n, k in enumerate(wanted) if k in there]
                contexts = _keys(block.array("contexts")[block.places])
            except DamagedFileError:
                continue  # what it holds is computed again
            columns = np.array(pairs, np.int64).reshape(-1, 2)
            for place, key in enumerate(contexts):
                if key not in self._sources or len(pairs) > len(self._sources[key][2]):
                    self._sources[key] = block, place, columns

    def of(self, work: Work) -> Before | None:
        """Return what is stored of a piece of work, None if nothing is.

        Args:
            work: what is asked for.
        """
        places, parts, rows = [], [], []
        known = np.zeros((len(work.numbers), self._n_targets), bool)
        for number, key in enumerate(_keys(work.contexts)):
            if key not in self._sources:
                continue
            block, place, columns = self._sources[key]
            try:
                assert block.policies is not None
                part = block.policies[np.array([place])]
                rows.append(self._row(block, place, columns) if len(columns) else {})
            except DamagedFileError:
                continue  # what it holds is computed again
            places.append(number)
            parts.append(part)
            known[number, columns[:, 1]] = True
        if not parts:
            return None
        known, variables = known[places], {}
        if all(rows):
            variables = {n: np.stack([row[n] for row in rows]) for n in rows[0]}
        else:
            known[:] = False
        policies = TrainedBlock.concatenate(parts)
        return Before(np.array(places), policies, variables, known)

    def _row(
        self, block: StoredBlock, place: int, columns: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """Return a row of the table, by variable, with the cells that a file holds."""
        row, n_targets = {}, len(block.array("targets"))
        for name in block.layout.stored:
            values = self._read(block, name, n_targets)[place]
            axis, shape = DIMS[name].index("target") - 1, list(values.shape)
            shape[axis] = self._n_targets
            row[name] = np.full(shape, np.nan, values.dtype)
            here, there = (np.moveaxis(x, axis, 0) for x in (row[name], values))
            here[columns[:, 1]] = there[columns[:, 0]]
        return row


def _keys(rows: NDArray[np.float64]) -> list[bytes]:
    """Return the bytes of each context; −0 is 0."""
    return [row.tobytes() for row in np.ascontiguousarray(rows) + 0.0]


# --- variables that are read or computed when they are needed ------------------------


class _LazyRows(BackendArray):
    """A variable of which whole rows are made, and then cut to what is wanted."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        rows: Callable[[NDArray[np.int64]], NDArray[Any]],
    ):
        self.shape, self.dtype, self._rows = shape, dtype, rows

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._get
        )

    def _get(self, key: tuple[Any, ...]) -> Any:
        numbers = np.arange(self.shape[0])[key[0]]
        values = self._rows(np.atleast_1d(numbers))[(slice(None), *key[1:])]
        return values if np.ndim(numbers) else values[0]


def lazy_variable(
    name: str,
    sizes: Mapping[str, int],
    rows: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> xr.Variable:
    """Return a variable of a table whose rows are made when they are needed.

    Args:
        name: its name.
        sizes: length of each dim.
        rows: gives rows of some sources, in the order asked for.
    """
    shape = tuple(sizes[dim] for dim in DIMS[name])
    array = _LazyRows(shape, dtype_of(name), rows)
    return xr.Variable(DIMS[name], indexing.LazilyIndexedArray(array))
