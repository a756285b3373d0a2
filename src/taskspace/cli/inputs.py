"""Paths that commands take: runs, archives of runs, matrix and set-cover files."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xarray as xr

from taskspace.cover.files import SetCoverProblem, read_set_cover_file
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance import add_scores, holds_score, source_space
from taskspace.performance.io import MATRIX_SUFFIXES, Missing, read_matrix
from taskspace.questions import Question
from taskspace.runs import Experiment, RunStore
from taskspace.runs.archive import Archive, is_archive, read_archive
from taskspace.runs.manifest import is_run
from taskspace.runs.recheck import check_archived_plant, check_plant
from taskspace.spaces import Grid

__all__ = [
    "TableInput",
    "is_set_cover",
    "load_set_cover",
    "load_table",
    "split_names",
]


@dataclass(frozen=True)
class TableInput:
    """A performance table, and the run it came from if there is one.

    Args:
        table: the performance table.
        run: the run, None for a file.
        experiment: the experiment of a run or an archive, None for a matrix file.
        system: what a run or an archive tells of its system without its code.
        archive: the archive, None for anything else.
    """

    table: xr.Dataset
    run: RunStore | None = None
    experiment: Experiment | None = None
    system: dict[str, Any] = field(default_factory=dict)
    archive: Archive | None = None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the source grid, None if the sources are not on a grid."""
        sources = source_space(self.table)
        return sources.shape if isinstance(sources, Grid) else None

    @property
    def setting(self) -> dict[str, Any]:
        """System, policies and targets of the table's sources, for certificates.

        Empty where they are not at hand: for a matrix file, and for an archive whose
        policies did not all come along or whose code is not trusted.
        """
        experiment = self.experiment
        if experiment is None:
            return {}
        if self.run is not None:
            policies = self.run.table_policies()
        else:
            untrusted = experiment.names_code and not experiment.code.trusted
            found = self.archive
            policies = None if untrusted or found is None else found.all_policies
            if policies is None:
                return {}
        self.check_plant()
        return {
            "system": experiment.built_system,
            "policies": policies,
            "targets": experiment.target_space,
        }

    def asked(self, question: Question) -> "TableInput":
        """The same with the score that a criterion reads, computed if it is missing.

        Args:
            question: what will be asked of the table.
        """
        measure = question.rule.measure
        if holds_score(self.table, measure, question.judge):
            return self
        given = self.setting
        if not given:
            return self  # reading the score says what is missing
        return replace(self, table=add_scores(self.table, measure, **given))

    def check_plant(self) -> None:
        """Refuse a system that was edited since the table was made of it."""
        if self.run is not None:
            check_plant(self.run)
        elif self.archive is not None and self.archive.all_policies is not None:
            archive, policies = self.archive, self.archive.all_policies
            named = "This archive"
            check_archived_plant(named, self.table, policies, archive.experiment)

    @property
    def notes(self) -> list[str]:
        """What a person should know of the table before any number of it."""
        read_as = self.table.attrs.get("read_as")
        found = [f"The matrix is read as {read_as}."] if read_as else []
        found += self.table.attrs.get("notes", ())
        planned = int(self.table.attrs.get("n_planned", 0))
        if planned:
            found.append(
                f"This speaks of the {self.table.sizes['source']:,} sources that are "
                f"trained and evaluated so far, of {planned:,} planned."
            )
        return found


def load_table(
    path: Path,
    *,
    lower_is_better: bool | None = None,
    contexts: Path | None = None,
    targets: str | None = None,
    ignore: str | None = None,
    missing: str = "error",
    header: str | None = None,
    row_names: str | None = None,
    trust: bool = False,
) -> TableInput:
    """The performance table of a run directory, an archive or a matrix file.

    Args:
        path: the run, archive or file.
        lower_is_better: whether a matrix file holds costs; None if nobody says.
        contexts: a second file with the contexts of a matrix file.
        targets: names of a matrix file's targets, separated by commas.
        ignore: columns or targets of a matrix file to leave out, likewise.
        missing: empty cells of a matrix file: `"error"` or `"not-served"`.
        header: whether its first row holds names: `"yes"`, `"no"`, None to find out.
        row_names: whether its first column holds names, likewise.
        trust: code that a run or archive names may be imported later.
    """
    _check_exists(path)
    archived = is_archive(path)
    ours = archived or is_run(path)
    is_matrix = path.suffix.lower() in MATRIX_SUFFIXES and not ours
    given = {
        "--lower-is-better": lower_is_better,
        "--contexts": contexts,
        "--targets": targets,
        "--ignore": ignore,
        "--missing": missing != "error",
        "--header": header,
        "--row-names": row_names,
    }
    option = next((name for name, value in given.items() if value), None)
    if option is not None and not is_matrix:
        raise InvalidInputError(
            f"{option} is for matrix files; in a run larger performance is always "
            "better, and targets and contexts are known."
        )
    if archived:
        archive = read_archive(path, trust=trust)
        return TableInput(
            archive.table,
            experiment=archive.experiment,
            system=archive.system,
            archive=archive,
        )
    if path.is_dir() and not is_matrix:
        run = RunStore.open(path, trust=trust)
        return TableInput(run.table(), run, run.experiment, run.system)
    return TableInput(
        read_matrix(
            path,
            contexts=contexts,
            lower_is_better=lower_is_better,
            targets=None if targets is None else split_names(targets),
            ignore=split_names(ignore or ""),
            missing=_missing(missing),
            header=_yes_or_no(header, "--header"),
            row_names=_yes_or_no(row_names, "--row-names"),
        )
    )


def split_names(text: str) -> list[str]:
    """The names of `a,b,c`; names with a comma are for the library.

    Args:
        text: what an option holds.
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def _missing(text: str) -> Missing:
    known: dict[str, Missing] = {
        "error": "error",
        "not-served": "not served",
        "not served": "not served",
    }
    if text not in known:
        raise UnknownNameError("value of --missing:", text, ["error", "not-served"])
    return known[text]


def _yes_or_no(text: str | None, option: str) -> bool | None:
    if text is None:
        return None
    if text not in ("yes", "no"):
        raise UnknownNameError(f"value of {option}:", text, ["yes", "no"])
    return text == "yes"


def load_set_cover(path: Path, *, unicost: bool = False) -> SetCoverProblem:
    """A set-cover file; see `taskspace.cover.files` for the formats.

    Args:
        path: the file.
        unicost: ignore its costs.
    """
    _check_exists(path)
    problem = read_set_cover_file(path)
    return replace(problem, costs=None) if unicost else problem


def is_set_cover(path: Path) -> bool:
    """Whether a path holds a set-cover problem and no table.

    Args:
        path: any path.
    """
    _check_exists(path)
    if path.is_dir() or is_archive(path):
        return False
    try:
        read_set_cover_file(path)
    except InvalidInputError:
        # What is no table either is told so by `load_set_cover`.
        return path.suffix.lower() not in MATRIX_SUFFIXES
    return True


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InvalidInputError(
            f"{path} does not exist. Give a run directory (make one with: taskspace "
            f"run msd), a matrix file ({', '.join(MATRIX_SUFFIXES)}) or a set-cover "
            "file."
        )
