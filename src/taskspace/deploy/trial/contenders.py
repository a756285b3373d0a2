"""What a library is compared with: other designs of its size."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from taskspace._util.arrays import Array, Numbers
from taskspace.cover import smallest_epsilon
from taskspace.deploy.base import PolicyLibrary
from taskspace.policies import LinearGain, Policy
from taskspace.spaces import Points, Reach
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

# Candidates among which the best few are searched, and contexts they must serve.
N_CANDIDATES = 225
N_JUDGED = 400
SEARCH_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Designer:
    """Policies for any context: LQR gains, or the nearest of those made elsewhere.

    Args:
        library: gives the names of the axes, the range and the fixed values.
        system: the tasks; a linear family where gains are made.
        pool: policies made elsewhere, a stack with one leading dim, and the contexts
            that they were made for, in the library's axes.
    """

    library: PolicyLibrary
    system: System
    pool: tuple[Array, Policy] | None

    @classmethod
    def of(
        cls, library: PolicyLibrary, system: System, pool: tuple[Points, Policy] | None
    ) -> "Designer | None":
        """Return what makes policies for other contexts, None if nothing can.

        Args:
            library: the library.
            system: the tasks.
            pool: policies made elsewhere and their contexts.
        """
        if pool is not None:
            space, policies = pool
            columns = [list(space.names).index(name) for name in library.names]
            return cls(library, system, (space.points[:, columns], policies))
        is_linear = isinstance(system, LinearSystem)
        if is_linear and isinstance(library.policies, LinearGain):
            return cls(library, system, None)
        return None

    def __call__(self, points: Array) -> Policy:
        """Return the optimal gain of each context, or the nearest policy.

        Args:
            points: contexts in the library's axes.
        """
        if self.pool is not None:
            places, policies = self.pool
            return policies[nearest_design(places, points, self.library.reach)]
        assert isinstance(self.system, LinearSystem)
        gains, _ = self.system.optimal_gain(self.library.contexts(self.system, points))
        return LinearGain(gains)

    def candidates(self) -> Policy:
        """Return policies to choose a few from, evenly spread if there are many."""
        if self.pool is not None:
            places, policies = self.pool
            n = len(places)
            some = np.unique(np.linspace(0, n - 1, min(n, N_CANDIDATES)).astype(int))
            return policies[some]
        d = len(self.library.low)
        n = max(2, int(N_CANDIDATES ** (1 / d)))
        return self(uniform_design(self.library.reach, n**d))

    def interpolated(self, rows: Array) -> tuple[Array, int]:
        """Gains between the corners of a grid of designs, multilinear.

        Args:
            rows: contexts within the range.

        Returns:
            The gain of each context, and how many designs it took; 0 where a grid
            with corners has more designs than the library.
        """
        reach = self.library.reach
        counts = _counts(self.library.size, len(reach.low), least=2)
        if counts is None:
            return np.empty((0, 0, 0)), 0
        axes = [np.linspace(0.0, 1.0, n) for n in counts]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(counts))
        gains = np.asarray(self(reach.at(mesh)).arrays()["gain"])
        table = gains.reshape(*counts, *gains.shape[1:])
        share = np.clip(reach.share(rows), 0.0, 1.0)
        return RegularGridInterpolator(axes, table)(share), len(mesh)


def uniform_design(reach: Reach, size: int) -> Array:
    """Return the middles of a grid of equal boxes, as many as `size` allows.

    Args:
        reach: the range.
        size: boxes at most.
    """
    counts = _counts(size, len(reach.low), least=1)
    assert counts is not None
    axes = [(np.arange(n) + 0.5) / n for n in counts]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    return reach.at(mesh.reshape(-1, len(counts)))


def _counts(size: int, d: int, *, least: int) -> tuple[int, ...] | None:
    """Return numbers per axis with the largest product up to `size`, most evenly."""
    if least**d > size:
        return None
    top = max(least, size // least ** (d - 1))
    ranges = [range(least, min(top, 40) + 1)] * d
    fitting = (c for c in product(*ranges) if np.prod(c) <= size)
    return max(fitting, key=lambda c: (np.prod(c), -max(c), c))


def nearest_design(points: Array, rows: Array, reach: Reach) -> Numbers:
    """Return the design nearest to each context, axes in widths of the range.

    Args:
        points: contexts of the designs.
        rows: contexts.
        reach: the range.
    """
    apart = reach.share(rows)[:, None] - reach.share(points)[None]
    return (apart**2).sum(-1).argmin(1)


def best_few(
    library: PolicyLibrary,
    system: System,
    designer: Designer | None,
    numbers: Sequence[int],
    contexts: Array,
    reference: Array,
) -> dict[int, float]:
    """Worst loss in percent that the best 1, 2, 3, … policies leave.

    Each context uses the best of them. The few are searched among candidates on a
    grid (and the library's own), for some of the contexts; what they lose is the worst
    of all. So better ones may exist, and a context that was not tried may lose more.

    Args:
        library: gives the range and its own policies as candidates.
        system: the tasks.
        designer: makes the candidates; None for the library's own policies alone.
        numbers: how many policies.
        contexts: full context rows to serve, those that matter most first.
        reference: J that losses are against, of each context.
    """
    stack: Any = library.policies
    if designer is not None:
        others: Any = designer.candidates()
        stack = type(others).concatenate([others, stack])
    # The first ones, and as many of the others, evenly thinned.
    n, half = len(contexts), N_JUDGED // 2
    judged = np.unique([*range(min(n, half)), *np.linspace(0, n - 1, half).astype(int)])
    lost = _lost(system, stack, contexts[judged], reference[judged])
    percent: dict[int, float] = {}
    for k in sorted(numbers):
        if k <= len(lost):
            rows = best_rows(lost, k)
            worst = _lost(system, stack[rows], contexts, reference).min(0).max()
            percent[k] = min([100 * float(worst), *percent.values()])
    return percent


def scores_of(
    system: System, policies: Policy, contexts: Array, measure: str = "performance"
) -> Array:
    """Return a score of every policy at every context, `(policy, context)`.

    Args:
        system: the tasks.
        policies: a stack with one leading dim.
        contexts: full context rows.
        measure: J, or the measure of a criterion.
    """
    return system.scores(measure, policies[:, None], contexts)[:, 0]


def _lost(system: System, policies: Policy, contexts: Array, reference: Array) -> Array:
    """Loss over the size of the reference, `(policy, context)`, at least 0."""
    score = scores_of(system, policies, contexts)
    with np.errstate(invalid="ignore", divide="ignore"):
        lost = (reference - score) / np.abs(reference)
    return np.where(np.isneginf(score), np.inf, np.maximum(lost, 0.0))


def best_rows(lost: Array, k: int, *, time_limit: float = SEARCH_SECONDS) -> Numbers:
    """Return at most `k` rows that leave the smallest worst loss that was found.

    Args:
        lost: loss of each policy at each context.
        k: how many rows.
        time_limit: processor seconds.
    """
    smallest = smallest_epsilon(lost, k, time_limit=time_limit)
    single = np.array([lost.max(1).argmin()])
    return np.array(smallest.sources, np.int64) if smallest.sources else single
