"""Table and proofs about its system must not contradict each other.

Bounds over boxes are made from the system's formulas, a table from its `performance`.
Where both speak of the same source at the same context, the loss of the table must lie
within the bounds, and where a cover of the box names a source at a node of the table,
the table must say that this source serves it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.check import CERTIFIED, ContinuumCover
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.certificates.case import Case
from taskspace.certificates.lipschitz import EVALUATION_SLACK
from taskspace.certificates.statements import context_words
from taskspace.errors import ContradictionError
from taskspace.questions import Question

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
        table = self._case.table
        losses = question.losses_of(table, sources)
        losses[:, self._unknown] = np.nan  # the table says nothing there
        size = np.abs(losses)
        if question.rule.is_relative:
            size = size + 2.0
        elif question.rule.compares_with_best:
            size = size + 2 * np.abs(table["best_known"].values)
        elif question.rule.compares_with_home:
            home = np.abs(table["home_performance"].values[sources])
            home = np.where(np.isfinite(home), home, 0.0).max(1)
            size = size + 2 * home[:, None]
        slack = np.where(np.isfinite(size), EVALUATION_SLACK * size, 0.0)
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
