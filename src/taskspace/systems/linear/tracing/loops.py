"""Closed loops of a controller as programs on the context."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.policies import LinearController
from taskspace.systems.linear.tracing.symbols import Symbol, Tape
from taskspace.systems.linear.tracing.traced import Trace, finish_trace

__all__ = ["LoopTape", "loop_trace", "times"]


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

    def numbers(self, matrix: NDArray[np.float64]) -> NDArray[Any]:
        """Return a matrix of numbers as symbols.

        Args:
            matrix: the numbers.
        """
        return self._fill(
            matrix, lambda x: Symbol(self._tape, self._tape.constant(float(x)))
        )

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
        return replace(
            finished,
            enclosures=self._trace.enclosures,
            assumption=self._trace.assumption,
        )

    @staticmethod
    def _fill(matrix: NDArray[Any], make: Any) -> NDArray[Any]:
        out = np.empty(matrix.shape, object)
        for index, entry in np.ndenumerate(matrix):
            out[index] = make(entry)
        return out


def loop_trace(trace: Trace, controller: LinearController) -> Trace:
    """Return the closed loop of a controller, with a weight for its quadratic cost.

    Its A is [[A − B D_c C, −B C_c], [B_c C, A_c]], its Q is diag(Q, 0) + KᵀRK with
    K = [D_c C, C_c], its C is [C, 0]. Nothing drives it: B is zero, and R one.

    Args:
        trace: of the plant.
        controller: a single one.
    """
    tape = LoopTape(trace)
    A, B, Q, R, C = (tape.plant(name) for name in "ABQRC")
    a, b, c, d = (tape.numbers(getattr(controller, name)) for name in "ABCD")
    n_plant, n = len(A), len(A) + controller.n_states
    direct = times(d, C)
    loop, weight = tape.numbers(np.zeros((n, n))), tape.numbers(np.zeros((n, n)))
    loop[:n_plant, :n_plant] = A - times(B, direct)
    loop[:n_plant, n_plant:] = times(B, tape.numbers(-controller.C))
    loop[n_plant:, :n_plant] = times(b, C)
    loop[n_plant:, n_plant:] = a
    gain = np.concatenate([direct, c], 1)
    weight[:n_plant, :n_plant] = Q
    weight = weight + times(gain.T, times(R, gain))
    outputs = tape.numbers(np.zeros((len(C), n)))
    outputs[:, :n_plant] = C
    return tape.finish(
        A=loop,
        B=tape.numbers(np.zeros((n, 1))),
        Q=weight,
        R=tape.numbers(np.ones((1, 1))),
        C=outputs,
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
