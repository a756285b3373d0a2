"""What a run found: typed, and one JSON file of it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

import msgspec

from taskspace._util.files import plain, read_sealed, write_sealed
from taskspace.cover.answer import CoverAnswer
from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.questions import Question
from taskspace.selection.saved import Saved
from taskspace.systems.base import Provenance

__all__ = ["Curve", "Results", "Scores", "Spent"]


@dataclass(frozen=True)
class Curve:
    """Coverage of one method against the number of sources that it has selected.

    Args:
        question: what is covered for.
        method: name of the method.
        n_sources: sources selected.
        coverage: share of targets served, the mean over repeats.
        low: lower edge of the band over repeats.
        high: upper edge of the band.
    """

    question: Question
    method: str
    n_sources: tuple[int, ...]
    coverage: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(self)
        del values["question"]
        return self.question.to_dict() | values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What `to_dict` gave.

        Args:
            values: plain values.
        """
        kinds = get_type_hints(cls)
        del kinds["question"]
        own = {name: msgspec.convert(values[name], k) for name, k in kinds.items()}
        return cls(Question.from_dict(values), **own)


@dataclass(frozen=True)
class Spent:
    """What the whole table cost, and one source of it: the price of an oracle.

    `greedy`, `local` and `minimum` choose from the finished table, so they need all
    of it; `uniform` and `random` need the sources that they select.

    Args:
        oracle_methods: methods that need the whole table.
        trainings: policies trained.
        evaluations: pairs of a policy and a target.
        environment_steps: simulated steps of all trainings.
        trainings_per_source: policies of a source.
        evaluations_per_source: pairs of a source.
        environment_steps_per_source: simulated steps of a source, on average.
    """

    oracle_methods: tuple[str, ...]
    trainings: int
    evaluations: int
    environment_steps: int
    trainings_per_source: int
    evaluations_per_source: int
    environment_steps_per_source: float

    def trained_for(self, method: str, n_sources: float) -> int:
        """Policies that had to be trained before a method could choose.

        Args:
            method: name of the method.
            n_sources: sources that it selects.
        """
        if method in self.oracle_methods:
            return self.trainings
        return round(n_sources) * self.trainings_per_source


@dataclass(frozen=True)
class Scores:
    """How good the policies are.

    Args:
        home: least and largest J at home, over all policies.
        best: least and largest of the best known J over the targets.
        solved_return: J from which a task counts as solved, if that is agreed.
        n_policies: how many policies there are.
        n_failed: how many do not solve their own task.
        n_sources_with_a_failure: sources of which at least one policy fails.
        n_sources_all_failed: sources of which every policy fails.
        dead_axes: context axes along which no performance changes at all.
        ignorant: least and largest J of a policy that knows nothing (the better of a
            random one and one that does nothing) at some targets, if it was tried.
        n_no_better: at how many of these targets no policy of the table is better.
        n_tried: how many targets were tried.
    """

    home: tuple[float | None, float | None]
    best: tuple[float | None, float | None]
    n_policies: int
    solved_return: float | None = None
    n_failed: int = 0
    n_sources_with_a_failure: int = 0
    n_sources_all_failed: int = 0
    dead_axes: tuple[str, ...] = ()
    ignorant: tuple[float | None, float | None] | None = None
    n_no_better: int = 0
    n_tried: int = 0


@dataclass(frozen=True)
class Results:
    """Everything that an experiment asks of its table.

    Args:
        covers: one a question and method.
        curves: coverage against sources, for the methods that have a curve.
        spent: what the table cost.
        scores: how good its policies are.
        n_sources: sources in the table.
        n_targets: targets in the table.
        best_known_kind: what regret is against.
        provenance: where the numbers come from.
        n_episodes: episodes that a sampled number is the mean of.
        failures: sources whose training failed: number, context and reason.
        settings: what the covers depend on, beside table, question and method.
        saved: of a selection, what others would have spent, where that is known.
    """

    covers: tuple[CoverAnswer, ...]
    curves: tuple[Curve, ...]
    spent: Spent
    scores: Scores
    n_sources: int
    n_targets: int
    best_known_kind: str
    provenance: Provenance
    n_episodes: int = 0
    failures: tuple[dict[str, Any], ...] = ()
    settings: dict[str, int | float] = field(default_factory=dict)
    saved: Saved | None = None

    @property
    def by_question(self) -> Iterator[tuple[Question, list[CoverAnswer]]]:
        """The covers, question by question."""
        questions = dict.fromkeys(answer.question for answer in self.covers)
        for question in questions:
            if question is not None:
                yield question, [a for a in self.covers if a.question == question]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; no time and no machine is in them."""
        values = {
            "covers": [answer.record() for answer in self.covers],
            "curves": [curve.to_dict() for curve in self.curves],
            "spent": asdict(self.spent),
            "scores": asdict(self.scores),
            "n_sources": self.n_sources,
            "n_targets": self.n_targets,
            "best_known_kind": self.best_known_kind,
            "provenance": self.provenance,
            "n_episodes": self.n_episodes,
            "failures": list(self.failures),
            "settings": self.settings,
        }
        if self.saved is not None:
            values["saved"] = asdict(self.saved)
        for record in values["covers"]:
            del record["seconds"]
        return plain(values)

    def save(self, path: Path) -> None:
        """Write `results.json`.

        Args:
            path: the file.
        """
        write_sealed(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `results.json`.

        Args:
            path: the file.
        """
        values = read_sealed(path, dict[str, Any])
        try:
            own = {
                "covers": tuple(CoverAnswer.from_record(r) for r in values["covers"]),
                "curves": tuple(Curve.from_dict(r) for r in values["curves"]),
            }
            rest = {
                name: msgspec.convert(values[name], kind)
                for name, kind in get_type_hints(cls).items()
                if name in values and name not in own
            }
            return cls(**own, **rest)
        except (
            AttributeError, KeyError, TypeError, ValueError, TaskspaceError,
        ) as error:  # fmt: skip
            raise DamagedFileError(
                f"{path} is not what this taskspace writes: {error!r}."
            ) from error
