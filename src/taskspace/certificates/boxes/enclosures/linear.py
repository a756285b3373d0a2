"""The enclosure of linear families: proofs over boxes for any of them.

The mathematics is in `taskspace.certificates.boxes.rigor`: Taylor models of the plant,
found from its own code, Lyapunov and Riccati inequalities checked with rigorous
rounding.
"""

from copy import copy
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures.boxes import (
    Bounds,
    Boxes,
    PolicyEnclosure,
    check_cost,
)
from taskspace.certificates.boxes.enclosures.traced import (
    MAGNITUDE,
    BoxProgram,
    TracedFamily,
    Where,
    relative_widths,
)
from taskspace.certificates.boxes.rigor.losses import (
    COST,
    RATIO,
    REGRET,
    bound_boxes,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem

KINDS = {"regret": REGRET, "ratio": RATIO, "cost": COST}


class LinearEnclosure(PolicyEnclosure):
    """Bounds on the losses of linear gains over boxes of any linear family.

    How the matrices depend on the context is found from the family's own functions
    (`systems.linear.tracing`). The reference of `regret` and `ratio` is the true
    optimum of each context. Bounds are of the functions in real arithmetic and of the
    gains as stored.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack of gains with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        question: criterion and judge; its tolerance does not matter here.
        order: degree of the polynomials with which costs are compared, 1 or 2. The
            second is dearer a box, by 1.5 to 2.5 times, and needs far fewer of them.
    """

    per_source: ClassVar = ("policies", "_home", "_gains")

    def __init__(
        self,
        system: LinearSystem,
        policies: Policy,
        sources: Array,
        question: Question,
        *,
        order: int = 2,
    ):
        check_cost(question)
        super().__init__(system, policies, question)
        if order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, but got {order}.")
        if not isinstance(policies, LinearGain):
            raise InvalidInputError(
                f"policies must be LinearGain, but got {type(policies).__name__}."
            )
        self.kind = "proof"
        self.order = order
        # (source, policy, 1, n_inputs, n_states): a gain is a polynomial of degree 0.
        self._gains = np.ascontiguousarray(policies.gain[:, :, None], dtype=np.float64)
        if not (np.abs(self._gains) <= MAGNITUDE).all():
            raise InvalidInputError(
                f"Gains must lie in ±{MAGNITUDE:g} for a certificate, but the largest "
                f"is {np.abs(self._gains).max():g}."
            )
        self.pair_work = 2.5 * self._gains.shape[-1] ** 3 * self._gains.shape[1]
        self._sigma = np.ascontiguousarray(system.initial_covariance, dtype=np.float64)
        self._family = TracedFamily(
            system,
            np.asarray(sources, np.float64),
            question,
            (str(order), self._gains, self._sigma),
        )
        self.basis, self.assumption = self._family.basis, self._family.assumption
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*self._gains.shape[:2], 2))
        if question.rule.compares_with_home:
            n, homes = self.n_policies, len(sources)
            if homes != self.n_sources:
                raise InvalidInputError(
                    f"Policies of {self.n_sources} sources need as many contexts of "
                    f"their own, but got {homes} context{'s' * (homes != 1)}."
                )
            single = self._gains.reshape(-1, 1, *self._gains.shape[2:])
            alone = copy(self)
            alone._gains, alone._home = single, np.zeros((len(single), 1, 2))
            places = Boxes.points(np.repeat(sources, n, axis=0))
            home = alone.pair_bounds(places, np.arange(len(single)))
            self._home = np.stack(home, -1).reshape(self._home.shape)

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound on the loss, each with dims `(source, box)`."""
        rows = self._rows(sources)
        n = len(rows)
        offsets = np.arange(len(boxes) + 1) * n
        low, high = self._run(boxes, offsets, np.tile(rows, len(boxes)), epsilon)
        return low.reshape(-1, n).T, high.reshape(-1, n).T

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of `sources[i]` on `boxes[i]`; equal boxes are made once."""
        first, number = boxes.distinct()
        order = np.argsort(number, kind="stable")
        counts = np.bincount(number, minlength=len(first))
        pairs = self._run(
            boxes[first],
            np.concatenate([[0], np.cumsum(counts)]),
            np.asarray(sources, np.int64)[order],
            epsilon,
        )
        low, high = np.empty(len(order)), np.empty(len(order))
        low[order], high[order] = pairs
        return low, high

    def tried_bounds(
        self, boxes: Boxes, tries: NDArray[np.integer], epsilon: float
    ) -> Bounds:
        """Return bounds of `tries[b]` on box b, in order, until one serves."""
        there = tries >= 0
        pairs = self._run(
            boxes,
            np.concatenate([[0], np.cumsum(there.sum(1))]),
            np.asarray(tries[there], np.int64),
            epsilon,
            one_suffices=True,
        )
        low, high = np.full(tries.shape, -np.inf), np.full(tries.shape, np.inf)
        low[there], high[there] = pairs
        return low, high

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return widths, relative where a parameter keeps its sign."""
        return relative_widths(boxes, extent)

    def _run(
        self,
        boxes: Boxes,
        offsets: NDArray[np.integer],
        which: NDArray[np.integer],
        epsilon: float,
        *,
        one_suffices: bool = False,
    ) -> Bounds:
        """Bound the losses of `which[offsets[b] : offsets[b + 1]]` on each box b."""
        low, high = np.full(len(which), -np.inf), np.full(len(which), np.inf)
        if not len(which):
            return low, high
        self._family.check(boxes)
        work = BoxProgram(self._family.trace, boxes, self.order)
        options = (
            KINDS[self.question.rule.box_bounds],
            self.question.judge == "worst",
            self._family.system.is_continuous,
            self._sigma,
        )

        def kernel(some: slice, where: Where) -> None:
            pairs = slice(offsets[some.start], offsets[some.stop])
            bound_boxes(
                self._gains,
                self._home,
                offsets[some.start : some.stop + 1] - pairs.start,
                np.ascontiguousarray(which[pairs], dtype=np.int64),
                work.program,
                *where,
                options,
                epsilon,
                one_suffices,
                low[pairs],
                high[pairs],
            )

        work.run(kernel)
        return low, high
