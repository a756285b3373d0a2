"""Records of the finished blocks of a run, and the checksums of their files."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from taskspace._util.files import checksum, read_sealed, write_sealed
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.ledger import Stage
from taskspace.runs.layout import Layout

__all__ = ["Blocks"]

Read = Callable[[Stage, int], object]
"""Reads a block of a stage."""

FOLDERS = (("policies",), ("table.zarr",))
"""Where the files of blocks are."""


class Blocks:
    """Which blocks of a run are finished, and what their files must hold.

    A block is finished when its record is there and its files have the size that the
    record says; their checksums are compared when they are read.

    Args:
        path: the run directory.
        layout: how the work is cut.
        mend: what to type to mend the run, for sentences.
    """

    def __init__(self, path: Path, layout: Layout, mend: str):
        self.path, self.layout, self._mend = path, layout, mend
        self._seen: set[tuple[Stage, int]] = set()

    def stretches(self, stage: Stage) -> list[slice]:
        """The stretches of sources of a stage; none to evaluate if computed.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        if stage == "evaluate" and self.layout.is_computed:
            return []
        return self.layout.blocks(stage)

    def has(self, stage: Stage, block: int) -> bool:
        """Whether a block is finished and all there.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        if (stage, block) in self._seen:
            return True
        if self.missing(stage, block):
            return False
        self._seen.add((stage, block))
        return True

    def missing(self, stage: Stage, block: int) -> str:
        """What is not there of a block, `""` if all is.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        try:
            files = self.record(stage, block)["files"]
        except DamagedFileError as error:
            return str(error)
        for name, facts in files.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size != facts["bytes"]:
                return f"{name} is missing or cut short"
        return ""

    def record(self, stage: Stage, block: int) -> dict[str, Any]:
        """What was noted when a block was finished.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        file = self.marker(stage, block)
        record = read_sealed(file)
        if not _is_record(record):
            raise DamagedFileError(f"{file} is not the record of a block.")
        return record

    def marker(self, stage: Stage, block: int) -> Path:
        """The file of a block's record.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        name = "train" if stage == "train" else "table"
        return self.path / "blocks" / f"{name}-{block:05d}.json"

    def seal(
        self, stage: Stage, block: int, files: Mapping[Path, str], **more: Any
    ) -> None:
        """Note that a block is finished; the last thing that is written of it.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
            files: its files and their checksums.
            more: further notes.
        """
        record = {
            "files": {
                file.relative_to(self.path).as_posix(): {
                    "bytes": file.stat().st_size,
                    "crc32c": seal,
                }
                for file, seal in files.items()
            },
            **more,
        }
        write_sealed(self.marker(stage, block), record)

    def checked(self, stage: Stage, block: int, file: Path) -> bytes:
        """The bytes of a file of a block, compared with its record.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
            file: the file.
        """
        name = file.relative_to(self.path).as_posix()
        try:
            facts = self.record(stage, block)["files"][name]
            data = file.read_bytes()
        except (OSError, KeyError, DamagedFileError) as error:
            raise self.damaged(f"{name}: {error}") from error
        if checksum(data) != facts["crc32c"]:
            raise self.damaged(f"the checksum of {name} does not fit")
        return data

    def damaged(self, what: str) -> RunStoreError:
        """The sentence about something damaged, to be raised.

        Args:
            what: a clause.
        """
        return RunStoreError(
            f"{self.path} is damaged: {what}. Mend it with: {self._mend}"
        )

    def forget(self, stage: Stage, block: int) -> None:
        """Have a block computed again.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: its number.
        """
        self._seen.discard((stage, block))
        self.marker(stage, block).unlink(missing_ok=True)

    def unfinished(self) -> list[str]:
        """What is missing or cut short, a clause each."""
        found = []
        for stage in ("train", "evaluate"):
            for block in range(len(self.stretches(stage))):
                missing = self.missing(stage, block)
                if missing:
                    found.append(f"block {block} to {stage}: {missing}")
        return found

    def damages(self, read: Read) -> list[str]:
        """Everything that is missing or not what was written; reads every file.

        Args:
            read: reads a block, raising what `damaged` gives if it cannot.
        """
        found = self.unfinished()
        for stage in ("train", "evaluate"):
            for block in range(len(self.stretches(stage))):
                if self.missing(stage, block):
                    continue
                for name in self.record(stage, block)["files"]:
                    try:
                        self.checked(stage, block, self.path / name)
                    except RunStoreError:
                        found.append(f"block {block} to {stage}: {name} is damaged")
                        break
                else:
                    try:
                        read(stage, block)
                    except RunStoreError as error:
                        found.append(f"block {block} to {stage}: {error}")
        return found

    def forget_damaged(self, read: Read) -> list[str]:
        """Have everything that is damaged computed again.

        Args:
            read: reads a block, raising what `damaged` gives if it cannot.

        Returns:
            What was damaged, a clause each.
        """
        found = []
        for stage in ("train", "evaluate"):
            for block in range(len(self.stretches(stage))):
                if not self.marker(stage, block).exists():
                    continue
                try:
                    if missing := self.missing(stage, block):
                        raise self.damaged(missing)
                    read(stage, block)
                except RunStoreError as error:
                    found.append(f"block {block} to {stage}: {error}")
                    self.forget(stage, block)
        return found


def _is_record(value: Any) -> bool:
    """Whether a JSON value has what is read of it, and names only files of the run."""
    if not isinstance(value, dict) or not isinstance(value.get("files"), dict):
        return False
    return all(
        isinstance(facts, dict)
        and isinstance(facts.get("bytes"), int)
        and isinstance(facts.get("crc32c"), str)
        and PurePosixPath(name).parts[:1] in FOLDERS
        and ".." not in PurePosixPath(name).parts
        for name, facts in value["files"].items()
    ) and all(
        place.isdecimal() and isinstance(why, str)
        for place, why in dict(value.get("failures") or {}).items()
    )
