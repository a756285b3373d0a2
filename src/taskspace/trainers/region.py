"""One policy for a set of contexts, and the trainers that can make one.

A point is a region of one context, in the code as in the bits: what is trained on a
region with one context is what is trained at that context.
"""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.trainers.base import Trained, Trainer, context_seed

__all__ = ["Region", "RegionTrainer"]

P = TypeVar("P", bound=Policy)


@dataclass(frozen=True, eq=False)
class Region:
    """A set of contexts with weights: episodes of a training draw from it.

    Kept in one form: rows ascending, equal ones joined, those without weight left
    out, weights of sum 1. So neither the order of the rows nor the unit of the weights
    matters.

    Args:
        contexts: full context rows, one per context.
        weights: how much each of them counts, `>= 0`; all alike if left out.

    Example:
        >>> Region([[2.0], [1.0], [2.0]]).weights.round(3).tolist()
        [0.333, 0.667]
    """

    contexts: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __init__(self, contexts: ArrayLike, weights: ArrayLike | None = None):
        rows = np.asarray(contexts, np.float64) + 0.0  # -0.0 becomes 0.0
        if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
            raise InvalidInputError(
                "A region needs finite context rows, shape (context, axis), but got "
                f"shape {rows.shape}."
            )
        share = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
        if share.shape != rows.shape[:1] or not (share >= 0).all() or not share.any():
            raise InvalidInputError(
                "Weights of a region must be >= 0, one per context and not all 0, but "
                f"got {np.asarray(weights).tolist()} for {len(rows)} contexts."
            )
        joined, place = np.unique(rows, axis=0, return_inverse=True)
        # Weights of equal contexts are added in one order, whatever order they come in.
        order = np.lexsort((share, place.ravel()))
        place, share = place.ravel()[order], share[order] / share.max()
        total = np.bincount(place, share, len(joined))
        object.__setattr__(self, "contexts", joined[total > 0])
        object.__setattr__(self, "weights", total[total > 0] / total.sum())

    def seed(self, seed: int) -> np.random.SeedSequence:
        """Return the randomness of a training here: of the seed and the set alone.

        Args:
            seed: of the experiment.
        """
        if len(self.contexts) == 1:
            return context_seed(seed, self.contexts[0])
        words = hashlib.sha256(self.contexts.tobytes() + self.weights.tobytes())
        return np.random.SeedSequence(
            [seed, len(self.contexts), *np.frombuffer(words.digest(), np.uint32)]
        )

    def draw(self, shares: ArrayLike) -> NDArray[np.float64]:
        """Return the contexts at some quantiles of the weights.

        Args:
            shares: numbers in [0, 1).
        """
        place = np.searchsorted(np.cumsum(self.weights), shares, side="right")
        return self.contexts[np.minimum(place, len(self.contexts) - 1)]


class RegionTrainer(Trainer, Generic[P]):
    """A trainer that makes one family of policies for a set of contexts."""

    @abstractmethod
    def train_region(
        self,
        system: System,
        region: Region,
        *,
        seed: int,
        start: P | None = None,
    ) -> Trained[P]:
        """Train one family for a region.

        Args:
            system: the tasks.
            region: where the contexts of the episodes are drawn from.
            seed: all randomness comes from it.
            start: a policy to begin from, without leading dims; from nothing if left
                out. Steps that made it are not counted again.

        Returns:
            A stack with one source.
        """

    def train(
        self,
        system: System,
        contexts: NDArray[np.float64],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained[P]:
        """Train one family per context: regions of one point each.

        Args:
            system: the tasks.
            contexts: full context rows, shape `(source, len(system.axes))`.
            seed: all randomness comes from it.
            progress: told how many sources are finished.
        """
        results = []
        for row in contexts:
            results.append(self.train_region(system, Region(row[None]), seed=seed))
            if progress is not None:
                progress("train", len(results), len(contexts))
        return Trained.concatenate(results)
