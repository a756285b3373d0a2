"""The mass-spring-damper's enclosure: proofs over boxes from its closed forms."""

from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.certificates.boxes.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
    PolicyEnclosure,
    check_cost,
    check_exact,
)
from taskspace.certificates.boxes.msd_bounds import (
    COST,
    RATIO,
    REGRET,
    check_magnitude,
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
from taskspace.questions import Question
from taskspace.systems.linear.msd import MassSpringDamper

# Pairs of a source and a box from which on threads are worth it.
THREAD_PAIRS = 4096
KINDS = {"regret": REGRET, "ratio": RATIO, "cost": COST}


class MsdEnclosure(PolicyEnclosure):
    """Bounds on the losses of linear gains over boxes of mass-spring-dampers.

    The reference of `regret` and `ratio` is the true optimum of each context.

    Args:
        system: with an infinite horizon.
        policies: a stack of gains with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        question: criterion and judge; its tolerance does not matter here.
    """

    per_source: ClassVar = ("policies", "_home", "_gains")

    def __init__(
        self,
        system: MassSpringDamper,
        policies: Policy,
        sources: Array,
        question: Question,
    ):
        check_cost(question)
        super().__init__(system, policies, question)
        check_exact(system)
        if np.isfinite(system.horizon):
            raise NoEnclosureError(
                "Bounds over boxes need the infinite horizon, whose cost has a closed "
                f"form, but got horizon={system.horizon}."
            )
        if not isinstance(policies, LinearGain):
            raise NoEnclosureError(
                f"policies must be LinearGain, but got {type(policies).__name__}."
            )
        self.basis = (
            "interval arithmetic with outward rounding on the closed-form cost and "
            "optimum of msd-v1, over whole boxes"
        )
        self.basis += f"; {system.objective.caution}"
        self._weights = (
            system.position_weight,
            system.velocity_weight,
            system.input_weight,
        )
        self._gains = np.ascontiguousarray(policies.gain[:, :, 0, :])
        self.pair_work = 0.5 * self._gains.shape[1]
        check_magnitude("weights", self._weights, positive=True)
        check_magnitude("gains", self._gains)
        _check_contexts(sources, sources)
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*self._gains.shape[:2], 2))
        if question.rule.compares_with_home:
            _fill_home(
                self._gains, np.ascontiguousarray(sources), self._weights, self._home
            )
        self._options = (
            KINDS[question.rule.box_bounds],
            question.judge == "worst",
            self._weights,
        )

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound on the loss, each with dims `(source, box)`."""
        rows = self._rows(sources)
        shape = len(boxes), len(rows)
        place = np.repeat(np.arange(shape[0]), shape[1])
        low, high = self._run(boxes, place, np.tile(rows, shape[0]), epsilon)
        return low.reshape(shape).T, high.reshape(shape).T

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of source `sources[i]` on `boxes[i]`, one number each."""
        return self._run(boxes, np.arange(len(boxes)), np.asarray(sources), epsilon)

    def _run(
        self,
        boxes: Boxes,
        place: NDArray[np.integer],
        sources: NDArray[np.integer],
        epsilon: float,
    ) -> Bounds:
        """Bound the loss of source `sources[i]` on `boxes[place[i]]`, for every i."""
        _check_contexts(boxes.low, boxes.high)
        rows = sources.astype(np.int64)
        low, high = np.empty((2, len(rows)))
        corners = np.stack([boxes.low, boxes.high], -1)

        def kernel(first: int, stop: int) -> None:
            part = slice(first, stop)
            _bound_pairs(
                self._gains,
                self._home,
                rows[part],
                place[part],
                corners,
                epsilon,
                self._options,
                low[part],
                high[part],
            )

        # Starting threads takes a millisecond.
        over_rows(kernel, len(rows), in_threads=len(rows) >= THREAD_PAIRS)
        return low, high

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return widths relative to 1 + end: K* changes fast where that is small."""
        del extent
        return (boxes.high - boxes.low) / (1.0 + boxes.high)

    def slope_bounds(self, boxes: Boxes, sources: ArrayLike | None = None) -> Array:
        """Return the largest |∂ loss / ∂ axis| of any policy, `(source, box, axis)`.

        For `signed` and `floor` these are the slopes of J. Infinite where a loop may
        be unstable on the box.
        """
        _check_contexts(boxes.low, boxes.high)
        gains = self._gains[self._rows(sources)]
        slopes = np.empty((len(gains), len(boxes), 3))
        corners = np.stack([boxes.low, boxes.high], -1)
        _bound_slopes(gains, corners, self._options[0], self._weights, slopes)
        return slopes


def _check_contexts(low: Array, high: Array) -> None:
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
    """Return bounds on the loss of one family; exact sides once epsilon decides."""
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
def _interval_plant(corners, weights):
    k = (corners[0, 0], corners[0, 1])
    c = (corners[1, 0], corners[1, 1])
    m = (corners[2, 0], corners[2, 1])
    return plant(k, c, m, weights)


@njit(cache=True)
def _plants(corners, weights):
    """Return what a box, and its centre, say before a gain is known."""
    box = _interval_plant(corners, weights)
    k, c, m = point(middle(box[0])), point(middle(box[1])), point(middle(box[2]))
    return box, plant(k, c, m, weights)


@njit(cache=True, nogil=True)
def _bound_pairs(gains, home, sources, place, corners, epsilon, options, low, high):
    if len(sources) == 0:
        return
    last = place[0]
    box, centre = _plants(corners[last], options[2])
    for i in range(len(sources)):
        if place[i] != last:
            last = place[i]
            box, centre = _plants(corners[last], options[2])
        s = sources[i]
        low[i], high[i] = _family_bounds(
            gains[s], home[s], box, centre, epsilon, options
        )


@njit(cache=True)
def _bound_slopes(gains, corners, kind, weights, slopes):
    for i in range(len(corners)):
        box = _interval_plant(corners[i], weights)
        for s in range(gains.shape[0]):
            slopes[s, i] = 0.0
            for p in range(gains.shape[1]):
                gain = (gains[s, p, 0], gains[s, p, 1])
                if stability(gain, box[0], box[1]) < 1:
                    slopes[s, i] = np.inf
                    break
                loop = closed_loop(gain, box)
                by = gradient(kind, gain, box, loop, weights)
                for axis in range(3):
                    largest = max(abs(by[axis][0]), abs(by[axis][1]))
                    slopes[s, i, axis] = max(slopes[s, i, axis], largest)
