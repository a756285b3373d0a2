"""A store in a directory: a manifest that lines are added to, and files of blocks.

```
manifest.jsonl         a line about the directory, then one per finished block
policies/block-….npz   what the trainings of a block of sources gave
table/block-….npz      rows of the performance table
```

A block counts as finished when its line is there and its files have the size that the
line says; checksums are compared when files are read. A file is on the disk before its
line is. Once the work is done, `compact` puts the lines in order, so that the bytes do
not tell who finished first.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import (
    append_sealed,
    checksum,
    plain,
    read_sealed_lines,
    seal,
    write_atomically,
)
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.store import MANIFEST
from taskspace.performance.store.base import Source, Store, gather
from taskspace.performance.store.blocks import (
    computed_rows,
    dtype_of,
    lazy_variable,
    pack_policies,
    pack_rows,
    unpack_policies,
    unpack_rows,
)
from taskspace.performance.store.records import (
    Chunk,
    Failure,
    FileFacts,
    Header,
    Record,
    Reference,
)
from taskspace.performance.work import Rows, Stage, Task, TrainedBlock, top_of


def read_manifest(path: Path) -> tuple[list[Any], list[str]]:
    """Return the lines of a manifest, the header first, and what is wrong with it.

    Args:
        path: the directory of the store.
    """
    records, wrong = read_sealed_lines(path / MANIFEST, Record)
    return sorted(records, key=lambda r: not isinstance(r, Header)), wrong


class DiskStore(Store):
    """Keeps everything in a directory.

    Args:
        path: the directory.
        header: what it says of itself.
        records: the other lines of its manifest; none for a new one.
        damage: what is wrong with the manifest, a clause each.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        records: Iterable[Record] = (),
        damage: Sequence[str] = (),
    ):
        super().__init__()
        self.path, self.header, self.how = path, header, header.how
        self.damage = list(damage)
        """What is missing or cut short, a clause each."""
        self.mend = ""
        """What to type to mend it."""
        self.task: Task | None = None
        """For a table that is computed as it is read."""
        self.reference: Reference | None = None
        self._chunks: dict[tuple[Stage, int], Chunk] = {}
        self._places: dict[Source, tuple[int, int]] = {}
        self._blocks: dict[int, TrainedBlock] = {}
        self._last: tuple[int, dict[str, NDArray[Any]]] = -1, {}
        self._top: NDArray[np.float64] | None = None
        for record in records:
            if isinstance(record, Chunk):
                self._chunks[record.stage, record.block] = record
            elif isinstance(record, Failure):
                self.failures[record.source] = record.reason
            elif isinstance(record, Reference):
                self.reference = record if record.kind else None
        for chunk in list(self._chunks.values()):
            if what := self._cut_short(chunk):
                self.damage.append(what)
                del self._chunks[chunk.stage, chunk.block]
            elif chunk.stage == "train":
                self._enter(chunk)

    def _enter(self, chunk: Chunk) -> None:
        for place, source in enumerate(chunk.sources):
            self._places[source] = chunk.block, place
            self.failures.pop(source, None)

    def plan(self, sources: Sequence[Source]) -> None:
        """Add sources to what is asked for.

        Args:
            sources: in the order of their rows.
        """
        step = self.header.layout.table_rows
        first = len(self.sources) // step
        super().plan(sources)
        for block in range(first, -(-len(self.sources) // step)):
            if chunk := self._evaluation(block):
                self._evaluated[self._numbers_of(chunk)] = True
        rows = self.header.layout.train_rows
        for source in sources:
            # Trained, but for another row: kept where it belongs now.
            place = self._places.get(source)
            if place is not None and place[0] != self.number(source) // rows:
                self.append([source], self.read([source]))

    def _numbers_of(self, chunk: Chunk) -> NDArray[np.int64]:
        """Return the rows of the table that a chunk has."""
        step = self.header.layout.table_rows
        first = chunk.block * step
        if chunk.places is not None:
            return first + np.array(chunk.places, np.int64)
        return np.arange(first, min(first + step, len(self.sources)))

    def _stretch(self, stage: Stage, block: int) -> list[Source]:
        step = self.header.layout.rows(stage)
        return self.sources[block * step : (block + 1) * step]

    def _evaluation(self, block: int) -> Chunk | None:
        """Return what is evaluated of a block, if its sources are those planned."""
        chunk = self._chunks.get(("evaluate", block))
        return chunk if chunk and chunk.of == self._planned(block) else None

    def _planned(self, block: int) -> str:
        """Return what stands for the planned sources of a block of the table."""
        return checksum(msgspec.json.encode(self._stretch("evaluate", block)))

    # --- files --------------------------------------------------------------------

    def _files(self, chunk: Chunk) -> dict[str, Path]:
        if chunk.stage == "train":
            return {"policies": self.path / "policies" / f"block-{chunk.block:05d}.npz"}
        return {"table": self.path / "table" / f"block-{chunk.block:05d}.npz"}

    def _cut_short(self, chunk: Chunk) -> str:
        """Return what is not there of a chunk, `""` if all is."""
        try:
            for name, file in self._files(chunk).items():
                if not file.is_file() or file.stat().st_size != chunk.files[name].bytes:
                    shown = file.relative_to(self.path).as_posix()
                    return f"{shown} is missing or cut short"
        except KeyError as error:
            return f"block {chunk.block} to {chunk.stage} has no {error}"
        return ""

    def _read(self, chunk: Chunk, name: str) -> bytes:
        file = self._files(chunk)[name]
        try:
            data = file.read_bytes()
        except OSError as error:
            raise self.damaged(f"{file.name}: {error}") from error
        if checksum(data) != chunk.files[name].crc32:
            shown = file.relative_to(self.path).as_posix()
            raise self.damaged(f"the checksum of {shown} does not fit")
        return data

    def damaged(self, what: str) -> RunStoreError:
        """Return the sentence about something damaged, to be raised.

        Args:
            what: a clause.
        """
        return RunStoreError(
            f"{self.path} is damaged: {what}. Mend it with: {self.mend}"
        )

    def _write(self, chunk: Chunk, data: Mapping[str, bytes]) -> None:
        """Write the files of a chunk, then its line."""
        facts = {n: FileFacts(len(d), checksum(d)) for n, d in data.items()}
        chunk = msgspec.structs.replace(chunk, files=facts)
        for name, file in self._files(chunk).items():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, data[name])
        append_sealed(self.path / MANIFEST, chunk)
        self._chunks[chunk.stage, chunk.block] = chunk
        if chunk.stage == "train":
            self._enter(chunk)

    # --- policies -----------------------------------------------------------------

    def has(self, source: Source) -> bool:
        """Return whether the policies of a source are there.

        Args:
            source: planned or not.
        """
        return source in self._places

    def _keep(self, sources: Sequence[Source], block: TrainedBlock) -> None:
        number = self.number(sources[0]) // self.header.layout.train_rows
        planned = dict.fromkeys(self._stretch("train", number))
        before = self._chunks.get(("train", number))
        if before is not None:
            new = set(sources)
            rest = [s for s in before.sources if s in planned and s not in new]
            if rest:
                block = TrainedBlock.concatenate([block, self.read(rest)])
            sources = [*sources, *rest]
            for source in before.sources:
                self._places.pop(source, None)
        place = {source: place for place, source in enumerate(sources)}
        order = [source for source in planned if source in place]
        if order != list(sources):
            block = block[np.array([place[source] for source in order])]
        chunk = Chunk("train", number, {}, tuple(order))
        self._write(chunk, {"policies": pack_policies(block)})
        self._blocks[number] = block

    def fail(self, source: Source, reason: str) -> None:
        """Note that a training failed.

        Args:
            source: what was trained.
            reason: why it failed.
        """
        append_sealed(self.path / MANIFEST, Failure(source, reason))
        super().fail(source, reason)

    def read(self, sources: Sequence[Source]) -> TrainedBlock:
        """Return policies of sources that are trained.

        Args:
            sources: which ones.
        """
        places = [self._places[source] for source in sources]
        return gather((self._block(block), place) for block, place in places)

    def _block(self, number: int) -> TrainedBlock:
        if number not in self._blocks:
            chunk = self._chunks["train", number]
            shape = len(chunk.sources), self.header.layout.n_policies
            try:
                data = self._read(chunk, "policies")
                self._blocks[number] = unpack_policies(data, shape)
            except DamagedFileError as error:
                file = self._files(chunk)["policies"].name
                raise self.damaged(f"{file} cannot be read ({error})") from error
        return self._blocks[number]

    # --- the table ----------------------------------------------------------------

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table; a computed one needs policies."""
        return self._trained if self.header.layout.is_computed else self._evaluated

    def is_evaluated(self, source: Source) -> bool:
        """Return whether a source has its row of a table that is stored.

        Args:
            source: planned or not.
        """
        number = self._numbers.get(source)
        return number is not None and bool(self._evaluated[number])

    def _keep_rows(self, numbers: Sequence[int], rows: Rows) -> None:
        layout = self.header.layout
        block, first = divmod(numbers[0], layout.table_rows)
        places = np.asarray(numbers) - (numbers[0] - first)
        before = self._evaluation(block)
        data, top = {}, rows.top
        done = set(places.tolist())
        for name, values in rows.variables.items():
            whole = np.full(layout.chunk(name), np.nan, dtype_of(name))
            if before is not None:
                whole[:] = self.read_chunk(name, block)
            whole[places] = values
            data[name] = whole
        if before is not None:
            done |= set((self._numbers_of(before) - block * layout.table_rows).tolist())
            top = np.maximum(top, self._chunk_top(before))
        is_whole = len(done) == len(self._stretch("evaluate", block))
        chunk = Chunk(
            "evaluate",
            block,
            {},
            of=self._planned(block),
            places=None if is_whole else tuple(sorted(done)),
            top=None
            if {"performance", "best"} & set(data)
            else tuple(plain(top, nonfinite="text")),
        )
        self._write(chunk, {"table": pack_rows(data)})
        self._last = block, data
        if self._top is not None or not self._evaluated.any():
            self._top = top if self._top is None else np.maximum(self._top, top)

    def admit(self, number: int) -> None:
        """Count a row again that was withheld.

        Args:
            number: the source.
        """
        super().admit(number)
        self._top = None

    def read_chunk(self, name: str, block: int) -> NDArray[Any]:
        """Return one variable of a block of the table, NaN where it is not evaluated.

        Args:
            name: the variable.
            block: number of the block.
        """
        if self._last[0] != block:
            layout, chunk = self.header.layout, self._chunks["evaluate", block]
            data = self._read(chunk, "table")
            try:
                rows = unpack_rows(data, {n: layout.chunk(n) for n in layout.variables})
            except DamagedFileError as error:
                raise self.damaged(f"block {block} of the table ({error})") from error
            self._last = block, rows
        return self._last[1][name]

    def _chunk_top(self, chunk: Chunk) -> NDArray[np.float64]:
        if chunk.top is not None:
            return np.array([float(value) for value in chunk.top])
        names = self.header.layout.variables
        name = "performance" if "performance" in names else "best"
        places = self._numbers_of(chunk) - chunk.block * self.header.layout.table_rows
        return top_of({name: self.read_chunk(name, chunk.block)[places]})

    def variables(
        self, names: Sequence[str], numbers: NDArray[np.int64]
    ) -> Mapping[str, Any]:
        """Return rows of the table, which are read or computed when they are needed.

        Args:
            names: names of variables.
            numbers: sources that are evaluated, ascending.
        """
        if self.header.layout.is_computed:
            assert self.task is not None
            stack = self.read([self.sources[number] for number in numbers])
            return computed_rows(self.task, stack, names)

        sizes = self.header.layout.sizes(len(numbers))
        return {
            name: lazy_variable(
                name, sizes, lambda n, name=name: self._rows(name, numbers[n])
            )
            for name in names
        }

    def _rows(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of a variable, read chunk by chunk."""
        layout = self.header.layout
        out = np.empty(layout.shape(name, len(numbers)), dtype_of(name))
        blocks, places = np.divmod(numbers, layout.table_rows)
        for block in np.unique(blocks).tolist():
            in_block = blocks == block
            out[in_block] = self.read_chunk(name, block)[places[in_block]]
        return out

    def top(self) -> NDArray[np.float64]:
        """Return the best J seen at each target."""
        if self.header.layout.is_computed:
            best = self.variables(["best"], np.flatnonzero(self.trained))["best"]
            step = self.header.layout.table_rows
            stretches = range(0, best.shape[0], step)
            return np.max([best[k : k + step].values.max(0) for k in stretches], axis=0)
        if self._top is None:
            step = self.header.layout.table_rows
            blocks = np.unique(np.flatnonzero(self._evaluated) // step).tolist()
            rows = [self._chunks["evaluate", block] for block in blocks]
            best = np.max([self._chunk_top(chunk) for chunk in rows], axis=0)
            self._top = np.asarray(best, np.float64)
        return self._top

    def write_reference(self, values: NDArray[np.float64], kind: str) -> None:
        """Keep the reference of regret, unless it is there already.

        Args:
            values: best known J at each target.
            kind: where it comes from; empty if there is none any more.
        """
        reference = Reference(kind, tuple(plain(values, nonfinite="text")))
        if reference != (self.reference or Reference("", ())):
            append_sealed(self.path / MANIFEST, reference)
            self.reference = reference if kind else None

    # --- all of it ----------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Return what is missing of what is planned, a clause each."""
        lacking = [s for s in self.sources if s not in self.failures]
        n_missing = len(self.missing(lacking))
        clauses = [f"{n_missing} sources are not trained"] if n_missing else []
        n_missing = int((self.trained & ~self.evaluated).sum())
        return clauses + (
            [f"{n_missing} sources are not evaluated"] if n_missing else []
        )

    def lost(self, done: Iterable[int]) -> list[str]:
        """Return what was there once and is not any more, a clause each.

        Args:
            done: numbers of the sources that were trained and evaluated, or failed.
        """
        done = [n for n in done if n < len(self.sources)]
        clauses = [
            f"the training of source {number} is missing"
            for number in sorted({*done, *np.flatnonzero(self._evaluated).tolist()})
            if self.missing([self.sources[number]])
        ]
        return clauses + [
            f"the evaluation of source {number} is missing"
            for number in done
            if self.trained[number] and not self.evaluated[number]
        ]

    @property
    def key(self) -> str:
        """Stands for everything that the numbers of the table depend on."""
        chunks = sorted(self._chunks.values(), key=lambda c: (c.stage, c.block))
        failures = sorted(map(repr, self.failures))
        parts = [self.header.data, chunks, failures, self.reference]
        return sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()

    def damages(self) -> list[str]:
        """Return everything that is not what was written; reads every file."""
        return [*self.damage, *self._damaged_chunks().values()]

    def _damaged_chunks(self) -> dict[tuple[Stage, int], str]:
        """Return what is wrong with chunks whose files are damaged."""
        damaged = {}
        for key, chunk in self._chunks.items():
            try:
                self._check(chunk)
            except RunStoreError as error:
                damaged[key] = f"block {chunk.block} to {chunk.stage}: {error}"
        return damaged

    def _check(self, chunk: Chunk) -> None:
        if chunk.stage == "train":
            self._block(chunk.block)
            return
        self._last = -1, {}
        self.read_chunk(self.header.layout.variables[0], chunk.block)

    def forget_damaged(self) -> list[str]:
        """Have everything that is damaged computed again.

        Returns:
            What was damaged, a clause each.
        """
        damaged = self._damaged_chunks()
        clauses, self.damage = [*self.damage, *damaged.values()], []
        for key in damaged:
            for source in self._chunks.pop(key).sources:
                self._places.pop(source, None)
        if clauses:
            self.compact()
        return clauses

    def compact(self) -> None:
        """Put the lines of the manifest in order, one per finished block."""
        chunks = sorted(
            self._chunks.values(), key=lambda c: (c.stage != "train", c.block)
        )
        if self.sources:  # what is not asked for goes
            chunks = [chunk for chunk in chunks if self._is_planned(chunk)]
        failures = sorted(self.failures.items(), key=str)
        records: list[Record] = [self.header, *chunks]
        records += [Failure(source, reason) for source, reason in failures]
        if self.reference is not None:
            records.append(self.reference)
        text = "".join(map(seal, records))
        file = self.path / MANIFEST
        if not file.is_file() or file.read_bytes() != text.encode():
            write_atomically(file, text)

    def _is_planned(self, chunk: Chunk) -> bool:
        if chunk.stage == "train":
            return any(source in self._numbers for source in chunk.sources)
        return chunk.of == self._planned(chunk.block)
