"""How the matrices of a family change with one axis: the derivative of a trace."""

import numpy as np

from taskspace.systems.linear.tracing.loops import LoopTape
from taskspace.systems.linear.tracing.symbols import (
    ADD,
    AXIS,
    CONSTANT,
    COSINE,
    DIVIDE,
    ENCLOSED,
    EXPONENTIAL,
    LOGARITHM,
    MULTIPLY,
    NEGATE,
    SINE,
    SQUARE_ROOT,
    SUBTRACT,
)
from taskspace.systems.linear.tracing.traced import Trace, UntraceableError

# The derivative of z = f(x, y), from these and the derivatives of x and y.
SLOPES = {
    ADD: lambda x, y, z, dx, dy: dx + dy,
    SUBTRACT: lambda x, y, z, dx, dy: dx - dy,
    MULTIPLY: lambda x, y, z, dx, dy: dx * y + x * dy,
    DIVIDE: lambda x, y, z, dx, dy: (dx - z * dy) / y,
    NEGATE: lambda x, y, z, dx, dy: -dx,
    SQUARE_ROOT: lambda x, y, z, dx, dy: dx / (z + z),
    EXPONENTIAL: lambda x, y, z, dx, dy: dx * z,
    LOGARITHM: lambda x, y, z, dx, dy: dx / x,
    SINE: lambda x, y, z, dx, dy: dx * x.cos(),
    COSINE: lambda x, y, z, dx, dy: -(dx * x.sin()),
}
BINARY = (ADD, SUBTRACT, MULTIPLY, DIVIDE)


def differentiate(trace: Trace, axis: int) -> Trace:
    """Return the derivatives of the matrices with respect to one axis, as a trace.

    The first steps of its tape are those of the trace, at the same places.

    Args:
        trace: matrices as a program.
        axis: number of the axis.
    """
    tape = LoopTape(trace)
    x = tape.plant_steps()
    zero, one = tape.numbers(np.array([0.0, 1.0]))
    slopes = np.empty(len(x), object)
    columns = (trace.op.tolist(), trace.left.tolist(), trace.right.tolist())
    for step, (op, i, j) in enumerate(zip(*columns, strict=True)):
        if op == ENCLOSED:
            raise UntraceableError(
                f"The parameter {trace.enclosures[i].name} is given by bounds, which "
                "say nothing about how fast it changes with the context. State a "
                "formula."
            )
        if op in (CONSTANT, AXIS):
            slopes[step] = one if op == AXIS and i == axis else zero
            continue
        k = j if op in BINARY else i
        if slopes[i] is zero and slopes[k] is zero:
            slopes[step] = zero
        else:
            slopes[step] = SLOPES[op](x[i], x[k], x[step], slopes[i], slopes[k])
    return tape.finish(**{name: slopes[getattr(trace, name)] for name in "ABQRC"})
