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
        self._sigma = sigma
        self._home = np.zeros((*self._gains.shape[:2], 2))
        self._rng = np.random.default_rng(0)
        if criterion == "signed":
            n = self.n_policies
            every = Boxes(np.repeat(sources, n, 0), np.repeat(sources, n, 0))
            single = self._gains.reshape(-1, 1, *self._gains.shape[2:])
            none = np.zeros((len(single), 1, 2))
            low, high = self._run(every, single, none, np.nan, own=True)
            ends = np.stack([np.diagonal(low), np.diagonal(high)], -1)
            self._home = ends.reshape(self._home.shape)

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
        if not len(boxes):
            return np.empty((len(gains), 0)), np.empty((len(gains), 0))
        some = self._rng.integers(len(boxes), size=min(N_CHECKS, len(boxes)))
        share = self._rng.uniform(size=(len(some), boxes.low.shape[1]))
        inside = boxes.low[some] + share * (boxes.high[some] - boxes.low[some])
        check_trace(self._trace, self._system, inside)
        return self._run(boxes, gains, home, epsilon)

    def _run(self, boxes, gains, home, epsilon, *, own=False):
        program, arrays, tables, n_p = self._program(boxes, self.order)
        kind = COST if own else KINDS[self.criterion]
        low = np.full((len(gains), len(boxes)), -np.inf)
        high = np.full(low.shape, np.inf)

        def kernel(first: int, stop: int) -> None:
            part = slice(first, stop)
            rows = part if own else slice(None)
            options = (
                kind,
                self.family == "all",
                own,
                self._system.is_continuous,
                self._sigma,
            )
            bound_boxes(
                gains[rows],
                home[rows],
                program,
                tuple(x[part] for x in arrays),
                tables,
                self.order,
                n_p,
                options,
                epsilon,
                low[rows, part],
                high[rows, part],
            )

        over_rows(kernel, len(boxes))
        return low, high
