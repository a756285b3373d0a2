"""Families whose matrices are programs on the context, ready to be bounded on boxes.

How the matrices depend on the context is found from the family's own functions
(`systems.linear.tracing`). What was found is compared with the family's own numbers at
the sources, at every context whose bounds are asked for, at corners of boxes, and at
contexts drawn from them, other ones for each family, stack of policies and question.
"""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from itertools import product
from typing import Any, ClassVar

import numpy as np
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
from taskspace.certificates.boxes.rigor.losses import (
    COST,
    RATIO,
    REGRET,
    bound_boxes,
)
from taskspace.certificates.boxes.rigor.taylor import monomials
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing.traced import Trace, check_trace, trace_matrices

# Boxes of each call in which a trace is compared with the family: one of so many, but
# not fewer than so many.
CHECK_EVERY, LEAST_CHECKS = 32, 32
# Numbers beyond this could overflow in products of a few matrices.
MAGNITUDE = 1e60
Where = tuple[Any, Any, int, int]
"""Of some boxes: their centres and radii; tables of monomials; the order; and the
number of monomials of a candidate."""


class TracedFamily:
    """A linear family, its trace, and where the two were compared.

    Args:
        system: a linear family with an infinite horizon.
        sources: full context rows of the sources.
        question: criterion and judge.
        about: texts and arrays on which the contexts of comparison depend too.
    """

    def __init__(
        self,
        system: LinearSystem,
        sources: Array,
        question: Question,
        about: Sequence[Any],
    ):
        check_exact(system)
        if np.isfinite(system.horizon):
            raise NoEnclosureError(
                "Bounds over boxes of a linear family need the infinite horizon, whose "
                "cost solves a Lyapunov equation, but got "
                f"horizon={system.horizon:g}. Use horizon=inf, or a Lipschitz constant."
            )
        self.system = system
        self.trace = trace = trace_matrices(system)
        self.basis = (
            "Lyapunov and Riccati inequalities on whole boxes, with rigorous rounding, "
            f"for the matrices of {getattr(system, 'name', system.id)}"
        )
        self.assumption = trace.assumption
        if self.assumption:
            self.basis += f", {self.assumption}"
        if question.rule.averages_starts:
            self.basis += f"; {system.objective.caution}"
        digest = hashlib.sha256(f"{question.criterion} {question.judge}".encode())
        for part in (
            *(trace.op, trace.left, trace.right, trace.value),
            *(trace.A, trace.B, trace.Q, trace.R, trace.C, sources),
            *about,
        ):
            is_text = isinstance(part, str)
            digest.update(
                part.encode() if is_text else np.ascontiguousarray(part).tobytes()
            )
        self._random = np.random.default_rng(int.from_bytes(digest.digest(), "big"))
        self._compared: set[bytes] = set()
        self._compare(sources)

    def check(self, boxes: Boxes) -> None:
        """Compare the trace with the family at contexts of these boxes.

        Args:
            boxes: whose bounds are asked for.
        """
        ends = np.concatenate([boxes.low, boxes.high])
        if not (np.abs(ends) <= MAGNITUDE).all():
            raise InvalidInputError(
                f"Contexts must be finite and within ±{MAGNITUDE:g} for a certificate."
            )
        single = (boxes.low == boxes.high).all(1)
        wide = np.flatnonzero(~single)
        n_checks = min(max(len(wide) // CHECK_EVERY, LEAST_CHECKS), len(wide))
        some = self._random.choice(wide, n_checks, replace=False)
        low, high = boxes.low[some], boxes.high[some]
        share = self._random.uniform(size=low.shape)
        inside = np.clip(low + share * (high - low), low, high)
        ends = zip(boxes.low.min(0), boxes.high.max(0), strict=True)
        corners = np.array(list(product(*map(np.unique, ends))))
        self._compare(np.concatenate([boxes.low[single], inside, low, high, corners]))

    def _compare(self, contexts: Array) -> None:
        """Compare the trace with the family where it has not been compared yet."""
        rows = np.ascontiguousarray(np.unique(contexts, axis=0))
        new = [row for row in rows if row.tobytes() not in self._compared]
        if new:
            check_trace(self.trace, self.system, np.array(new))
            self._compared.update(row.tobytes() for row in new)


class BoxProgram:
    """A trace and boxes, as the compiled kernels take them.

    Only axes that vary in some box are variables of the polynomials.

    Args:
        trace: matrices as a program.
        boxes: where.
        order: degree of the candidates.
    """

    def __init__(self, trace: Trace, boxes: Boxes, order: int):
        live = np.flatnonzero((boxes.radius > 0).any(0))
        table = monomials(len(live), order + 1)
        self._place = np.zeros(boxes.low.shape[1], np.int64)
        self._place[live] = table.first
        self._boxes = (boxes.centre, boxes.radius)
        tables = (table.product, table.even, int(table.counts[1]))
        self._tables = tables
        self._order, self._n_candidate = order, int(table.counts[order])
        self.program = self.of(trace)

    def of(self, trace: Trace) -> tuple[Any, ...]:
        """Return the tape, places of A, B, Q and R, and the monomial of each axis.

        Args:
            trace: matrices as a program.
        """
        tape = (trace.op, trace.left, trace.right, trace.value)
        return tape, (trace.A, trace.B, trace.Q, trace.R), self._place

    def run(self, kernel: Callable[[slice, Where], None]) -> None:
        """Call `kernel(some, where)` on stretches of the boxes, in threads.

        Args:
            kernel: handles the boxes `some`; `where` is what compiled code takes of
                them.
        """

        def stretch(first: int, stop: int) -> None:
            some = slice(first, stop)
            boxes = tuple(x[some] for x in self._boxes)
            kernel(some, (boxes, self._tables, self._order, self._n_candidate))

        over_rows(stretch, len(self._boxes[0]))


def relative_widths(boxes: Boxes, extent: Array) -> Array:
    """Return relative widths where a parameter keeps its sign, else shares of all.

    Args:
        boxes: boxes to be cut.
        extent: width of the whole box on each axis.
    """
    size = np.abs(boxes.low) + np.abs(boxes.high)
    relative = 2 * (boxes.high - boxes.low) / np.where(size > 0, size, 1.0)
    share = (boxes.high - boxes.low) / np.where(extent > 0, extent, 1.0)
    return np.where(boxes.low * boxes.high > 0, relative, share)


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
            raise NoEnclosureError(
                f"policies must be LinearGain, but got {type(policies).__name__}."
            )
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
