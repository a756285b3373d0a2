"""From the grid to the continuum: covers of every context of a box.

A cover of grid nodes says nothing about the space between them. Here boxes take the
place of nodes: an `Enclosure` bounds the loss over whole boxes, boxes that it leaves
open are cut, and what is certified is every real context of the box, not a sample.

- `certify_cover` checks given sources: each box ends certified, uncovered (with a
  context as witness where every source fails), or open when the budget ends.
- `taskspace.certificates.boxes.search.certified_cover` chooses the sources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.certificates.identity import ProofSubject, subject_of
from taskspace.certificates.statements.claims import Bound, Certificate
from taskspace.certificates.statements.words import BoxFacts, Shares
from taskspace.spaces import Grid, Space
from taskspace.systems.base import System

CERTIFIED, OPEN, UNCOVERED = 0, 1, 2
STATUS = ("certified", "open", "uncovered")

# Cells on each axis to begin with, by number of axes that vary.
FIRST_CELLS = {0: 1, 1: 1000, 2: 96, 3: 24}
# Pairs of a source and a box that a check looks at; at once, before it looks at the
# clock: at first, and at most.
MAX_CHECK_PAIRS = 2**24
FIRST_CHECK_PAIRS = 2**12
CHECK_PAIRS_AT_ONCE = 2**17
# Seconds after which such a stretch is long enough.
STRETCH = 0.2


@dataclass(frozen=True, eq=False)
class ContinuumCover:
    """Sources, and what is certified about every context of a box.

    Args:
        certificate: the statement; `holds` iff every box is certified.
        facts: what the sentence of the certificate is made from.
        sources: selected sources.
        boxes: closed boxes that together are the whole box.
        status: of each box: `CERTIFIED`, `OPEN` or `UNCOVERED`.
        assignment: source that serves all of a certified box, −1 elsewhere.
        loss_bound: bound on the loss of the assigned source on each box.
        axes: names of the columns of the boxes.
        lower_bound: no fewer of all sources of the enclosure cover the box, nor as
            much of it as can be covered.
        subject: hashes of the policies, the system and the question that it is about;
            None where the enclosure does not tell.
    """

    certificate: Certificate
    facts: BoxFacts
    sources: NDArray[np.int64]
    boxes: Boxes
    status: NDArray[np.int8]
    assignment: NDArray[np.int64]
    loss_bound: Array
    axes: tuple[str, ...]
    lower_bound: int = 0
    subject: ProofSubject | None = None

    @property
    def size(self) -> int:
        """Number of selected sources."""
        return len(self.sources)

    @property
    def holds(self) -> bool:
        """Whether every box is certified."""
        return self.certificate.holds

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

    @property
    def shares(self) -> Shares:
        """How much of the box is certified, refuted and open; together all of it."""
        return Shares(*(self.share(code) for code in (CERTIFIED, UNCOVERED, OPEN)))

    def with_facts(
        self, values: Mapping[str, Any], bounds: Sequence[Bound] = (), **facts: Any
    ) -> "ContinuumCover":
        """Return the same cover with more to say.

        Args:
            values: added to those of the certificate.
            bounds: added to those of the certificate.
            **facts: fields of `facts` that are known now.
        """
        stated = replace(self.facts, **facts)
        certificate = replace(
            self.certificate,
            why=stated.sentence,
            values=self.certificate.values | dict(values),
            bounds=(*self.certificate.bounds, *bounds),
        )
        return replace(self, certificate=certificate, facts=stated)

    def with_bounds(
        self,
        every: int,
        among: int,
        n_candidates: int,
        values: Mapping[str, Any],
        bounds: Sequence[Bound],
        **facts: Any,
    ) -> "ContinuumCover":
        """Return the same cover with what is known of how few could do.

        Args:
            every: no fewer of all sources do.
            among: no fewer of the candidates do.
            n_candidates: sources among which a search chose.
            values: more numbers of the certificate.
            bounds: added to those of the certificate.
            **facts: fields of `facts` that are known now.
        """
        ranges = {
            "n_sources": self.facts.n_sources,
            "lower_bound": every,
            "lower_bound_scope": f"all {self.facts.n_sources} sources",
            "optimal": self.holds and every >= self.size,
            "n_candidates": n_candidates,
            "lower_bound_candidates": among,
            "optimal_among_candidates": self.holds and among >= self.size,
        }
        facts["n_candidates"] = n_candidates
        stated = self.with_facts(ranges | dict(values), bounds, **facts)
        return replace(stated, lower_bound=every)

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
    max_boxes: int = 200_000,
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
        The boxes with their status, and the certificate.
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
    certificate, facts = _continuum_certificate(
        enclosure, chosen, boxes, status, bound, epsilon, tuple(axes), witnesses
    )
    return ContinuumCover(
        certificate,
        facts,
        chosen,
        boxes,
        status,
        assignment,
        bound,
        tuple(axes),
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


def _continuum_certificate(
    enclosure: Enclosure,
    chosen: NDArray[np.int64],
    boxes: Boxes,
    status: NDArray[np.int8],
    bound: Array,
    epsilon: float,
    axes: tuple[str, ...],
    witnesses: Sequence[Array],
) -> tuple[Certificate, BoxFacts]:
    holds = bool((status == CERTIFIED).all())
    share = boxes.share
    question = enclosure.question.at(epsilon)
    values: dict[str, Any] = {
        **question.to_dict(),
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
    if enclosure.assumption:
        values["assumption"] = enclosure.assumption
    if witnesses:
        values["failing_contexts"] = [
            dict(zip(axes, row.tolist(), strict=True)) for row in witnesses
        ]
    live = [axes[i] for i in np.flatnonzero(boxes.extent > 0)]
    facts = BoxFacts(
        question=question,
        names=live or list(axes),
        holds=holds,
        size=len(chosen),
        n_policies=enclosure.n_policies,
        n_open=values["n_open"],
        shares=Shares(
            values["share_certified"], values["share_uncovered"], values["share_open"]
        ),
        witness=values["failing_contexts"][0] if witnesses else None,
        basis=enclosure.basis,
        n_sources=enclosure.n_sources,
    )
    upper = (Bound("upper", len(chosen), "box", "table"),) if holds else ()
    scope = "every context of the box"
    certificate = Certificate(
        "continuum cover", holds, enclosure.kind, facts.sentence, values, scope, upper
    )
    return certificate, facts
