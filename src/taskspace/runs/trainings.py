"""What training gave, on disk: policies block by block, and trainings that failed."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taskspace._files import checksum, replacing
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.ledger import TrainedBlock, Work
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.runs.blocks import Blocks
from taskspace.runs.experiment import Experiment
from taskspace.trainers import Trained

__all__ = ["Trainings"]


class Trainings:
    """The policies of a run, and the trainings that failed.

    Args:
        blocks: records of the finished blocks.
        experiment: whose policies they are.
    """

    def __init__(self, blocks: Blocks, experiment: Experiment):
        self._blocks, self._experiment = blocks, experiment

    def write(
        self, block: int, done: TrainedBlock, failures: Mapping[int, str] | None = None
    ) -> None:
        """Store what training gave for a block of sources.

        Args:
            block: number of the block.
            done: policies, counts and scores at home.
            failures: trainings that failed and why, by place in the block.
        """
        policies = done.trained.policies
        header = {"kind": policies.kind, "settings": policies.settings()}
        arrays = {f"policy_{k}": v for k, v in policies.arrays().items()}
        arrays |= {f"log_{k}": v for k, v in done.trained.log.items()}
        file = self._file(block)
        with replacing(file) as temporary, temporary.open("wb") as out:
            np.savez(
                out,
                allow_pickle=False,
                header=np.array(json.dumps(header)),
                home=done.home,
                environment_steps=done.trained.environment_steps,
                **arrays,
            )
        self._seal(block, {file: checksum(file.read_bytes())}, failures)

    def _seal(
        self, block: int, files: Mapping[Path, str], failures: Mapping[int, str] | None
    ) -> None:
        # In one record: a kill must not leave blanks that look like policies.
        more = (
            {"failures": {str(k): v for k, v in failures.items()}} if failures else {}
        )
        self._blocks.seal("train", block, files, **more)

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
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                header = json.loads(str(arrays["header"]))
                kind: type[Policy] = POLICY_KINDS[header["kind"]]
                groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
                for name in arrays.files:
                    group, _, rest = name.partition("_")
                    if group in groups and rest:
                        groups[group][rest] = arrays[name]
                trained = Trained(
                    kind.from_arrays(groups["policy"], header["settings"]),
                    arrays["environment_steps"],
                    groups["log"],
                )
                failed = np.zeros(len(arrays["home"]), bool)
                failed[[int(place) for place in failures]] = True
                return TrainedBlock(trained, arrays["home"], failed)
        except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            what = f"{file.name} cannot be read ({error})"
            raise self._blocks.damaged(what) from error

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

    def _failures(self, block: int) -> dict[str, str]:
        try:
            return self._blocks.record("train", block).get("failures", {})
        except DamagedFileError as error:
            raise self._blocks.damaged(str(error)) from error

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
                number = stretch.start + int(place)
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
