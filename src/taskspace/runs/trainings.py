"""What training gave, on disk: policies block by block, and trainings that failed."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import checksum, replacing
from taskspace.errors import DamagedFileError, RunStoreError, TaskspaceError
from taskspace.performance.io.npz import read_arrays
from taskspace.performance.ledger import TrainedBlock, Work
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.runs.blocks import Blocks
from taskspace.runs.experiment import Experiment
from taskspace.trainers import Trained

__all__ = ["UNREADABLE", "Trainings", "read_block", "write_block"]

UNREADABLE = (
    OSError, AttributeError, KeyError, TypeError, ValueError, EOFError, MemoryError,
    RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a zip file of arrays may raise if it is not what was written."""


def write_block(path: Path, done: TrainedBlock, **more: NDArray[Any]) -> None:
    """Write policies as an npz of plain arrays; nothing is pickled.

    Args:
        path: the file.
        done: policies, counts and scores at home.
        more: further arrays.
    """
    policies = done.trained.policies
    header = {"kind": policies.kind, "settings": policies.settings()}
    arrays = {f"policy_{k}": v for k, v in policies.arrays().items()}
    arrays |= {f"log_{k}": v for k, v in done.trained.log.items()}
    with path.open("wb") as out:
        np.savez(
            out,
            allow_pickle=False,
            header=np.array(json.dumps(header)),
            home=np.asarray(done.home, order="C"),
            environment_steps=done.trained.environment_steps,
            # In one order, so that equal arrays are equal bytes.
            **{name: np.asarray(values, order="C") for name, values in arrays.items()},
            **more,
        )


def read_block(data: bytes) -> tuple[TrainedBlock, dict[str, NDArray[Any]]]:
    """The policies that `write_block` wrote, none of them failed, and what is beside.

    Args:
        data: the bytes of the file.
    """
    groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
    more: dict[str, NDArray[Any]] = {}
    try:
        arrays = read_arrays(io.BytesIO(data), "it")
        header = json.loads(str(arrays.pop("header")))
        home, steps = arrays.pop("home"), arrays.pop("environment_steps")
        kind: type[Policy] = POLICY_KINDS[header["kind"]]
        for name, array in arrays.items():
            group, _, rest = name.partition("_")
            if group in groups and rest:
                groups[group][rest] = array
            else:
                more[name] = array
        policies = kind.from_arrays(groups["policy"], header["settings"])
        block = TrainedBlock(
            Trained(policies, steps, groups["log"]), home, np.zeros(len(home), bool)
        )
        _check_shapes(block)
    except (*UNREADABLE, TaskspaceError) as error:
        raise DamagedFileError(str(error)) from error
    return block, more


def _check_shapes(block: TrainedBlock) -> None:
    """Every array must be numbers, one entry a source and policy."""
    trained, lead = block.trained, block.home.shape
    counts = [trained.environment_steps, *trained.log.values()]
    own = list(trained.policies.arrays().values())
    if len(lead) != 2 or block.home.dtype.kind != "f" or not own:
        raise ValueError("it holds no policies, or no scores at home")
    for array in (*own, *counts, block.home):
        if array.shape[:2] != lead or array.dtype.kind not in "fiub":
            raise ValueError("its arrays are not of the same policies")


class Trainings:
    """The policies of a run, and the trainings that failed.

    Args:
        blocks: records of the finished blocks.
        experiment: whose policies they are.
    """

    def __init__(self, blocks: Blocks, experiment: Experiment):
        self._blocks, self._experiment = blocks, experiment

    def write(
        self,
        block: int,
        done: TrainedBlock,
        failures: Mapping[int, str] | None = None,
        source: str | None = None,
    ) -> None:
        """Store what training gave for a block of sources.

        Args:
            block: number of the block.
            done: policies, counts and scores at home.
            failures: trainings that failed and why, by place in the block.
            source: what was trained, where the number does not say it.
        """
        file = self._file(block)
        with replacing(file) as temporary:
            write_block(temporary, done)
        self._seal(block, {file: checksum(file.read_bytes())}, failures, source)

    def _seal(
        self,
        block: int,
        files: Mapping[Path, str],
        failures: Mapping[int, str] | None,
        source: str | None = None,
    ) -> None:
        # In one record: a kill must not leave blanks that look like policies.
        more: dict[str, Any] = {}
        if failures:
            more["failures"] = {str(k): v for k, v in failures.items()}
        if source is not None:
            more["source"] = source
        self._blocks.seal("train", block, files, **more)

    def source(self, block: int) -> str | None:
        """What was trained in a block, where that was noted.

        Args:
            block: its number.
        """
        found = self._blocks.record("train", block).get("source")
        return found if isinstance(found, str) else None

    def read(self, rows: slice) -> TrainedBlock:
        """Policies of a stretch of sources, and their J at home.

        Args:
            rows: the sources.
        """
        parts = []
        for block, stretch in enumerate(self._blocks.layout.blocks("train")):
            first, stop = max(rows.start, stretch.start), min(rows.stop, stretch.stop)
            if first < stop:
                inside = slice(first - stretch.start, stop - stretch.start)
                parts.append(self._read_file(block)[inside])
        return TrainedBlock.concatenate(parts)

    def _file(self, block: int) -> Path:
        return self._blocks.path / "policies" / f"block-{block:05d}.npz"

    def _read_file(self, block: int) -> TrainedBlock:
        file = self._file(block)
        stretch = self._blocks.layout.blocks("train")[block]
        failures = self._failures(block)
        if len(failures) == stretch.stop - stretch.start:
            return self._like().blank(len(failures))
        data = self._blocks.checked("train", block, file)
        try:
            found, _ = read_block(data)
            shape = (stretch.stop - stretch.start, self._blocks.layout.n_policies)
            if found.home.shape != shape:
                raise DamagedFileError("it is a block of another run")
        except DamagedFileError as error:
            what = f"{file.name} cannot be read ({error})"
            raise self._blocks.damaged(what) from error
        found.failed[list(failures)] = True
        return found

    def check(self, block: int) -> None:
        """Raise if a finished block cannot be read.

        Args:
            block: its number.
        """
        stretch = self._blocks.layout.blocks("train")[block]
        if len(self._failures(block)) < stretch.stop - stretch.start:
            self._read_file(block)

    def whole_blocks(self) -> Iterator[tuple[slice, TrainedBlock]]:
        """The blocks that are there and not damaged, and which sources they hold."""
        for block, rows in enumerate(self._blocks.layout.blocks("train")):
            try:
                if self._blocks.has("train", block):
                    yield rows, self._read_file(block)
            except RunStoreError:
                continue

    def write_failures(
        self,
        work: Work,
        parts: Sequence[TrainedBlock | None],
        reasons: Mapping[int, str],
    ) -> None:
        """Store a block of which some trainings failed; the next call tries again.

        Args:
            work: what was asked.
            parts: what the others gave, None where one failed.
            reasons: why, by place in the block.
        """
        there = [part for part in parts if part is not None]
        if there:
            blank = there[0].blank(1)
            whole = TrainedBlock.concatenate([part or blank for part in parts])
            self.write(work.block, whole, reasons)
        else:
            self._seal(work.block, {}, reasons)

    def _failures(self, block: int) -> dict[int, str]:
        """Why trainings of a block failed, by place in it."""
        stretch = self._blocks.layout.blocks("train")[block]
        try:
            noted = self._blocks.record("train", block).get("failures", {})
            found = {int(place): why for place, why in noted.items()}
            if any(place >= stretch.stop - stretch.start for place in found):
                raise DamagedFileError("a failure is noted outside of the block")
        except (DamagedFileError, ValueError) as error:
            raise self._blocks.damaged(str(error)) from error
        return found

    def _like(self) -> TrainedBlock:
        """Policies of any block that was trained, to make blanks like them."""
        reasons = []
        for block, stretch in enumerate(self._blocks.layout.blocks("train")):
            if not self._blocks.has("train", block):
                continue
            failures = self._failures(block)
            if len(failures) < stretch.stop - stretch.start:
                return self._read_file(block)
            reasons += failures.values()
        raise RunStoreError(
            f"No source of {self._blocks.path} could be trained: {reasons[0]}."
        )

    def failures(self) -> list[dict[str, Any]]:
        """Trainings that failed: number of the source, context, seed and reason."""
        found = []
        for block, stretch in enumerate(self._blocks.layout.blocks("train")):
            for place, reason in self._failures(block).items():
                number = stretch.start + place
                found.append(
                    {
                        "source": number,
                        "context": self._experiment.sources.context(number),
                        "seed": self._experiment.seed,
                        "reason": reason,
                    }
                )
        return found

    def forget_failures(self) -> None:
        """Have failed trainings tried again, and what rests on them."""
        for block, stretch in enumerate(self._blocks.layout.blocks("train")):
            if not self._blocks.marker("train", block).exists():
                continue
            try:
                if not self._blocks.record("train", block).get("failures"):
                    continue
            except DamagedFileError:
                continue
            self._blocks.forget("train", block)
            (self._blocks.path / "best_known.json").unlink(missing_ok=True)
            for other, rows in enumerate(self._blocks.stretches("evaluate")):
                if rows.start < stretch.stop and stretch.start < rows.stop:
                    self._blocks.forget("evaluate", other)
