"""The interface of a trainer: contexts in, stacks of policies out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import require
from taskspace.policies import Policy, check_storable
from taskspace.progress import Progress
from taskspace.spaces import Space, require_space
from taskspace.systems.base import System

__all__ = [
    "Trained",
    "Trainer",
    "check_stored",
    "check_tasks",
    "context_seed",
    "shortened",
]

P = TypeVar("P", bound=Policy, covariant=True)


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
