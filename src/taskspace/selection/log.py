"""The log of a selection: every proposal with its reason, and every step.

A line is on disk before the work that it announces begins. With the stored trainings,
the log is all that a selection needs to go on after a kill with the same sequence.
A lost line is no loss: the same proposals follow, and their trainings are stored.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from taskspace._util.arrays import Array, Numbers
from taskspace._util.files import (
    append_sealed,
    read_sealed_lines,
    seal,
    write_atomically,
)
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import REGION, TRAINED
from taskspace.spaces import Points

LOG = "selection.jsonl"


class Proposal(
    msgspec.Struct, frozen=True, tag_field="line", tag="proposal", omit_defaults=True
):
    """A source that was proposed.

    Args:
        context: where it is trained; of a region the context nearest to its middle.
        seed: seed of its training.
        kind: where its policies come from.
        why: the selector that proposed it.
        region: the targets that one policy is trained for, as pairs `[first, stop)`;
            empty where it is trained at `context` alone.
        steps: most environment steps of each policy, where not those of the trainer.
        start: index of the proposal whose best policy it begins from.
    """

    context: tuple[float, ...]
    seed: int
    kind: str = TRAINED
    why: str = ""
    region: tuple[tuple[int, int], ...] = ()
    steps: int | None = None
    start: int | None = None

    @classmethod
    def of(
        cls, context: Array, seed: int, targets: Numbers | None = None, **more: Any
    ) -> "Proposal":
        """Return the proposal of a context, or of a region of two or more targets.

        Args:
            context: one row.
            seed: seed of its training.
            targets: ascending indices of the targets of a region.
            more: other fields.
        """
        if targets is not None and len(targets) > 1:
            parts = np.split(targets, np.flatnonzero(np.diff(targets) > 1) + 1)
            pairs = tuple((int(part[0]), int(part[-1]) + 1) for part in parts)
            more |= {"region": pairs, "kind": REGION}
        return cls(tuple(context.tolist()), seed, **more)

    @property
    def members(self) -> Numbers:
        """Indices of the targets of its region."""
        parts = [np.arange(first, stop) for first, stop in self.region]
        return np.concatenate([np.empty(0, np.int64), *parts])

    @property
    def key(self) -> list[Any]:
        """What the numbers of its block depend on, in addition to those of its run."""
        how = [None, self.region, self.steps, self.start]
        return [self.context, self.seed, self.kind, *how]

    def plan(self, ledger: Ledger) -> None:
        """Plan its source.

        Args:
            ledger: what is planned so far.
        """
        point = Points(ledger.target_space.names, [self.context])
        members = self.members if self.region else None
        ledger.plan(point, seed=self.seed, kind=self.kind, members=members)


class Step(
    msgspec.Struct, frozen=True, tag_field="line", tag="step", omit_defaults=True
):
    """What was spent and covered after a training.

    Args:
        trainings: trainings done.
        coverage: share of the targets that is covered, at least.
        environment_steps: simulated steps of all trainings.
        evaluations: pairs of a policy and a target.
        against_seen: share served in comparison with the best policy seen.
        done: indices of the proposals that are done since the step before.
    """

    trainings: int
    coverage: float
    environment_steps: int
    evaluations: int
    against_seen: float | None = None
    done: tuple[int, ...] = ()

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of a history."""
        values = msgspec.structs.asdict(self)
        del values["done"]
        return {name: value for name, value in values.items() if value is not None}


Line = Proposal | Step
"""A line of the log."""


class Log:
    """The log of a selection, in memory or also in a file.

    Args:
        file: where lines are added; nowhere if None.
        lines: of earlier calls.
    """

    def __init__(self, file: Path | None = None, lines: Sequence[Line] = ()):
        self.file, self.lines = file, list(lines)

    @property
    def proposals(self) -> list[Proposal]:
        """The proposals, in order."""
        return [line for line in self.lines if isinstance(line, Proposal)]

    @property
    def steps(self) -> list[Step]:
        """The steps, in order."""
        return [line for line in self.lines if isinstance(line, Step)]

    @classmethod
    def read(cls, file: Path) -> "tuple[Log, list[str]]":
        """Return the log in a file up to the first damage, and a list of damages.

        Args:
            file: what was written.
        """
        lines, wrong = read_sealed_lines(file, Line)
        return cls(file, lines), wrong

    def add(self, line: Line) -> None:
        """Add a line.

        Args:
            line: what happens next.
        """
        if self.file is not None:
            append_sealed(self.file, line)
        self.lines.append(line)

    def rewrite(self) -> None:
        """Write the file again, without lines that were damaged or cut short."""
        assert self.file is not None
        write_atomically(self.file, "".join(map(seal, self.lines)))
