"""The `[select]` table of an experiment."""

from dataclasses import dataclass, fields
from typing import Any

from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["SelectSpec"]


@dataclass(frozen=True)
class SelectSpec:
    """How to choose what to train, for `taskspace select`.

    Args:
        selector: name of a selector.
        candidates: points scattered over the box of the space in addition to it, or
            `"box"` for any point of the box.
        budget: trainings, at most.
        environment_steps: simulated steps of all trainings, at most.
        hours: wall-clock time, at most.
        n_at_once: trainings under way at a time.
        deterministic: heed results in the order of proposals.
        retries: trainings with another seed after one that is bad at home.
        patience: trainings in vain after which no candidate is expected to help.
        sparing: evaluate a new policy only where nothing serves yet.
        limit: a stated limit of performance that regret is against.
    """

    selector: str = "coverage"
    candidates: int | str | None = None
    budget: int | None = None
    environment_steps: int | None = None
    hours: float | None = None
    n_at_once: int = 1
    deterministic: bool = True
    retries: int = 0
    patience: int | None = None
    sparing: bool = False
    limit: float | None = None

    def __post_init__(self):
        from taskspace.selection import SELECTORS, Budget, Options
        from taskspace.selection.candidates import BOX

        if self.selector not in SELECTORS:
            raise UnknownNameError("selector", self.selector, SELECTORS)
        if self.candidates not in (None, BOX) and (
            isinstance(self.candidates, bool)
            or not isinstance(self.candidates, int)
            or self.candidates < 1
        ):
            raise InvalidInputError(
                f"select.candidates must be a number >= 1 or {BOX!r}, but got "
                f"{self.candidates!r}."
            )
        Budget(self.budget, self.environment_steps, self.hours)
        patience = 1 if self.patience is None else self.patience
        Options(n_at_once=self.n_at_once, retries=self.retries, patience=patience)
        for name in ("deterministic", "sparing"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(
                    f"select.{name} must be true or false, but got "
                    f"{getattr(self, name)!r}."
                )
        if self.limit is not None and (
            isinstance(self.limit, bool) or not isinstance(self.limit, int | float)
        ):
            raise InvalidInputError(
                f"select.limit must be a number, but got {self.limit!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """What is set, as plain values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
