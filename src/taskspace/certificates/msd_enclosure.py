"""The mass-spring-damper's enclosure: proofs over boxes from its closed forms."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._threads import over_rows
from taskspace.certificates._old import check_criterion
from taskspace.certificates.enclosures import Boxes, Enclosure
from taskspace.certificates.intervals import check_magnitude
from taskspace.certificates.msd_bounds import (
    COST,
    RATIO,
    REGRET,
    closed_loop,
    gradient,
    home_bounds,
    loss_bounds,
    middle,
    plant,
    point,
    stability,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.systems.msd import MassSpringDamper

__all__ = ["MsdEnclosure"]

KINDS = {"regret": REGRET, "ratio": RATIO, "floor": COST, "signed": COST}
# A cell that its own bound leaves open is cut this many times before giving up.
CUTS_IN_CELL = 2
BLOCK_CELLS = 2**25


class MsdEnclosure(Enclosure):
    """Bounds on the losses of linear gains over boxes of mass-spring-dampers.

    The reference of `regret` and `ratio` is the true optimum of each context.

    Args:
        system: with an infinite horizon.
        policies: a stack of gains with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        criterion: one of `taskspace.criteria.CRITERIA`.
        family: `"all"`: every policy of a source; `"any"`: at least one.
    """

    def __init__(
        self,
        system: MassSpringDamper,
        policies: Policy,
        sources: NDArray[np.float64],
        *,
        criterion: str,
        family: str,
    ):
        check_criterion(criterion, family)
        if np.isfinite(system.horizon):
            raise InvalidInputError(
                "Bounds over boxes need the infinite horizon, whose cost has a closed "
                f"form, but got horizon={system.horizon}."
            )
        if not isinstance(policies, LinearGain):
            raise InvalidInputError(
                f"policies must be LinearGain, but got {type(policies).__name__}."
            )
        self.kind = "proof"
        self.basis = (
            "interval arithmetic with outward rounding on the closed-form cost and "
            "optimum of msd-v1, over whole boxes"
        )
        self.criterion, self.family = criterion, family
        self._weights = (
            system.position_weight,
            system.velocity_weight,
            system.input_weight,
        )
        self._gains = np.ascontiguousarray(policies.gain[:, :, 0, :])
        check_magnitude("weights", self._weights, positive=True)
        check_magnitude("gains", self._gains)
        _check_contexts(sources, sources)
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*self._gains.shape[:2], 2))
        if criterion == "signed":
            _fill_home(
                self._gains, np.ascontiguousarray(sources), self._weights, self._home
            )
        self._options = (KINDS[criterion], family == "all", self._weights)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._gains)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self._gains.shape[1]

    def subset(self, sources: ArrayLike) -> Self:
        """The same bounds for only these sources, in this order."""
        part = copy(self)
        part._gains, part._home = self._rows(sources)
        return part

    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high bound on the loss, each with dims `(source, box)`."""
        _check_contexts(boxes.low, boxes.high)
        gains, home = self._rows(sources)
        low = np.empty((len(gains), len(boxes)))
        high = np.empty_like(low)
        corners = np.stack([boxes.low, boxes.high], -1)

        def kernel(first: int, stop: int) -> None:
            part = slice(first, stop)
            _bound_boxes(
                gains,
                home,
                corners[part],
                epsilon,
                self._options,
                low[:, part],
                high[:, part],
            )

        over_rows(kernel, len(boxes))
        return low, high

    def serves_cells(
        self, edges: Sequence[NDArray[np.float64]], epsilon: float
    ) -> Iterator[NDArray[np.bool_]]:
        """Which sources serve which cells, from large boxes down to single cells."""
        return self._search(edges, epsilon, nodes=False)

    def may_serve_nodes(
        self, edges: Sequence[NDArray[np.float64]], epsilon: float
    ) -> Iterator[NDArray[np.bool_]]:
        """Which sources are not shown to exceed `epsilon` at which grid nodes."""
        return self._search(edges, epsilon, nodes=True)

    def _search(
        self, edges: Sequence[NDArray[np.float64]], epsilon: float, *, nodes: bool
    ) -> Iterator[NDArray[np.bool_]]:
        edges = tuple(np.ascontiguousarray(e, dtype=np.float64) for e in edges)
        ends = np.array([[e[0], e[-1]] for e in edges])
        _check_contexts(ends[None, :, 0], ends[None, :, 1])
        counts = [len(e) if nodes or len(e) == 1 else len(e) - 1 for e in edges]
        n_cells = int(np.prod(counts))
        step = max(1, BLOCK_CELLS // n_cells)
        for start in range(0, self.n_sources, step):
            gains, home = self._rows(
                np.arange(start, min(start + step, self.n_sources))
            )
            served = np.zeros((len(gains), n_cells), np.bool_)

            def kernel(
                first: int, stop: int, gains=gains, home=home, served=served
            ) -> None:
                part = slice(first, stop)
                _serve_grid(
                    gains[part],
                    home[part],
                    edges,
                    np.array(counts),
                    epsilon,
                    self._options,
                    served[part],
                )

            over_rows(kernel, len(gains))
            yield served

    def slope_bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Largest |∂ loss / ∂ axis| of any policy on a box, `(source, box, axis)`.

        For `signed` and `floor` these are the slopes of J. Infinite where a loop may
        be unstable on the box.
        """
        _check_contexts(boxes.low, boxes.high)
        gains, _ = self._rows(sources)
        slopes = np.empty((len(gains), len(boxes), 3))
        corners = np.stack([boxes.low, boxes.high], -1)
        _bound_slopes(gains, corners, self._options[0], self._weights, slopes)
        return slopes

    def _rows(self, sources: ArrayLike | None) -> tuple[NDArray, NDArray]:
        if sources is None:
            return self._gains, self._home
        rows = np.asarray(sources, np.int64)
        return self._gains[rows], self._home[rows]


def _check_contexts(low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    for column, name in enumerate(("k", "c", "m")):
        ends = np.concatenate([low[:, column], high[:, column]])
        check_magnitude(name, ends, positive=name == "m")
        if (ends < 0).any():
            raise InvalidInputError(f"0 <= {name} must hold, but got {ends.min():g}.")


@njit(cache=True)
def _fill_home(gains, contexts, weights, home):
    for s in range(gains.shape[0]):
        for p in range(gains.shape[1]):
            gain = (gains[s, p, 0], gains[s, p, 1])
            context = (contexts[s, 0], contexts[s, 1], contexts[s, 2])
            home[s, p, 0], home[s, p, 1] = home_bounds(gain, context, weights)


@njit(cache=True)
def _family_bounds(gains, home, box, centre, epsilon, options):
    """Bounds on the loss of one source's family; exact sides once epsilon decides."""
    kind, all_policies, weights = options
    low = -np.inf if all_policies else np.inf
    high = low
    for p in range(gains.shape[0]):
        if home[p, 0] == np.inf:
            # Unstable at home: no gap to another failure, −inf to anything better.
            at_least, at_most = -np.inf, 0.0
        else:
            gain = (gains[p, 0], gains[p, 1])
            own = (home[p, 0], home[p, 1])
            at_least, at_most = loss_bounds(
                kind, gain, own, box, centre, epsilon, weights
            )
        if all_policies:
            low, high = max(low, at_least), max(high, at_most)
            if low > epsilon:
                return low, np.inf
        else:
            low, high = min(low, at_least), min(high, at_most)
            if high <= epsilon:
                return -np.inf, high
    return low, high


@njit(cache=True)
def _plants(k, c, m, weights):
    box = plant(k, c, m, weights)
    centre = plant(point(middle(k)), point(middle(c)), point(middle(m)), weights)
    return box, centre


@njit(cache=True, nogil=True)
def _bound_boxes(gains, home, corners, epsilon, options, low, high):
    for i in range(len(corners)):
        k = (corners[i, 0, 0], corners[i, 0, 1])
        c = (corners[i, 1, 0], corners[i, 1, 1])
        m = (corners[i, 2, 0], corners[i, 2, 1])
        box, centre = _plants(k, c, m, options[2])
        for s in range(len(gains)):
            low[s, i], high[s, i] = _family_bounds(
                gains[s], home[s], box, centre, epsilon, options
            )


@njit(cache=True)
def _serves_after_cuts(gains, home, k, c, m, epsilon, options):
    """Whether a family is within epsilon on a box, cut up to CUTS_IN_CELL times."""
    stack = np.empty((64, 7))
    stack[0] = np.array([k[0], k[1], c[0], c[1], m[0], m[1], 0.0])
    n = 1
    while n:
        n -= 1
        x = stack[n].copy()
        k, c, m, depth = (x[0], x[1]), (x[2], x[3]), (x[4], x[5]), x[6]
        box, centre = _plants(k, c, m, options[2])
        low, high = _family_bounds(gains, home, box, centre, epsilon, options)
        if high <= epsilon:
            continue
        if low > epsilon or depth >= CUTS_IN_CELL:
            return False
        if (
            not _family_bounds(gains, home, centre, centre, epsilon, options)[1]
            <= epsilon
        ):
            return False
        axis, widest = 0, -1.0
        for i in range(3):
            # Relative to where K* changes fast; any choice is sound.
            width = (x[2 * i + 1] - x[2 * i]) / (1.0 + x[2 * i + 1])
            if width > widest:
                axis, widest = i, width
        cut = middle((x[2 * axis], x[2 * axis + 1]))
        if not x[2 * axis] < cut < x[2 * axis + 1]:
            return False
        x[6] = depth + 1
        stack[n] = x
        stack[n, 2 * axis + 1] = cut
        stack[n + 1] = x
        stack[n + 1, 2 * axis] = cut
        n += 2
    return True


@njit(cache=True)
def _span(edges, n_items, first, stop):
    """The hull of the cells, or of the nodes, `first .. stop − 1`."""
    if n_items == len(edges):
        return edges[first], edges[stop - 1]
    return edges[first], edges[stop]


@njit(cache=True, nogil=True)
def _serve_grid(gains, home, edges, counts, epsilon, options, served):
    """Decide cells (certainly served) or nodes (possibly served), large boxes first.

    With as many counts as edges the items are nodes, with one less they are cells.
    """
    n_k, n_c, n_m = counts
    nodes = n_k == len(edges[0]) and n_c == len(edges[1]) and n_m == len(edges[2])
    stack = np.empty((256, 6), np.int64)
    for s in range(len(gains)):
        stack[0] = np.array([0, n_k, 0, n_c, 0, n_m])
        n = 1
        while n:
            n -= 1
            i0, i1, j0, j1, l0, l1 = stack[n]
            k = _span(edges[0], n_k, i0, i1)
            c = _span(edges[1], n_c, j0, j1)
            m = _span(edges[2], n_m, l0, l1)
            single = (i1 - i0) * (j1 - j0) * (l1 - l0) == 1
            if single and not nodes:
                item = (i0 * n_c + j0) * n_m + l0
                served[s, item] = _serves_after_cuts(
                    gains[s], home[s], k, c, m, epsilon, options
                )
                continue
            box, centre = _plants(k, c, m, options[2])
            low, high = _family_bounds(gains[s], home[s], box, centre, epsilon, options)
            if low > epsilon:
                continue
            if high <= epsilon or single:
                for i in range(i0, i1):
                    for j in range(j0, j1):
                        first = (i * n_c + j) * n_m
                        served[s, first + l0 : first + l1] = True
                continue
            stack[n] = (i0, i1, j0, j1, l0, l1)
            stack[n + 1] = (i0, i1, j0, j1, l0, l1)
            if i1 - i0 >= max(j1 - j0, l1 - l0):
                stack[n, 1] = stack[n + 1, 0] = (i0 + i1) // 2
            elif j1 - j0 >= l1 - l0:
                stack[n, 3] = stack[n + 1, 2] = (j0 + j1) // 2
            else:
                stack[n, 5] = stack[n + 1, 4] = (l0 + l1) // 2
            n += 2


@njit(cache=True)
def _bound_slopes(gains, corners, kind, weights, slopes):
    for i in range(len(corners)):
        k = (corners[i, 0, 0], corners[i, 0, 1])
        c = (corners[i, 1, 0], corners[i, 1, 1])
        m = (corners[i, 2, 0], corners[i, 2, 1])
        box = plant(k, c, m, weights)
        for s in range(gains.shape[0]):
            slopes[s, i] = 0.0
            for p in range(gains.shape[1]):
                gain = (gains[s, p, 0], gains[s, p, 1])
                if stability(gain, k, c) < 1:
                    slopes[s, i] = np.inf
                    break
                loop = closed_loop(gain, box)
                by = gradient(kind, gain, box, loop, weights)
                for axis in range(3):
                    largest = max(abs(by[axis][0]), abs(by[axis][1]))
                    slopes[s, i, axis] = max(slopes[s, i, axis], largest)
