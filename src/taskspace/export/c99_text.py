"""Numbers, tables and comments as C99 text, without a digit or a unit lost."""

import re
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError

PER_LINE = 6
N_VECTORS = 48
"""Random contexts of a self-test."""


def fill(template: str, **values: object) -> str:
    """Return C code from a file in `templates/`, `${name}` replaced by its value.

    Args:
        template: name of the file.
        **values: the value of each name.
    """
    folder = resources.files("taskspace.export") / "templates"
    return Template((folder / template).read_text("utf-8")).substitute(values)


def check_name(name: str) -> None:
    """Refuse a prefix that is no C identifier.

    Args:
        name: prefix of all names in C.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InvalidInputError(
            f"name must be a C identifier (letters, digits, _), but got {name!r}."
        )


class Real:
    """A floating-point type of C, and rounding to it.

    Args:
        name: `"double"` or `"float"`.
    """

    def __init__(self, name: str):
        self.name = name
        self.dtype = np.dtype(np.float64 if name == "double" else np.float32)

    def nearest(self, values: ArrayLike) -> NDArray[Any]:
        """Return the nearest numbers of the type.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        with np.errstate(over="ignore"):
            near = exact.astype(self.dtype)
        if (too_large := np.isinf(near) & np.isfinite(exact)).any():
            raise InvalidInputError(
                f"Every number must fit a C {self.name}, but "
                f"{exact[too_large].flat[0]:g} does not. Use "
                "precision='double', or other units."
            )
        return near

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether the type has all of these numbers exactly.

        Args:
            values: numbers.
        """
        exact = np.asarray(values, np.float64)
        return bool((self.nearest(exact).astype(np.float64) == exact).all())

    def down(self, values: ArrayLike) -> NDArray[Any]:
        """Return the largest numbers of the type that are not above.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        near = self.nearest(exact)
        lower = np.nextafter(near, self.dtype.type(-np.inf))
        return np.where(near.astype(np.float64) > exact, lower, near)

    def up(self, values: ArrayLike) -> NDArray[Any]:
        """Return the smallest numbers of the type that are not below.

        Args:
            values: numbers in double.
        """
        return -self.down(-np.asarray(values, np.float64))

    def call(self, function: str) -> str:
        """Return the function of math.h for the type.

        Args:
            function: its name for double.
        """
        return function if self.name == "double" else f"{function}f"

    def literal(self, value: float) -> str:
        """Return a number as a hexadecimal constant, which no compiler rounds.

        Args:
            value: a number of the type, not NaN.
        """
        if np.isinf(value):
            return f"{'-' * (value < 0)}({self.name})INFINITY"
        suffix = "" if self.name == "double" else "F"
        return f"{float(self.nearest(value)).hex()}{suffix}"


def reals(real: Real, name: str, values: ArrayLike) -> str:
    """Return a static table of numbers, with decimals beside a short one.

    Args:
        real: their type.
        name: name of the table.
        values: the numbers, any shape, written flat.
    """
    flat = np.asarray(values).reshape(-1).tolist()
    note = ""
    if len(flat) <= PER_LINE:
        note = f" /* {', '.join(f'{x:.9g}' for x in flat)} */"
    return _table(real.name, name, [real.literal(x) for x in flat], note)


def integers(name: str, values: ArrayLike) -> str:
    """Return a static table of integers, of the smallest type that holds them.

    Args:
        name: name of the table.
        values: the integers.
    """
    flat = np.asarray(values, np.int64).reshape(-1)
    largest = max(int(flat.max()), -int(flat.min()) - 1)
    bits = next(n for n in (8, 16, 32, 64) if largest < 2 ** (n - 1))
    return _table(f"int{bits}_t", name, [str(x) for x in flat.tolist()], "")


def _table(kind: str, name: str, items: list[str], note: str) -> str:
    lines = [
        "    " + ", ".join(items[i : i + PER_LINE])
        for i in range(0, len(items), PER_LINE)
    ]
    body = ",\n".join(lines)
    return f"static const {kind} {name}[{len(items)}] = {{{note}\n{body}\n}};\n"


def comment(text: str) -> str:
    """Return text that cannot end the comment it is written in, in short lines.

    Args:
        text: any text; what cannot be printed becomes a blank.
    """
    text = "".join(c if c.isprintable() else " " for c in text)
    text = text.replace("??", "? ?")  # no trigraphs
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) > 80:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n * ".join([*lines, line])


def contexts_comment(contract: Mapping[str, Any]) -> str:
    """Return what a contract says of contexts, as lines of the comment of a header.

    Args:
        contract: of the library.
    """
    scales = contract["selection"].get("interpolation", {})
    lines = []
    for i, axis in enumerate(contract["inputs"]["context"]):
        title = f"{axis['name']} [{axis['unit']}]" if axis["unit"] else axis["name"]
        words = f"{title}, from {axis['low']:.17g} to {axis['high']:.17g}"
        words += f", measured within {axis['error']}" if "error" in axis else ""
        words += f", {scales[axis['name']]}" if scales else ""
        lines.append(f" *   context[{i}]: {comment(words)}\n")
    for name, value in contract["inputs"]["fixed"].items():
        lines.append(f" *   {comment(name)} is {value:.17g} throughout\n")
    return "".join(lines)
