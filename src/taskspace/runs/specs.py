"""The tables of an experiment: `[cover]`, `[schedule]` and `[select]`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np

from taskspace.cover import METHODS
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.runs.objects import check_keys
from taskspace.selection.options import Options

T = TypeVar("T")


@dataclass(frozen=True)
class CoverSpec:
    """How to cover.

    Args:
        methods: names of cover methods.
        n_repeats: random selections, for the spread of the `random` method.
        time_limit: processor seconds for each of the searches that can go on for ever.
    """

    methods: tuple[str, ...] = ("greedy", "uniform", "random")
    n_repeats: int = 100
    time_limit: float = 30.0

    def __post_init__(self):
        for method in self.methods:
            if method not in METHODS:
                raise UnknownNameError("cover method", method, METHODS)
        if self.n_repeats < 1:
            raise InvalidInputError(
                f"cover.n_repeats >= 1 must hold, but got {self.n_repeats}."
            )
        if not 0 < self.time_limit < np.inf:
            raise InvalidInputError(
                f"cover.time_limit > 0 must hold, but got {self.time_limit}."
            )


@dataclass(frozen=True)
class ScheduleSpec:
    """How to find the fewest breakpoints of an interpolated schedule.

    Args:
        candidates: breakpoints to choose from, per axis at most; 0 finds no schedule.
        between: targets between neighbouring candidates, beside those of the table.
    """

    candidates: int
    between: int = 3

    def __post_init__(self):
        for name in ("candidates", "between"):
            if getattr(self, name) < 0:
                raise InvalidInputError(
                    f"schedule.{name} >= 0 must hold, but got {getattr(self, name)}."
                )


@dataclass(frozen=True)
class SelectSpec(Options):
    """How to choose what to train, for `taskspace select`.

    Args:
        selector: name of a selector; if left out `noisy` for trainers that learn,
            `coverage` for others.
        candidates: `"box"` for any point of the box; the space if left out.
        reference: the best performance there is, as stated, that regret is against.
    """

    selector: str | None = None
    candidates: str | None = None
    reference: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.candidates not in (None, "box"):
            raise InvalidInputError(
                f"select.candidates must be 'box', but got {self.candidates!r}."
            )

    def check_selector(self) -> None:
        """Refuse an unknown selector; call it once the user's code is imported."""
        from taskspace.selection import SELECTORS

        if self.selector is not None and self.selector not in SELECTORS:
            raise UnknownNameError("selector", self.selector, SELECTORS)


def read_table(where: str, spec: Mapping[str, Any], kind: type[T]) -> T:
    """Return a table of an experiment as what it should be, or raise a sentence.

    Args:
        where: what to call the table.
        spec: its values.
        kind: a dataclass.
    """
    kinds = get_type_hints(kind)
    check_keys(where, spec, list(kinds))
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.name not in spec:
            raise InvalidInputError(f"{where} needs the key {each.name}.")
    return kind(
        **{
            name: _typed_value(where, name, value, kinds[name])
            for name, value in spec.items()
        }
    )


def _typed_value(where: str, name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = str(error).partition(" - at ")[0]
        raise InvalidInputError(
            f"{name} of {where} has a value of a wrong type, {value!r}: {said}."
        ) from None
