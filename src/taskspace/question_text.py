"""The text of a question, read.

question = demand { "and" demand } [ "with" axis "=" number ["%"] { "," … } ]
demand   = quantity [ "(" key "=" number { "," … } ")" ]
[ ("<=" | ">=") number ["%"] ] [ "worst" | "best" ]
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from taskspace.criteria import (
    JUDGES,
    Criterion,
    Level,
    UnknownMeasure,
    quantity_named,
)
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.measured import AxisError, ErrorBounds

__all__ = ["Demand", "read_question"]

TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|≤|≥|[(),=%]))"
)
SIGNS = {"≤": "<=", "≥": ">="}


@dataclass(frozen=True)
class Demand:
    """One demand of a question, as it was read.

    Args:
        rule: the criterion.
        judge: `"worst"` or `"best"`.
        epsilon: tolerance of its loss, None for no bound.
    """

    rule: Criterion
    judge: str
    epsilon: float | None


def read_question(
    text: str, *, is_saved: bool = False
) -> tuple[list[Demand], ErrorBounds | None]:
    """Return the demands of a text and the error of the measured context.

    Args:
        text: e.g. `"ratio <= 5 % and disk_margin >= 0.5 with speed=3 %"`.
        is_saved: it stands beside an answer, which opens even where a measure is not
            known.
    """
    reader = _Reader(text, is_saved)
    demands = [_read_demand(reader)]
    while reader.takes("and"):
        demands.append(_read_demand(reader))
    error = _read_error(reader) if reader.takes("with") else None
    if reader.kind:
        may = ["the end"]
        if error is None:
            may = ["and", "with", "the end"]
            if demands[-1].epsilon is None:
                may = ["<=", ">=", "worst", "best", *may]
            elif not reader.after_judge:
                may = ["worst", "best", *may]
        reader.refuse(may)
    return demands, error


class _Reader:
    """The words of a text, one after another."""

    def __init__(self, text: str, is_saved: bool):
        self.text, self.place, self.after_judge = text, 0, False
        self.is_saved = is_saved
        self.kind, self.word, self.start = "", "", 0
        self._next()

    def _next(self) -> None:
        rest = self.text[self.place :]
        self.start = self.place + len(rest) - len(rest.lstrip())
        match = TOKEN.match(self.text, self.place)
        if match is None:
            self.kind, self.word = ("odd", rest.strip()) if rest.strip() else ("", "")
            return
        self.kind = str(match.lastgroup)
        word = match.group(self.kind)
        self.word, self.place = SIGNS.get(word, word), match.end()

    def refuse(self, may: Sequence[str]) -> None:
        """Say where reading stopped, and what could stand there."""
        read, rest = self.text[: self.start].strip(), self.text[self.start :].strip()
        where = f"after {read!r}" if read else "at the beginning"
        found = f"{rest!r}" if rest else "nothing more"
        raise InvalidInputError(
            f"The question {self.text!r} cannot be read: {where} there may stand "
            f"{' or '.join([', '.join(may[:-1]), may[-1]] if may[:-1] else may)}, but "
            f"there is {found}."
        )

    def takes(self, word: str) -> bool:
        """Step over a word if it stands here."""
        if self.word != word or self.kind not in ("word", "sign"):
            return False
        self._next()
        return True

    def expect(self, word: str) -> None:
        """Step over a word that must stand here."""
        if not self.takes(word):
            self.refuse([word])

    def name(self, what: str) -> str:
        """Return the name that must stand here."""
        if self.kind != "word":
            self.refuse([what])
        word = self.word
        self._next()
        return word

    def number(self) -> Decimal:
        """Return the number that must stand here."""
        if self.kind != "number":
            self.refuse(["a number"])
        number = Decimal(self.word)
        self._next()
        return number


def _read_demand(reader: _Reader) -> Demand:
    name, parameters = reader.name("a quantity such as regret, ratio or score"), {}
    if reader.takes("("):
        while True:
            key = reader.name("a parameter")
            reader.expect("=")
            parameters[key] = float(reader.number())
            if not reader.takes(","):
                break
        reader.expect(")")
    try:
        rule, epsilon = quantity_named(name, **parameters), None
    except UnknownNameError:
        if not reader.is_saved or parameters:
            raise
        rule, epsilon = UnknownMeasure(name, reader.word == ">="), None
    if reader.word in ("<=", ">="):
        epsilon = _read_bound(reader, rule)
    reader.after_judge = reader.kind == "word" and reader.word in JUDGES
    judge = reader.name("a judge") if reader.after_judge else "worst"
    return Demand(rule, judge, epsilon)


def _read_bound(reader: _Reader, rule: Criterion) -> float:
    sign, larger = reader.word, isinstance(rule, Level) and rule.larger_is_better
    if (sign == ">=") != larger:
        better, right = ("larger", ">=") if larger else ("smaller", "<=")
        raise InvalidInputError(
            f"{rule.text} is better where it is {better}, so a question asks for "
            f"{rule.text} {right} a number, but got {reader.text!r}."
        )
    reader.takes(sign)
    number = reader.number()
    if reader.takes("%"):
        number = number.scaleb(-2)
    return 0.0 - float(number) if larger else float(number)


def _read_error(reader: _Reader) -> ErrorBounds | None:
    axes: dict[str, AxisError] = {}
    while True:
        name = reader.name("an axis")
        if name in axes:
            raise InvalidInputError(
                f"Every axis must be named once, but {reader.text!r} names {name} "
                "twice."
            )
        reader.expect("=")
        number = float(reader.number())
        axes[name] = AxisError.of(name, f"{number!r}%" if reader.takes("%") else number)
        if not reader.takes(","):
            return ErrorBounds.of(axes)
