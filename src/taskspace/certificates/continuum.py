"""From the grid to the continuum: covers of every context of a box.

A cover of grid nodes says nothing about the space between them. Here boxes take the
place of nodes: an `Enclosure` bounds the loss over whole boxes, boxes that it leaves
open are cut, and what is certified is every real context of the box, not a sample.

- `certify_cover` checks given sources: each box ends certified, uncovered (with a
  context as witness where every source fails), or open when the budget ends.
- `taskspace.certificates.cells.certified_cover` chooses the sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates._old import check_epsilon
from taskspace.certificates.base import Certificate
from taskspace.certificates.enclosures import Boxes, Enclosure
from taskspace.spaces import Grid, Space
from taskspace.systems.base import System

__all__ = [
    "CERTIFIED",
    "OPEN",
    "UNCOVERED",
    "ContinuumCover",
    "box_edges",
    "certify_cover",
]

CERTIFIED, OPEN, UNCOVERED = 0, 1, 2
STATUS = ("certified", "open", "uncovered")

# Cells on each axis to begin with, by number of axes that vary.
FIRST_CELLS = {0: 1, 1: 1000, 2: 96, 3: 24}
# Pairs of a source and a box that a check looks at.
MAX_CHECK_PAIRS = 2**24


@dataclass(frozen=True, eq=False)
class ContinuumCover:
    """Sources, and what is certified about every context of a box.

    Args:
        certificate: the statement; `holds` iff every box is certified.
        sources: selected sources.
        boxes: closed boxes that together are the whole box.
        status: of each box: `CERTIFIED`, `OPEN` or `UNCOVERED`.
        assignment: source that serves all of a certified box, −1 elsewhere.
        loss_bound: bound on the loss of the assigned source on each box.
        axes: names of the columns of the boxes.
        lower_bound: no fewer of the candidate sources cover what can be covered.
    """

    certificate: Certificate
    sources: NDArray[np.int64]
    boxes: Boxes
    status: NDArray[np.int8]
    assignment: NDArray[np.int64]
    loss_bound: NDArray[np.float64]
    axes: tuple[str, ...]
    lower_bound: int = 0

    @property
    def size(self) -> int:
        """Number of selected sources."""
        return len(self.sources)

    def share(self, status: int) -> float:
        """Share of the volume of the box with this status."""
        return float(self.boxes.share[self.status == status].sum())

    def source_at(self, contexts: ArrayLike) -> NDArray[np.int64]:
        """The source that certainly serves each context, −1 where none does.

        Args:
            contexts: full context rows, shape `(context, len(axes))`.
        """
        rows = np.atleast_2d(np.asarray(contexts, np.float64))
        found = np.full(len(rows), -1, np.int64)
        for i, row in enumerate(rows):
            inside = ((self.boxes.low <= row) & (row <= self.boxes.high)).all(1)
            served = self.assignment[inside & (self.status == CERTIFIED)]
            if len(served):
                found[i] = served[0]
        return found


def box_edges(
    system: System, space: Space, n_cells: int | None = None
) -> tuple[NDArray[np.float64], ...]:
    """Edges of cells between the nodes of a space, for every axis of the system.

    Args:
        system: its axes are the columns; one that the space does not vary has a
            single edge, its default.
        space: a `Grid`, or points whose coordinates are then taken as a grid's.
        n_cells: at least this many cells on each axis that varies; intervals
            between nodes are cut evenly until there are.

    Returns:
        Ascending edges of each axis; the first and last are those of the space.
    """
    contexts = system.contexts(space)
    edges = []
    for column, axis in enumerate(system.axes):
        if isinstance(space, Grid) and axis.name in space.names:
            values = space.axes[space.names.index(axis.name)].values
        else:
            values = contexts[:, column]
        edges.append(np.unique(values))
    n_live = sum(len(e) > 1 for e in edges)
    wanted = FIRST_CELLS.get(n_live, 8) if n_cells is None else n_cells
    return tuple(_cut_evenly(e, wanted) for e in edges)


def _cut_evenly(edges: NDArray[np.float64], n_cells: int) -> NDArray[np.float64]:
    if len(edges) == 1 or len(edges) > n_cells:
        return edges
    n_cuts = -(-n_cells // (len(edges) - 1))
    position = np.arange((len(edges) - 1) * n_cuts + 1) / n_cuts
    cut = np.interp(position, np.arange(len(edges)), edges)
    cut[::n_cuts] = edges
    return np.unique(cut)


def certify_cover(
    enclosure: Enclosure,
    sources: ArrayLike,
    edges: Sequence[NDArray[np.float64]],
    epsilon: float,
    *,
    axes: Sequence[str],
    max_boxes: int = 200_000,
    max_depth: int = 12,
) -> ContinuumCover:
    """Check given sources on every context of a box, cutting only what stays open.

    Args:
        enclosure: bounds on the losses.
        sources: the selected sources.
        edges: of the cells to begin with, see `box_edges`.
        epsilon: tolerance.
        axes: names of the system's axes.
        max_boxes: budget; boxes that are open when it is spent stay open. Less for
            many sources.
        max_depth: how often a cell is cut in two along each axis at most.

    Returns:
        The boxes with their status, and the certificate.
    """
    check_epsilon(epsilon, enclosure.criterion)
    chosen = np.asarray(sources, np.int64).reshape(-1)
    work = Boxes.from_edges(edges)
    max_boxes = min(max_boxes, MAX_CHECK_PAIRS // max(1, len(chosen)))
    done: list[Boxes] = []
    results: list[tuple[NDArray, NDArray, NDArray]] = []
    witnesses: list[NDArray[np.float64]] = []
    n_boxes = 0
    for depth in range(max_depth + 1):
        n_boxes += len(work)
        status, assignment, bound = _decide(enclosure, chosen, work, epsilon)
        witnesses.extend(work.centre[status == UNCOVERED][: 10 - len(witnesses)])
        last = depth == max_depth or n_boxes + (status == OPEN).sum() * 4 > max_boxes
        keep = np.ones(len(work), bool) if last else status != OPEN
        done.append(work[keep])
        results.append((status[keep], assignment[keep], bound[keep]))
        if keep.all():
            break
        work = work[~keep].split()
    boxes = Boxes.concatenate(done)
    status, assignment, bound = (np.concatenate(x) for x in zip(*results, strict=True))
    certificate = _continuum_certificate(
        enclosure, chosen, boxes, status, bound, epsilon, tuple(axes), witnesses
    )
    return ContinuumCover(
        certificate, chosen, boxes, status, assignment, bound, tuple(axes)
    )


def _decide(
    enclosure: Enclosure, chosen: NDArray[np.int64], boxes: Boxes, epsilon: float
) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.float64]]:
    status = np.full(len(boxes), OPEN, np.int8)
    assignment = np.full(len(boxes), -1, np.int64)
    bound = np.full(len(boxes), np.inf)
    if len(chosen) == 0:
        status[:] = UNCOVERED
        return status, assignment, bound
    _, high = enclosure.bounds(boxes, chosen)
    best = high.argmin(0)
    bound = high[best, np.arange(len(boxes))]
    served = bound <= epsilon
    status[served] = CERTIFIED
    assignment[served] = chosen[best[served]]
    rest = np.flatnonzero(~served)
    centre = boxes[rest].centre
    low, _ = enclosure.bounds(Boxes(centre, centre), chosen)
    status[rest[(low > epsilon).all(0)]] = UNCOVERED
    return status, assignment, bound


def _continuum_certificate(
    enclosure: Enclosure,
    chosen: NDArray[np.int64],
    boxes: Boxes,
    status: NDArray[np.int8],
    bound: NDArray[np.float64],
    epsilon: float,
    axes: tuple[str, ...],
    witnesses: Sequence[NDArray[np.float64]],
) -> Certificate:
    holds = bool((status == CERTIFIED).all())
    live = [
        i for i in range(len(axes)) if boxes.low[:, i].min() < boxes.high[:, i].max()
    ]
    names = ", ".join(axes[i] for i in live) or "context"
    where = f"every ({names}) in the box, not only the grid,"
    what = _statement(enclosure.criterion, epsilon)
    whom = _whom(enclosure, len(chosen))
    share = boxes.share
    values: dict[str, Any] = {
        "epsilon": epsilon,
        "criterion": enclosure.criterion,
        "family": enclosure.family,
        "size": len(chosen),
        "sources": chosen,
        "worst_loss_bound": bound[status == CERTIFIED].max(initial=-np.inf),
        "n_boxes": len(boxes),
        "box": {
            name: [boxes.low[:, i].min(), boxes.high[:, i].max()]
            for i, name in enumerate(axes)
        },
    }
    for code, name in enumerate(STATUS):
        values[f"n_{name}"] = int((status == code).sum())
        values[f"share_{name}"] = float(share[status == code].sum())
    if witnesses:
        values["failing_contexts"] = [
            dict(zip(axes, row.tolist(), strict=True)) for row in witnesses
        ]
    if holds:
        why = f"{where} {what}, by {whom}: {enclosure.basis}."
    elif values["n_uncovered"]:
        place = name_context(axes, live, witnesses[0])
        some = "controllers" if enclosure.n_policies == 1 else "sources"
        why = (
            f"Not so that {where} {what}: none of these {len(chosen)} {some} manages "
            f"{place}, for one."
        )
    else:
        why = (
            f"Not shown that {where} {what}: {values['n_open']} boxes "
            f"({values['share_open']:.2%} of the volume) are open; a larger budget or "
            "more sources may close them."
        )
    return Certificate(
        "continuum cover", holds, enclosure.kind, why[0].upper() + why[1:], values
    )


def _statement(criterion: str, epsilon: float) -> str:
    return {
        "regret": f"is within {epsilon:g} of optimal",
        "ratio": f"costs at most {100 * epsilon:g} % more than optimal",
        "floor": f"has a cost of at most {epsilon:g}",
        "signed": f"loses at most {epsilon:g} against the source's own score",
    }[criterion]


def name_context(
    axes: Sequence[str], live: Sequence[int], row: NDArray[np.float64]
) -> str:
    """A context for people: `k = 1.5, c = 2`, only the axes that vary."""
    shown = live or range(len(axes))
    return ", ".join(f"{axes[i]} = {row[i]:.6g}" for i in shown)


def _whom(enclosure: Enclosure, size: int) -> str:
    if enclosure.n_policies == 1:
        return f"these {size} controllers" if size != 1 else "this 1 controller"
    which = "whichever policy" if enclosure.family == "all" else "the best policy"
    return f"{which} of {f'these {size} sources' if size != 1 else 'this 1 source'}"
