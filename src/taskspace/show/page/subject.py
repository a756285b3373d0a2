"""What a page is about: a run, an archive or a matrix, with all that it tells."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import xarray as xr

from taskspace.cover import Cover
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.results import Results
from taskspace.runs.store import RunStore
from taskspace.show.page.build import collect
from taskspace.show.page.data import PageData
from taskspace.show.page.scenes import Stage

__all__ = ["Reader", "Subject"]


BASELINES = ("uniform", "random")
"""Methods whose covers may be huge."""


class Loaded(Protocol):
    """What loading a path gives."""

    @property
    def table(self) -> xr.Dataset:
        """The performance table."""
        ...

    @property
    def run(self) -> RunStore | None:
        """The run, None for a file."""
        ...

    @property
    def experiment(self) -> Experiment | None:
        """The experiment of a run or an archive."""
        ...

    @property
    def system(self) -> dict[str, Any]:
        """What a run or an archive tells of its system."""
        ...

    @property
    def notes(self) -> list[str]:
        """What a person should know of the table."""
        ...


@dataclass
class Reader:
    """Reads the data of a page from a path, as often as it changes.

    Args:
        path: a run, an archive or a matrix file.
        load: reads the table of it.
        questions: asked before those of the experiment.
        reading: how a matrix file is read, for `taskspace verify`.
        options: see `taskspace.show.page.collect`.
    """

    path: Path
    load: Callable[[], Loaded]
    questions: list[Question] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def subject(self) -> "Subject":
        """The table as it is now, and all around it."""
        loaded = self.load()
        stored = self.path / "results.json"
        return Subject(
            self.path,
            loaded.table,
            loaded.experiment,
            Results.load(stored) if stored.is_file() else None,
            loaded.system,
            loaded.notes,
            self.reading,
            Stage.of(loaded),
        )

    def read(self, progress: Progress | None = None) -> PageData:
        """The data of the page.

        Args:
            progress: told how far it is.
        """
        return self.subject().collect(self.questions, progress=progress, **self.options)


@dataclass
class Subject:
    """A table and what is known around it.

    Args:
        path: what a user calls it.
        table: the performance table.
        experiment: of a run or an archive.
        results: what a run found.
        system: what a run tells of its system.
        notes: what a person should know of the table before any number of it.
        reading: how a matrix file was read, for `taskspace verify`.
        stage: plays the policies of a run.
    """

    path: Path
    table: xr.Dataset
    experiment: Experiment | None = None
    results: Results | None = None
    system: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)
    stage: "Stage | None" = None

    @property
    def questions(self) -> list[Question]:
        """What the experiment asks, regret first: it is what most users mean."""
        if self.experiment is None:
            return []
        asked = list(self.experiment.questions)
        return sorted(asked, key=lambda question: question.criterion != "regret")

    @property
    def covers(self) -> list[tuple[Question, Cover]]:
        """Covers that are stored; of random selections and the like no huge ones."""
        if self.results is None:
            return []
        return [
            (answer.question, answer.cover)
            for answer in self.results.covers
            if answer.question is not None
            and answer.cover.n_sources == self.n_sources
            and (answer.cover.method not in BASELINES or answer.cover.size <= 200)
        ]

    @property
    def n_sources(self) -> int:
        """Sources of the table."""
        return self.table.sizes["source"]

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the axes, by name."""
        return {axis["name"]: axis["label"] for axis in self.system.get("axes", ())}

    def about(self) -> dict[str, Any]:
        """Text that a page shows around its pictures."""
        text: dict[str, Any] = {
            "warnings": self.warnings(),
            "question": {"path": str(self.path), "unicost": False, **self.reading},
        }
        if self.experiment is not None:
            text["settings"] = self.experiment.to_toml()
            text["reproduce"] = (
                f"taskspace run {self.path / 'experiment.toml'} --out DIRECTORY\n"
                f"taskspace explore {self.path}"
                if self.path.is_dir()
                else f"taskspace explore {self.path}"
            )
        if self.results is not None:
            text["tables"] = [_covers_table(self.results)]
        return text

    def warnings(self) -> list[str]:
        """What a reader should hear before any number."""
        found = list(self.notes)
        if self.results is not None:
            scores = self.results.scores
            found += [
                f"Along the axis {axis} no performance changes at all."
                for axis in scores.dead_axes
            ]
            if scores.n_failed:
                found.append(
                    f"{scores.n_failed:,} of {scores.n_policies:,} policies do not "
                    "solve their own task."
                )
            if self.results.failures:
                found.append(
                    f"The training of {len(self.results.failures)} sources failed."
                )
        return found

    def collect(self, questions: list[Question] | None = None, **options) -> PageData:
        """The data of the page.

        Args:
            questions: asked before those of the experiment.
            options: see `taskspace.show.page.collect`.
        """
        every: list[Question] = [*(questions or []), *self.questions]
        asked = list(dict.fromkeys(every))
        name = self.experiment.name if self.experiment else self.path.name
        page = collect(
            self.table,
            asked,
            title=name,
            path=str(self.path),
            covers=self.covers,
            about=self.about(),
            labels=self.labels,
            **options,
        )
        if self.results is not None:
            _add_curves(page, self.results)
        if self.stage is not None:
            self.stage.add_to(page, self.table)
        return page


def _covers_table(results: Results) -> dict[str, Any]:
    head = ["question", "method", "sources", "at least", "served", "worst loss"]
    rows = [
        [
            answer.question.statement,
            answer.cover.method,
            f"{answer.cover.size:,}",
            f"{answer.cover.lower_bound:g}",
            f"{100 * answer.cover.coverage:.4g} %",
            f"{answer.worst_loss:.4g}",
        ]
        for answer in results.covers
        if answer.question is not None
    ]
    return {"title": "Covers of the run", "head": head, "rows": rows}


def _add_curves(page: PageData, results: Results) -> None:
    """Curves of other methods, beside the covers at the tolerances of the run."""
    for layer in page.header["layers"]:
        for step in layer["steps"]:
            step["curves"] = [
                {
                    "method": curve.method,
                    "n_policies": list(curve.n_sources),
                    "coverage": list(curve.coverage),
                    "low": list(curve.low) if curve.low != curve.high else None,
                    "high": list(curve.high),
                }
                for curve in results.curves
                if curve.method in ("uniform", "random")
                and curve.question.criterion == layer["criterion"]
                and curve.question.judge == layer["judge"]
                and curve.question.epsilon == step["epsilon"]
            ]
