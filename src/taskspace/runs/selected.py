"""`selection.json`: every source of a selection in the order of its proposal.

The one place that reads it. It may come from anyone, so what it holds is looked at
before it is used.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taskspace._util.files import read_sealed
from taskspace._util.typed import fits
from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.questions import Question
from taskspace.runs.select_spec import rename_former_keys

__all__ = ["is_selection", "read_selection", "stored_kinds"]

RECORD = {
    "asked": dict[str, Any],
    "sources": list[dict[str, Any]],
    "history": list[dict[str, Any]],
    "hours": float,
}
SOURCE = {"context": list[float], "seed": int, "kind": str}
PERHAPS = {"columns": list[list[int]], "failure": str, "made_from": list[int]}
"""What a source may have besides; `place` is looked at for all sources together."""
ENTRY = {
    "trainings": int,
    "coverage": float,
    "environment_steps": int,
    "evaluations": int,
    "sources": int,
}


def is_selection(path: Path) -> bool:
    """Whether the sources of a run were chosen one after the other.

    Args:
        path: a run directory.
    """
    return any((path / f"selection.{end}").exists() for end in ("json", "toml"))


def read_selection(path: Path) -> dict[str, Any]:
    """The journal of a selection, or a sentence.

    Args:
        path: the run directory.

    Returns:
        What was asked, the sources (`context`, `seed`, `kind`; `place` in the table if
        it is done, or `failure`), the history and the hours that it took.
    """
    file = path / "selection.json"
    record = read_sealed(file)
    try:
        if what := _wrong(record):
            raise DamagedFileError(f"{file} is not the journal of a selection: {what}.")
        Question.from_dict(record["asked"]["question"])
    except (KeyError, TypeError, ValueError, TaskspaceError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(
            f"{file} is not the journal of a selection: what was asked cannot be read "
            f"({error!r})."
        ) from error
    return record | {"asked": rename_former_keys(record["asked"])}


def stored_kinds(path: Path) -> list[str]:
    """Where the policies of each source of a selection come from; none elsewhere.

    Args:
        path: the run directory.
    """
    if not is_selection(path):
        return []
    done = [entry for entry in read_selection(path)["sources"] if "place" in entry]
    return [entry["kind"] for entry in sorted(done, key=lambda entry: entry["place"])]


def _wrong(record: Any) -> str:
    """What no selection could have written, as a clause; `""` if all could be."""
    if not _has(record, RECORD):
        return "it lacks one of its parts"
    asked = record["asked"]
    if not _has(asked, {"question": dict[str, Any], "select": dict[str, Any]}):
        return "it does not say what was asked"
    if not isinstance(asked["select"].get("selector", ""), str):
        return "its selector has no name"
    sources = record["sources"]
    for number, entry in enumerate(sources):
        known = {key: hint for key, hint in PERHAPS.items() if key in entry}
        if not _has(entry, SOURCE | known):
            return f"source {number} has values that no source has"
        if len(entry["context"]) != len(sources[0]["context"]):
            return f"source {number} has other axes"
        if not all(0 <= other < number for other in entry.get("made_from", ())):
            return f"source {number} is made from later ones"
        pairs = entry.get("columns", ())
        if not all(len(pair) == 2 and 0 <= pair[0] < pair[1] for pair in pairs):
            return f"source {number} is evaluated nowhere"
    places = [entry["place"] for entry in sources if "place" in entry]
    if not fits(places, list[int]) or sorted(places) != list(range(len(places))):
        return "its sources are not in a row"
    if not all(_has(entry, ENTRY) for entry in record["history"]):
        return "its history has values that none has"
    return ""


def _has(value: Any, hints: Mapping[str, Any]) -> bool:
    return isinstance(value, dict) and all(
        key in value and fits(value[key], hint) for key, hint in hints.items()
    )
