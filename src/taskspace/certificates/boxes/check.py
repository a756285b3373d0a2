"""From the grid to the continuum: covers of every context of a box.

A cover of grid nodes says nothing about the space between them. Here boxes take the
place of nodes: an `Enclosure` bounds the loss over whole boxes, boxes that it leaves
open are cut, and what is certified is every real context of the box, not a sample.

- `certify_cover` checks given sources: each box ends certified, uncovered (with a
  context as witness where every source fails), or open when the budget ends.
- `taskspace.certificates.boxes.continuum.certified_cover` chooses the sources.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.certificates.identity import ProofSubject, subject_of
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    context_words,
    count,
    percent,
)
from taskspace.spaces import Grid, Space
from taskspace.systems.base import System

CERTIFIED, OPEN, UNCOVERED = 0, 1, 2
STATUS = ("certified", "open", "uncovered")

# Cells on each axis to begin with, by number of axes that vary.
FIRST_CELLS = {0: 1, 1: 1000, 2: 96, 3: 24}
# Pairs of a source and a box that a check looks at; at once, before it looks at the
# clock: at first, and at most.
MAX_CHECK_PAIRS = 2**24
MAX_BOXES = 200_000
FIRST_CHECK_PAIRS = 2**12
CHECK_PAIRS_AT_ONCE = 2**17
# Seconds after which such a stretch is long enough.
STRETCH = 0.2


@dataclass(frozen=True, eq=False)
class ContinuumCover:
    """Sources, and what is shown about every context of a box.

    Args:
        enclosure: the bounds that it rests on.
        epsilon: the tolerance.
        sources: selected sources.
        boxes: closed boxes that together are the whole box.
        status: of each box: `CERTIFIED`, `OPEN` or `UNCOVERED`.
        assignment: source that serves all of a certified box, −1 elsewhere.
        loss_bound: bound on the loss of the assigned source on each box.
        axes: names of the columns of the boxes.
        witnesses: contexts at which all selected sources fail, the first few.
        n_pairs: pairs of a source and a box that were bounded.
        subject: hashes of the policies, the system and the question that it is about;
            None where the enclosure does not tell.
        lower_bound: no fewer of all sources of the enclosure cover the box, nor as
            much of it as can be covered; 0 where that was not asked.
        n_candidates: sources among which a search chose; 0 where none was made.
        bound_candidates: no fewer of the candidates cover the box, if one was made.
        uncoverable: a context at which every source fails, if one is known.
        is_time_up: whether the time limit ended the search.
        of_grid: the nodes that are served, and all nodes, where the sources are a
            cover of the nodes.
        n_compared: losses of a table that lie within these bounds.
    """

    enclosure: Enclosure
    epsilon: float
    sources: NDArray[np.int64]
    boxes: Boxes
    status: NDArray[np.int8]
    assignment: NDArray[np.int64]
    loss_bound: Array
    axes: tuple[str, ...]
    witnesses: tuple[Array, ...] = ()
    n_pairs: int = 0
    subject: ProofSubject | None = None
    lower_bound: int = 0
    n_candidates: int = 0
    bound_candidates: int | None = None
    uncoverable: Array | None = None
    is_time_up: bool = False
    of_grid: tuple[int, int] | None = None
    n_compared: int = 0

    @property
    def size(self) -> int:
        """Number of selected sources."""
        return len(self.sources)

    @property
    def holds(self) -> bool:
        """Whether every box is certified."""
        return bool((self.status == CERTIFIED).all())

    @property
    def rank(self) -> tuple[bool, float]:
        """How good it is: one that holds by few sources, or else certifies much."""
        return self.holds, -self.size if self.holds else self.share(CERTIFIED)

    def share(self, status: int) -> float:
        """Return share of the volume of the box with this status.

        Args:
            status: one of the codes that `status` holds.
        """
        return float(self.boxes.share[self.status == status].sum())

    @cached_property
    def certificate(self) -> Certificate:
        """The statement; it holds if every box is certified."""
        return self.statement("continuum cover")

    def statement(self, name: str) -> Certificate:
        """Return the certificate under a name.

        Args:
            name: what it is about.
        """
        n, among = self.enclosure.n_sources, self._among
        certified = self.status == CERTIFIED
        values: dict[str, Any] = {
            **self.enclosure.question.at(self.epsilon).to_dict(),
            "size": self.size,
            "sources": self.sources,
            "worst_loss_bound": self.loss_bound[certified].max(initial=-np.inf),
            "n_boxes": len(self.boxes),
            "box": {
                axis: [self.boxes.low[:, i].min(), self.boxes.high[:, i].max()]
                for i, axis in enumerate(self.axes)
            },
            "n_compared": self.n_compared,
        }
        for code, word in enumerate(STATUS):
            values[f"n_{word}"] = int((self.status == code).sum())
            values[f"share_{word}"] = self.share(code)
        if self.enclosure.assumption:
            values["assumption"] = self.enclosure.assumption
        if self.witnesses:
            values["failing_contexts"] = [self._context(x) for x in self.witnesses]
        if self.uncoverable is not None:
            values["uncoverable_context"] = self._context(self.uncoverable)
        bounds = [Bound("upper", self.size, "box", "table")] if self.holds else []
        if self.n_candidates:
            values |= {
                "n_sources": n,
                "lower_bound": self.lower_bound,
                "lower_bound_scope": f"all {n} sources",
                "optimal": self.holds and self.lower_bound >= self.size,
                "n_candidates": self.n_candidates,
                "lower_bound_candidates": among,
                "optimal_among_candidates": self.holds and among >= self.size,
            }
        # Where no source serves a part of the box, bounds are about the rest alone.
        if self.n_candidates and self.uncoverable is None:
            bounds.append(Bound("lower", self.lower_bound, "box", "table"))
            if self.bound_candidates is not None:
                least = Bound("lower", self.bound_candidates, "box", "candidates")
                most = Bound("upper", self.size, "box", "candidates")
                bounds += [least, most] if self.holds else [least]
        return Certificate(
            name,
            self.holds,
            self.enclosure.kind,
            " ".join(self._sentences()),
            values,
            "every context of the box",
            tuple(bounds),
        )

    @property
    def _among(self) -> int:
        """No fewer of the candidates cover the box."""
        return max(self.lower_bound, self.bound_candidates or 0)

    def _context(self, row: Array) -> dict[str, float]:
        return dict(zip(self.axes, row.tolist(), strict=True))

    def _sentences(self) -> list[str]:
        """Say what is shown of the sources, and how few could do."""
        n, question = self.enclosure.n_sources, self.enclosure.question.at(self.epsilon)
        live = [self.axes[i] for i in np.flatnonzero(self.boxes.extent > 0)]
        names = live or list(self.axes)
        noun = "controller" if self.enclosure.n_policies == 1 else "source"
        is_one = self.size == 1
        whom = f"this {noun}" if is_one else f"these {count(self.size, noun)}"
        axes = names[0] if len(names) == 1 else f"({', '.join(names)})"
        what = f"very {axes} in the box, not only the grid,"
        if question.error is not None:
            what += f" measured with {question.error.words},"
        what += f" {question.clause}"
        served = (
            f"{whom} certainly serve{'s' if is_one else ''} "
            f"{percent(self.share(CERTIFIED))} of the box; "
            f"{percent(self.share(UNCOVERED))} is refuted (parts that hold a context "
            f"which none serves), {percent(self.share(OPEN))} is open"
        )
        parts: list[str] = []
        if self.holds:
            if self.enclosure.n_policies > 1:
                which = {"worst": "whichever policy", "best": "the best policy"}
                whom = f"{which[question.judge]} of {whom}"
            parts = [f"E{what}, by {whom}: {self.enclosure.basis}.", *self._few()]
            if self.is_time_up and self._among < self.size:
                parts.append("The time limit ended the search for fewer.")
            return parts
        if self.of_grid is not None and self.of_grid[0]:
            n_served, n_nodes = self.of_grid
            nodes = f"{n_served:,} of the {n_nodes:,} nodes"
            nodes = "every node" if n_served == n_nodes else nodes
            parts = [f"The sources that serve {nodes}, between nodes."]
        if self.uncoverable is not None:
            place = context_words(self._context(self.uncoverable), names)
            failing = f"none of the {n:,} sources serves"
            failing = "the only source fails at" if n == 1 else failing
            parts.append(f"No cover of the whole box exists: {failing} {place}.")
            if self.size:
                parts.append(f"{served[0].upper()}{served[1:]}.")
            return parts
        if not self.size:
            parts.append(f"No {noun} is selected, so nothing is shown.")
        elif self.witnesses:
            place = context_words(self._context(self.witnesses[0]), names)
            parts += [
                f"Not so that e{what}: at {place}, for one, none of them serves.",
                f"{served[0].upper()}{served[1:]}.",
            ]
        else:
            n_open = int((self.status == OPEN).sum())
            boxes = "1 box" if n_open == 1 else f"{n_open:,} boxes"
            parts.append(
                f"Not shown that e{what}: {served} ({boxes}). A larger time limit or "
                "more sources may close what is open."
            )
        if self.n_candidates and self.lower_bound > 1:
            parts.append(
                f"At least {self.lower_bound} of the {n:,} sources are needed."
            )
        if self.is_time_up:
            parts.append(
                "The time limit ended the search: a larger time limit may find a cover."
            )
        return parts

    def _few(self) -> list[str]:
        """Say how few could do; what holds for all is not said of the candidates."""
        n, every = self.enclosure.n_sources, self.lower_bound
        if not self.n_candidates:
            return []
        if every >= self.size:
            least = f"No fewer of the {count(n, 'source')} do."
            return ["No selection is smaller." if self.size == 1 else least]
        said = []
        if self._among >= self.size:
            said.append(
                f"No fewer of {self.n_candidates:,} candidates among the {n:,} sources "
                "do."
            )
        if every > 1:
            said.append(f"At least {every} of the {n:,} sources are needed.")
        return said

    def source_at(self, contexts: ArrayLike) -> NDArray[np.int64]:
        """Return the source that certainly serves each context, −1 where none does.

        Args:
            contexts: full context rows, shape `(context, len(axes))`.
        """
        rows = np.atleast_2d(np.asarray(contexts, np.float64))
        chosen = np.full(len(rows), -1, np.int64)
        for i, row in enumerate(rows):
            inside = ((self.boxes.low <= row) & (row <= self.boxes.high)).all(1)
            served = self.assignment[inside & (self.status == CERTIFIED)]
            if len(served):
                chosen[i] = served[0]
        return chosen


def box_edges(
    system: System, space: Space, n_cells: int | None = None
) -> tuple[Array, ...]:
    """Return edges of cells between the nodes of a space, for every axis of the system.

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
    return tuple(cut_evenly(e, wanted) for e in edges)


def cut_evenly(edges: Array, n_cells: int) -> Array:
    """Return edges with the intervals between them cut evenly.

    Args:
        edges: ascending; a single one stays as it is.
        n_cells: at least this many intervals come out.
    """
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
    edges: Sequence[Array],
    epsilon: float,
    *,
    axes: Sequence[str],
    max_boxes: int = MAX_BOXES,
    max_depth: int = 12,
    time_limit: float | None = None,
    until_failure: bool = False,
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
        max_depth: how often a cell is cut in two along each axis, on average.
        time_limit: processor seconds after which open boxes stay open.
        until_failure: stop cutting once a context is found at which all fail.

    Returns:
        The boxes with their status.
    """
    enclosure.question.at(epsilon)  # refuses a tolerance without meaning
    clock = Clock(time_limit)
    chosen = np.asarray(sources, np.int64).reshape(-1)
    work = Boxes.from_edges(edges)
    extent = work.extent
    max_boxes = min(max_boxes, MAX_CHECK_PAIRS // max(1, len(chosen)))
    max_cuts = max_depth * max(1, int((extent > 0).sum()))
    done: list[Boxes] = []
    results: list[tuple[NDArray, NDArray, NDArray]] = []
    witnesses: list[Array] = []
    n_boxes = 0
    tries = np.repeat(chosen[None], len(work), axis=0)
    for cut in range(max_cuts + 1):
        n_boxes += len(work)
        status, assignment, bound, tries = _decide(
            enclosure, tries, work, epsilon, clock
        )
        witnesses.extend(work.centre[status == UNCOVERED][: 10 - len(witnesses)])
        n_open = int((status == OPEN).sum())
        last = cut == max_cuts or n_boxes + 2 * n_open > max_boxes or clock.left <= 0
        last |= until_failure and bool(witnesses)
        keep = np.ones(len(work), bool) if last else status != OPEN
        done.append(work[keep])
        results.append((status[keep], assignment[keep], bound[keep]))
        if keep.all():
            break
        work, tries = work[~keep], tries[~keep]
        work, parent = work.split(enclosure.widths(work, extent).argmax(1))
        tries = tries[parent]
    boxes = Boxes.concatenate(done)
    status, assignment, bound = (np.concatenate(x) for x in zip(*results, strict=True))
    return ContinuumCover(
        enclosure,
        epsilon,
        chosen,
        boxes,
        status,
        assignment,
        bound,
        tuple(axes),
        tuple(witnesses),
        n_pairs=n_boxes * max(1, len(chosen)),
        subject=subject_of(enclosure, chosen, boxes, epsilon),
    )


def _decide(
    enclosure: Enclosure,
    tries: NDArray[np.int64],
    boxes: Boxes,
    epsilon: float,
    clock: Clock,
) -> tuple[NDArray[np.int8], NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return status, source and its bound for each box, and what to try on its parts.

    Args:
        enclosure: bounds on the losses.
        tries: sources for each box, the most promising first, −1 for none.
        boxes: where.
        epsilon: tolerance.
        clock: when to stop.
    """
    status = np.full(len(boxes), OPEN, np.int8)
    assignment = np.full(len(boxes), -1, np.int64)
    bound = np.full(len(boxes), np.inf)
    tries = tries.copy()
    if tries.shape[1] == 0:
        status[:] = UNCOVERED
        return status, assignment, bound, tries
    # In stretches, so that the clock is looked at; long, so that threads have work.
    n_pairs, first = FIRST_CHECK_PAIRS, 0
    while first < len(boxes) and clock.left > 0:
        stretch = Clock()
        rows = np.arange(
            first, min(first + max(1, n_pairs // tries.shape[1]), len(boxes))
        )
        first += len(rows)
        low, high = enclosure.tried_bounds(boxes[rows], tries[rows], epsilon)
        best = high.argmin(1)
        bound[rows] = high[np.arange(len(rows)), best]
        served = bound[rows] <= epsilon
        status[rows[served]] = CERTIFIED
        assignment[rows[served]] = tries[rows[served], best[served]]
        if stretch.seconds < STRETCH:
            n_pairs = min(2 * n_pairs, CHECK_PAIRS_AT_ONCE)
        rest = rows[~served]
        if not len(rest):
            continue
        # What fails on all of a box fails on its parts too.
        open_tries = np.where(low[~served] > epsilon, -1, tries[rest])
        centre = Boxes.points(boxes[rest].centre)
        there = enclosure.tried_bounds(centre, open_tries, epsilon)
        fails = ((there[0] > epsilon) | (open_tries < 0)).all(1)
        status[rest[fails]] = UNCOVERED
        # The best goes first on the parts; where no bound is known, that of the centre.
        order = np.lexsort((there[1], high[~served]), axis=1)
        tries[rest] = np.take_along_axis(open_tries, order, axis=1)
    return status, assignment, bound, tries
