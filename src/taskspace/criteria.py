r"""Criteria: what a source loses at a target.

A criterion compares a score with a reference: nothing, the policy's own score at
home, or the best J known at the target. A source serves a target within ε if and only
if `loss <= epsilon`.

| quantity in a question | loss of policy π of source s at target t |
|---|---|
| `signed` | J(s, π) − J(t, π): the paper's divergence D, relative to π's own score |
| `regret` | best known J at t − J(t, π) |
| `ratio` | cost at t / best known cost at t − 1, for J = −cost < 0 |
| `score`, `cost` | −J(t, π): "at least this good" |
| a measure, e.g. `disk_margin` | minus its score |

A criterion of your own is a class and a decorator, here or in a user's package:

    @criterion("shortfall", summary="best known J at t − J(t, π), squared")
    class Shortfall(Criterion):
        reference = "best known"

        def loss(self, scores, reference):
            return np.maximum(reference - scores, 0.0) ** 2

Everything else follows from the loss: the score that just meets ε, bounds of the loss
from bounds of scores, sentences. `taskspace.testing.check_criterion` says whether that
is right.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_losses, decimal_text, percent_text
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.base import MEASURES

__all__ = [
    "CRITERIA",
    "JUDGES",
    "Criterion",
    "Level",
    "Ratio",
    "Regret",
    "Signed",
    "UnknownMeasure",
    "criterion",
    "quantity_named",
]

Reference = Literal["none", "home", "best known"]

JUDGES = ("worst", "best")
"""Which policy of a family counts: the paper's sup, or a deployer's choice."""


class Criterion(ABC):
    """A way to say what a policy loses at a target; `loss` falls as the score rises."""

    name: ClassVar[str] = ""
    """What questions call it; the decorator `criterion` sets it."""
    summary: ClassVar[str] = ""
    """The loss as a formula, for help and tables."""
    reference: ClassVar[Reference]
    """What a score is compared with."""
    measure: str = "performance"
    """The score of the table that it reads: J, or another that the system gives."""
    is_difference: ClassVar[bool] = False
    """Whether the loss is the reference minus J."""
    is_relative: ClassVar[bool] = False
    """Whether the loss is a share of the reference, not in units of performance."""
    is_monotone: ClassVar[bool] = False
    """Whether, for each score, the loss only rises or only falls in the reference."""
    allows_negative_epsilon: ClassVar[bool] = False
    """Whether a tolerance below zero means something."""
    box_bounds: ClassVar[Literal["", "cost", "regret", "ratio"]] = ""
    """The compiled bound over boxes of contexts that knows it, if one does."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.text == other.text  # pyright: ignore

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters by name; none for most."""
        if not is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def text(self) -> str:
        """Its name, with the parameters that are not the usual ones."""
        usual = {f.name: f.default for f in fields(self)} if is_dataclass(self) else {}
        own = [
            f"{key}={decimal_text(value)}"
            for key, value in self.parameters.items()
            if value != usual[key]
        ]
        return f"{self.name}({', '.join(own)})" if own else self.name

    @property
    def has_box_bounds(self) -> bool:
        """Whether bounds over boxes of contexts know it: not with parameters."""
        return bool(self.box_bounds) and self.text == self.name

    @property
    def is_absolute(self) -> bool:
        """Whether a score counts by itself, against no reference."""
        return self.reference == "none"

    @property
    def compares_with_best(self) -> bool:
        """Whether a score is compared with the best known one at the target."""
        return self.reference == "best known"

    @property
    def compares_with_home(self) -> bool:
        """Whether a policy is compared with its own score at its source."""
        return self.reference == "home"

    @property
    def averages_starts(self) -> bool:
        """Whether a cost is a mean over initial states, where J is one."""
        return self.measure == "performance"

    @property
    def unit(self) -> str:
        """Unit of the loss and of ε."""
        return "share of the best known" if self.is_relative else "performance"

    # --- the loss -----------------------------------------------------------------

    @abstractmethod
    def loss(self, scores: Array, reference: Array) -> Array:
        """Loss of scores against their reference.

        It is +inf where a policy failed, and where there is no reference: nothing
        shows that such a target is served.

        Args:
            scores: J at targets, −inf for a failure.
            reference: what `self.reference` names, broadcast against it; zeros
                where it is `"none"`. NaN at targets without a reference.
        """

    def quotient(
        self, scores: Any, reference: Any, number: Callable[[float], Any]
    ) -> tuple[Any, Any] | None:
        """Return numerator and denominator of the loss, for exact decimals.

        Args:
            scores: finite scores, as integers or as fractions.
            reference: finite references, likewise.
            number: how to write a parameter beside them.

        Returns:
            None where the loss has no such form: then it is compared in floats.
        """
        return (reference - scores, number(1.0)) if self.is_difference else None

    def decimal_loss(self, scores: Array, reference: Array) -> Array:
        """Return the loss where each float stands for its shortest decimal.

        Args:
            scores: J at targets, −inf for a failure.
            reference: as in `loss`.
        """
        plain = self.loss(scores, reference)
        if self.quotient(Fraction(-1), Fraction(-1), Fraction) is None:
            return plain
        return decimal_losses(plain, scores, reference, self.quotient)  # pyright: ignore

    def served(
        self, scores: Array, reference: Array, epsilon: float, *, given: bool = False
    ) -> NDArray[np.bool_]:
        """Return whether scores serve: the one predicate, `loss <= epsilon`.

        Args:
            scores: J at targets.
            reference: as in `loss`.
            epsilon: the tolerance.
            given: whether the numbers are a user's, so that each float stands for its
                shortest decimal.
        """
        loss = self.decimal_loss if given else self.loss
        return loss(scores, reference) <= epsilon

    def threshold(self, epsilon: float, reference: Array) -> Array:
        """Return the smallest score that is served, found by bisecting the loss.

        Args:
            epsilon: the tolerance.
            reference: as in `loss`.

        Returns:
            One score per reference: `loss <= epsilon` from there on; +inf for none.
        """
        reference = np.asarray(reference, np.float64)
        largest = np.finfo(np.float64).max
        low = _ordered(np.full(reference.shape, -np.inf))
        high = _ordered(np.full(reference.shape, largest))
        with np.errstate(all="ignore"):
            while (high - 1 > low).any():
                middle = low // 2 + high // 2 + (low % 2 + high % 2) // 2
                met = self.loss(_unordered(middle), reference) <= epsilon
                high = np.where(met, middle, high)
                low = np.where(met, low, middle)
            found = _unordered(high)
            found = np.where(self.loss(found, reference) <= epsilon, found, np.inf)
            none = np.full(reference.shape, -np.inf)
            return np.where(self.loss(none, reference) <= epsilon, none, found)

    def enclose(
        self, scores: tuple[Array, Array], reference: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Bounds of the loss from bounds of the score and of its reference.

        The loss falls in the score. Where it is monotone in the reference, too, its
        ends are at ends of both; else they are known for one reference only. The
        arithmetic is plain floating point: a caller that claims a proof rounds its
        bounds outwards.

        Args:
            scores: lower and upper bounds of the score.
            reference: lower and upper bounds of the reference.

        Returns:
            Lower and upper bounds of the loss.
        """
        low = np.minimum(*(self.loss(scores[1], end) for end in reference))
        high = np.maximum(*(self.loss(scores[0], end) for end in reference))
        known = self.is_monotone | (reference[0] == reference[1])
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    # --- the reference ------------------------------------------------------------

    def against(self, *, best: Callable[[], Array], home: Callable[[], Array]) -> Array:
        """Return what scores are compared with: the only place that fetches it.

        Args:
            best: gives the best known J at the targets.
            home: gives J of the policies at home, with a last dim for the targets.
        """
        if self.reference == "none":
            return np.zeros(1)
        if self.reference == "home":
            return home()
        reference = best()
        self.check_reference(reference)
        return reference

    def check_reference(self, reference: Array) -> None:
        """Refuse a reference for which the loss has no meaning.

        Args:
            reference: best known J of every target, NaN for none.
        """
        del reference

    # --- sentences ----------------------------------------------------------------

    def demand(self, epsilon: float | None) -> str:
        """Return the demand as questions write it, e.g. `regret <= 0.2`.

        Args:
            epsilon: the tolerance, None for no bound.
        """
        return self.text if epsilon is None else f"{self.text} <= {self._said(epsilon)}"

    def _said(self, epsilon: float) -> str:
        return decimal_text(epsilon)

    def short(self, epsilon: float | None) -> str:
        """Return the inequality alone, for titles.

        Args:
            epsilon: the tolerance, None for no bound.
        """
        return self.demand(epsilon).replace("<=", "≤").replace(">=", "≥")

    def sentence(self, epsilon: float | None) -> str:
        """Return what serving a target within `epsilon` means, for people.

        Args:
            epsilon: the tolerance, None for no bound.
        """
        return self.short(epsilon)

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"has {self.sentence(epsilon)}"

    def check_epsilon(self, epsilon: float) -> None:
        """Refuse a tolerance that is not finite, or negative where losses start at 0.

        Args:
            epsilon: the tolerance.
        """
        if np.isinf(epsilon):
            raise InvalidInputError(
                f"epsilon must be finite, but got epsilon={epsilon}. Name the largest "
                "loss that you accept."
            )
        if np.isnan(epsilon) or (epsilon < 0 and not self.allows_negative_epsilon):
            raise InvalidInputError(
                f"epsilon >= 0 must hold, but got epsilon={epsilon}. For a relative "
                "tolerance ask for 'ratio <= 10 %', for an absolute level for "
                "'score >= 475' or 'cost <= 12'."
            )


C = TypeVar("C", bound=Criterion)

CRITERIA: dict[str, Criterion] = {}
"""Criteria by name; the decorator `criterion` fills it."""


def criterion(name: str, *, summary: str) -> Callable[[type[C]], type[C]]:
    """Register a class as a criterion that questions may name.

    Args:
        name: what questions call it.
        summary: the loss as a formula.
    """

    def register(cls: type[C]) -> type[C]:
        taken = name in CRITERIA and type(CRITERIA[name]).__module__ != cls.__module__
        if not name.isidentifier() or taken or name in (*LEVELS, *MEASURES):
            raise InvalidInputError(
                "The name of a criterion must be one word of letters, digits and _ "
                f"that no other criterion or measure has, but got {name!r}."
            )
        cls.name, cls.summary = name, summary
        CRITERIA[name] = cls()
        return cls

    return register


LEVELS = {"score": True, "cost": False}
"""Quantities of J whose level is asked for, and whether larger is better."""


def difference(scores: Array, reference: Array) -> Array:
    """Return reference − J, 0 between equals, +inf for failures and without reference.

    Args:
        scores: J at targets.
        reference: what it is compared with, NaN for nothing.
    """
    if np.isfinite(reference).all():  # minus −inf is +inf: one pass is enough
        return reference - scores
    undefined = (scores == -np.inf) | np.isnan(reference)
    with np.errstate(invalid="ignore"):
        return np.where(undefined, np.inf, reference - scores)


@criterion("signed", summary="J(s, π) − J(t, π): the paper's divergence D")
class Signed(Criterion):
    """J(s, π) − J(t, π): relative to the policy's own score at its source.

    A policy that is bad everywhere has nothing to lose, so a signed cover also
    reports the regret that it leaves.
    """

    reference: ClassVar[Reference] = "home"
    is_difference: ClassVar[bool] = True
    is_monotone: ClassVar[bool] = True
    box_bounds: ClassVar = "cost"

    def loss(self, scores: Array, reference: Array) -> Array:
        """Score at home minus score at the target; equal ones (−inf too) lose 0.

        Args:
            scores: J at targets.
            reference: J of the same policies at home.
        """
        with np.errstate(invalid="ignore"):
            return np.where(scores == reference, 0.0, reference - scores)

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`."""
        return f"loses at most {self._said(epsilon)} against the source's own score"


@criterion("regret", summary="best known J at t − J(t, π)")
class Regret(Criterion):
    """Best known J at t − J(t, π)."""

    reference: ClassVar[Reference] = "best known"
    is_difference: ClassVar[bool] = True
    is_monotone: ClassVar[bool] = True
    box_bounds: ClassVar = "regret"

    def loss(self, scores: Array, reference: Array) -> Array:
        """Best known J minus J.

        Args:
            scores: J at targets.
            reference: best known J there.
        """
        return difference(scores, reference)

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`."""
        return f"is within {self._said(epsilon)} of optimal"


@criterion("ratio", summary="cost at t / best known cost at t − 1, for J = −cost < 0")
@dataclass(frozen=True, eq=False)
class Ratio(Criterion):
    """Cost at t / best known cost at t − 1, for J = −cost < 0.

    Args:
        floor: costs below this count as this, so that a best cost of (nearly) 0 asks
            for no miracle; 0 for no such floor.
        zero: the score that is worth nothing, for scores instead of costs: the loss is
            (best − J) / (best − zero). None for costs.
    """

    floor: float = 0.0
    zero: float | None = None

    reference: ClassVar[Reference] = "best known"
    is_relative: ClassVar[bool] = True
    is_monotone: ClassVar[bool] = True
    box_bounds: ClassVar = "ratio"

    def __post_init__(self):
        if not 0 <= self.floor < np.inf:
            raise InvalidInputError(
                f"floor >= 0 must hold and be finite, got {self.floor}."
            )
        if self.zero is not None and (self.floor or not np.isfinite(self.zero)):
            raise InvalidInputError(
                "zero must be a finite score, and is for scores: it stands without "
                f"floor, which is for costs. Got zero={self.zero}, floor={self.floor}."
            )

    def loss(self, scores: Array, reference: Array) -> Array:
        """(cost − best) / best: no cancellation for costs close to the best.

        Args:
            scores: J at targets.
            reference: best known J there, negative (above `zero`); NaN for none.
        """
        undefined = (scores == -np.inf) | np.isnan(reference)
        with np.errstate(invalid="ignore", divide="ignore"):
            above, below = self.quotient(scores, reference, float)
            return np.where(undefined, np.inf, above / below)

    def quotient(
        self, scores: Any, reference: Any, number: Callable[[float], Any]
    ) -> tuple[Any, Any]:
        """Return what is lost, over the best."""
        if self.zero is not None:
            return reference - scores, reference - number(self.zero)
        if self.floor:
            scores = np.minimum(scores, -number(self.floor))
            reference = np.minimum(reference, -number(self.floor))
        return scores - reference, reference

    def enclose(
        self, scores: tuple[Array, Array], reference: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Cost over best cost − 1, at opposite ends.

        Args:
            scores: lower and upper bounds of J.
            reference: lower and upper bounds of the best J; where the upper one is
                not negative nothing is known from above.
        """
        if self.zero is not None:
            low, high = super().enclose(scores, reference)
            known = reference[0] > self.zero
            return np.where(known, low, -np.inf), np.where(known, high, np.inf)
        low = self.loss(scores[1], reference[0])
        high = self.loss(scores[0], reference[1])
        is_positive = reference[1] < 0
        return low, np.where(is_positive | (self.floor > 0), high, np.inf)

    def check_reference(self, reference: Array) -> None:
        """Costs must be positive, best scores better than nothing.

        Args:
            reference: best known J of every target, NaN for none.
        """
        if self.zero is not None:
            poor = np.flatnonzero(reference <= self.zero)
            if len(poor):
                raise InvalidInputError(
                    f"ratio(zero={decimal_text(self.zero)}) takes shares of what the "
                    "best score is above zero, but the best known score of target "
                    f"{poor[0]} is {reference[poor[0]]:g}. State a lower zero, or ask "
                    "for regret."
                )
            return
        reference = np.where(np.isnan(reference), -np.inf, reference)
        zero = np.flatnonzero(reference == 0)
        if (reference > 0).any():
            target = int(reference.argmax())
            raise InvalidInputError(
                "ratio compares costs, J = −cost < 0, but the best known J of target "
                f"{target} is {reference[target]:g}. If the numbers are costs, say "
                "lower_is_better=True (--read lower_is_better); for scores ask for "
                "regret, or for ratio(zero=0) <= 10 %."
            )
        if len(zero) and not self.floor:
            more = f" and {len(zero) - 1} more" if len(zero) > 1 else ""
            raise InvalidInputError(
                f"ratio takes shares of the best known cost, which is 0 at target "
                f"{zero[0]}{more}. State a floor, below which all costs are alike: "
                "ratio(floor=0.1) <= 10 %; leave such targets out "
                "(--read 'ignore=[\"a\"]'), or ask for regret."
            )

    def _said(self, epsilon: float) -> str:
        return f"{percent_text(epsilon)} %"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`."""
        if self.zero is not None:
            return f"loses at most {self._said(epsilon)} of the best score"
        low = f" (costs below {self.floor:g} counted as that)" if self.floor else ""
        return f"costs at most {self._said(epsilon)} more than optimal{low}"


class Level(Criterion):
    """An absolute level: "at least this good". The loss is minus the score.

    Args:
        quantity: `"score"` or `"cost"` for J, or a measure by name.
    """

    name: ClassVar[str] = "level"
    summary: ClassVar[str] = '−J(t, π): "at least this good"'
    reference: ClassVar[Reference] = "none"
    is_monotone: ClassVar[bool] = True
    allows_negative_epsilon: ClassVar[bool] = True

    def __init__(self, quantity: str):
        if quantity not in LEVELS and quantity not in MEASURES:
            raise UnknownNameError("measure", quantity, [*LEVELS, *MEASURES])
        self.quantity = quantity
        self._measure = None if quantity in LEVELS else MEASURES[quantity]
        self.measure = "performance" if self._measure is None else quantity

    def __reduce__(self) -> tuple[Any, ...]:
        return quantity_named, (self.quantity,)

    @property
    def text(self) -> str:
        """The quantity whose level is asked for."""
        return self.quantity

    @property
    def has_box_bounds(self) -> bool:
        """Whether bounds over boxes of contexts know it."""
        return True

    box_bounds: ClassVar = "cost"

    @property
    def larger_is_better(self) -> bool:
        """Whether the level is a least one."""
        if self._measure is None:
            return LEVELS[self.quantity]
        return self._measure.larger_is_better

    @property
    def unit(self) -> str:
        """Unit of the loss and of ε."""
        if self._measure is None:
            return super().unit
        return self._measure.unit or self.quantity

    def loss(self, scores: Array, reference: Array) -> Array:
        """Return the score with its sign turned; refuse a measure that is not known.

        Args:
            scores: J, or the measure's score, at targets.
            reference: not used.
        """
        del reference
        if self._measure is not None and np.isnan(scores).any():
            target = int(np.argwhere(np.isnan(scores))[0][-1])
            raise InvalidInputError(
                f"The measure {self.measure} must be known at every target, but at "
                f"target {target} it is not. Leave that target out, or ask by another "
                "measure."
            )
        return -scores

    def demand(self, epsilon: float | None) -> str:
        """Return the demand as questions write it, e.g. `score >= 475`.

        Args:
            epsilon: minus the least score, None for no bound.
        """
        if epsilon is None:
            return self.quantity
        if self.larger_is_better:
            return f"{self.quantity} >= {decimal_text(0.0 - epsilon)}"
        return f"{self.quantity} <= {decimal_text(epsilon)}"

    def sentence(self, epsilon: float | None) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: minus the least score, None for no bound.
        """
        if self._measure is None or epsilon is None:
            return self.short(epsilon)
        return f"{self.short(epsilon)} ({self._measure.sentence(epsilon)})"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`."""
        if self._measure is not None:
            return f"has {self._measure.sentence(epsilon)}"
        side = "at least" if self.larger_is_better else "at most"
        level = 0.0 - epsilon if self.larger_is_better else epsilon
        return f"has a {self.quantity} of {side} {decimal_text(level)}"


class UnknownMeasure(Level):
    """A measure of a saved answer that this process does not know: its name alone.

    Args:
        quantity: name of the measure.
        larger_is_better: whether the question asks for a least level.
    """

    def __init__(self, quantity: str, larger_is_better: bool):
        self.quantity = self.measure = quantity
        self._measure, self._larger_is_better = None, larger_is_better

    def __reduce__(self) -> tuple[Any, ...]:
        return UnknownMeasure, (self.quantity, self._larger_is_better)

    @property
    def larger_is_better(self) -> bool:
        """Whether the level is a least one."""
        return self._larger_is_better

    def check_known(self) -> None:
        """Refuse to compute or check anything by a measure that is not known."""
        raise InvalidInputError(
            f"The measure {self.quantity!r} is not known here, so an answer about it "
            "can be read but not checked again. Import the code that defines it first."
        )


def quantity_named(name: str, **parameters: float) -> Criterion:
    """Return the criterion that a quantity of a question names.

    Args:
        name: of a criterion, `score`, `cost`, or a measure.
        parameters: its parameters, where they are not the usual ones.
    """
    if name in CRITERIA:
        found = CRITERIA[name]
        for key in parameters:
            if key not in found.parameters:
                what = f"parameter of {name}:"
                raise UnknownNameError(what, key, list(found.parameters))
        return type(found)(**parameters) if parameters else found
    if name in LEVELS or name in MEASURES:
        if parameters:
            raise UnknownNameError(f"parameter of {name}:", next(iter(parameters)), [])
        return Level(name)
    raise UnknownNameError("quantity", name, [*CRITERIA, *LEVELS, *MEASURES])


def _ordered(values: Array) -> NDArray[np.int64]:
    """Return integers in the order of floats."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _unordered(numbers: NDArray[np.int64]) -> Array:
    """Return the floats of `_ordered`."""
    bits = np.where(numbers < 0, np.iinfo(np.int64).min - numbers, numbers)
    return np.ascontiguousarray(bits).view(np.float64)
