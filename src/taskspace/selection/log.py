"""The log of a selection: every proposal with its reason, and every step.

One line each, added and on the disk before the work begins. With the store of what is
trained, this is all that a selection needs to go on after a kill with the same
sequence. What a lost line told is found again: the same proposals follow, and what
was trained for them is in the store.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import (
    append_sealed,
    read_sealed_lines,
    seal,
    write_atomically,
)
from taskspace.performance.store.base import TRAINED

__all__ = ["LOG", "Line", "Log", "Proposal", "Step"]

LOG = "selection.jsonl"


class Proposal(
    msgspec.Struct, frozen=True, tag_field="line", tag="proposal", omit_defaults=True
):
    """A source that was proposed.

    Args:
        context: where it is.
        seed: seed of its training.
        kind: where its policies come from.
        columns: targets where it is evaluated, as pairs `[first, stop)`; None for all.
        made_from: numbers of the proposals whose policies were blended for it.
        why: who proposed it, and why.
    """

    context: tuple[float, ...]
    seed: int
    kind: str = TRAINED
    columns: tuple[tuple[int, int], ...] | None = None
    made_from: tuple[int, ...] = ()
    why: str = ""

    @classmethod
    def of(
        cls,
        context: NDArray[np.float64],
        seed: int,
        columns: NDArray[np.int64] | None = None,
        **more: Any,
    ) -> "Proposal":
        """Return the proposal of a context.

        Args:
            context: one row.
            seed: seed of its training.
            columns: ascending numbers of targets, None for all.
            more: other fields.
        """
        pairs = None
        if columns is not None:
            parts = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
            pairs = tuple((int(p[0]), int(p[-1]) + 1) for p in parts if len(p))
        return cls(tuple(context.tolist()), seed, columns=pairs, **more)

    @property
    def targets(self) -> NDArray[np.int64] | None:
        """Numbers of the targets where it is evaluated, None for all."""
        if self.columns is None:
            return None
        parts = [np.arange(first, stop) for first, stop in self.columns]
        return np.concatenate([np.empty(0, np.int64), *parts])


class Step(
    msgspec.Struct, frozen=True, tag_field="line", tag="step", omit_defaults=True
):
    """What was spent and covered after some proposals were done.

    Args:
        trainings: trainings done.
        coverage: share of the targets that is covered, at least.
        environment_steps: simulated steps of all trainings.
        evaluations: pairs of a policy and a target.
        sources: sources done.
        against_seen: share served by the measure of the best policy seen.
        done: numbers of the proposals that are done since the step before.
        hours: wall-clock time so far.
    """

    trainings: int
    coverage: float
    environment_steps: int
    evaluations: int
    sources: int
    against_seen: float | None = None
    done: tuple[int, ...] = ()
    hours: float = 0.0

    @property
    def entry(self) -> dict[str, Any]:
        """What a history says of the step."""
        values = msgspec.structs.asdict(self)
        del values["done"], values["hours"]
        return {name: value for name, value in values.items() if value is not None}


Line = Proposal | Step
"""A line of the log."""


class Log:
    """The log of a selection, in memory or also in a file.

    Args:
        file: where lines are added; nowhere if None.
        lines: of earlier sessions.
    """

    def __init__(self, file: Path | None = None, lines: Sequence[Line] = ()):
        self.file = file
        self.proposals: list[Proposal] = []
        self.steps: list[Step] = []
        self._lines: list[Line] = []
        self._enter(lines)

    @classmethod
    def read(cls, file: Path) -> "tuple[Log, list[str]]":
        """Return the log in a file, up to what is damaged, and what is wrong with it.

        Args:
            file: what was written.
        """
        lines, wrong = read_sealed_lines(file, Line, until_damage=True)
        return cls(file, lines), wrong

    def add(self, *lines: Line) -> None:
        """Add lines, all at once.

        Args:
            lines: what happens next.
        """
        if self.file is not None:
            append_sealed(self.file, *lines)
        self._enter(lines)

    def _enter(self, lines: Sequence[Line]) -> None:
        self._lines += lines
        self.proposals += [line for line in lines if isinstance(line, Proposal)]
        self.steps += [line for line in lines if isinstance(line, Step)]

    def withdraw(self) -> None:
        """Take the last line back, which is a proposal."""
        self._lines.pop()
        self.proposals.pop()
        self.rewrite()

    def rewrite(self) -> None:
        """Write the file anew, without what was damaged or cut short."""
        assert self.file is not None
        write_atomically(self.file, "".join(map(seal, self._lines)))
