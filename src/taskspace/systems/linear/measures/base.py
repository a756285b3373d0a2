"""The interface of a measure of closed loops, and the loops themselves."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.linear.controllers import augmented
from taskspace.systems.linear.kernels.lyapunov import closed_loop_cost

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

__all__ = ["ClosedLoops", "Measure", "closed_loops"]

Array = NDArray[np.float64]


class Measure(ABC):
    """A number that says how good a closed loop is."""

    name: ClassVar[str]
    """What users call it."""
    words: ClassVar[str]
    """What it is, for sentences."""
    unit: ClassVar[str] = ""
    """Its unit, empty for a pure number."""
    larger_is_better: ClassVar[bool]
    """Which way it is good."""

    @abstractmethod
    def values(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the measure of every policy at every context.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            Dims `(source, policy, target)`; infinitely bad where a loop is unstable,
            NaN where the measure is not known.
        """

    def scores(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the values with the sign for which larger is better.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.
        """
        values = self.values(system, policies, contexts)
        return values if self.larger_is_better else -values

    def sentence(self, epsilon: float) -> str:
        """Return what a loss of at most `epsilon` says of the measure.

        Args:
            epsilon: tolerance of the loss, which is minus the score.
        """
        unit = f" {self.unit}" if self.unit else ""
        if self.larger_is_better:
            return f"{self.words} of at least {-epsilon:g}{unit}"
        return f"{self.words} of at most {epsilon:g}{unit}"


class ClosedLoops(NamedTuple):
    """Closed loops of every policy at every context, dims `(source, policy, target)`.

    Args:
        F: the loops, ż = F z (z⁺ = F z), z the states of plant and controller.
        E: from what is added to the plant's input, `(…, n, n_inputs)`.
        U: to the feedback, u = U z, `(…, n_inputs, n)`.
        Y: to the measured outputs, y = Y z, `(…, n_outputs, n)`.
        stable: which loops are stable, for the matrices as given.
    """

    F: Array
    E: Array
    U: Array
    Y: Array
    stable: NDArray[np.bool_]


def closed_loops(
    system: "LinearSystem", policies: Policy, contexts: Array
) -> ClosedLoops:
    """Return the closed loops of a stack of gains or controllers.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        contexts: full context rows.
    """
    if np.isfinite(system.horizon):
        raise InvalidInputError(
            "A measure of the closed loop is about all times, but the system has "
            f"horizon={system.horizon:g}. Use horizon=inf."
        )
    stack = system.stacked(policies)
    matrices = system.matrices(contexts)
    n, n_inputs = matrices.B.shape[1:]
    outputs = system.output_matrix(contexts)
    if isinstance(stack, LinearController):
        gain, n_states = stack.feedback, stack.n_states
        seen = outputs
    else:
        gain, n_states = stack.gain, 0
        seen = np.broadcast_to(np.eye(n), (len(contexts), n, n))
    larger, C, _ = augmented(matrices, seen, system.initial_covariance, n_states)
    state_gain = gain[:, :, None] @ C
    F = larger.A - larger.B @ state_gain
    flat = np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:]))
    rest = (np.eye(n + n_states), system.is_continuous, np.inf, C)
    stable = np.isfinite(closed_loop_cost(flat, *larger, *rest))
    shape = F.shape[:3]
    Y = np.zeros((len(contexts), outputs.shape[1], n + n_states))
    Y[:, :, :n] = outputs
    return ClosedLoops(
        F,
        np.broadcast_to(larger.B[:, :, :n_inputs], (*shape, n + n_states, n_inputs)),
        -state_gain[..., :n_inputs, :],
        np.broadcast_to(Y, (*shape, *Y.shape[1:])),
        stable.reshape(shape),
    )
