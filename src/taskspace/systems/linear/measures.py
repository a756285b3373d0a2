"""Measures of a linear closed loop beside its quadratic cost, and those of users.

A new measure is a class or an object in a file beside this one and one line in
`MEASURES` of `systems.base`; a measure of your own is a function (`taskspace.measure`).
Questions ask for them: `disk_margin >= 0.5`, `hinf <= 2`.
"""

import inspect
import keyword
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_text
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.base import MEASURES as MEASURES
from taskspace.systems.base import Provenance
from taskspace.systems.linear.controllers import (
    augmented,
    unheard_at_rest,
    unheard_states,
)
from taskspace.systems.linear.kernels.lyapunov import closed_loop_cost

if TYPE_CHECKING:
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
    provenance: Provenance = "given"
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


class ClosedLoops(NamedTuple):
    """Closed loops of every policy at every context, dims `(source, policy, target)`.

    Args:
        F: the loops, ż = F z (z⁺ = F z), z the states of plant and controller.
        E: from what is added to the plant's input, `(…, n, n_inputs)`.
        U: to the feedback, u = U z, `(…, n_inputs, n)`.
        Y: to the measured outputs, y = Y z, `(…, n_outputs, n)`.
        W: from the disturbances of the stated channel, `(…, n, n_disturbances)`.
        Z: to what counts of the stated channel, `(…, n_counted, n)`.
        stable: which loops are stable, for the matrices as given.
        continuous: continuous or discrete time.
    """

    F: Array
    E: Array
    U: Array
    Y: Array
    W: Array
    Z: Array
    stable: NDArray[np.bool_]
    continuous: bool

    def one(self, place: tuple[int, int, int]) -> "ClosedLoops":
        """Return a single loop, its matrices without leading dims.

        Args:
            place: numbers of source, policy and target.
        """
        parts = {name: getattr(self, name)[place] for name in self._fields[:-1]}
        return self._replace(**parts)


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
    stack = system.stacked(policies)
    matrices, outputs = system.matrices(contexts), system.output_matrix(contexts)
    n, n_inputs = matrices.B.shape[1:]
    if isinstance(stack, LinearController):
        unheard = unheard_states(stack)
        gain, seen = unheard_at_rest(stack).feedback, outputs
        n_all = n + stack.n_states
    else:
        unheard = np.zeros((0, 0, 0), bool)
        gain, seen = stack.gain, np.broadcast_to(np.eye(n), (len(contexts), n, n))
        n_all = n
    larger, C, _ = augmented(matrices, seen, system.initial_covariance, n_all - n)
    state_gain = gain[:, :, None] @ C
    F = larger.A - larger.B @ state_gain
    flat = np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:]))
    rest = (np.eye(n_all), system.is_continuous, C)
    stable = np.isfinite(closed_loop_cost(flat, larger, *rest))
    if system.is_continuous and unheard.any():
        # States that reach no output get a mode faster than all others.
        fastest = np.abs(F).sum(-1).max(-1)
        for source, policy, state in np.argwhere(unheard):
            place = n + state
            F[source, policy, :, place, place] = -fastest[source, policy]
    shape = F.shape[:3]
    W, Z = stated_channel(system, n_all)
    Y = np.pad(outputs, ((0, 0), (0, 0), (0, n_all - n)))
    E, Y, W, Z = (
        np.broadcast_to(part, (*shape, *part.shape[-2:]))
        for part in (larger.B[:, :, :n_inputs], Y, W, Z)
    )
    U = -state_gain[..., :n_inputs, :]
    return ClosedLoops(F, E, U, Y, W, Z, stable.reshape(shape), system.is_continuous)


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


F = TypeVar("F", bound=Callable[..., float])


class OwnMeasure(Measure):
    """A measure that a user's function gives; nothing that rests on it is proven.

    Args:
        function: of the closed loop, or of system, policy and context.
        name: what users call it.
        larger_is_better: which way it is good.
        unit: its unit, empty for a pure number.
        words: what it is, for sentences.
    """

    is_of_any_system = True

    def __init__(
        self,
        function: Callable[..., float],
        name: str,
        *,
        larger_is_better: bool,
        unit: str = "",
        words: str = "",
    ):
        self.function, self.name, self.unit = function, name, unit
        self.larger_is_better = larger_is_better
        self.words = words or f"a {name.replace('_', ' ')}"
        n_arguments = len(inspect.signature(function).parameters)
        if n_arguments not in (1, 3):
            raise InvalidInputError(
                "A measure is a function of the closed loop, or of system, policy and "
                f"context, but {name!r} takes {n_arguments} arguments."
            )
        self.is_of_loop = n_arguments == 1

    def values(self, system: Any, policies: Policy, contexts: Array) -> Array:
        """Return what the function says of every policy at every context.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows, shape `(target, len(axes))`.

        Returns:
            Dims `(source, policy, target)`; infinitely bad where a linear loop is
            unstable, without asking the function.
        """
        shape = (*policies.stack_shape, len(contexts))
        is_linear = hasattr(system, "matrices")
        if self.is_of_loop and not is_linear:
            raise InvalidInputError(
                f"The measure {self.name!r} is a function of a linear closed loop, but "
                f"the system is {system.id}. Write it as a function of system, policy "
                "and context."
            )
        loops = closed_loops(system, policies, contexts) if is_linear else None
        names = [axis.name for axis in system.axes]
        values = np.empty(shape)
        for place in np.ndindex(shape):
            source, policy, target = place
            if loops is not None and not loops.stable[place]:
                values[place] = -np.inf if self.larger_is_better else np.inf
            elif self.is_of_loop:
                assert loops is not None
                values[place] = self.function(loops.one(place))
            else:
                context = dict(zip(names, contexts[target].tolist(), strict=True))
                values[place] = self.function(system, policies[source, policy], context)
        return values


def measure(
    name: str, *, larger_is_better: bool, unit: str = "", words: str = ""
) -> Callable[[F], F]:
    """Register a function as a measure that questions may ask for.

    Args:
        name: what questions call it, e.g. `settling_time` in `settling_time <= 2`.
        larger_is_better: which way it is good, so which of `>=` and `<=` is asked.
        unit: its unit, empty for a pure number.
        words: what it is, for sentences, e.g. `"a settling time"`.

    Returns:
        A decorator for a function of the closed loop (`loop.F`, `loop.E`, `loop.Y`…,
        see `ClosedLoops`), or of system, policy and context (values by axis). It
        returns one number. It is not asked about linear loops that are unstable.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED_NAMES:
        raise InvalidInputError(
            "The name of a measure must be one word of letters, digits and _, and "
            f"none that questions use already, but got {name!r}."
        )
    if name in MEASURES and not isinstance(MEASURES[name], OwnMeasure):
        raise InvalidInputError(
            f"The measure {name!r} is built in. Choose another name for your own."
        )

    def register(function: F) -> F:
        MEASURES[name] = OwnMeasure(
            function, name, larger_is_better=larger_is_better, unit=unit, words=words
        )
        return function

    return register


RESERVED_NAMES = {"performance", "score", "cost", "worst", "best", "signed"} | {
    "regret", "ratio", "floor"
}  # fmt: skip
