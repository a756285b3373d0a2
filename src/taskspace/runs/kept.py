"""Policies of a run whose space grew: kept while its blocks are cut anew.

A trainer is a pure function of context and seed, so a policy stays right when other
contexts join. The old blocks are gathered in `policies/kept.npz`, on the disk before
any of them is removed, and the new blocks are filled from it; what is not in it is
trained. Killed at any moment, the next call goes on from both.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import replacing
from taskspace.errors import DamagedFileError
from taskspace.performance.ledger import TrainedBlock, Work
from taskspace.runs.experiment import Experiment
from taskspace.runs.trainings import Trainings, read_block, write_block

__all__ = ["Kept", "key_of", "not_there", "set_aside"]

SAME = 1e-12
"""Contexts that differ by this share of an axis' range are one, rounded otherwise."""


def not_there(old: Experiment, new: Experiment) -> str:
    """Which contexts of an experiment another one drops, as a clause; `""` if none.

    Args:
        old: whose contexts must stay.
        new: the same system and trainer with another space.
    """
    from scipy.spatial import KDTree

    system = new.built_system
    for kind in ("sources", "target_space"):
        before, after = (system.contexts(getattr(e, kind)) for e in (old, new))
        extent = np.ptp(np.concatenate([before, after]), axis=0)
        scale = np.where(extent > 0, extent, 1.0)
        far = KDTree(after / scale).query(before / scale, p=np.inf)[0] > SAME
        if far.any():
            what = "sources" if kind == "sources" else "targets"
            return f"{int(far.sum())} of its {len(before)} {what} are not in this one"
    return ""


def set_aside(
    path: Path, trainings: Trainings, contexts: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Gather all policies of a run in one file, beside those that are there already.

    Args:
        path: the run directory.
        trainings: what its blocks hold.
        contexts: full context rows of its sources.

    Returns:
        Which sources of the run have their policies in it.
    """
    whole = np.zeros(len(contexts), bool)
    rows, parts = [], []
    kept = Kept.load(path)
    if kept.block is not None:
        rows.append(kept.contexts)
        parts.append(kept.block)
    for place, block in trainings.whole_blocks():
        fine = np.flatnonzero(~block.failed)
        whole[place] = ~block.failed
        rows.append(contexts[place][fine])
        parts.append(block[fine])
    if not parts:
        return whole
    every = np.concatenate(rows)
    # The last of equal contexts is as good as the first: they are the same.
    first = np.sort(np.unique(every + 0.0, axis=0, return_index=True)[1])
    with replacing(_file(path)) as temporary:
        write_block(
            temporary, TrainedBlock.concatenate(parts)[first], contexts=every[first]
        )
    return whole


class Kept:
    """The policies that were set aside, found by their context.

    Args:
        contexts: full context rows.
        block: their policies; None where there are none.
    """

    def __init__(
        self,
        contexts: NDArray[np.float64],
        block: TrainedBlock | None,
        damage: str = "",
    ):
        self.contexts, self.block, self.damage = contexts, block, damage
        self._places = {key_of(row): place for place, row in enumerate(contexts)}

    @classmethod
    def load(cls, path: Path) -> "Kept":
        """What a run has set aside; nothing, mostly.

        Args:
            path: the run directory.
        """
        try:
            data = _file(path).read_bytes()
        except OSError:
            return cls(np.zeros((0, 0)), None)
        try:
            block, more = read_block(data)
            if more["contexts"].shape[:1] != block.home.shape[:1]:
                raise DamagedFileError("its contexts are not those of its policies")
            return cls(more["contexts"], block)
        except (DamagedFileError, KeyError) as error:
            return cls(np.zeros((0, 0)), None, f"{_file(path).name}: {error}")

    def has(self, contexts: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which contexts have their policies here.

        Args:
            contexts: full context rows.
        """
        return np.array([key_of(row) in self._places for row in contexts], bool)

    def rest(self, work: Work) -> Work:
        """What is left to do of a training.

        Args:
            work: a training, or anything else, which stays as it is.
        """
        if work.stage != "train" or self.block is None:
            return work
        return replace(work, contexts=work.contexts[~self.has(work.contexts)])

    def of(self, contexts: NDArray[np.float64]) -> TrainedBlock:
        """The policies of contexts that are all here.

        Args:
            contexts: full context rows.
        """
        assert self.block is not None
        return self.block[np.array([self._places[key_of(row)] for row in contexts])]

    def join(
        self, work: Work, parts: Sequence[TrainedBlock | None]
    ) -> list[TrainedBlock | None]:
        """What training the rest gave, with what is here, source by source.

        Args:
            work: the whole training.
            parts: one for each source of the rest.
        """
        rest = iter(parts)
        return [
            self.of(work.contexts[k : k + 1]) if here else next(rest)
            for k, here in enumerate(self.has(work.contexts).tolist())
        ]

    def whole(self, work: Work, done: TrainedBlock) -> TrainedBlock:
        """A block of which the rest has been trained.

        Args:
            work: the whole training.
            done: the policies of the rest.
        """
        here = self.has(work.contexts)
        if not here.any():
            return done
        both = TrainedBlock.concatenate([self.of(work.contexts[here]), done])
        order = np.empty(len(here), np.int64)
        order[np.concatenate([np.flatnonzero(here), np.flatnonzero(~here)])] = (
            np.arange(len(here))
        )
        return both[order]

    @staticmethod
    def remove(path: Path) -> None:
        """Forget what was set aside: every block has what it needs.

        Args:
            path: the run directory.
        """
        _file(path).unlink(missing_ok=True)


def _file(path: Path) -> Path:
    return path / "policies" / "kept.npz"


def key_of(row: NDArray[np.float64]) -> bytes:
    """What tells a context from others: its bits, with one zero.

    Args:
        row: a full context row.
    """
    return (row + 0.0).tobytes()
