"""Paths that commands take: runs, archives of runs, matrix and set-cover files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from taskspace.cover.files import SetCoverProblem, read_set_cover_file
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io import MATRIX_SUFFIXES, Missing
from taskspace.performance.study import Study
from taskspace.runs.archive import is_archive
from taskspace.runs.opening import NOT_GIVEN, check_exists, open_study

__all__ = [
    "is_set_cover",
    "load_set_cover",
    "load_study",
    "reading_options",
    "split_names",
]


def load_study(
    path: Path,
    *,
    lower_is_better: bool | None = None,
    contexts: Path | str | None = None,
    targets: str | None = None,
    ignore: str | None = None,
    missing: str = "error",
    header: str | None = None,
    row_names: str | None = None,
    trust: bool = False,
) -> Study:
    """Open a run directory, an archive or a matrix file, as a command line names it.

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
    reading = reading_options(
        lower_is_better=lower_is_better,
        contexts=contexts,
        targets=targets,
        ignore=ignore,
        missing=missing,
        header=header,
        row_names=row_names,
    )
    return open_study(path, trust=trust, **reading)


def reading_options(
    *,
    lower_is_better: bool | None = None,
    contexts: Path | str | None = None,
    targets: str | None = None,
    ignore: str | None = None,
    missing: str = "error",
    header: str | None = None,
    row_names: str | None = None,
) -> dict[str, Any]:
    """Return how a matrix file is read, as `open_study` takes it; no defaults.

    Args:
        lower_is_better: it holds costs.
        contexts: a second file with contexts.
        targets: names of its targets, separated by commas.
        ignore: columns or targets to leave out, likewise.
        missing: what empty cells mean: `"error"` or `"not-served"`.
        header: whether its first row holds names: `"yes"`, `"no"`, None to find out.
        row_names: whether its first column holds names, likewise.
    """
    options = {
        "lower_is_better": lower_is_better,
        "contexts": None if contexts is None else str(contexts),
        "targets": None if targets is None else split_names(targets),
        "ignore": split_names(ignore or ""),
        "missing": _missing(missing),
        "header": _yes_or_no(header, "--header"),
        "row_names": _yes_or_no(row_names, "--row-names"),
    }
    return {k: v for k, v in options.items() if v not in NOT_GIVEN}


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of `a,b,c`; names with a comma are for the library.

    Args:
        text: what an option holds.
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
    check_exists(path)
    problem = read_set_cover_file(path)
    return replace(problem, costs=None) if unicost else problem


def is_set_cover(path: Path) -> bool:
    """Whether a path holds a set-cover problem and no table.

    Args:
        path: any path.
    """
    check_exists(path)
    if path.is_dir() or is_archive(path):
        return False
    try:
        read_set_cover_file(path)
    except InvalidInputError:
        # What is no table either is told so by `load_set_cover`.
        return path.suffix.lower() not in MATRIX_SUFFIXES
    return True
