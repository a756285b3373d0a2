"""A library as tables for a spreadsheet: its policies, and its map."""

import csv
import io
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import Status
from taskspace.deploy.regions import BoxRegions, NamedRegions
from taskspace.policies import LinearController, LinearGain


def table_files(library: PolicyLibrary) -> dict[str, bytes]:
    """Return both tables as files by name.

    Args:
        library: the library.
    """
    tables = {"policies.csv": policy_table(library), "map.csv": map_table(library)}
    return {name: csv_text(*table).encode() for name, table in tables.items()}


def policy_table(library: PolicyLibrary) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the policies: source, share of the map, gains.

    Args:
        library: the library.
    """
    contexts = list(dict.fromkeys(n for e in library.entries for n in e.context))
    columns, gains = parameter_table(library)
    head = ["policy", "name", "source", "member", "share"]
    header = [*head, *(f"source_{n}" for n in contexts), *columns]
    rows = [
        [i, e.name, e.source, e.member, float(share)]
        + [e.context.get(n, "") for n in contexts]
        + gains[i].tolist()
        for i, (e, share) in enumerate(
            zip(library.entries, library.shares(), strict=True)
        )
    ]
    return header, rows


def map_table(library: PolicyLibrary) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the regions: context, policy, what is known, gains.

    Args:
        library: the library.
    """
    regions = library.regions
    if isinstance(regions, NamedRegions):
        header, where = ["target"], [[str(t)] for t in regions.targets]
    elif isinstance(regions, BoxRegions):
        header = [f"{n}_{end}" for n in library.names for end in ("low", "high")]
        corners = np.stack([regions.box_low, regions.box_high], -1)
        where = corners.reshape(len(corners), -1).tolist()
    else:
        header, where = list(library.names), regions.centres.tolist()
    columns, gains = parameter_table(library)
    blank = [""] * len(columns)
    rows = []
    for place, p, served, status, margin in zip(
        where,
        regions.policy.tolist(),
        regions.served.tolist(),
        library.statuses().tolist(),
        regions.margin.tolist(),
        strict=True,
    ):
        name = library.entries[p].name if p >= 0 else ""
        room = "" if np.isnan(margin) else margin
        gain = gains[p].tolist() if p >= 0 else blank
        word = Status(status).name.lower()
        rows.append([*place, p, name, int(served), word, room, *gain])
    head = ["policy", "name", "served", "status", "margin"]
    return [*header, *head, *columns], rows


def parameter_table(library: PolicyLibrary) -> tuple[list[str], Array]:
    """Return names and values of the gains or parameters, one row per policy.

    Args:
        library: the library; networks and tables of actions have none.
    """
    stack = library.policies
    if isinstance(stack, LinearController):
        assert stack.parameters is not None
        return list(stack.names), stack.parameters
    if not isinstance(stack, LinearGain):
        return [], np.empty((library.size, 0))
    _, n_inputs, n_states = stack.gain.shape
    places = product(range(1, n_inputs + 1), range(1, n_states + 1))
    return [f"K_{i}_{j}" for i, j in places], stack.gain.reshape(library.size, -1)


def csv_text(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as CSV, numbers with the digits they need to come back.

    Args:
        header: names of the columns.
        rows: the rows.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Put an apostrophe before a name that a spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(tuple("=+-@\t"))
    return f"'{value}" if is_formula else value
