"""The enclosure of linear families: proofs over boxes for any of them."""

from copy import copy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._threads import over_rows
from taskspace.certificates.enclosures import Boxes, Enclosure
from taskspace.certificates.rigor.losses import (
    COST,
    RATIO,
    REGRET,
    bound_boxes,
    home_costs,
)
from taskspace.certificates.rigor.monomials import monomials
from taskspace.criteria import check_criterion
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.systems.linear import LinearSystem
from taskspace.systems.traced import check_trace, trace_matrices

__all__ = ["LinearEnclosure"]

KINDS = {"regret": REGRET, "ratio": RATIO, "floor": COST, "signed": COST}
# Contexts at which a trace is compared with the family, in each call.
N_CHECKS = 8


class LinearEnclosure(Enclosure):
    def __init__(
        self,
        system: LinearSystem,
        policies: Policy,
        sources: NDArray[np.float64],
        *,
        criterion: str,
        family: str,
        order: int = 2,
    ):
        check_criterion(criterion, family)
        self.kind = "proof"
        self.basis = (
            "Lyapunov and Riccati inequalities checked with outward rounding on whole "
            "boxes"
        )
        self.criterion, self.family = criterion, family
        self._system, self.order = system, order
        self._trace = trace_matrices(system)
        self._gains = np.ascontiguousarray(policies.gain[:, :, None])
        sigma = np.ascontiguousarray(system.initial_covariance, dtype=np.float64)
        self._options = (KINDS[criterion], family == "all", system.is_continuous, sigma)
        self._home = np.zeros((*self._gains.shape[:2], 2))
        self._rng = np.random.default_rng(0)
        if criterion == "signed":
            boxes = Boxes(sources, sources)
            program, arrays, tables, _ = self._program(boxes, 1)

            def kernel(first: int, stop: int) -> None:
                part = slice(first, stop)
                home_costs(
                    self._gains[part],
                    program,
                    tuple(x[part] for x in arrays),
                    tables,
                    self._options,
                    self._home[part],
                )

            over_rows(kernel, len(sources))

    @property
    def n_sources(self) -> int:
        return len(self._gains)

    @property
    def n_policies(self) -> int:
        return self._gains.shape[1]

    def subset(self, sources: ArrayLike) -> Self:
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        part._gains, part._home = self._gains[rows], self._home[rows]
        return part

    def _program(self, boxes: Boxes, order: int):
        trace = self._trace
        radius = boxes.radius
        live = np.flatnonzero((radius > 0).any(0))
        table = monomials(len(live), order + 1)
        place = np.zeros(radius.shape[1], np.int64)
        place[live] = table.first
        tape = (trace.op, trace.left, trace.right, trace.value)
        places = (trace.A, trace.B, trace.Q, trace.R)
        enclosed = np.zeros((len(boxes), len(trace.enclosures), 2))
        for i, parameter in enumerate(trace.enclosures):
            enclosed[:, i] = parameter.bounds(boxes.low, boxes.high)
        tables = (table.product, table.even, int(table.counts[1]))
        arrays = (boxes.centre, radius, enclosed)
        return (tape, places, place), arrays, tables, int(table.counts[order])

    def bounds(self, boxes, sources=None, *, epsilon=np.nan):
        rows = np.arange(self.n_sources) if sources is None else np.asarray(sources)
        gains, home = self._gains[rows], self._home[rows]
        low = np.empty((len(gains), len(boxes)))
        high = np.empty_like(low)
        if not len(boxes):
            return low, high
        some = self._rng.integers(len(boxes), size=min(N_CHECKS, len(boxes)))
        share = self._rng.uniform(size=(len(some), boxes.low.shape[1]))
        inside = boxes.low[some] + share * (boxes.high[some] - boxes.low[some])
        check_trace(self._trace, self._system, inside)
        program, arrays, tables, n_p = self._program(boxes, self.order)

        def kernel(first: int, stop: int) -> None:
            part = slice(first, stop)
            bound_boxes(
                gains,
                home,
                program,
                tuple(x[part] for x in arrays),
                tables,
                self.order,
                n_p,
                self._options,
                epsilon,
                low[:, part],
                high[:, part],
            )

        over_rows(kernel, len(boxes))
        return low, high
