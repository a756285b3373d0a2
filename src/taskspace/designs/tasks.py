r"""Linear tasks at fixed contexts, and the largest cost that serves each of them.

A gain serves a context by `regret`, `ratio` or `floor` iff its cost there is at most a
limit: $C^* + \epsilon$, $(1 + \epsilon) C^*$, or $\epsilon$. The limits here are
rounded up, so whatever is proven to cost more does not serve.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.rigor.costs import STABLE, box_costs
from taskspace.certificates.boxes.rigor.taylor import monomials, most
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing.traced import (
    UntraceableError,
    check_trace,
    trace_matrices,
)

UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Tasks:
    """Linear plants at some contexts, each entry with how far it may be off.

    Args:
        A: shape `(context, n_states, n_states)`.
        B: shape `(context, n_states, n_inputs)`.
        Q: like A, symmetric.
        R: shape `(context, n_inputs, n_inputs)`, symmetric.
        rests: for A, B, Q and R how far the true entry may be from the one here.
        sigma: second moment of the initial state.
        continuous: kind of time.
        optimal: gains that are nearly optimal, `(context, n_inputs, n_states)`.
        limit: a gain that costs more does not serve; inf where that is not known.
        assumption: what must hold for these to be the family's matrices.
    """

    A: Array
    B: Array
    Q: Array
    R: Array
    rests: tuple[Array, ...]
    sigma: Array
    continuous: bool
    optimal: Array
    limit: Array
    assumption: str = ""

    def __len__(self) -> int:
        return len(self.A)

    def __getitem__(self, rows: NDArray) -> "Tasks":
        names = ("A", "B", "Q", "R", "optimal", "limit")
        parts = {name: getattr(self, name)[rows] for name in names}
        return replace(self, rests=tuple(rest[rows] for rest in self.rests), **parts)

    @property
    def plants(self) -> tuple[Array, ...]:
        """A, B, Q and R, and their rests, as compiled kernels take them."""
        arrays = (self.A, self.B, self.Q, self.R, *self.rests)
        return tuple(np.ascontiguousarray(array) for array in arrays)


def linear_system(system: System) -> LinearSystem:
    """Return the system if its gains can be designed, else say what it takes.

    Args:
        system: the tasks.
    """
    if not isinstance(system, LinearSystem) or np.isfinite(system.horizon):
        raise InvalidInputError(
            "Gains are designed for linear families with the infinite horizon, whose "
            f"cost has a gradient in closed form, but got {system.id}"
            + (
                f" with horizon={system.horizon:g}."
                if isinstance(system, LinearSystem)
                else "."
            )
        )
    return system


def check_question(question: Question) -> None:
    """Refuse questions that ask for more than the mean cost of a gain at a context.

    Args:
        question: what is asked.
    """
    question.check_single("A design lessens one loss, so it")
    if question.rule.compares_with_home or not question.rule.has_box_bounds:
        why = "a design knows the slope of no other loss"
        if question.rule.compares_with_home:
            why = "it compares with the score at the source, a designed gain has none"
        raise InvalidInputError(
            "A gain is designed for regret, ratio or cost, but got "
            f"{question.criterion!r}: {why}."
        )
    if question.measure != "performance":
        raise InvalidInputError(
            "A gain is designed for its cost, whose slope and bounds over boxes of "
            f"gains are known, but the question is about {question.measure}. Leave "
            "the measure out, and check it of the designed gains: ts.certify."
        )


def can_design(system: System, question: Question) -> bool:
    """Return whether gains can be designed for a question about a system.

    Args:
        system: the tasks.
        question: what is asked.
    """
    try:
        linear_system(system)
        check_question(question)
    except InvalidInputError:
        return False
    return True


def make_tasks(system: LinearSystem, contexts: Array, question: Question) -> Tasks:
    """Return the plants at some contexts and the limits of their costs.

    Args:
        system: a linear family with the infinite horizon.
        contexts: full context rows.
        question: what it means to serve.
    """
    check_question(question)
    contexts = np.ascontiguousarray(contexts, np.float64)
    try:
        trace = trace_matrices(system)
        check_trace(trace, system, contexts)
        matrices, rests = (stacks[:4] for stacks in trace.at(contexts))
        assumption = trace.assumption
    except UntraceableError:
        matrices = list(system.matrices(contexts))
        rests = [np.zeros_like(matrix) for matrix in matrices]
        assumption = (
            "for the matrices at these contexts as the family's code gives them"
        )
    for i in (2, 3):  # only the symmetric part of a weight counts
        rests[i] = (
            rests[i] / 2 + rests[i].swapaxes(1, 2) / 2 + UNIT * np.abs(matrices[i])
        )
        matrices[i] = matrices[i] / 2 + matrices[i].swapaxes(1, 2) / 2
    optimal, _ = system.optimal_gain(contexts)
    tasks = Tasks(
        *(np.ascontiguousarray(matrix) for matrix in matrices),
        rests=tuple(np.ascontiguousarray(rest) for rest in rests),
        sigma=np.ascontiguousarray(system.initial_covariance, np.float64),
        continuous=system.is_continuous,
        optimal=np.ascontiguousarray(optimal),
        limit=np.full(len(contexts), np.inf),
        assumption=assumption,
    )
    if question.rule.is_absolute:
        tasks.limit[:] = question.epsilon
        return tasks
    best = np.full(len(contexts), np.inf)
    table = monomials(0, 1)
    _point_costs(
        tasks.plants, tasks.sigma, tasks.continuous, tasks.optimal,
        (table.product, table.even, int(table.counts[1])), best,
    )  # fmt: skip
    if question.rule.is_difference:
        best += question.epsilon
    else:
        best *= 1.0 + question.epsilon
        best += 4 * UNIT * np.abs(best)
    tasks.limit[:] = best + 4 * UNIT * np.abs(best)
    return tasks


@njit(cache=True, error_model="numpy")
def _point_costs(plants, sigma, continuous, gains, tables, best):
    """Fill a bound above the cost of one gain per context; inf where not stable."""
    A, B, Q, R, ra, rb, rq, rr = plants
    n, m = B.shape[1:]
    low, high = np.zeros(1), np.zeros(1)
    gain = np.empty((1, m, n))
    of_gain = n < 0
    for t in range(len(A)):
        plant = (
            A[t : t + 1], ra[t], B[t : t + 1], rb[t],
            Q[t : t + 1], rq[t], R[t : t + 1], rr[t],
        )  # fmt: skip
        gain[0] = gains[t]
        status = box_costs(
            plant, gain, of_gain, sigma, tables, continuous, 1, low, high
        )
        if status == STABLE:
            best[t] = most(high, tables[1][:1])
