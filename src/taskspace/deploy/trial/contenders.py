"""What a library is compared with: other designs of the same size."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from taskspace.cover import smallest_epsilon
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.regions.reach import Reach, reach_of
from taskspace.policies import LinearGain, Policy
from taskspace.spaces import Points
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

# Candidates among which the best few are searched, and contexts they must serve.
N_CANDIDATES = 225
N_JUDGED = 400
SEARCH_SECONDS = 1.0


class Designer:
    """LQR gains for any context.

    Args:
        library: gives the names of the axes and the fixed values.
        system: a linear family.
    """

    def __init__(self, library: PolicyLibrary, system: LinearSystem):
        self.library, self.system = library, system

    def __call__(self, points: NDArray[np.float64]) -> Policy:
        """Return the optimal gain of each context.

        Args:
            points: contexts in the library's axes.
        """
        gains, _ = self.system.optimal_gain(self.library.contexts(self.system, points))
        return LinearGain(gains)

    def candidates(self, library: PolicyLibrary) -> Policy:
        """Policies to choose a few from.

        Args:
            library: gives the range.
        """
        d = len(library.low)
        n = max(2, int(N_CANDIDATES ** (1 / d)))
        return self(uniform_design(reach_of(library), n**d))

    def interpolated(
        self, reach: Reach, size: int, rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], int]:
        """Gains between the corners of a grid of designs, multilinear.

        Args:
            reach: the range.
            size: designs that may be used, at most.
            rows: contexts within the range.

        Returns:
            The gain of each context, and how many designs it took; 0 where `size` is
            too small for a grid with corners.
        """
        counts = _counts(size, len(reach.low), least=2)
        if counts is None:
            return np.empty((0, 0, 0)), 0
        axes = [np.linspace(0.0, 1.0, n) for n in counts]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(counts))
        gains = np.asarray(self(reach.at(mesh)).arrays()["gain"])
        table = gains.reshape(*counts, *gains.shape[1:])
        share = np.clip(reach.share(rows), 0.0, 1.0)
        return RegularGridInterpolator(axes, table)(share), len(mesh)


class Pool(Designer):
    """Policies made elsewhere; any context gets that of the nearest one.

    Args:
        points: the contexts that they were made for, in the library's axes.
        policies: a stack with one leading dim.
        reach: the range of the library.
    """

    def __init__(self, points: NDArray[np.float64], policies: Policy, reach: Reach):
        self.points, self.policies, self.reach = points, policies, reach

    def __call__(self, points: NDArray[np.float64]) -> Policy:
        """Return the policy of the nearest context that has one.

        Args:
            points: contexts in the library's axes.
        """
        return self.policies[nearest_design(self.points, points, self.reach)]

    def candidates(self, library: PolicyLibrary) -> Policy:
        """Return the policies themselves, evenly thinned if there are many.

        Args:
            library: not used.
        """
        del library
        n = len(self.points)
        kept = np.unique(np.linspace(0, n - 1, min(n, N_CANDIDATES)).astype(int))
        return self.policies[kept]


def designer_of(
    library: PolicyLibrary, system: System, pool: tuple[Points, Policy] | None
) -> Designer | None:
    """Return what makes policies for other contexts, None if nothing can.

    Args:
        library: the library.
        system: the tasks.
        pool: policies made elsewhere and their contexts.
    """
    if pool is not None:
        space, policies = pool
        columns = [list(space.names).index(name) for name in library.names]
        return Pool(space.points[:, columns], policies, reach_of(library))
    if isinstance(system, LinearSystem) and isinstance(library.policies, LinearGain):
        return Designer(library, system)
    return None


def uniform_design(reach: Reach, size: int) -> NDArray[np.float64]:
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
    """Numbers a axis whose product is the largest up to `size`, the most even ones."""
    if least**d > size:
        return None
    top = max(least, size // least ** (d - 1))
    ranges = [range(least, min(top, 40) + 1)] * d
    fitting = (c for c in product(*ranges) if np.prod(c) <= size)
    return max(fitting, key=lambda c: (np.prod(c), -max(c), c))


def nearest_design(
    points: NDArray[np.float64], rows: NDArray[np.float64], reach: Reach
) -> NDArray[np.int64]:
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
    contexts: NDArray[np.float64],
    reference: NDArray[np.float64],
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
        made: Any = designer.candidates(library)
        stack = type(made).concatenate([made, stack])
    stack = each_alone(stack)
    # The first ones, and as many of the others, evenly thinned.
    n, half = len(contexts), N_JUDGED // 2
    judged = np.unique([*range(min(n, half)), *np.linspace(0, n - 1, half).astype(int)])
    lost = _lost(system, stack, contexts[judged], reference[judged])
    found: dict[int, float] = {}
    for k in sorted(numbers):
        if k <= len(lost):
            rows = best_rows(lost, k)
            worst = _lost(system, stack[rows], contexts, reference).min(0).max()
            found[k] = min([100 * float(worst), *found.values()])
    return found


def each_alone(policies: Policy) -> Policy:
    """Return a stack of policies in which each one is a source of its own.

    Args:
        policies: a stack with one leading dim.
    """
    settings = {} if policies.kind == "python" else policies.settings()
    arrays = {name: array[:, None] for name, array in policies.arrays().items()}
    return policies.from_arrays(arrays, settings)


def _lost(
    system: System,
    stack: Any,
    contexts: NDArray[np.float64],
    reference: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Loss over the size of the reference, `(policy, context)`, at least 0."""
    score = system.performance(stack, contexts)[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        lost = (reference - score) / np.abs(reference)
    return np.where(np.isneginf(score), np.inf, np.maximum(lost, 0.0))


def best_rows(
    lost: NDArray[np.float64], k: int, *, time_limit: float = SEARCH_SECONDS
) -> NDArray[np.int64]:
    """Return at most `k` rows that leave the smallest worst loss that was found.

    Args:
        lost: loss of each policy at each context.
        k: how many rows.
        time_limit: seconds.
    """
    smallest = smallest_epsilon(lost, k, time_limit=time_limit)
    single = np.array([lost.max(1).argmin()])
    return np.array(smallest.sources, np.int64) if smallest.sources else single
