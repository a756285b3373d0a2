"""Families whose matrices are programs on the context, ready to be bounded on boxes.

How the matrices depend on the context is found from the family's own functions
(`systems.linear.tracing`). What was found is compared with the family's own numbers at
the sources, at every context whose bounds are asked for, at corners of boxes, and at
contexts drawn from them, other ones for each family, stack of policies and question.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.certificates.boxes.enclosures.boxes import (
    Boxes,
    NoEnclosureError,
    check_exact,
)
from taskspace.certificates.boxes.rigor.taylor import monomials
from taskspace.errors import InvalidInputError
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
