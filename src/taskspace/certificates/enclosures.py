"""Enclosures: bounds on the loss of a source over whole boxes of contexts.

A certificate of a cover of the continuum needs one thing: numbers `low <= loss <=
high` that hold for every context of a box. `Enclosure` is the interface;
`LipschitzEnclosure` makes one from a Lipschitz constant of the loss, and
`taskspace.certificates.msd_enclosure` from the closed forms of the
mass-spring-damper.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates._old import check_criterion
from taskspace.certificates.base import CertificateKind
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.base import System, reduce_family

__all__ = ["Boxes", "Enclosure", "LipschitzEnclosure"]

# Evaluations of J are exact to this share, far above what rounding takes.
EVALUATION_SLACK = 1e-9


class Boxes:
    """Closed boxes of full context rows.

    Args:
        low: lower corners, shape `(box, len(axes))`.
        high: upper corners; equal to `low` on an axis that does not vary.
    """

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64]):
        self.low = np.ascontiguousarray(low, dtype=np.float64)
        self.high = np.ascontiguousarray(high, dtype=np.float64)

    @classmethod
    def from_edges(cls, edges: Sequence[NDArray[np.float64]]) -> "Boxes":
        """All cells between consecutive edges, in C order of the axes.

        Args:
            edges: ascending edges of each axis; a single one for a fixed value.
        """
        low = np.meshgrid(*(e[:-1] if len(e) > 1 else e for e in edges), indexing="ij")
        high = np.meshgrid(*(e[1:] if len(e) > 1 else e for e in edges), indexing="ij")
        return cls(
            np.stack([x.ravel() for x in low], -1),
            np.stack([x.ravel() for x in high], -1),
        )

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, index: ArrayLike) -> "Boxes":
        keep = np.asarray(index)
        return Boxes(self.low[keep], self.high[keep])

    @property
    def centre(self) -> NDArray[np.float64]:
        """A float inside each box, near its middle."""
        return np.clip(0.5 * self.low + 0.5 * self.high, self.low, self.high)

    @property
    def radius(self) -> NDArray[np.float64]:
        """At least the distance from the centre to the faces, on each axis."""
        reach = np.maximum(self.high - self.centre, self.centre - self.low)
        return np.where(self.low == self.high, 0.0, np.nextafter(reach, np.inf))

    @property
    def share(self) -> NDArray[np.float64]:
        """Volume of each box over the volume of all, axes of no width left out."""
        width = self.high - self.low
        live = width.max(0, initial=0.0) > 0
        volume = np.prod(width[:, live], axis=1) if live.any() else np.ones(len(self))
        total = volume.sum()
        return volume / total if total > 0 else volume

    def split(self) -> "Boxes":
        """Each box cut in two along every axis where that is possible.

        The children of a box are closed, share their faces, and cover it exactly.
        """
        low, high = self.low, self.high
        for axis in range(low.shape[1]):
            middle = 0.5 * low[:, axis] + 0.5 * high[:, axis]
            cut = (low[:, axis] < middle) & (middle < high[:, axis])
            left_high, right_low = high.copy(), low[cut].copy()
            left_high[cut, axis] = middle[cut]
            right_low[:, axis] = middle[cut]
            low = np.concatenate([low, right_low])
            high = np.concatenate([left_high, high[cut]])
        return Boxes(low, high)

    @classmethod
    def concatenate(cls, parts: Sequence["Boxes"]) -> "Boxes":
        """All boxes of the parts, in order."""
        return cls(
            np.concatenate([p.low for p in parts]),
            np.concatenate([p.high for p in parts]),
        )


class Enclosure(ABC):
    """Bounds on the loss of each source's family over boxes of contexts."""

    kind: CertificateKind
    """`"proof"` or `"estimate"`: what a certificate made with it may be called."""
    basis: str
    """What the bounds rest on, for the certificate's `why`."""
    criterion: str
    family: str

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
        """The same bounds for only these sources, in this order."""

    @abstractmethod
    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high bound on the loss, each with dims `(source, box)`.

        Args:
            boxes: where.
            sources: whose, all if left out.
            epsilon: if given, bounds need only be good enough to decide
                `loss <= epsilon`, which may save time.
        """

    def serves(
        self, boxes: Boxes, epsilon: float, sources: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Which sources are within `epsilon` on all of a box, `(source, box)`."""
        return self.bounds(boxes, sources, epsilon=epsilon)[1] <= epsilon

    def serves_cells(
        self, edges: Sequence[NDArray[np.float64]], epsilon: float
    ) -> Iterator[NDArray[np.bool_]]:
        """`serves` of all sources on the cells of a grid, some sources at a time.

        Args:
            edges: as for `Boxes.from_edges`.
            epsilon: tolerance.

        Yields:
            Blocks of rows with dims `(source, cell)`, cells in C order.
        """
        boxes = Boxes.from_edges(edges)
        step = max(1, 2**24 // len(boxes))
        for first in range(0, self.n_sources, step):
            rows = np.arange(first, min(first + step, self.n_sources))
            yield self.serves(boxes, epsilon, rows)

    def may_serve_nodes(
        self, edges: Sequence[NDArray[np.float64]], epsilon: float
    ) -> Iterator[NDArray[np.bool_]]:
        """Which sources are not shown to exceed `epsilon` at which grid nodes.

        Args:
            edges: values of each axis.
            epsilon: tolerance.

        Yields:
            Blocks of rows with dims `(source, node)`, nodes in C order.
        """
        mesh = np.meshgrid(*edges, indexing="ij")
        nodes = np.stack([x.ravel() for x in mesh], -1)
        boxes = Boxes(nodes, nodes)
        step = max(1, 2**24 // len(boxes))
        for first in range(0, self.n_sources, step):
            rows = np.arange(first, min(first + step, self.n_sources))
            yield self.bounds(boxes, rows, epsilon=epsilon)[0] <= epsilon


class LipschitzEnclosure(Enclosure):
    r"""Bounds from the loss at a box's centre and a Lipschitz constant.

    The margin rule: $|loss(\theta) - loss(centre)| \le \sum_i \Lambda_i |\theta_i -
    centre_i|$ on a box, so a margin of $\sum_i \Lambda_i \delta_i$ certifies all of it.

    Args:
        system: evaluates the losses at the centres.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        criterion: one of `taskspace.criteria.CRITERIA`; `regret` and `ratio` need a
            system that knows its optimum.
        family: `"all"` or `"any"`.
        rates: Λ, two-point Lipschitz constants of every policy's loss along each
            axis of the system; or one number, for the Euclidean norm.
        kind: `"proof"` if Λ is known to hold, `"estimate"` if it was estimated.
        basis: where Λ comes from.
    """

    def __init__(
        self,
        system: System,
        policies: Policy,
        sources: NDArray[np.float64],
        *,
        criterion: str,
        family: str,
        rates: ArrayLike,
        kind: CertificateKind,
        basis: str,
    ):
        check_criterion(criterion, family)
        self.rates = np.asarray(rates, np.float64)
        if self.rates.shape not in ((), (len(system.axes),)) or not (
            np.isfinite(self.rates).all() and (self.rates >= 0).all()
        ):
            raise InvalidInputError(
                "rates must be one number >= 0, or one for each axis of the system "
                f"({', '.join(axis.name for axis in system.axes)}), but got {rates}."
            )
        if criterion in ("regret", "ratio") and system.optimum(sources[:1]) is None:
            raise InvalidInputError(
                f"criterion={criterion!r} between grid points needs the optimum there, "
                f"which {system.id} does not know. Use 'signed' or 'floor'."
            )
        self.kind, self.basis = kind, basis
        self.criterion, self.family = criterion, family
        self._system, self._policies = system, policies
        self._home = system.home_performance(policies, sources)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._home)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self._home.shape[1]

    def subset(self, sources: ArrayLike) -> Self:
        """The same bounds for only these sources, in this order."""
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        part._policies, part._home = self._policies[rows], self._home[rows]
        return part

    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Loss at the centre of each box, minus and plus the margin."""
        del epsilon
        rows = np.arange(self.n_sources) if sources is None else np.asarray(sources)
        at_centre = self._loss(rows, boxes.centre)
        if self.rates.ndim:
            margin = boxes.radius @ self.rates
        else:
            margin = np.linalg.norm(boxes.radius, axis=1) * self.rates
        slack = EVALUATION_SLACK * (np.abs(at_centre) + margin)
        slack = np.where(np.isfinite(slack), slack, 0.0)
        # A failure at the centre says nothing about the rest of the box.
        low = np.where(at_centre == np.inf, -np.inf, at_centre - margin - slack)
        low = np.where((boxes.radius == 0).all(1) & (at_centre == np.inf), np.inf, low)
        return low, at_centre + margin + slack

    def _loss(
        self, rows: NDArray[np.intp], contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        home = self._home[rows]
        performance = self._system.performance(self._policies[rows], contexts)
        reduced = reduce_family(performance, home)
        if self.criterion == "signed":
            return reduced.gap_worst if self.family == "all" else reduced.gap_best
        at_target = reduced.worst if self.family == "all" else reduced.best
        if self.criterion == "floor":
            return -at_target
        optimum = self._system.optimum(contexts)
        assert optimum is not None
        with np.errstate(invalid="ignore"):
            regret = np.where(at_target == -np.inf, np.inf, optimum - at_target)
            if self.criterion == "regret":
                return regret
            return np.where(np.isinf(regret), np.inf, regret / -optimum)
