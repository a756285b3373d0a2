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

from taskspace._util.arrays import Array, Numbers
from taskspace._util.files import (
    append_sealed,
    read_sealed_lines,
    seal,
    write_atomically,
)
from taskspace.performance.trainings import Trainings
from taskspace.performance.work import REGION, TRAINED
from taskspace.spaces import Points

LOG = "selection.jsonl"

Pairs = tuple[tuple[int, int], ...]
"""Ascending numbers, as stretches `[first, stop)`."""


class Proposal(
    msgspec.Struct, frozen=True, tag_field="line", tag="proposal", omit_defaults=True
):
    """A source that was proposed.

    Args:
        context: where it is.
        seed: seed of its training.
        kind: where its policies come from.
        columns: targets where it is evaluated, as pairs `[first, stop)`; None for all.
        why: who proposed it, and why.
        region: the targets that one policy is trained for, as pairs `[first, stop)`;
            empty where it is trained at `context` alone.
        steps: most environment steps of each policy, where not those of the trainer.
        start: number of the proposal whose best policy it begins from.
    """

    context: tuple[float, ...]
    seed: int
    kind: str = TRAINED
    columns: Pairs | None = None
    why: str = ""
    region: Pairs = ()
    steps: int | None = None
    start: int | None = None

    @classmethod
    def of(
        cls,
        context: Array,
        seed: int,
        columns: Numbers | None = None,
        members: Numbers | None = None,
        **more: Any,
    ) -> "Proposal":
        """Return the proposal of a context.

        Args:
            context: one row.
            seed: seed of its training.
            columns: ascending numbers of targets, None for all.
            members: ascending numbers of the targets of a region, None for no region.
            more: other fields.
        """
        if members is not None:
            more |= {"region": _pairs(members), "kind": REGION}
        pairs = None if columns is None else _pairs(columns)
        return cls(tuple(context.tolist()), seed, columns=pairs, **more)

    @property
    def targets(self) -> Numbers | None:
        """Numbers of the targets where it is evaluated, None for all."""
        return None if self.columns is None else _numbers(self.columns)

    @property
    def members(self) -> Numbers:
        """Numbers of the targets of its region."""
        return _numbers(self.region)

    @property
    def key(self) -> list[Any]:
        """All that the numbers of its block depend on, beside what a run is about."""
        how = [self.columns, self.region, self.steps, self.start]
        return [self.context, self.seed, self.kind, *how]

    def plan(self, trainings: Trainings) -> None:
        """Plan its source.

        Args:
            trainings: what is planned so far.
        """
        point = Points(trainings.target_space.names, [self.context])
        members = self.members if self.region else None
        trainings.plan(point, seed=self.seed, kind=self.kind, members=members)


def _pairs(numbers: Numbers) -> Pairs:
    """Return ascending numbers as pairs `[first, stop)`."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return tuple((int(p[0]), int(p[-1]) + 1) for p in parts if len(p))


def _numbers(pairs: Pairs) -> Numbers:
    """Return the numbers that pairs stand for."""
    parts = [np.arange(first, stop) for first, stop in pairs]
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
        lines: of earlier calls.
    """

    def __init__(self, file: Path | None = None, lines: Sequence[Line] = ()):
        self.file, self.lines = file, list(lines)

    @property
    def proposals(self) -> list[Proposal]:
        """What was proposed."""
        return [line for line in self.lines if isinstance(line, Proposal)]

    @property
    def steps(self) -> list[Step]:
        """What was done."""
        return [line for line in self.lines if isinstance(line, Step)]

    @classmethod
    def read(cls, file: Path) -> "tuple[Log, list[str]]":
        """Return the log in a file, up to what is damaged, and what is wrong with it.

        Args:
            file: what was written.
        """
        lines, wrong = read_sealed_lines(file, Line, until_damage=True)
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
        """Write the file anew, without what was damaged or cut short."""
        assert self.file is not None
        write_atomically(self.file, "".join(map(seal, self.lines)))
