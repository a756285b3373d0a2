"""Numbers and tables as C99 text, without a digit lost."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError

__all__ = ["Real", "comment", "integers", "reals"]

PER_LINE = 6


class Real:
    """A floating-point type of C, and rounding to it.

    Args:
        name: `"double"` or `"float"`.
    """

    def __init__(self, name: str):
        self.name = name
        self.dtype = np.dtype(np.float64 if name == "double" else np.float32)

    def nearest(self, values: ArrayLike) -> NDArray[Any]:
        """The nearest numbers of the type.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        with np.errstate(over="ignore"):
            near = exact.astype(self.dtype)
        if not np.isfinite(near).all():
            raise InvalidInputError(
                f"Every number must fit a C {self.name}, but "
                f"{exact[~np.isfinite(near)].flat[0]:g} does not. Use "
                "precision='double', or other units."
            )
        return near

    def down(self, values: ArrayLike) -> NDArray[Any]:
        """The largest numbers of the type that are not above.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        near = self.nearest(exact)
        lower = np.nextafter(near, self.dtype.type(-np.inf))
        return np.where(near.astype(np.float64) > exact, lower, near)

    def up(self, values: ArrayLike) -> NDArray[Any]:
        """The smallest numbers of the type that are not below.

        Args:
            values: numbers in double.
        """
        return -self.down(-np.asarray(values, np.float64))

    def call(self, function: str) -> str:
        """The function of math.h for the type.

        Args:
            function: its name for double.
        """
        return function if self.name == "double" else f"{function}f"

    def literal(self, value: float) -> str:
        """A number as a hexadecimal constant, which no compiler or locale rounds.

        Args:
            value: a finite number of the type.
        """
        suffix = "" if self.name == "double" else "F"
        return f"{float(self.nearest(value)).hex()}{suffix}"


def reals(real: Real, name: str, values: NDArray[Any]) -> str:
    """A static table of numbers, with decimals beside a short one.

    Args:
        real: their type.
        name: name of the table.
        values: the numbers, any shape, written flat.
    """
    flat = np.asarray(values).reshape(-1)
    note = ""
    if len(flat) <= PER_LINE:
        note = f" /* {', '.join(f'{x:.9g}' for x in flat.tolist())} */"
    return _table("real", name, [real.literal(x) for x in flat.tolist()], note)


def integers(name: str, values: NDArray[Any]) -> str:
    """A static table of integers, of the smallest type that holds them.

    Args:
        name: name of the table.
        values: the integers.
    """
    flat = np.asarray(values, np.int64).reshape(-1)
    return _table(_integer_type(flat), name, [str(x) for x in flat.tolist()], "")


def _integer_type(values: NDArray[np.int64]) -> str:
    for bits in (8, 16, 32):
        if -(2 ** (bits - 1)) <= values.min() and values.max() < 2 ** (bits - 1):
            return f"int{bits}_t"
    return "int64_t"


def _table(kind: str, name: str, items: list[str], note: str) -> str:
    lines = [
        "    " + ", ".join(items[i : i + PER_LINE]) + ","
        for i in range(0, len(items), PER_LINE)
    ]
    body = "\n".join(lines).rstrip(",")
    return f"static const {kind} {name}[{len(items)}] = {{{note}\n{body}\n}};\n"


def comment(text: str) -> str:
    """Text that cannot end the comment it stands in, in lines of ASCII.

    Args:
        text: any text.
    """
    for known, plain in (("≤", "<="), ("ε", "epsilon"), ("−", "-"), ("θ", "theta")):
        text = text.replace(known, plain)
    text = text.encode("ascii", "replace").decode().replace("?", ".")
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) > 80:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n * ".join([*lines, line])
