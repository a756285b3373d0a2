"""Where sources and targets lie: contexts from names, and from a second table."""

from collections.abc import Sequence

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_number, number_of
from taskspace.spaces import Points, Space

__all__ = ["contexts_from", "contexts_of_names"]

NAME_COLUMNS = ("target", "source", "context", "name")

Sides = tuple[Space | None, Space | None]
Names = tuple[list[str] | None, list[str] | None]


def contexts_from(
    contexts: Frame, sizes: tuple[int, int], spaces: Sides, names: Names
) -> Sides:
    """Contexts of sources and targets from a second frame; see `read_matrix`.

    Args:
        contexts: the second frame.
        sizes: numbers of sources and targets.
        spaces: contexts that sources and targets have already.
        names: names of sources and targets.
    """
    if spaces[1] is not None:
        raise InvalidInputError(
            f"The targets have contexts already, and {contexts.origin} gives them "
            "again."
        )
    named = next((n for n in NAME_COLUMNS if n in contexts.names), None)
    known = contexts.labels(named) if named else None
    points = _points(contexts, named)
    if known is not None and len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InvalidInputError(f"{contexts.origin} names {twice!r} more than once.")

    def pick(wanted: list[str] | None, n: int) -> Points | None:
        if known is None:
            return points if n == points.size else None
        if wanted is None or any(name not in known for name in wanted):
            return None
        rows = [known.index(name) for name in wanted]
        return Points(points.names, points.points[rows])

    n_sources, n_targets = sizes
    targets = pick(names[1], n_targets)
    if targets is None and known is None:
        raise InvalidInputError(
            f"{contexts.origin} must have one row a target, but there are {n_targets} "
            f"targets and {points.size} rows."
        )
    if targets is None:
        lost = [n for n in names[1] or () if n not in (known or ())]
        which = f"target {lost[0]!r} is not in it" if lost else "targets have no names"
        raise InvalidInputError(
            f"{contexts.origin} must name every target in its column {named!r}, but "
            f"{which}."
        )
    return spaces[0] or pick(names[0], n_sources), targets


def _points(contexts: Frame, named: str | None) -> Points:
    """All contexts of a frame, one a row."""
    places = [
        i
        for i, name in enumerate(contexts.names)
        if name != named and not (i < contexts.n_index and not name)
    ]
    unnamed = [i + 1 for i in places if not contexts.names[i]]
    if not places or unnamed or not contexts.rows:
        raise InvalidInputError(
            f"{contexts.origin} must have a column a context axis, with its name, and "
            "a row a target, but "
            + (f"column {unnamed[0]} has no name." if unnamed else "has none.")
        )
    values = contexts.numbers(places)
    for place, column in zip(places, values.T, strict=True):
        for row in np.flatnonzero(np.isinf(column)):
            raise InvalidInputError(
                f"Contexts must be finite, but {contexts.rows[row]}, column "
                f"{place + 1} ({contexts.names[place]!r}) of {contexts.origin} holds "
                f"{column[row]}."
            )
    axes = [contexts.names[i] for i in places]
    axes = [axis.removeprefix("target_").removeprefix("source_") for axis in axes]
    return Points(axes, values)


def contexts_of_names(names: Sequence[str], origin: str) -> Points | None:
    """Contexts from names like `k=1.5;c=0.1`; None unless all are so.

    A name behind `target:` is only a name.

    Args:
        names: names of targets.
        origin: what to call their table.
    """
    rows: list[dict[str, float]] = []
    for name in names:
        pairs = [part.partition("=") for part in name.split(";")]
        if name.startswith("target:") or not all(
            axis.strip()
            and equals
            and (is_number(value) or value.strip().lower() == "nan")
            for axis, equals, value in pairs
        ):
            return None
        rows.append({axis.strip(): number_of(value) for axis, _, value in pairs})
        if not np.isfinite(list(rows[-1].values())).all():
            raise InvalidInputError(
                f"Contexts must be finite, but {origin} has a target {name!r}."
            )
    if not rows or any(set(row) != set(rows[0]) for row in rows):
        return None
    axes = list(rows[0])
    return Points(axes, [[row[axis] for axis in axes] for row in rows])
