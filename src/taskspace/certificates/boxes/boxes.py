"""Boxes of contexts, and the interface of bounds on losses over them.

A certificate of a cover of the continuum needs one thing: numbers `low <= loss <=
high` that hold for every context of a box. `Enclosure` is the interface; each kind of
system has a file beside this one, and a line in `ENCLOSURES`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.statements import CertificateKind
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System

Bounds = tuple[Array, Array]
"""Low and high bounds."""


class NoEnclosureError(InvalidInputError):
    """The losses of a system cannot be bounded over boxes; the message says why."""


def check_exact(system: System) -> None:
    """Refuse a system whose J is not known to be the one of its formulas.

    Args:
        system: the tasks.
    """
    if system.provenance != "exact":
        name = type(system).__name__
        raise NoEnclosureError(
            "Bounds over boxes are about the J of a system's formulas, but the J of "
            f"{name} is {system.provenance!r}: it computes something in another way "
            'than its base. If that is exact too, state provenance = "exact" in '
            f"{name}; the bounds must then be its own as well."
        )


def check_cost(question: Question) -> None:
    """Refuse a question that is not about the cost alone.

    Args:
        question: what bounds on costs are asked for.
    """
    question.check_single("A bound on costs over boxes")
    if question.measure != "performance" or not question.rule.has_box_bounds:
        raise NoEnclosureError(f"Bounds on costs say nothing of {question.criterion}.")


class Boxes:
    """Closed boxes of full context rows, over any number of axes.

    Args:
        low: lower corners, shape `(box, len(axes))`.
        high: upper corners; equal to `low` on an axis that does not vary.
    """

    def __init__(self, low: Array, high: Array):
        self.low = np.ascontiguousarray(low, dtype=np.float64)
        self.high = np.ascontiguousarray(high, dtype=np.float64)

    @classmethod
    def from_edges(cls, edges: Sequence[Array]) -> "Boxes":
        """Return all cells between consecutive edges, in C order of the axes.

        Args:
            edges: ascending edges of each axis; a single one for a fixed value.
        """
        low = np.meshgrid(*(e[:-1] if len(e) > 1 else e for e in edges), indexing="ij")
        high = np.meshgrid(*(e[1:] if len(e) > 1 else e for e in edges), indexing="ij")
        return cls(
            np.stack([x.ravel() for x in low], -1),
            np.stack([x.ravel() for x in high], -1),
        )

    @classmethod
    def evenly(cls, low: Array, high: Array, n: int) -> "Boxes":
        """Return the cells of a box, cut evenly along each axis that has a width.

        Args:
            low: lower corner of the box.
            high: upper corner.
            n: cells on each such axis.
        """
        ends = zip(low, high, strict=True)
        return cls.from_edges(
            [np.linspace(a, b, n + 1) if b > a else np.array([a]) for a, b in ends]
        )

    @classmethod
    def points(cls, contexts: Array) -> "Boxes":
        """Return boxes that hold one context each.

        Args:
            contexts: full context rows.
        """
        return cls(contexts, contexts)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, index: ArrayLike | slice) -> "Boxes":
        keep = index if isinstance(index, slice) else np.asarray(index)
        return Boxes(self.low[keep], self.high[keep])

    @property
    def centre(self) -> Array:
        """A float inside each box, near its middle."""
        return np.clip(0.5 * self.low + 0.5 * self.high, self.low, self.high)

    @property
    def radius(self) -> Array:
        """At least the distance from the centre to the faces, on each axis."""
        reach = np.maximum(self.high - self.centre, self.centre - self.low)
        return np.where(self.low == self.high, 0.0, np.nextafter(reach, np.inf))

    @property
    def extent(self) -> Array:
        """Width of the smallest box that holds all of them, on each axis."""
        if not len(self):
            return np.zeros(self.low.shape[1])
        return self.high.max(0) - self.low.min(0)

    @property
    def share(self) -> Array:
        """Volume of each box over the volume of all, axes of no width left out."""
        width = self.high - self.low
        live = width.max(0, initial=0.0) > 0
        # Widths over the largest: a product of small numbers would underflow.
        width = width[:, live] / width[:, live].max(0, initial=0.0)
        volume = np.prod(width, axis=1) if live.any() else np.ones(len(self))
        total = volume.sum()
        return volume / total if total > 0 else volume

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return numbers of boxes that differ, and of each box which of them it is."""
        corners = np.concatenate([self.low, self.high], axis=1)
        _, first, number = np.unique(
            corners, axis=0, return_index=True, return_inverse=True
        )
        return first, number.reshape(-1)

    def split(
        self, axis: NDArray[np.integer] | None = None
    ) -> tuple["Boxes", NDArray[np.int64]]:
        """Return each box cut in two; one that has no float in its middle stays whole.

        The children of a box are closed, share their faces, and cover it exactly.

        Args:
            axis: where to cut each box; by default its widest axis, in shares of
                what all boxes span.

        Returns:
            The children, and of which box each is one.
        """
        extent = np.where(self.extent > 0, self.extent, 1)
        widest = ((self.high - self.low) / extent).argmax(1)
        at = widest if axis is None else np.asarray(axis)
        rows = np.arange(len(self))
        low, high = self.low[rows, at], self.high[rows, at]
        middle = 0.5 * low + 0.5 * high
        cut = (low < middle) & (middle < high)
        left_high, right_low = self.high.copy(), self.low[cut].copy()
        left_high[rows[cut], at[cut]] = middle[cut]
        right_low[np.arange(int(cut.sum())), at[cut]] = middle[cut]
        children = Boxes(
            np.concatenate([self.low, right_low]),
            np.concatenate([left_high, self.high[cut]]),
        )
        return children, np.concatenate([rows, rows[cut]])

    @classmethod
    def concatenate(cls, parts: Sequence["Boxes"]) -> "Boxes":
        """Return all boxes of the parts, in order.

        Args:
            parts: at least one.
        """
        return cls(
            np.concatenate([p.low for p in parts]),
            np.concatenate([p.high for p in parts]),
        )


class Enclosure(ABC):
    """Bounds on the loss of each source's family over boxes of contexts.

    `bounds` is all that one must have. The rest is optional: fast bounds of single
    pairs help the search among many sources, bounds on slopes prove loss rates.
    """

    kind: CertificateKind = "proof"
    """`"proof"` or `"estimate"`: what a certificate made with it may be called."""
    basis: str
    """What the bounds rest on, for the certificate's `why`."""
    assumption: str = ""
    """What must hold beside that and cannot be checked; `basis` says it too."""
    question: Question
    """What the losses are, and which policy of a family counts."""
    system: System | None = None
    """Whose losses are bounded, if it is known."""
    policies: Policy | None = None
    """Of the sources, in their order; a library of a cover compares them."""
    pair_work: float = 1.0
    """About how many microseconds the bound of a source on a box takes. Searches count
    work in it, so that what they do does not depend on the machine."""
    is_paved: bool = False
    """Whether the first bound of a source takes long and all others are quick, so that
    a search should ask for few sources."""

    @property
    @abstractmethod
    def n_sources(self) -> int:
        """Number of sources."""

    @property
    @abstractmethod
    def n_policies(self) -> int:
        """Members of each source's family."""

    @abstractmethod
    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources, in this order.

        Args:
            sources: numbers of the sources.
        """

    @abstractmethod
    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound on the loss, each with dims `(source, box)`.

        Args:
            boxes: where.
            sources: whose, all if left out.
            epsilon: if given, bounds need only be good enough to decide
                `loss <= epsilon`, which may save time.
        """

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of pairs: of source `sources[i]` on `boxes[i]`, a number each.

        Args:
            boxes: where.
            sources: whose, one per box.
            epsilon: as for `bounds`.
        """
        low, high = np.empty((2, len(boxes)))
        for one in np.unique(sources):
            own = np.flatnonzero(sources == one)
            rows = self.bounds(boxes[own], [one], epsilon=epsilon)
            low[own], high[own] = rows[0][0], rows[1][0]
        return low, high

    def tried_bounds(
        self, boxes: Boxes, tries: NDArray[np.integer], epsilon: float
    ) -> Bounds:
        """Return bounds of the sources `tries[b]` on box b, dims `(box, try)`.

        As far as they are needed: once a source serves a box, those after it may be
        left out, with bounds −inf and inf.

        Args:
            boxes: where.
            tries: whose on each box, the most promising first; −1 for none.
            epsilon: tolerance.
        """
        which = np.unique(tries[tries >= 0])
        low, high = np.full(tries.shape, -np.inf), np.full(tries.shape, np.inf)
        if len(which):
            rows = self.bounds(boxes, which, epsilon=epsilon)
            box, column = np.nonzero(tries >= 0)
            place = np.searchsorted(which, tries[box, column])
            low[box, column] = rows[0][place, box]
            high[box, column] = rows[1][place, box]
        return low, high

    def slope_bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None
    ) -> Array | None:
        """Return the largest |∂ loss / ∂ axis| of any policy, `(source, box, axis)`.

        Args:
            boxes: where.
            sources: whose, all if left out.

        Returns:
            None where no bound is known.
        """
        del boxes, sources
        return None

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return how wide boxes are for these bounds; they are cut along the widest.

        Any numbers are sound; good ones need fewer boxes. By default shares of the
        whole box.

        Args:
            boxes: boxes to be cut.
            extent: width of the whole box on each axis.
        """
        return (boxes.high - boxes.low) / np.where(extent > 0, extent, 1.0)

    def _rows(self, sources: ArrayLike | None) -> NDArray[np.int64]:
        """Return the numbers of sources, of all if left out."""
        return np.arange(self.n_sources) if sources is None else np.asarray(sources)

    def _bounds_by_source(
        self, boxes: Boxes, sources: ArrayLike | None, epsilon: float
    ) -> Bounds:
        """Return `bounds` from `pair_bounds`, one source after the other."""
        rows = self._rows(sources)
        low, high = np.empty((2, len(rows), len(boxes)))
        for i, source in enumerate(rows):
            same = np.full(len(boxes), source)
            low[i], high[i] = self.pair_bounds(boxes, same, epsilon=epsilon)
        return low, high


class PolicyEnclosure(Enclosure):
    """Bounds that keep the policies of the sources and something about each at home.

    Args:
        system: whose losses are bounded.
        policies: a stack with leading dims `(source, policy)`.
        question: criterion and judge; its tolerance does not matter here.
    """

    per_source: ClassVar[tuple[str, ...]] = ("policies", "_home")
    """Attributes whose first dim is the source."""
    _home: Array

    def __init__(self, system: System, policies: Policy, question: Question):
        # Here they are always known.
        self.system: System = system  # pyright: ignore[reportIncompatibleVariableOverride]
        self.policies: Policy = policies  # pyright: ignore[reportIncompatibleVariableOverride]
        self.question = question

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._home)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self._home.shape[1]

    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources, in this order."""
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        for name in self.per_source:
            setattr(part, name, getattr(self, name)[rows])
        return part


class AllOf(Enclosure):
    """The loss of the first demand, infinite where another is not met.

    It is bounded above where every other demand is proven met on the whole box, and
    infinite where one is proven to fail everywhere on it.

    Args:
        parts: bounds of each demand, in the order of `question.demands`.
        question: all demands.
    """

    def __init__(self, parts: Sequence[Enclosure], question: Question):
        self.question, self._parts = question, list(parts)
        first = parts[0]
        proven = all(part.kind == "proof" for part in parts)
        self.kind = "proof" if proven else "estimate"
        self.basis = "; and ".join(dict.fromkeys(part.basis for part in parts))
        self.assumption = "; ".join(
            dict.fromkeys(part.assumption for part in parts if part.assumption)
        )
        self.system, self.policies = first.system, first.policies
        self.pair_work = sum(part.pair_work for part in parts)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return self._parts[0].n_sources

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self._parts[0].n_policies

    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources, in this order."""
        part = copy(self)
        part._parts = [one.subset(sources) for one in self._parts]
        part.policies = part._parts[0].policies
        return part

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound on the loss, each with dims `(source, box)`."""
        return self._combined("bounds", boxes, sources, epsilon)

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of source `sources[i]` on `boxes[i]`."""
        return self._combined("pair_bounds", boxes, sources, epsilon)

    def _combined(
        self, method: str, boxes: Boxes, sources: ArrayLike | None, epsilon: float
    ) -> Bounds:
        """Return the bounds of a loss that is infinite where a demand is not met."""
        first, *others = (getattr(part, method) for part in self._parts)
        low, high = first(boxes, sources, epsilon=epsilon)
        for bound, demand in zip(others, self.question.also, strict=True):
            other_low, other_high = bound(boxes, sources, epsilon=demand.epsilon)
            low = np.where(other_low > demand.epsilon, np.inf, low)
            high = np.where(other_high <= demand.epsilon, high, np.inf)
        return low, high

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return widths as the first demand's bounds say."""
        return self._parts[0].widths(boxes, extent)
