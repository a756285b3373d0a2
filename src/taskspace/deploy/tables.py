"""A library as tables for a spreadsheet: its policies, and its map."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import Status
from taskspace.deploy.regions.choose import BoxRegions, NamedRegions
from taskspace.policies import LinearController, LinearGain


def policy_table(library: PolicyLibrary) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the policies: source, share of the map, gains.

    Args:
        library: the library.
    """
    contexts = list(dict.fromkeys(n for e in library.entries for n in e.context))
    gains, columns = _gains(library)
    head = ["policy", "name", "source", "member", "share"]
    header = [*head, *(f"source_{n}" for n in contexts), *columns]
    rows = [
        [i, e.name, e.source, e.member, float(share)]
        + [e.context.get(n, "") for n in contexts]
        + gains[i]
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
    gains, columns = _gains(library)
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
        known = "" if np.isnan(margin) else margin
        gain = gains[p] if p >= 0 else blank
        word = Status(status).name.lower()
        rows.append([*place, p, name, int(served), word, known, *gain])
    head = ["policy", "name", "served", "status", "margin"]
    return [*header, *head, *columns], rows


def _gains(library: PolicyLibrary) -> tuple[list[list[float]], list[str]]:
    """Gains of each policy as rows of numbers, and the names of the columns."""
    if isinstance(library.policies, LinearController):
        assert library.policies.parameters is not None
        return library.policies.parameters.tolist(), list(library.policies.names)
    if not isinstance(library.policies, LinearGain):
        return [[] for _ in library.entries], []
    gain = library.policies.gain
    columns = [
        f"K_{i + 1}_{j + 1}" for i in range(gain.shape[1]) for j in range(gain.shape[2])
    ]
    return gain.reshape(len(gain), -1).tolist(), columns


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
    return (
        f"'{value}"
        if isinstance(value, str) and value[:1] in "=+-@\t" and value
        else value
    )
