"""Numbers, tables and comments as C99 text, without a digit or a unit lost."""

import re
import unicodedata
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Numbers
from taskspace.errors import InvalidInputError

PER_LINE = 6
SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+")
SUBSCRIPTS = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑₒₓᵢⱼₖₘₙ]+")
MICRO = re.compile("[\u00b5\u03bc](?=[A-Za-z])")
ASCII = {
    "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "±": "+-", "−": "-", "–": "-", "—": "-",
    "·": "*", "⋅": "*", "×": "x", "÷": "/", "⁄": "/", "∕": "/", "√": "sqrt", "∞": "inf",
    "°": "deg", "\u2126": "Ohm", "→": "->", "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip


def fill(template: str, **values: object) -> str:
    """Return C code from a file in `templates/`, `${name}` replaced by its value.

    Args:
        template: name of the file.
        **values: what stands for each name.
    """
    folder = resources.files("taskspace.export") / "templates"
    return Template((folder / template).read_text("utf-8")).substitute(values)


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
        if not np.isfinite(near).all():
            raise InvalidInputError(
                f"Every number must fit a C {self.name}, but "
                f"{exact[~np.isfinite(near)].flat[0]:g} does not. Use "
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
            value: a finite number of the type.
        """
        suffix = "" if self.name == "double" else "F"
        return f"{float(self.nearest(value)).hex()}{suffix}"


def reals(real: Real, name: str, values: NDArray[Any]) -> str:
    """Return a static table of numbers, with decimals beside a short one.

    Args:
        real: their type.
        name: name of the table.
        values: the numbers, any shape, written flat.
    """
    flat = np.asarray(values).reshape(-1)
    note = ""
    if len(flat) <= PER_LINE:
        note = f" /* {', '.join(f'{x:.9g}' for x in flat.tolist())} */"
    return _table(real.name, name, [real.literal(x) for x in flat.tolist()], note)


def integers(name: str, values: NDArray[Any]) -> str:
    """Return a static table of integers, of the smallest type that holds them.

    Args:
        name: name of the table.
        values: the integers.
    """
    flat = np.asarray(values, np.int64).reshape(-1)
    return _table(_integer_type(flat), name, [str(x) for x in flat.tolist()], "")


def _integer_type(values: Numbers) -> str:
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
    text = _ascii(text).replace("??", "? ?")  # no trigraphs
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) > 80:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n * ".join([*lines, line])


def _ascii(text: str) -> str:
    """ASCII that can be read as the text was: `kg m²` is `kg m^2`, `ε` is `epsilon`."""
    text = MICRO.sub("u", text)
    for sign, script in (("^", SUPERSCRIPTS), ("_", SUBSCRIPTS)):
        text = script.sub(lambda match, s=sign: s + _plain(match[0]), text)
    return "".join(c if c.isascii() else _spelled(c) for c in text)


def _plain(text: str) -> str:
    """Return raised or lowered digits and letters on the line."""
    return unicodedata.normalize("NFKD", text).replace("−", "-")


def _spelled(character: str) -> str:
    """Return a character in ASCII: by sign, by name, or by its number."""
    if character in ASCII:
        return ASCII[character]
    name = unicodedata.name(character, "")
    if match := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", name):
        return match[2].lower() if match[1] == "SMALL" else match[2].capitalize()
    base = unicodedata.normalize("NFKD", character)
    characters = [c for c in base if not unicodedata.combining(c)]
    letters = "".join(ASCII.get(c, c) for c in characters)
    if letters and letters.isascii():
        return letters
    return f"<U+{ord(character):04X}>"
