"""The best that a trainer finds, as what regret and ratio compare with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.base import FOUND, ContextAxis, Provenance, System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.matrices import LinearMatrices
from taskspace.trainers.base import Trainer

__all__ = ["BestFound"]

Array = NDArray[np.float64]


class BestFound(LinearSystem):
    """The same tasks, compared with the best that a trainer finds at each context.

    The optimum of a linear family is over all feedback of the whole state, which a PI
    controller may be far from. Compared with `BestFound(plant, Structured("pi"))` a
    ratio of 0.1 is 10 % above the best PI controller found. What was found is an
    estimate of the best: statements about regret and ratio say so, and none is proven
    between the targets. One policy is trained per context that is compared.

    Args:
        system: a linear family.
        trainer: whose best policy at a context is the reference there.
        seed: of the trainer.

    Example:
        >>> from taskspace.systems import ContextAxis, LinearFamily
        >>> from taskspace.trainers import Structured
        >>> plant = LinearFamily(
        ...     [ContextAxis("k", 1.0)],
        ...     A=lambda k: [[0, 1], [-k, -1]],
        ...     B=lambda k: [[0], [1]],
        ...     Q=np.eye(2),
        ...     R=[[1.0]],
        ...     C=[[1.0, 0.0]],
        ... )
        >>> system = BestFound(plant, Structured("static"))
        >>> context = np.array([[1.0]])
        >>> bool(system.optimum(context)[0] < plant.optimum(context)[0])
        True
    """

    def __init__(self, system: LinearSystem, trainer: Trainer, *, seed: int = 0):
        if not isinstance(system, LinearSystem):
            raise InvalidInputError(
                "BestFound needs a linear family, but got "
                f"{type(system).__name__}. Systems without a known optimum compare "
                "with the best of the table."
            )
        self._system, self._trainer, self._seed = system, trainer, seed
        self._found: dict[bytes, float] = {}
        self.horizon, self.channel = system.horizon, system.channel

    @property
    def id(self) -> str:  # pyright: ignore
        """That of the tasks."""
        return self._system.id

    @property
    def provenance(self) -> Provenance:  # pyright: ignore
        """That of the tasks; what is compared with is told by `optimum_kind`."""
        return self._system.provenance

    @property
    def is_in_rates(self) -> bool:  # pyright: ignore
        """Whether states, inputs and outputs are rates."""
        return self._system.is_in_rates

    @property
    def tasks(self) -> System:
        """The tasks, compared with their own optimum."""
        return self._system

    @property
    def optimum_kind(self) -> str:  # pyright: ignore
        """Who found what is compared with."""
        settings = self._trainer.settings().items()
        said = ", ".join(f"{name}={value}" for name, value in settings)
        return f"{FOUND} by {self._trainer.id} ({said})"

    def optimum(self, contexts: Array) -> Array:
        """J of the best policy found at each context, NaN where none works."""
        rows = [np.ascontiguousarray(row + 0.0).tobytes() for row in contexts]
        places = {row: i for i, row in enumerate(rows) if row not in self._found}
        if places:
            asked = contexts[list(places.values())]
            trained = self._trainer.train(self._system, asked, seed=self._seed)
            best = self._system.home_performance(trained.policies, asked).max(1)
            best = np.where(best > -np.inf, best, np.nan)
            self._found |= dict(zip(places, best.tolist(), strict=True))
        return np.array([self._found[row] for row in rows])

    def performance(self, policies: Policy, contexts: Array) -> Array:
        """J of every gain or controller at every context."""
        return self._system.performance(policies, contexts)

    def scores(self, measure: str, policies: Policy, contexts: Array) -> Array:
        """Return `performance`, or another measure of the closed loop."""
        return self._system.scores(measure, policies, contexts)

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes of the tasks."""
        return self._system.axes

    @property
    def is_continuous(self) -> bool:
        """Whether time is continuous."""
        return self._system.is_continuous

    @property
    def initial_covariance(self) -> Array:
        """X₀ of the tasks."""
        return self._system.initial_covariance

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        return self._system.matrices(contexts)

    def output_matrix(self, contexts: Array) -> Array:
        """C at each context row."""
        return self._system.output_matrix(contexts)

    def direct_matrix(self, contexts: Array) -> Array | None:
        """D at each context row."""
        return self._system.direct_matrix(contexts)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states."""
        return self._system.states

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self._system.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._system.outputs

    @property
    def varying_weights(self) -> tuple[str, ...]:
        """Which of Q and R depend on the context."""
        return self._system.varying_weights

    def settings(self) -> dict[str, Any]:
        """Return those of the tasks."""
        return self._system.settings()
