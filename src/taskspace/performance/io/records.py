"""Records of runs: ARFF (as ASlib has it), JSON, and long tables of any column names.

A record is one run: an algorithm on an instance, a model on a prompt. Runs of the same
source and target are one cell: their mean, with the standard error of their spread.
"""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import Frame, as_frame
from taskspace.performance.io.columns import Choices
from taskspace.performance.io.limits import check_cells, check_file

RECORD_SUFFIXES = (".arff", ".json", ".jsonl")
"""Endings of files of records; they are read, and never written."""

ROLES = ("source", "target", "value")
ASLIB = {"source": "algorithm", "target": "instance_id"}
NO_VALUES = ("repetition", "runstatus", *ASLIB.values())

ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|\S+)\s+\S""", re.IGNORECASE)


def read_records(path: Path, choices: Choices) -> tuple[Frame, Choices]:
    """Return the records of a file, and what its format says of their columns.

    Args:
        path: a file whose name ends in one of `RECORD_SUFFIXES`.
        choices: what the user says.
    """
    check_file(path)
    text = path.read_text(encoding="utf-8-sig")
    read = _arff if path.suffix.lower() == ".arff" else _json
    data = read(text, path)
    check_cells(data.size, str(path))
    is_aslib = set(ASLIB.values()) <= set(data.columns)
    if not is_aslib or choices.long is not None:
        return as_frame(data, str(path)), choices
    values = [name for name in data.columns if name not in NO_VALUES]
    if not values:
        raise InvalidInputError(
            f"{path} must have a column of values beside its names."
        )
    if "runstatus" in data:
        # A run that was not finished has reached nothing, whatever its clock says.
        failure = np.inf if choices.lower_is_better else -np.inf
        is_ok = data["runstatus"].astype(str).str.lower() == "ok"
        data[values[0]] = data[values[0]].astype(float).where(is_ok, failure)
    return as_frame(data, str(path)), choices.with_long(ASLIB | {"value": values[0]})


def _arff(text: str, path: Path) -> pd.DataFrame:
    """Return the data of an ARFF file, its names from the lines `@attribute`."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("%")]
    starts = [k for k, line in enumerate(lines) if line.strip().lower() == "@data"]
    names = [
        match.group(1).strip("'\"")
        for line in lines[: starts[0] if starts else 0]
        if (match := ATTRIBUTE.match(line.strip()))
    ]
    if not starts or not names:
        raise InvalidInputError(
            f"{path} must be an ARFF file with lines @attribute and @data, but lacks "
            "them."
        )
    body = "\n".join(line for line in lines[starts[0] + 1 :] if line.strip())
    wrong = [k for k, row in enumerate(body.splitlines()) if row.lstrip()[:1] == "{"]
    if wrong:
        raise InvalidInputError(f"{path} must hold dense rows, but has sparse ones.")
    return pd.read_csv(
        io.StringIO(body),
        names=names,
        header=None,
        index_col=False,
        quotechar="'",
        skipinitialspace=True,
        na_values=["?"],
        keep_default_na=False,
        on_bad_lines="error",
    )


def _json(text: str, path: Path) -> pd.DataFrame:
    """Return the objects of a JSON list, or of a file with one per line."""
    try:
        if path.suffix.lower() == ".jsonl":
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} must be JSON, but it is not: {error}."
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError(
            f"{path} must hold a list of objects, one per row of a table."
        )
    return pd.DataFrame(rows)


def joined_runs(frame: Frame, long: Mapping[str, str]) -> tuple[Frame, list[str]]:
    """Return a long table with one row per cell, and what to say about it.

    Args:
        frame: one row per run.
        long: which column is the `source`, the `target`, the `value`, and, if a source
            has several policies, the `policy`.
    """
    for role in ROLES:
        if role not in long:
            raise InvalidInputError(
                "A long table needs its columns of source, target and value, e.g. "
                "long={'source': 'algorithm', 'target': 'instance', 'value': 'time'} "
                f"(--long source=algorithm,target=instance,value=time), but no {role}."
            )
    for role, column in long.items():
        if role not in (*ROLES, "policy"):
            raise UnknownNameError("role of a column:", role, [*ROLES, "policy"])
        if column not in frame.names:
            raise UnknownNameError(f"column of {frame.origin}:", column, frame.names)
    keys = [role for role in ("source", "policy", "target") if role in long]
    data: dict[str, Any] = {role: frame.labels(long[role]) for role in keys}
    place = frame.names.index(long["value"])
    data["value"] = frame.numbers([place], may_be_empty=True)[:, 0]
    runs = pd.DataFrame(data)
    kept = runs[keys].drop_duplicates()
    places = runs.groupby(keys, sort=False).ngroup().to_numpy()
    sizes = np.bincount(places)
    # A cell of which one run is empty is empty: its mean would hide that.
    order = np.argsort(places, kind="stable")
    groups = np.split(runs["value"].to_numpy()[order], np.cumsum(sizes)[:-1])
    table = kept.assign(performance=[group.mean() for group in groups])
    notes = []
    if sizes.max(initial=1) > 1:
        with np.errstate(invalid="ignore"):
            table["standard_error"] = [
                group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else np.nan
                for group in groups
            ]
        ends = sorted({int(sizes.min()), int(sizes.max())})
        notes.append(
            f"Each cell is the mean of {' to '.join(map(str, ends))} rows; standard "
            "errors follow from them."
        )
    unused = [n for n in frame.names if n and n not in long.values()]
    if unused:
        notes.append(f"Columns that are not used: {', '.join(map(repr, unused[:8]))}.")
    return as_frame(table.reset_index(drop=True), frame.origin), notes
