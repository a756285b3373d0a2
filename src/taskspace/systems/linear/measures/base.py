"""The interface of a measure of closed loops, and the loops themselves."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_text
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.linear.controllers import (
    augmented,
    unheard_at_rest,
    unheard_states,
)
from taskspace.systems.linear.kernels.lyapunov import closed_loop_cost

if TYPE_CHECKING:
    from taskspace.systems.base import Provenance
    from taskspace.systems.linear.base import LinearSystem


class Measure(ABC):
    """A number that says how good a closed loop is."""

    name: str
    """What users call it."""
    words: str
    """What it is, for sentences."""
    unit: str = ""
    """Its unit, empty for a pure number."""
    larger_is_better: bool
    """Which way it is good."""
    provenance: "Provenance" = "given"
    """What its values may be called for a system whose J is `exact`."""
    is_of_any_system: bool = False
    """Whether it is of other systems than linear ones, too."""

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

    def scores(self, system: Any, policies: Policy, contexts: Array) -> Array:
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
            return f"{self.words} of at least {decimal_text(0.0 - epsilon)}{unit}"
        return f"{self.words} of at most {decimal_text(epsilon)}{unit}"


PER_LOOP = ("F", "E", "U", "Y", "W", "Z", "stable")


class ClosedLoops(NamedTuple):
    """Closed loops of every policy at every context, dims `(source, policy, target)`.

    Args:
        F: the loops, ż = F z (z⁺ = F z), z the states of plant and controller.
        E: from what is added to the plant's input, `(…, n, n_inputs)`.
        U: to the feedback, u = U z, `(…, n_inputs, n)`.
        Y: to the measured outputs, y = Y z, `(…, n_outputs, n)`.
        W: from the disturbances of the stated channel, `(n, …)`.
        Z: to what counts of the stated channel, `(…, n)`.
        through: for `"U"` and `"Y"` what reaches them at once, where the plant has a
            direct part: from what is added to its input, less the identity for `"U"`.
        stable: which loops are stable, for the matrices as given.
        continuous: continuous or discrete time.
    """

    F: Array
    E: Array
    U: Array
    Y: Array
    W: Array
    Z: Array
    through: "dict[str, Array]"
    stable: NDArray[np.bool_]
    continuous: bool

    def one(self, place: tuple[int, int, int]) -> "ClosedLoops":
        """Return a single loop, its matrices without leading dims.

        Args:
            place: numbers of source, policy and target.
        """
        return self._replace(
            through={key: x[place] for key, x in self.through.items()},
            **{name: getattr(self, name)[place] for name in PER_LOOP},
        )


class LoopMeasure(Measure):
    """A measure of closed loops of gains and controllers alike."""

    @abstractmethod
    def loop_values(self, loops: ClosedLoops) -> Array:
        """Return the measure of each loop; what it is for an unstable one is ignored.

        Args:
            loops: of every policy at every context.
        """

    def values(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the measure of every policy at every context, infinite if unstable.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        loops = closed_loops(system, policies, contexts)
        worst = -np.inf if self.larger_is_better else np.inf
        return np.where(loops.stable, self.loop_values(loops), worst)


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
    if not isinstance(stack, LinearController):
        return _loops_of(system, stack.gain, 0, contexts, None)
    unheard = unheard_states(stack)
    stack = unheard_at_rest(stack)
    parts, order = [], []
    for rows, controllers in system.seen_by(stack, contexts):
        feedback, n_states = controllers.feedback, stack.n_states
        parts.append(_loops_of(system, feedback, n_states, contexts[rows], stack))
        order.append(rows)
    if len(parts) == 1:
        return _set_aside(parts[0], unheard)
    back = np.argsort(np.concatenate(order))

    def joined(arrays: list[Array]) -> Array:
        return np.concatenate(arrays, axis=2)[:, :, back]

    first = parts[0]
    through = {
        key: joined([part.through[key] for part in parts]) for key in first.through
    }
    arrays = {
        name: joined([getattr(part, name) for part in parts]) for name in PER_LOOP
    }
    return _set_aside(first._replace(through=through, **arrays), unheard)


def _set_aside(loops: ClosedLoops, unheard: NDArray[np.bool_]) -> ClosedLoops:
    """Give the states that do not reach an output a mode faster than all others.

    Args:
        loops: of controllers whose unheard states are at rest.
        unheard: which states of the controllers they are.
    """
    if not unheard.any() or not loops.continuous:
        return loops
    F = loops.F.copy()
    fastest = np.abs(F).sum(-1).max(-1)
    n_plant = F.shape[-1] - unheard.shape[-1]
    for source, policy, state in np.argwhere(unheard):
        place = n_plant + state
        F[source, policy, :, place, place] = -fastest[source, policy]
    return loops._replace(F=F)


def _loops_of(
    system: "LinearSystem",
    gain: Array,
    n_states: int,
    contexts: Array,
    original: LinearController | None,
) -> ClosedLoops:
    """Return the loops of feedback of C x, where the direct part is one matrix.

    Args:
        system: the tasks.
        gain: `(source, policy, …, …)`; of the whole state where `original` is None.
        n_states: states of the controllers.
        contexts: full context rows.
        original: the controllers of C x + D u, whose feedback of C x `gain` is.
    """
    matrices, outputs = system.matrices(contexts), system.output_matrix(contexts)
    n, n_inputs = matrices.B.shape[1:]
    seen = outputs
    if original is None:
        seen = np.broadcast_to(np.eye(n), (len(contexts), n, n))
    larger, C, _ = augmented(matrices, seen, system.initial_covariance, n_states)
    state_gain = gain[:, :, None] @ C
    F = larger.A - larger.B @ state_gain
    flat = np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:]))
    rest = (np.eye(n + n_states), system.is_continuous, np.inf, C)
    stable = np.isfinite(closed_loop_cost(flat, larger, *rest))
    shape = F.shape[:3]
    Y = np.zeros((len(contexts), outputs.shape[1], n + n_states))
    Y[:, :, :n] = outputs
    Y = np.broadcast_to(Y, (*shape, *Y.shape[1:]))
    E = np.broadcast_to(larger.B[:, :, :n_inputs], (*shape, n + n_states, n_inputs))
    U, through = -state_gain[..., :n_inputs, :], {}
    direct = system.direct_matrix(contexts[:1])
    if direct is not None:
        # The plant's input is M (w − …), M = (I + D_c D)⁻¹, and y has D of it.
        M = np.broadcast_to(np.eye(n_inputs), (*shape, n_inputs, n_inputs))
        if original is not None:
            M = np.linalg.inv(np.eye(n_inputs) + original.D @ direct[0])[:, :, None]
            M = np.broadcast_to(M, (*shape, n_inputs, n_inputs))
            E = E @ M
            E[..., n:, :] += original.B[:, :, None] @ direct[0] @ M
        Y = Y + direct[0] @ U
        through = {"U": M - np.eye(n_inputs), "Y": direct[0] @ M}
    W, Z = stated_channel(system, n + n_states)
    return ClosedLoops(
        F,
        E,
        U,
        Y,
        np.broadcast_to(W, (*shape, *W.shape)),
        np.broadcast_to(Z, (*shape, *Z.shape)),
        through,
        stable.reshape(shape),
        system.is_continuous,
    )


def stated_channel(system: "LinearSystem", n: int) -> tuple[Array, Array]:
    """Return B_w and C_z of the stated channel, for all states of a loop.

    Args:
        system: the tasks; without a channel both are empty.
        n: states of plant and controller.
    """
    if system.channel is None:
        return np.zeros((n, 0)), np.zeros((0, n))
    entry, exit_rows = system.channel
    rest = n - len(entry)
    return np.pad(entry, ((0, rest), (0, 0))), np.pad(exit_rows, ((0, 0), (0, rest)))
