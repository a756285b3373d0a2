"""Programs of closed loops, made from that of a plant."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.policies import LinearController, LinearGain
from taskspace.systems.linear.measures import stated_channel
from taskspace.systems.linear.norms import NormMeasure
from taskspace.systems.linear.tracing.symbols import AXIS, CONSTANT, Symbol, Tape
from taskspace.systems.linear.tracing.traced import (
    Trace,
    finish_trace,
)

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem


class LoopTape:
    """The matrices of a plant as arrays of symbols, to compute with.

    Every operation is written behind the plant's own on a copy of its tape, so rounding
    of products of the plant's entries and the controller's is bounded too.

    Args:
        trace: of the plant.
    """

    def __init__(self, trace: Trace):
        self._trace, self._tape = trace, Tape()
        for node in zip(trace.op, trace.left, trace.right, trace.value, strict=True):
            plain = int(node[0]), int(node[1]), int(node[2]), float(node[3])
            self._tape.places.setdefault(plain, len(self._tape.nodes))
            self._tape.nodes.append(plain)

    def plant(self, name: str) -> NDArray[Any]:
        """Return a matrix of the plant.

        Args:
            name: `"A"`, `"B"`, `"Q"`, `"R"` or `"C"`.
        """
        places = getattr(self._trace, name)
        return self._fill(places, lambda place: Symbol(self._tape, int(place)))

    def numbers(self, matrix: Array) -> NDArray[Any]:
        """Return a matrix of numbers as symbols.

        Args:
            matrix: the numbers.
        """
        return self._fill(
            matrix, lambda x: Symbol(self._tape, self._tape.constant(float(x)))
        )

    def axis(self, column: int) -> Symbol:
        """Return a column of the context.

        Args:
            column: its number.
        """
        return Symbol(self._tape, self._tape.add(AXIS, column))

    def rounded_zero(self, size: float) -> Symbol:
        """Return 0 with an error of at least 2⁻⁵² times a size.

        Args:
            size: of the numbers whose rounding it stands for.
        """
        exact = Symbol(self._tape, self._tape.constant(size))
        return Symbol(self._tape, self._tape.add(CONSTANT, 0, 1, size)) - exact

    def finish(self, **matrices: NDArray[Any]) -> Trace:
        """Return the trace of other matrices made from these.

        Args:
            matrices: A, B, Q, R and C, of symbols.
        """
        places = {
            name: np.array(
                [[entry.index for entry in row] for row in matrix], np.int64
            ).reshape(matrix.shape)
            for name, matrix in matrices.items()
        }
        finished = finish_trace(self._tape, places)
        return replace(finished, assumption=self._trace.assumption)

    @staticmethod
    def _fill(matrix: NDArray[Any], make: Any) -> NDArray[Any]:
        out = np.empty(matrix.shape, object)
        for index, entry in np.ndenumerate(matrix):
            out[index] = make(entry)
        return out


class ScheduledPolicy(Protocol):
    """A policy whose matrices are formulas of the context."""

    def on(self, tape: LoopTape) -> tuple[NDArray[Any], ...]:
        """Return A, B, C and D of a controller as symbols; D alone for a gain.

        Args:
            tape: where the formulas are written.
        """
        ...


AnyPolicy = LinearController | LinearGain | ScheduledPolicy


@dataclass(frozen=True)
class Loop:
    """The closed loop of one policy, as arrays of symbols on one tape.

    Args:
        tape: where they are.
        F: the loop, ż = F z.
        E: from what is added to the plant's inputs.
        K: to minus the feedback, u = −K z.
        U: to the feedback, −K.
        Y: to the measured outputs.
        Q: weight of the states.
        R: weight of the inputs.
    """

    tape: LoopTape
    F: NDArray[Any]
    E: NDArray[Any]
    K: NDArray[Any]
    U: NDArray[Any]
    Y: NDArray[Any]
    Q: NDArray[Any]
    R: NDArray[Any]


def closed_loop(trace: Trace, policy: AnyPolicy) -> Loop:
    """Return the closed loop of a controller, or of a gain of the whole state.

    F is [[A − B D_c C, −B C_c], [B_c C, A_c]], K = [D_c C, C_c].

    Args:
        trace: of the plant.
        policy: a single one.
    """
    tape = LoopTape(trace)
    A, B, Q, R, C = (tape.plant(name) for name in "ABQRC")
    n_plant = len(A)
    if isinstance(policy, LinearGain):
        matrices = (tape.numbers(policy.gain),)
    elif isinstance(policy, LinearController):
        matrices = tuple(tape.numbers(getattr(policy, name)) for name in "ABCD")
    else:
        matrices = policy.on(tape)
    if len(matrices) == 1:
        direct, n_states = matrices[0], 0
        a, b, c = (tape.numbers(np.zeros(s)) for s in ((0, 0), (0, 1), (len(R), 0)))
        seen = tape.numbers(np.eye(n_plant))
    else:
        a, b, c, d = matrices
        n_states, seen = len(a), C
        direct = times(d, C)
    n = n_plant + n_states
    loop, weight = tape.numbers(np.zeros((n, n))), tape.numbers(np.zeros((n, n)))
    loop[:n_plant, :n_plant] = A - times(B, direct)
    if n_states:
        fixed = isinstance(policy, LinearController)
        minus = tape.numbers(-policy.C) if fixed else -c
        loop[:n_plant, n_plant:] = times(B, minus)
        loop[n_plant:, :n_plant] = times(b, seen)
        loop[n_plant:, n_plant:] = a
    weight[:n_plant, :n_plant] = Q
    entry = tape.numbers(np.zeros((n, B.shape[1])))
    entry[:n_plant] = B
    outputs = tape.numbers(np.zeros((len(C), n)))
    outputs[:, :n_plant] = C
    gain = np.concatenate([direct, c], 1)
    return Loop(tape, loop, entry, gain, -gain, outputs, weight, R)


def loop_trace(trace: Trace, policy: AnyPolicy) -> Trace:
    """Return a closed loop with the weight diag(Q, 0) + KᵀRK of its quadratic cost.

    Nothing drives it: B is zero, and R one.

    Args:
        trace: of the plant.
        policy: a single one.
    """
    loop = closed_loop(trace, policy)
    weight = loop.Q + times(loop.K.T, times(loop.R, loop.K))
    return _undriven(loop, loop.F, weight)


def shifted_trace(
    trace: Trace,
    policy: AnyPolicy,
    rate: float,
    weight: Array,
    *,
    continuous: bool,
) -> Trace:
    """Return a loop that is stable iff the policy's decays faster than a rate.

    It is F + rate · I, or F times a number that is `rate` in discrete time.

    Args:
        trace: of the plant.
        policy: a single one.
        rate: the rate; in discrete time the factor, e to the rate.
        weight: a definite weight of its states.
        continuous: continuous or discrete time.
    """
    loop = closed_loop(trace, policy)
    n = len(loop.F)
    numbers = loop.tape.numbers
    if continuous:
        moved = loop.F + numbers(rate * np.eye(n))
    else:
        moved = loop.F * numbers(np.full((n, n), rate))
    return _undriven(loop, moved, numbers(weight))


def bounded_real_trace(
    trace: Trace,
    policy: AnyPolicy,
    measure: NormMeasure,
    gamma: float,
    system: "LinearSystem",
) -> Trace:
    r"""Return A, B, Q and R of the inequality that says ‖G‖∞ < γ.

    $A^\top P + P A + Q - P B R^{-1} B^\top P \prec 0$ with R = −γ² and Q = CᵀC for
    G = C (sI − F)⁻¹ B. A direct part d I of G is taken in: with h = γ² − d²,
    A = F + B C d / h, Q = CᵀC γ² / h, R = −h.

    Args:
        trace: of the plant.
        policy: a single one.
        measure: whose channel G is.
        gamma: γ > d.
        system: the family, whose stated channel counts if the measure is about it.
    """
    loop = closed_loop(trace, policy)
    numbers = loop.tape.numbers
    W, Z = (numbers(part) for part in stated_channel(system, len(loop.F)))
    parts = {"E": loop.E, "U": loop.U, "Y": loop.Y, "W": W, "Z": Z}
    B, C = (parts[name] for name in measure.channel)
    level = numbers(np.array([[gamma]]))[0, 0]
    square, A, weight = level * level, loop.F, times(C.T, C)
    if measure.direct:
        rest = square - measure.direct**2
        A = loop.F + times(B, C) * (measure.direct / rest)
        weight = weight * (square / rest)
        square = rest
    m = B.shape[1]
    R = numbers(np.zeros((m, m)))
    for i in range(m):
        R[i, i] = -square
    return loop.tape.finish(A=A, B=B, Q=weight, R=R, C=loop.Y)


def _undriven(loop: Loop, F: NDArray[Any], weight: NDArray[Any]) -> Trace:
    numbers, n = loop.tape.numbers, len(F)
    return loop.tape.finish(
        A=F,
        B=numbers(np.zeros((n, 1))),
        Q=weight,
        R=numbers(np.ones((1, 1))),
        C=loop.Y,
    )


def times(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return the product of two matrices of symbols.

    Args:
        left: the first.
        right: the second.
    """
    out = np.empty((left.shape[0], right.shape[1]), object)
    for i, j in np.ndindex(out.shape):
        total = left[i, 0] * right[0, j]
        for k in range(1, left.shape[1]):
            total = total + left[i, k] * right[k, j]
        out[i, j] = total
    return out
