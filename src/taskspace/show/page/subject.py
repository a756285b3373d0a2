"""What a page is about: a run, a selection, a matrix, or a library."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from taskspace._util.files import write_atomically
from taskspace.certificates import certify
from taskspace.certificates.certify import CertifyResult
from taskspace.cover import Cover
from taskspace.deploy import PolicyLibrary
from taskspace.performance.study import Study, as_study
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.opening import is_selection, open_study
from taskspace.runs.results import Results
from taskspace.show.figures.history import selection_record
from taskspace.show.page.build import collect
from taskspace.show.page.certified import certificate_records, certified_covers
from taskspace.show.page.data import PageData
from taskspace.show.page.html import render
from taskspace.show.page.layers import layer_key
from taskspace.show.page.library import LibrarySubject, is_library
from taskspace.show.page.scenes import Stage

BASELINES = ("uniform", "random")
"""Methods whose covers may be huge."""


NOT_A_FILE = "TABLE"
"""What the commands of a page call a study that no file holds."""


@dataclass
class Reader:
    """Reads the data of a page from a path.

    Args:
        path: a run, a matrix file or a library.
        questions: asked before those of the experiment.
        reading: how a matrix file is read, see `taskspace.performance.read_matrix`.
        trust: code that a run names may be imported.
        options: see `taskspace.show.page.collect`.
        certify: seconds for the certificates of each question; 0 for none.
    """

    path: Path
    questions: list[Question] = field(default_factory=list)
    reading: dict[str, Any] = field(default_factory=dict)
    trust: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    certify: float = 0.0

    def subject(self, progress: Progress | None = None) -> "Subject | LibrarySubject":
        """Return what the path holds now, and all around it.

        Args:
            progress: told how far it is.
        """
        if is_library(self.path):
            return LibrarySubject(self.path, PolicyLibrary.load(self.path))
        study = open_study(self.path, trust=self.trust, **self.reading)
        subject = Subject.of(study)
        if self.certify:
            asked = dict.fromkeys([*self.questions, *subject.questions])
            subject.certified = [
                certify(study, question, time_limit=self.certify, progress=progress)
                for question in asked
            ]
        return subject

    def read(self, progress: Progress | None = None) -> PageData:
        """Return the data of the page.

        Args:
            progress: told how far it is.
        """
        subject = self.subject(progress)
        return subject.collect(self.questions, progress=progress, **self.options)


@dataclass
class Subject:
    """A study and what a page shows around it.

    Args:
        study: what is known.
        stage: plays the policies; or why there are none to play.
        selection: what was trained in which order, if the sources were selected.
        certified: what is certified about the questions.
    """

    study: Study
    stage: Stage | str = ""
    selection: dict[str, Any] | None = None
    certified: list[CertifyResult] = field(default_factory=list)

    @classmethod
    def of(cls, study: Study) -> "Subject":
        """Return a study with its stage and the diary of its selection.

        Args:
            study: what is known.
        """
        subject = cls(study, Stage.of(study))
        if is_selection(subject.path):
            subject.selection = selection_record(subject.path)
        return subject

    @property
    def path(self) -> Path:
        """What a command calls it; a study in memory has a name to be replaced."""
        in_memory = self.study.parts.in_memory
        return Path(NOT_A_FILE if in_memory else self.study.origin)

    @property
    def table(self) -> xr.Dataset:
        """The performance table."""
        return self.study.table

    @property
    def experiment(self) -> Experiment | None:
        """The experiment of a run."""
        return self.study.experiment

    @property
    def results(self) -> Results | None:
        """What a run found."""
        return self.study.results

    @property
    def questions(self) -> list[Question]:
        """What the experiment asks, regret first: it is what most users mean.

        Of a selection what it was made for comes before all.
        """
        if self.experiment is None:
            return []
        asked = list(self.experiment.questions)
        asked.sort(key=lambda question: not question.is_regret)
        if self.selection is not None:
            asked.insert(0, Question.from_dict(self.selection["question"]))
        return list(dict.fromkeys(asked))

    @property
    def covers(self) -> list[tuple[Question, Cover]]:
        """Covers that are known; of random selections and the like no huge ones."""
        covers = certified_covers(self.certified, self.table)
        if self.results is None:
            return covers
        return [
            (answer.question, answer.cover)
            for answer in self.results.covers
            if answer.question is not None
            and answer.cover.n_sources == self.study.n_sources
            and (answer.cover.method not in BASELINES or answer.cover.size <= 200)
        ] + covers

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the axes, by name."""
        return {name: axis.label for name, axis in self.study.axes.items()}

    @property
    def typed(self) -> str:
        """The path and how it is read, as one types it in a shell."""
        words = [str(self.path)]
        if reading := self.study.reading:
            words += ["--read", typed_keywords(reading)]
        return shlex.join(words)

    def about(self) -> dict[str, Any]:
        """Return text that a page shows around its pictures."""
        text: dict[str, Any] = {
            "warnings": self.warnings(),
            "question": {
                "path": str(self.path),
                "read": self.study.reading,
            },
            "reproduce": f"taskspace explore {self.typed}",
        }
        if self.experiment is not None:
            text["settings"] = self.experiment.to_toml()
            command = "run" if self.selection is None else "select"
            file = shlex.quote(str(self.path / "experiment.toml"))
            again = f"taskspace {command} {file} --out DIRECTORY"
            if self.selection is not None:
                asked = Question.from_dict(self.selection["question"])
                again += f" --ask {shlex.quote(str(asked))}"
            if self.path.is_dir():
                text["reproduce"] = f"{again}\n{text['reproduce']}"
            if self.certified:
                text["reproduce"] += " --certify"
        if self.results is not None:
            text["tables"] = [_covers_table(self.results)]
        return text

    def warnings(self) -> list[str]:
        """Return what a reader should hear before any number."""
        notes = self.study.notes
        if self.results is not None:
            scores = self.results.scores
            notes += [
                f"Along the axis {axis} no performance changes at all."
                for axis in scores.dead_axes
            ]
            if scores.n_failed:
                notes.append(
                    f"{scores.n_failed:,} of {scores.n_policies:,} policies do not "
                    "solve their own task."
                )
            if self.results.failures:
                notes.append(
                    f"The training of {len(self.results.failures)} sources failed."
                )
        return notes

    def collect(self, questions: list[Question] | None = None, **options) -> PageData:
        """Return the data of the page.

        Args:
            questions: asked before those of the experiment.
            options: see `taskspace.show.page.collect`.
        """
        every: list[Question] = [*(questions or []), *self.questions]
        asked = list(dict.fromkeys(every))
        system = str(self.table.attrs.get("system", ""))
        name = self.experiment.name if self.experiment else self.path.name
        if name == NOT_A_FILE and system:
            name = system
        study = self.study
        for question in asked:  # some criteria read another score than J
            study = study.with_table(question.table_of(study))
        page = collect(
            study.table,
            asked,
            title=name,
            path=self.typed,
            covers=self.covers,
            about=self.about(),
            labels=self.labels,
            **options,
        )
        if self.results is not None:
            _add_curves(page, self.results)
        page.header |= self._parts(page)
        return page

    def _parts(self, page: PageData) -> dict[str, Any]:
        """Return what a page shows beside the table, by name."""
        parts: dict[str, Any] = {}
        if self.selection is not None:
            parts["selection"] = self.selection
        if self.certified:
            records = certificate_records(self.certified, self.study, page.blobs)
            parts["certificates"] = records
        if isinstance(self.stage, Stage):
            return parts | self.stage.parts(page, self.table)
        return parts | {"no_play": self.stage}


def typed_keywords(keywords: dict[str, Any]) -> str:
    """Return keyword arguments as `--read` takes them: the inside of an inline table.

    Args:
        keywords: what `taskspace.open` was told.
    """
    words = []
    for name, value in keywords.items():
        text = json.dumps(value, default=str)
        words.append(name if value is True else f"{name}={text}")
    return ", ".join(words)


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
    """Add curves of other methods, beside the covers at the run's tolerances."""
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
                and layer_key(curve.question) == layer["key"]
                and curve.question.epsilon == step["epsilon"]
            ]


def explore(
    study: Study | xr.Dataset,
    path: str | Path,
    questions: Question | Iterable[Question] = (),
    **options: Any,
) -> Path:
    """Write one HTML file that explains and explores a study.

    It opens from disk, needs no server and no network, and answers every tolerance.

    Args:
        study: what is known, or a performance table.
        path: the file.
        questions: one or more, beside what the experiment of a run asks; the first
            one is shown first.
        options: see `taskspace.show.page.collect`.

    Returns:
        The file.
    """
    asked = [questions] if isinstance(questions, Question) else list(questions)
    page = Subject.of(as_study(study)).collect(asked, **options)
    write_atomically(Path(path), render(page))
    return Path(path)
