"""How the matrices of a linear family depend on the context, found from its own code.

The functions of a family are called once with symbols in place of numbers. Every
operation on a symbol is written down, so what comes back is a program of +, −, ·, /
and a few functions, a `Trace`, that can be evaluated on whole boxes of contexts with
proven error bounds (`taskspace.certificates.boxes.rigor`).

Inside the followed functions NumPy makes arrays that can hold symbols, so
`A = np.zeros((4, 4)); A[2, 1] = k / m` works as it stands, and so do helper functions,
`math.sqrt` and `control.ss`. What has no formula (a table look-up, `np.linalg`, a
branch on the context) is refused with a sentence, also where the code swallows the
exception. A trace is compared with the numbers that the family itself gives, entry by
entry, up to the rounding of its own operations. What neither can see is a function that
depends on more than the context: the `assumption` of the trace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.systems.linear.base import LinearSystem
from taskspace.systems.linear.family import LinearFamily
from taskspace.systems.linear.tracing import symbols as ops
from taskspace.systems.linear.tracing.following import follow
from taskspace.systems.linear.tracing.symbols import (
    RefusedOperation,
    Symbol,
    SymbolArray,
    Tape,
)

# Errors of the library's functions and of the plant's own powers, in units of 2^-53.
LIBRARY = 90
ASSUMPTION = (
    "assuming that its functions depend on the context alone and do not tell a "
    "symbol from a number"
)


class UntraceableError(InvalidInputError):
    """The dependence of a family on its context cannot be found from its code."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The matrices of a family as a program on the context.

    Args:
        op: what each step does; see the constants of `symbols`.
        left: place of its first operand; of `AXIS` the axis.
        right: place of its second operand; of `CONSTANT` 1 if no float equals it.
        value: of `CONSTANT`.
        A: place of each entry, `(n_states, n_states)`; B, Q and R likewise.
        B: see A.
        Q: see A.
        R: see A.
        C: see A, `(n_outputs, n_states)`.
        assumption: what must hold for the program to be the family; empty if it is so.
    """

    op: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Array
    A: NDArray[np.int64]
    B: NDArray[np.int64]
    Q: NDArray[np.int64]
    R: NDArray[np.int64]
    C: NDArray[np.int64]
    assumption: str = ""

    def at(self, contexts: Array) -> tuple[list[Array], list[Array]]:
        """Return A, B, Q, R and C at contexts, and how far rounding moves each entry.

        The second bounds what the same operations give in floating point, in any
        order of sums and products. NaN where an operation is not defined.

        Args:
            contexts: full context rows.
        """
        rows = np.asarray(contexts, np.float64)
        shape = (len(self.op), len(rows))
        x, size = np.empty(shape), np.empty(shape)  # value; sum of absolute values
        count = np.zeros(len(self.op))  # of roundings, one after another
        steps = zip(self.op, self.left, self.right, strict=True)
        with np.errstate(all="ignore"):
            for step, (op, i, j) in enumerate(steps):
                if op == ops.CONSTANT:
                    x[step], count[step] = self.value[step], 2 * j
                elif op == ops.AXIS:
                    x[step] = rows[:, i]
                if op in (ops.CONSTANT, ops.AXIS):
                    size[step] = np.abs(x[step])
                elif op == ops.NEGATE:
                    x[step], size[step], count[step] = -x[i], size[i], count[i]
                elif op in (ops.ADD, ops.SUBTRACT):
                    x[step] = x[i] + x[j] if op == ops.ADD else x[i] - x[j]
                    size[step] = size[i] + size[j]
                    count[step] = max(count[i], count[j]) + 1
                elif op in (ops.MULTIPLY, ops.DIVIDE):
                    divide = op == ops.DIVIDE
                    x[step] = x[i] / x[j] if divide else x[i] * x[j]
                    size[step] = size[i] * (size[j] / x[j] ** 2 if divide else size[j])
                    count[step] = count[i] + count[j] + 1
                else:
                    function, slope = ops.FUNCTIONS[op]
                    x[step] = function(x[i])
                    moved = np.abs(slope(x[i], x[step], size[i]))
                    size[step] = np.abs(x[step]) + moved
                    count[step] = count[i] + LIBRARY
            x[:, ~np.isfinite(x).all(0)] = np.nan
            # As many again for the other order, and some for powers.
            reach = (2 * count[:, None] + 8) * 2.0**-53 * size + 1e-290
            reach[self.op == ops.AXIS] = 0.0
        places = (self.A, self.B, self.Q, self.R, self.C)
        return (
            [np.moveaxis(x[m], -1, 0) for m in places],
            [np.moveaxis(reach[m], -1, 0) for m in places],
        )


def trace_matrices(system: LinearSystem) -> Trace:
    """Return the dependence of a linear family's matrices on the context.

    Args:
        system: any `LinearSystem`: its functions, or its method `matrices`, are called
            once with symbols.

    Returns:
        The program; what cannot be followed raises `UntraceableError`.
    """
    tape = Tape()
    symbols = [Symbol(tape, tape.add(ops.AXIS, i)) for i in range(len(system.axes))]
    if isinstance(system, LinearFamily):
        context = dict(zip((a.name for a in system.axes), symbols, strict=True))
        made = {}
        for name in "ABQRC":
            matrix = getattr(system, name)
            if matrix is None:
                matrix = np.eye(len(made["A"]))
            if callable(matrix):
                matrix = call_with_symbols(
                    tape, f"{name}(context)", follow(matrix), **context
                )
            made[name] = matrix
    else:
        row = np.empty((1, len(symbols)), object)
        row[0] = symbols
        method = follow(type(system).matrices)
        stacks = call_with_symbols(
            tape, "matrices(contexts)", method, system, row.view(SymbolArray)
        )
        made = {name: x[0] for name, x in zip("ABQR", stacks, strict=True)}
        made["C"] = call_with_symbols(
            tape,
            "output_matrix(contexts)",
            follow(type(system).output_matrix),
            system,
            row.view(SymbolArray),
        )[0]
    n, m = system.matrices(system.defaults).B.shape[1:]
    shapes = {"A": (n, n), "B": (n, m), "Q": (n, n), "R": (m, m)}
    shapes["C"] = system.output_matrix(system.defaults).shape[1:]
    places = {
        name: call_with_symbols(tape, name, entries, tape, name, made[name], shape)
        for name, shape in shapes.items()
    }
    is_ours = type(system).__module__.startswith("taskspace.")
    plain = is_ours and not isinstance(system, LinearFamily)
    return finish_trace(tape, places, assumption="" if plain else ASSUMPTION)


def finish_trace(
    tape: Tape,
    places: dict[str, NDArray[np.int64]],
    assumption: str = "",
) -> Trace:
    """Return the trace of a tape whose matrices are known.

    Args:
        tape: the operations written down.
        places: for each matrix by name the places of its entries.
        assumption: what must hold for the tape to be the family.
    """
    columns = list(zip(*tape.nodes, strict=True))
    op, left, right = (np.array(c, np.int64) for c in columns[:3])
    value = np.array(columns[3], np.float64)
    return Trace(op, left, right, value, **places, assumption=assumption)


def call_with_symbols(
    tape: Tape, what: str, function: Callable[..., Any], *args: Any, **context: Any
) -> Any:
    """Return what a followed function gives for symbols, or a sentence why it cannot.

    A refusal counts also where the function swallowed it.

    Args:
        tape: of the symbols.
        what: name of the function, for the message.
        function: the copy from `follow`.
        args: its arguments.
        context: its arguments by name.
    """
    try:
        result = function(*args, **context)
    except UntraceableError:
        raise
    except RefusedOperation as refusal:
        raise UntraceableError(f"{what}: {tape.refusal or refusal}") from refusal
    except Exception as error:
        if tape.refusal is None:
            raise UntraceableError(
                f"{what} was called with symbols in place of numbers, to find how it "
                f"depends on the context, and raised {type(error).__name__}: {error}. "
                "Use arithmetic only, or ask about the contexts of a grid only."
            ) from error
        raise UntraceableError(f"{what}: {tape.refusal}") from error
    if tape.refusal is not None:
        raise UntraceableError(f"{what}: {tape.refusal}")
    return result


def entries(
    tape: Tape, name: str, matrix: Any, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return the places of a matrix's entries on the tape.

    Args:
        tape: where they are, or are put if they are numbers.
        name: of the matrix, for the message.
        matrix: nested lists or an array, of symbols and numbers.
        shape: what it must have.
    """
    array = np.array(matrix, dtype=object)
    if array.shape != shape:
        raise UntraceableError(
            f"{name} must have shape {shape}, but with symbols in place of numbers it "
            f"has {array.shape}."
        )
    places = np.empty(shape, np.int64)
    for index, entry in np.ndenumerate(array):
        is_symbol = type(entry) is Symbol
        places[index] = entry.index if is_symbol else tape.constant(entry)
    return places


def check_trace(trace: Trace, system: LinearSystem, contexts: Array) -> None:
    """Refuse a trace that does not give the family's own matrices.

    Entry by entry, up to the rounding of the operations that made the entry. Contexts
    at which an operation of the trace is not defined are left out: nothing can be
    proven of a box that holds one.

    Args:
        trace: what was followed.
        system: the family.
        contexts: rows at which to compare.
    """
    formulas, reaches = trace.at(contexts)
    defined = ~np.isnan(formulas[0]).any((1, 2))
    if not defined.any():
        return
    rows = np.ascontiguousarray(contexts[defined])
    own = (*system.matrices(rows), system.output_matrix(rows))
    for name, made, around, wanted in zip("ABQRC", formulas, reaches, own, strict=True):
        formula, reach = made[defined], around[defined]
        if name in "QR":
            formula = (formula + formula.swapaxes(1, 2)) / 2
            reach = reach + reach.swapaxes(1, 2)
        wrong = ~(np.abs(formula - wanted) <= reach)
        for row, i, j in np.argwhere(wrong)[:1].tolist():
            place = ", ".join(
                f"{axis.name} = {x:.6g}"
                for axis, x in zip(system.axes, rows[row], strict=True)
            )
            raise UntraceableError(
                "The formula followed through the family's code must give its "
                f"matrices, but at {place} {name}[{i}, {j}] is "
                f"{wanted[row, i, j]:.17g} and the formula gives "
                f"{formula[row, i, j]:.17g}. The code may branch on the type of its "
                "arguments, keep a state or round (whole numbers, single precision). "
                "Write them as plain formulas of the context."
            )
