r"""One problem behind shares, budgets and means: choose sources, serve targets.

Choose at most `budget` sources. Each costs $c_s$; a target pays the least loss
$a_{st}$ of the selected sources, or its cap $d_t$ where none of its list is selected.

| question | source costs | losses | cap | budget | may stay unserved |
|---|---|---|---|---|---|
| partial cover | costs | 0 where served | none | all | weight `slack` in total |
| maximum coverage | 0 | 0 where served | weight of target | k | all, at its weight |
| least mean | 0 | weight × loss | none, or by a source that must be in | k | none |

For any prices $\lambda_t$ (at most the cap; for a share at most `rate` × weight), with
$\rho_s = \sum_t \max(0, \lambda_t - a_{st}) - c_s$, every selection costs at least
$\sum_t \lambda_t - \mathrm{rate} \cdot \mathrm{slack}$ minus the `budget` largest
positive $\rho_s$ (a Lagrangian bound; docs/theory.md, "Shares and means").
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.solvers import cover_matrix
from taskspace.sets import TargetSets

__all__ = [
    "Lists",
    "Location",
    "exact_sum",
    "least_mean",
    "maximum_coverage",
    "partial_cover",
]

_ROOM = 60  # bits that sums of prices may take
_MAX_ENTRIES, _NEAR = 30_000_000, 6  # of all lists; times a fair share of the sources
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Lists:
    """Entries `(member, value)` of each owner, one owner after the other.

    Args:
        offsets: where the entries of each owner begin, and where the last ones end.
        members: what the entries are about.
        values: a number for each.
    """

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    values: NDArray[Any]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """All three, as the compiled kernels take them."""
        return self.offsets, self.members, self.values

    def turned(self, n_members: int) -> "Lists":
        """Return the entries of each member instead of each owner.

        Args:
            n_members: how many members there are.
        """
        order = np.argsort(self.members, kind="stable")
        counts = np.bincount(self.members, minlength=n_members)
        owners = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return Lists(
            np.concatenate([[0], np.cumsum(counts)]),
            owners[order].astype(np.int32),
            self.values[order],
        )


@dataclass(frozen=True, eq=False)
class Location:
    """A problem as the search sees it: floats that guide, integers that prove.

    Args:
        lists: for each target the sources that matter to it and their losses,
            ascending.
        caps: the price of each target is at most this; inf for no limit.
        costs: cost of each source.
        budget: sources at most.
        weights: for a share the weight of each target, integers; None elsewhere.
        slack: for a share the weight that may stay unserved.
        shift: proofs are in integers of `2**-shift`.
        is_whole: every selection costs an integer, so that bounds may be rounded up.
    """

    lists: Lists
    caps: NDArray[np.float64]
    costs: NDArray[np.float64]
    budget: int
    weights: NDArray[Any] | None
    slack: int
    shift: int
    is_whole: bool

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.costs)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self.caps)

    @cached_property
    def by_source(self) -> Lists:
        """The targets of each source and its losses there."""
        return self.lists.turned(self.n_sources)

    def without(self, sources: NDArray[np.bool_]) -> "Location":
        """Return the problem with shorter lists; the sources keep their numbers.

        Args:
            sources: True for each source that no selection may hold.
        """
        kept = ~sources[self.lists.members]
        ends = np.concatenate([[0], np.cumsum(kept)])[self.lists.offsets]
        lists = Lists(ends, self.lists.members[kept], self.lists.values[kept])
        return replace(self, lists=lists)

    @cached_property
    def float_weights(self) -> NDArray[np.float64]:
        """Weights of targets for a share, rounded; none elsewhere."""
        if self.weights is None:
            return np.zeros(0)
        return self.weights.astype(np.float64)

    def units(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return numbers in integers of `2**-shift`, rounded down; inf is the largest.

        Args:
            values: the numbers.
        """
        top = 2.0**_ROOM
        with np.errstate(over="ignore"):
            scaled = np.floor(np.ldexp(values, self.shift))
        return np.clip(scaled, -top, top).astype(np.int64)

    @cached_property
    def loss_units(self) -> NDArray[np.int64]:
        """Losses of the lists in integers, rounded down."""
        return self.units(self.lists.values)

    @cached_property
    def cost_units(self) -> NDArray[np.int64]:
        """Costs of sources in integers, rounded down."""
        return self.units(self.costs)

    @cached_property
    def cap_units(self) -> NDArray[np.int64]:
        """Caps of targets in integers, rounded down."""
        return self.units(self.caps)


def finest_shift(total: float) -> int:
    """Return the finest unit in which sums up to a total stay within 60 bits.

    Args:
        total: an upper bound of every sum, in floats.
    """
    return _ROOM - 1 - int(np.frexp(max(total, 1e-300))[1])


def _serving(sets: TargetSets) -> Lists:
    """For each target the sources that serve it, at no loss."""
    matrix = cover_matrix(sets)
    return Lists(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        np.zeros(len(matrix.indices)),
    )


def partial_cover(
    sets: TargetSets, costs: NDArray[np.float64], weights: NDArray[Any], needed: int
) -> Location:
    """Return the problem of the cheapest sources that serve enough weight.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target, integers.
        needed: weight that must be served.
    """
    counts = (weights > 0) & sets.coverable
    runs = sets.keep_targets(counts)
    counted = weights[counts]
    total = float(costs.sum()) * 2
    return Location(
        lists=_serving(runs),
        caps=np.full(len(counted), float(costs.max(initial=0.0))),
        costs=costs,
        budget=len(costs),
        weights=counted,
        slack=int(counted.sum()) - needed,
        shift=min(46, finest_shift(total * max(1, len(counted)))),
        is_whole=bool((costs == np.floor(costs)).all()),
    )


def maximum_coverage(sets: TargetSets, weights: NDArray[Any], budget: int) -> Location:
    """Return the problem of the sources that leave the least weight unserved.

    Args:
        sets: the targets that each source serves.
        weights: weight of each target, integers.
        budget: sources at most.
    """
    counts = (weights > 0) & sets.coverable
    counted = weights[counts].astype(np.float64)
    counted = np.where(
        counted > 2.0**53, np.nextafter(counted, 0.0), counted
    )  # never above
    return Location(
        lists=_serving(sets.keep_targets(counts)),
        caps=counted,
        costs=np.zeros(sets.n_sources),
        budget=min(budget, sets.n_sources),
        weights=None,
        slack=0,
        shift=min(46, finest_shift(2.0 * float(counted.sum()))),
        is_whole=True,
    )


def least_mean(
    losses: NDArray[np.float64],
    weights: NDArray[np.float64],
    budget: int,
    caps: NDArray[np.float64],
) -> Location:
    """Return the problem of the sources of least weighted loss.

    Args:
        losses: loss of each source at each target; inf where it may not be used.
        weights: weight of each target, `>= 0`.
        budget: sources at most, `>= 1`.
        caps: what each target pays if no source is selected; inf for no limit.
    """
    n_sources, n_targets = losses.shape
    room = _MAX_ENTRIES // max(1, n_targets)
    length = min(n_sources, max(min(_NEAR * n_sources // budget, room), 1))
    lists, beyond = _nearest(losses, weights, caps, length)
    finite = np.where(np.isfinite(lists.values), np.abs(lists.values), 0.0)
    dearest = float(finite.max(initial=0.0))
    limits = np.minimum(_product(caps, weights), beyond)
    # Where some selection serves a target not at all, it may cost more than all do.
    penalty = 2 * (dearest * n_targets + np.finfo(float).tiny)
    limits = np.where(np.isfinite(limits), limits, penalty)
    total = np.abs(limits).sum() + dearest * n_targets
    return Location(
        lists=lists,
        caps=limits,
        costs=np.zeros(n_sources),
        budget=min(budget, n_sources),
        weights=None,
        slack=0,
        shift=finest_shift(2.0 * float(total)),
        is_whole=False,
    )


def _product(
    losses: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Loss times weight, never above the exact product."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.where(weights == 0, 0.0, losses * weights)
    exact = (weights == 1) | (product == 0) & (losses >= 0) | np.isinf(product)
    return np.where(exact, product, np.nextafter(product, -np.inf))


def _nearest(
    losses: NDArray[np.float64],
    weights: NDArray[np.float64],
    caps: NDArray[np.float64],
    length: int,
) -> tuple[Lists, NDArray[np.float64]]:
    """Return the nearest sources of each target, and what all others cost at least."""
    n_sources, n_targets = losses.shape
    members, values, counts = [], [], []
    beyond = np.empty(n_targets)
    for start in range(0, n_targets, _BLOCK):
        block = slice(start, start + _BLOCK)
        rows = np.ascontiguousarray(losses[:, block].T)
        if length < n_sources:
            order = np.argpartition(rows, length - 1, axis=1)
            rest = np.take_along_axis(rows, order[:, length:], 1).min(axis=1)
            order = order[:, :length]
        else:
            order = np.broadcast_to(np.arange(n_sources), rows.shape)
            rest = np.max(rows, axis=1, initial=0.0)  # more is never of use
        near = np.take_along_axis(rows, order, 1)
        ranked = np.argsort(near, axis=1, kind="stable")
        order = np.take_along_axis(order, ranked, 1)
        near = np.take_along_axis(near, ranked, 1)
        is_near = (near < np.inf) & (near < caps[block, None])
        priced = _product(near, weights[block, None])
        beyond[block] = _product(rest, weights[block])
        members.append(order[is_near].astype(np.int32))
        values.append(priced[is_near])
        counts.append(is_near.sum(axis=1))
    lengths = np.concatenate(counts) if counts else np.zeros(0, np.int64)
    lists = Lists(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate(members) if members else np.zeros(0, np.int32),
        np.concatenate(values) if values else np.zeros(0),
    )
    return lists, beyond


def exact_sum(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Fraction:
    """Return the sum of products of floats, without rounding.

    Args:
        values: finite numbers.
        weights: finite numbers, as many.
    """
    parts = [np.frexp(array) for array in (values, weights)]
    first, second = (np.ldexp(m, 53).astype(np.int64).tolist() for m, _ in parts)
    powers = (parts[0][1] + parts[1][1]).tolist()
    low = min(powers, default=0)
    total = sum(
        a * b << (power - low)
        for a, b, power in zip(first, second, powers, strict=True)
    )
    return total * Fraction(2) ** (low - 106)
