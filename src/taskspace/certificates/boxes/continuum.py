"""What holds between the targets of a table: boxes, or else the margin rule.

`certified_cover` chooses few sources for a whole box. `TableCheck` is the gate: bounds
over boxes are made from the system's formulas, a table from its `performance`. Where
both speak of the same source at the same context, the loss of the table must lie within
the bounds, and where a cover of the box names a source at a node of the table, the
table must say that this source serves it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import (
    CERTIFIED,
    MAX_BOXES,
    UNCOVERED,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure, MeasuredEnclosure
from taskspace.certificates.boxes.nodes import Limit, serves_cells
from taskspace.certificates.boxes.search import (
    FIRST_WORK,
    GROWTH,
    BoxSearch,
    counted_cover,
)
from taskspace.certificates.case import Case
from taskspace.certificates.statements import Certificate, context_words
from taskspace.certificates.table import certify_margin, losses_and_slack
from taskspace.cover import lower_bounds
from taskspace.errors import ContradictionError, InvalidInputError
from taskspace.questions import Question
from taskspace.sets import pack
from taskspace.spaces import Space
from taskspace.systems.base import System

# For a check of what was found, also when time is up: it says how far that reaches.
LEAST_SECONDS = 1.0
# Work of the check of the grid's cover, as multiples of a step of the search.
GRID_STEPS = 2
# Stages of work on a cover of the nodes for a smaller tolerance. A good cover is all
# that is asked: to prove that it is minimal takes most of the time on a large grid.
SLACK_STAGES = 2


def certify_continuum(case: Case) -> list[Certificate]:
    """Say how the grid's cover does between its nodes, and cover the whole box.

    Args:
        case: gets the cover of the box, if there are bounds over boxes.
    """
    system, targets, cover = case.study.system, case.study.targets, case.cover
    enclosure = case.enclosure[0]
    if enclosure is None or system is None or targets is None:
        return [certify_margin(case)]
    check = TableCheck(case, enclosure)
    check.compare(cover.sources)
    check.compare(np.arange(cover.n_sources), FIRST_WORK / enclosure.pair_work)
    enclosure = _as_measured(case, enclosure, system, targets)
    on_grid, whole = _cover_box(case, enclosure, system, targets)
    for checked in (on_grid, whole):
        check.check_map(checked)
    case.found["continuum"] = whole = replace(whole, n_compared=check.n_compared)
    if case.selection is not None:
        return [whole.certificate]
    return [on_grid.statement("grid cover, between nodes"), whole.certificate]


def _as_measured(
    case: Case, enclosure: Enclosure, system: System, targets: Space
) -> Enclosure:
    """Return bounds where contexts are measured, as the question states."""
    error, epsilon = case.question.error, case.question.epsilon
    if error is None:
        return enclosure
    edges = box_edges(system, targets)
    low, high = (np.array([edge[end] for edge in edges]) for end in (0, -1))
    names = [axis.name for axis in system.axes]
    clock = Clock(max(case.clock.left, LEAST_SECONDS))
    return MeasuredEnclosure(enclosure, error, names, (low, high), epsilon, clock)


def _cover_box(
    case: Case, enclosure: Enclosure, system: System, targets: Space
) -> tuple[ContinuumCover, ContinuumCover]:
    """Return what the grid's cover serves of the box, and the best cover of the box."""
    cover, clock, epsilon = case.cover, case.clock, case.question.epsilon
    n_served = int((cover.assignment >= 0).sum())
    # Nothing else is to be tried where the sources are given, or are all there are.
    is_given, is_all = case.selection is not None, cover.size == cover.n_sources
    is_last = is_given or is_all
    # Nodes are in the box, so covering it takes as many sources.
    grid_bound = int(cover.lower_bound) if case.provenance == "exact" else 1
    n_boxes = GRID_STEPS * FIRST_WORK / enclosure.pair_work / max(1, cover.size)
    on_grid = certify_cover(
        enclosure,
        cover.sources,
        box_edges(system, targets),
        epsilon,
        axes=tuple(axis.name for axis in system.axes),
        time_limit=max(clock.left, LEAST_SECONDS),
        max_boxes=MAX_BOXES if is_last else int(min(MAX_BOXES, n_boxes)),
    )
    whole = replace(
        on_grid,
        lower_bound=grid_bound,
        n_candidates=cover.n_sources,
        is_time_up=clock.left <= 0,
        uncoverable=_hopeless(enclosure, on_grid, epsilon) if is_all else None,
    )
    on_grid = replace(on_grid, of_grid=(n_served, cover.n_targets))
    is_done = cover.optimal if on_grid.holds else is_all
    if is_given or is_done or clock.left <= 0:
        return on_grid, whole
    # What holds already is where the search for fewer begins.
    found = certified_cover(
        enclosure,
        system,
        targets,
        epsilon,
        suggestions=[cover.sources] if on_grid.holds else _slack_covers(case),
        at_least=grid_bound,
        time_limit=clock.left,
        seed=case.seed,
    )
    # Time may be up before anything better was found.
    is_as_good = not on_grid.holds and on_grid.rank == found.rank
    if on_grid.rank > found.rank or is_as_good:
        found = replace(whole, uncoverable=found.uncoverable)
    return on_grid, replace(found, is_time_up=clock.left <= 0)


def _slack_covers(case: Case) -> Iterator[NDArray[np.int64]]:
    """Yield covers of the nodes for smaller tolerances, the smallest first."""
    cover = case.cover
    n_coverable = cover.n_targets - len(cover.uncoverable)
    for sets in case.sets[1:]:
        if int(sets.coverable.sum()) == n_coverable:
            yield counted_cover(sets, case.clock, case.seed, SLACK_STAGES).sources


# Pairs of a source and a node that are bounded at once.
PAIRS_AT_ONCE = 2**13
# Pairs of a node and a box that are compared at once.
PLACES_AT_ONCE = 2**22


class TableCheck:
    """Compares the losses of a table with bounds on them, at the nodes.

    Only what calls itself a proof is held against the table, and only a table whose
    numbers are no means over episodes: these err by chance.

    Args:
        case: with a system and targets; the table is the one that is compared.
        enclosure: bounds on the losses of the table's sources.
    """

    def __init__(self, case: Case, enclosure: Enclosure):
        system, targets = case.study.system, case.study.targets
        assert system is not None
        assert targets is not None
        self._case, self._enclosure = case, enclosure
        self._axes = [axis.name for axis in system.axes]
        self._nodes = system.contexts(targets)
        table, rule = case.table, case.question.rule
        self._is_open = enclosure.kind == "proof" and case.provenance != "sampled"
        # Against the best of the table losses are too small, never too large.
        own = not rule.compares_with_best
        self._two_sided = own or table.attrs.get("best_known_kind") == "optimum"
        self._unknown = case.question.without_reference(table)
        self._seen = np.zeros(table.sizes["source"], np.bool_)

    @property
    def n_compared(self) -> int:
        """Pairs of a source and a node whose loss lies within its bounds."""
        return int(self._seen.sum()) * len(self._nodes)

    def compare(self, sources: ArrayLike, n_pairs: float = np.inf) -> None:
        """Refuse a loss of the table that its bounds exclude.

        Args:
            sources: whose losses, at every node.
            n_pairs: pairs of a source and a node at most; all by default.
        """
        wanted = np.unique(np.asarray(sources, np.int64))
        wanted = wanted[~self._seen[wanted]] if self._is_open else wanted[:0]
        points = Boxes.points(self._nodes)
        step = max(1, PAIRS_AT_ONCE // max(1, len(self._nodes)))
        question = self._case.question.measured_with(None)
        for first in range(0, len(wanted), step):
            if first * len(self._nodes) > n_pairs:
                break
            some = wanted[first : first + step]
            low, high = self._enclosure.bounds(points, some)
            losses, slack = self._losses(some, question)
            wrong = losses > high + slack
            if self._two_sided:
                wrong |= losses < low - slack
            for row, node in np.argwhere(wrong)[:1]:
                self._contradict(
                    int(some[row]),
                    int(node),
                    float(losses[row, node]),
                    f"it must lie in [{low[row, node]:.10g}, {high[row, node]:.10g}]",
                )
            self._seen[some] = True

    def check_map(self, cover: ContinuumCover) -> None:
        """Refuse a cover whose map names a source that the table refutes at a node.

        Args:
            cover: of the box, with sources of the table.
        """
        if not self._is_open:
            return
        self.compare(cover.sources)
        for node, box in self._places(cover):
            sources = cover.assignment[box]
            rows, number = np.unique(sources, return_inverse=True)
            losses, slack = self._losses(rows, self._case.question)
            loss = losses[number.reshape(-1), node]
            limit = cover.loss_bound[box] + slack[number.reshape(-1), node]
            for wrong in np.flatnonzero(loss > limit)[:1]:
                self._contradict(
                    int(sources[wrong]),
                    int(node[wrong]),
                    float(loss[wrong]),
                    f"it is at most {cover.loss_bound[box[wrong]]:.10g}",
                )

    def _places(
        self, cover: ContinuumCover
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield pairs of a node and a certified box that holds it."""
        boxes = np.flatnonzero(cover.status == CERTIFIED)
        step = max(1, PLACES_AT_ONCE // max(1, len(boxes)))
        low, high = cover.boxes.low[boxes], cover.boxes.high[boxes]
        for first in range(0, len(self._nodes), step):
            rows = self._nodes[first : first + step]
            inside = np.ones((len(rows), len(boxes)), np.bool_)
            for axis in range(rows.shape[1]):
                value = rows[:, axis, None]
                inside &= (low[:, axis] <= value) & (value <= high[:, axis])
            node, box = np.nonzero(inside)
            if len(node):
                yield node + first, boxes[box]

    def _losses(
        self, sources: NDArray[np.int64], question: Question
    ) -> tuple[Array, Array]:
        """Return losses of the table, and what rounding may have done to them."""
        losses, slack = losses_and_slack(self._case.table, question, sources)
        losses[:, self._unknown] = np.nan  # the table says nothing there
        slack = np.where(np.isnan(losses), 0.0, slack)
        if question.error is not None:  # the loss may be that of another node
            slack = np.maximum(slack, slack.max(1, keepdims=True))
        return losses, slack

    def _contradict(self, source: int, node: int, loss: float, bound: str) -> None:
        context = dict(zip(self._axes, self._nodes[node].tolist(), strict=True))
        raise ContradictionError(
            "Table and bounds contradict each other: at "
            f"{context_words(context, self._axes)} the "
            f"{self._case.question.criterion} of source {source} is {loss:.10g} by "
            f"the table, and {bound} by {self._enclosure.basis}. So nothing is "
            "certified. Make the table anew with this system and these policies. If "
            "they are the same, `performance` of the system computes something else "
            "than the bounds are about."
        )


# Pairs of a source and a node that fit into memory as bits.
MAX_NODE_PAIRS = 2**28
QUICK_BOUNDS = ("size", "packing", "dual ascent")
MAX_CANDIDATES = 1000
"""Sources among which `certified_cover` chooses by default, at most."""


def certified_cover(
    enclosure: Enclosure,
    system: System,
    space: Space,
    epsilon: float,
    *,
    time_limit: float = 20.0,
    n_cells: int | None = None,
    candidates: ArrayLike | None = None,
    suggestions: Iterable[ArrayLike] = (),
    at_least: int = 1,
    seed: int = 0,
) -> ContinuumCover:
    """Return few sources whose tolerance sets certainly cover the whole box of a space.

    Some selection is proven first, if need be a larger one with slack; then fewer
    sources are looked for while there is time.

    Args:
        enclosure: bounds on the losses of all sources.
        system: the tasks.
        space: its box is what gets covered.
        epsilon: tolerance.
        time_limit: processor seconds for all of it; what is decided late stays open.
        n_cells: see `box_edges`.
        candidates: sources to choose from. By default all of them up to
            `MAX_CANDIDATES`, beyond that as many, evenly spread, unless these leave
            a cell that no single one serves.
        suggestions: selections to try as well, such as covers of the grid for
            smaller tolerances, those with the most slack first; their sources become
            candidates too. Each is asked for when it is needed.
        at_least: sources that the box certainly needs: a search that found so few
            is done.
        seed: of the cover engine.

    Returns:
        The cover, checked by `certify_cover`. Its values tell two lower bounds apart:
        `lower_bound` holds for all sources of the enclosure,
        `lower_bound_candidates` for those among which this search chose.
    """
    enclosure.question.at(epsilon)  # refuses a tolerance without meaning
    clock = Clock(time_limit)
    if enclosure.n_sources == 0:
        raise InvalidInputError("There must be at least one source, but got none.")
    pool = _candidates(enclosure, candidates)
    search = BoxSearch(
        enclosure,
        pool,
        box_edges(system, space, n_cells),
        tuple(axis.name for axis in system.axes),
        epsilon,
        clock,
        at_least=at_least,
        seed=seed,
        may_grow=candidates is None and len(pool) < enclosure.n_sources,
    )
    search.run(suggestions)
    every = search.bound
    if len(search.pool) < enclosure.n_sources:
        every = max(at_least, _bound_of_all(search))
    cover = search.finish()
    return replace(
        cover,
        lower_bound=every,
        n_candidates=len(search.pool),
        bound_candidates=search.bound,
        uncoverable=_hopeless(enclosure, cover, epsilon),
        is_time_up=clock.left <= 0,
    )


def _bound_of_all(search: BoxSearch) -> int:
    """Return a lower bound over every source, as far as time and memory allow."""
    enclosure, clock = search.enclosure, search.clock
    n_nodes = int(np.prod([len(e) for e in search.edges]))
    if clock.left <= 0 or enclosure.n_sources * n_nodes > MAX_NODE_PAIRS:
        return 1
    limit = Limit(clock, GROWTH * search.max_pairs)
    nodes = serves_cells(
        enclosure, search.edges, search.epsilon, limit=limit, nodes=True, undecided=True
    )
    sets = pack(nodes)
    if limit.was_cut:
        return 1
    quick = lower_bounds(sets, kinds=QUICK_BOUNDS, time_limit=clock.left)
    return max(1, *(int(bound.value) for bound in quick))


def _candidates(enclosure: Enclosure, sources: ArrayLike | None) -> NDArray[np.int64]:
    if sources is not None:
        return np.unique(np.asarray(sources, np.int64))
    n = enclosure.n_sources
    if n <= MAX_CANDIDATES:
        return np.arange(n)
    # An irrational step spreads over both axes of a grid; a whole one need not.
    places = np.arange(MAX_CANDIDATES) * (n / MAX_CANDIDATES)
    jitter = (np.arange(MAX_CANDIDATES) * 0.6180339887498949) % 1.0
    return np.unique((places + jitter * (n / MAX_CANDIDATES)).astype(np.int64))


def _hopeless(
    enclosure: Enclosure, cover: ContinuumCover, epsilon: float
) -> Array | None:
    """Return a context at which every source certainly exceeds epsilon, if any."""
    centre = cover.boxes[cover.status == UNCOVERED].centre
    centre = centre[:: max(1, len(centre) // 200)]
    if not len(centre):
        return None
    low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
    failing = np.flatnonzero((low > epsilon).all(0))
    return centre[failing[0]] if len(failing) else None
