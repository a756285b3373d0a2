"""The interface of a trainer: contexts in, stacks of policies out.

A region is a set of contexts that one policy is trained for. A point is a region of one
context, in the code as in the bits: what is trained on a region with one context is
what is trained at that context.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, require
from taskspace.policies import Policy, check_storable
from taskspace.progress import Progress
from taskspace.spaces import Space, require_space
from taskspace.systems.base import System

P = TypeVar("P", bound=Policy, covariant=True)
Q = TypeVar("Q", bound=Policy)


@dataclass(frozen=True)
class Trained(Generic[P]):
    """What a trainer returns.

    Args:
        policies: a stack with leading dims `(source, policy)`.
        environment_steps: simulated steps spent on each policy, dims
            `(source, policy)`; zeros where a policy is computed, not learned.
        log: further numbers about each policy, each with dims `(source, policy)`.
    """

    policies: P
    environment_steps: NDArray[np.int64]
    log: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __getitem__(self, rows: slice | NDArray[Any]) -> "Trained[P]":
        """Return what some of the sources got.

        Args:
            rows: which sources.
        """
        return Trained(
            self.policies[rows],
            self.environment_steps[rows],
            {name: values[rows] for name, values in self.log.items()},
        )

    @staticmethod
    def concatenate(parts: "list[Trained[P]]") -> "Trained[P]":
        """Join along `source`.

        Args:
            parts: at least one, of the same trainer, in the order of their sources.
        """
        return Trained(
            type(parts[0].policies).concatenate([p.policies for p in parts]),
            np.concatenate([p.environment_steps for p in parts]),
            {k: np.concatenate([p.log[k] for p in parts]) for k in parts[0].log},
        )


class Trainer(ABC):
    """A recipe for the family Π(θ) of each source.

    `train` is a pure function: what a source gets depends on its context and the
    seed alone, not on the sources around it, on the process, or on the order. So
    a grid can be trained in any blocks, and a finer grid keeps its policies.
    """

    id: ClassVar[str]
    sources_per_block: ClassVar[int] = 1
    """Sources that are trained at once. A block is what a worker does, what a bar
    counts and what a kill can lose, so: many only where training them takes no time."""
    n_policies: int

    @property
    def steps_per_source(self) -> int | None:
        """Most environment steps that one source takes, None if not known before."""
        return None

    @abstractmethod
    def train(
        self,
        system: System,
        contexts: NDArray[np.float64],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained:
        """Policies for some sources.

        Args:
            system: the tasks.
            contexts: full context rows, shape `(source, len(system.axes))`.
            seed: all randomness comes from it.
            progress: told how many sources are finished.

        Returns:
            A stack of `n_policies` policies per source.
        """

    def settings(self) -> dict[str, Any]:
        """Return the fields of the trainer, as plain values for a manifest."""
        if not is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}


def check_tasks(system: System, trainer: Trainer, *spaces: Space) -> None:
    """Refuse what is no system, no trainer or no space, in words.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        spaces: of sources and targets.
    """
    require(system, System, "a system, e.g. ts.systems.MassSpringDamper()")
    require(trainer, Trainer, "a trainer, e.g. ts.trainers.Lqr()")
    for space in spaces:
        require_space(space)


def check_stored(trainer: Trainer) -> None:
    """Refuse a trainer whose policies no run can hold, before anything is trained.

    What `train` says that it returns is believed, e.g. `Trained[LinearGain]`; where it
    says nothing, the first training shows it.

    Args:
        trainer: makes the policies of a run.
    """
    try:
        returned = get_type_hints(type(trainer).train).get("return")
    except (NameError, TypeError):  # a name that only type checkers know
        return
    for cls in get_args(returned):
        if isinstance(cls, type) and issubclass(cls, Policy):
            check_storable(cls)


def context_seed(seed: int, context: NDArray[np.float64]) -> np.random.SeedSequence:
    """Randomness of one source: of the seed and the context's own bits.

    Args:
        seed: of the experiment.
        context: the context of the source.
    """
    # Adding 0.0 turns -0.0 into 0.0: equal contexts have equal bits.
    words = (np.asarray(context, np.float64) + 0.0).view(np.uint32)
    return np.random.SeedSequence([seed, *words.tolist()])


def shortened(trainer: Trainer, most: Mapping[str, int]) -> Trainer:
    """Return the trainer with some settings no larger than given.

    Args:
        trainer: any trainer; one without a `total_steps` comes back as it is.
        most: largest value of each setting, where the trainer has it.
    """
    names = {f.name for f in fields(trainer)} if is_dataclass(trainer) else set()
    if "total_steps" not in names:
        return trainer
    changes = {n: m for n, m in most.items() if n in names and getattr(trainer, n) > m}
    copied: Any = trainer
    return replace(copied, **changes)


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


class RegionTrainer(Trainer, Generic[Q]):
    """A trainer that makes one family of policies for a set of contexts."""

    @abstractmethod
    def train_region(
        self,
        system: System,
        region: Region,
        *,
        seed: int,
        start: Q | None = None,
    ) -> Trained[Q]:
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
    ) -> Trained[Q]:
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
