"""Set-cover problems from files, recognised by what is in them.

- OR-Library `scp*` (also the unicost `clr` and `cyc`): rows, columns, the column
  costs, then for each row the columns that cover it.
- OR-Library `rail*`: rows, columns, then for each column its cost and its rows.
- Steiner triples `sts*`: variables, triples, then the triples; choose the fewest
  variables that hit every triple.
- PACE hitting sets `hgr`: `p hs elements sets`, then the elements of each set; choose
  the fewest elements that hit every set.
- A boolean matrix (source, target) as CSV of 0 and 1, or as an `.npz` with one array.

Rows are what must be covered, our targets; columns are what may be chosen, our
sources.
"""

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.limits import read_arrays
from taskspace.sets import RunSets, TargetSets, pack


@dataclass(frozen=True)
class SetCoverProblem:
    """A covering problem from a file.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, None where all are 1.
        format: `"scp"`, `"rail"`, `"sts"`, `"hgr"`, `"csv"` or `"npz"`.
    """

    sets: TargetSets
    costs: NDArray[np.float64] | None
    format: str


def read_set_cover_file(path: str | Path) -> SetCoverProblem:
    """Read a set-cover problem; its format is recognised by content.

    Args:
        path: the file.

    Returns:
        The sets, the costs and the format.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"{path} must be a readable file: {error.strerror}."
        ) from error
    if data[:4] == b"PK\x03\x04":
        return _read_npz(path, data)
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise _refuse(path, "it is not text") from error
    first_line = text.lstrip().split("\n", 1)[0]
    if "," in first_line:
        return _read_csv(path, text)
    if first_line.split()[:1] in (["c"], ["p"]):
        return SetCoverProblem(_parse_hgr(path, text), None, "hgr")
    numbers = _numbers(path, text)
    if len(numbers) < 2:
        raise _refuse(path, "it holds fewer than two numbers")
    why_not = {}
    for name, parse in (
        ("scp", _parse_scp),
        ("rail", _parse_rail),
        ("sts", _parse_sts),
    ):
        try:
            sets, costs = parse(numbers)
        except _MisfitError as misfit:
            why_not[name] = str(misfit)
            continue
        return SetCoverProblem(sets, costs, name)
    reasons = "; ".join(f"as {name}, {reason}" for name, reason in why_not.items())
    raise _refuse(path, f"it fits none of the formats ({reasons}). It may be cut short")


class _MisfitError(Exception):
    """The numbers do not fit one format."""


def _refuse(path: Path, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} must be a set-cover problem (OR-Library scp or rail, Steiner "
        f"triples, PACE hgr, a CSV or npz boolean matrix), but {what}."
    )


def _numbers(path: Path, text: str) -> NDArray[np.int64]:
    tokens = text.split()
    try:
        return np.array(tokens, np.int64)
    except (ValueError, OverflowError) as error:
        raise _refuse(
            path, f"it holds something that is no integer: {error}"
        ) from error


def _parse_scp(numbers: NDArray[np.int64]) -> tuple[TargetSets, NDArray | None]:
    n_rows, n_columns = _header(numbers)
    costs = numbers[2 : 2 + n_columns]
    if len(costs) < n_columns:
        raise _MisfitError(f"{len(costs)} of {n_columns} costs are there")
    rest = numbers[2 + n_columns :]
    lists, used = _length_lists(rest, n_rows, 0, "row")
    if used != len(rest):
        raise _MisfitError("numbers are left over after the last row")
    columns, owners = _members(rest, lists, n_columns, "column")
    return _sets(columns, owners, n_columns, n_rows), _checked_costs(costs)


def _parse_rail(numbers: NDArray[np.int64]) -> tuple[TargetSets, NDArray | None]:
    n_rows, n_columns = _header(numbers)
    lists, used = _length_lists(numbers[2:], n_columns, 1, "column")
    if 2 + used != len(numbers):
        raise _MisfitError("numbers are left over after the last column")
    costs = numbers[2:][np.array([span.start for span in lists], np.int64) - 2]
    rows, owners = _members(numbers[2:], lists, n_rows, "row")
    return _sets(owners, rows, n_columns, n_rows), _checked_costs(costs)


def _parse_sts(numbers: NDArray[np.int64]) -> tuple[TargetSets, None]:
    n_variables, n_triples = _header(numbers)
    triples = numbers[2:]
    if len(triples) != 3 * n_triples:
        raise _MisfitError(f"{len(triples)} numbers are not {n_triples} triples")
    if n_triples and not (triples.min() >= 1 and triples.max() <= n_variables):
        raise _MisfitError(f"an index is outside 1 to {n_variables}")
    owners = np.repeat(np.arange(n_triples), 3)
    return _sets(triples - 1, owners, n_variables, n_triples), None


def _parse_hgr(path: Path, text: str) -> TargetSets:
    """PACE's format of hitting sets; lines `c ...` are comments."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    lines = [words for words in lines if words[0] != "c"]
    if not lines or lines[0][:2] != ["p", "hs"] or len(lines[0]) != 4:
        raise _refuse(path, "its first line is no 'p hs ELEMENTS SETS'")
    try:
        n, m = int(lines[0][2]), int(lines[0][3])
        members = [[int(word) for word in words] for words in lines[1:]]
    except ValueError as error:
        raise _refuse(
            path, f"it holds something that is no integer: {error}"
        ) from error
    if len(members) != m or not all(1 <= v <= n for one in members for v in one):
        raise _refuse(
            path, f"{len(members)} sets of elements from 1 to {n} are not {m} sets"
        )
    owners = np.repeat(np.arange(m), [len(one) for one in members])
    elements = np.array([v for one in members for v in one], np.int64)
    return _sets(elements - 1, owners, n, m)


def _header(numbers: NDArray[np.int64]) -> tuple[int, int]:
    n, m = int(numbers[0]), int(numbers[1])
    if n < 1 or m < 1:
        raise _MisfitError(f"its sizes {n} and {m} are not positive")
    if max(n, m) > len(numbers):
        raise _MisfitError(f"its sizes {n} and {m} exceed its {len(numbers)} numbers")
    return n, m


def _length_lists(
    numbers: NDArray[np.int64], n_lists: int, n_before: int, what: str
) -> tuple[list[slice], int]:
    """Find lists that begin with their length, each after `n_before` other numbers."""
    at = 0
    spans = []
    lengths = numbers.tolist()
    for k in range(n_lists):
        at += n_before
        if at >= len(lengths):
            raise _MisfitError(f"it ends before {what} {k + 1} of {n_lists}")
        stop = at + 1 + lengths[at]
        if lengths[at] < 0 or stop > len(lengths):
            raise _MisfitError(f"{what} {k + 1} of {n_lists} is cut short")
        spans.append(slice(at + 1, stop))
        at = stop
    return spans, at


def _members(
    numbers: NDArray[np.int64], lists: list[slice], n_members: int, what: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all members, counted from 0, and the list that each belongs to."""
    parts = [numbers[span] for span in lists]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    members = np.concatenate(parts) - 1
    if len(members) and not (members.min() >= 0 and members.max() < n_members):
        raise _MisfitError(f"a {what} is outside 1 to {n_members}")
    return members, owners


def _checked_costs(costs: NDArray[np.int64]) -> NDArray[np.float64] | None:
    if (costs < 1).any():
        raise _MisfitError("a cost is not positive")
    return None if (costs == 1).all() else costs.astype(np.float64)


def _sets(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    n_sources: int,
    n_targets: int,
) -> TargetSets:
    """Make sets of (source, target) pairs; a pair that is there twice counts once."""
    pairs = np.unique(sources * n_targets + targets)
    source, target = pairs // n_targets, pairs % n_targets
    is_start = np.ones(len(pairs), bool)
    is_start[1:] = (np.diff(pairs) != 1) | (np.diff(source) != 0)
    first = np.flatnonzero(is_start)
    last = np.append(first[1:], len(pairs))[: len(first)] - 1
    counts = np.bincount(source[first], minlength=n_sources)
    return pack(
        RunSets.from_runs(
            np.concatenate([[0], np.cumsum(counts)]),
            target[first],
            target[last] + 1,
            n_targets,
        )
    )


def _read_csv(path: Path, text: str) -> SetCoverProblem:
    rows = [line.split(",") for line in text.split("\n") if line.strip()]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise _refuse(path, f"its rows have {sorted(widths)} columns")
    cells = np.array([[cell.strip() for cell in row] for row in rows])
    if not np.isin(cells, ["0", "1"]).all():
        odd = cells[~np.isin(cells, ["0", "1"])][0]
        raise _refuse(
            path,
            f"a cell is {odd!r}, not 0 or 1. For a matrix of losses give epsilon",
        )
    return SetCoverProblem(pack(cells == "1"), None, "csv")


def _read_npz(path: Path, data: bytes) -> SetCoverProblem:
    try:
        arrays = read_arrays(io.BytesIO(data), str(path))
    except (
        ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, KeyError,
        MemoryError, NotImplementedError, RuntimeError,
    ) as error:  # fmt: skip
        raise _refuse(path, f"its arrays cannot be read: {error}") from error
    costs = arrays.pop("costs", None)
    if len(arrays) != 1:
        raise _refuse(path, f"it holds {len(arrays)} arrays besides costs, not one")
    matrix = next(iter(arrays.values()))
    if matrix.ndim != 2 or not (
        matrix.dtype == np.bool_
        or (matrix.dtype.kind in "iu" and np.isin(matrix, [0, 1]).all())
    ):
        raise _refuse(path, f"its array is {matrix.dtype} of shape {matrix.shape}")
    if costs is not None:
        costs = np.asarray(costs, np.float64)
        if costs.shape != matrix.shape[:1]:
            raise _refuse(
                path, f"{len(costs)} costs are there for {len(matrix)} sources"
            )
    return SetCoverProblem(pack(matrix.astype(bool)), costs, "npz")
