"""Steps of the set points: overshoot and settling time, simulated.

The response is computed at `N_TIMES` times with the exact exponential of the loop, up
to the time at which its slowest mode has fallen to `REST`. What happens between these
times is not looked at, so these are numbers of a simulation and no bounds.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.linear.measures.base import Measure, closed_loops

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

N_TIMES = 1000
REST = 1e-3
SETTLED = 0.02
"""Within so much of the final value the response has settled."""


def step_responses(
    system: "LinearSystem", policies: Policy, contexts: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return responses of each output to a step of its own set point.

    Args:
        system: the tasks.
        policies: a stack of controllers with leading dims `(source, policy)`.
        contexts: full context rows.

    Returns:
        Times `(source, policy, target, time)`, responses over their final values with
        the dim `output` added at the end, and which loops are stable.
    """
    stack = system.stacked(policies)
    if not isinstance(stack, LinearController):
        raise InvalidInputError(
            "A step response needs controllers with set points (Pi, Pid, "
            "LinearController), but got gains of the whole state."
        )
    if system.direct_matrix(contexts[:1]) is not None:
        raise InvalidInputError(
            "A step response is simulated for plants without a direct part. Leave D "
            "out, and add the lag of the actuator or of the sensor."
        )
    if system.is_in_rates:
        raise InvalidInputError(
            "A step response is simulated with the plant itself, but the system is in "
            "rates. Evaluate the controllers with the family that it was made from."
        )
    loops = closed_loops(system, stack, contexts)
    assert stack.B_r is not None
    assert stack.D_r is not None
    n_outputs = min(loops.Y.shape[-2], stack.D_r.shape[-1])
    shape, n = loops.F.shape[:3], loops.F.shape[-1]
    times = np.zeros((*shape, N_TIMES))
    responses = np.full((*shape, N_TIMES, n_outputs), np.nan)
    source, policy, _ = places = np.nonzero(loops.stable)
    F, Y = loops.F[places], loops.Y[places]
    entry = -loops.E[places] @ stack.D_r[source, policy]
    entry[:, n - stack.n_states :] += stack.B_r[source, policy]
    step = np.ones(len(F))
    if system.is_continuous:
        slowest = -np.linalg.eigvals(F).real.max(-1, initial=-np.inf)
        step = np.log(1 / REST) / slowest / (N_TIMES - 1)
        steady = np.linalg.solve(-F, entry)
        power = scipy.linalg.expm(F * step[:, None, None])
    else:
        steady, power = np.linalg.solve(np.eye(n) - F, entry), F
    times[places] = step[:, None] * np.arange(N_TIMES)
    final = np.einsum("lij,ljk->lik", Y, steady)
    course = np.empty((len(F), N_TIMES, n_outputs))
    rest = -steady
    for i in range(N_TIMES):
        value = Y @ rest + final
        course[:, i] = np.diagonal(value, axis1=1, axis2=2)[:, :n_outputs]
        rest = power @ rest
    with np.errstate(all="ignore"):
        ends = np.diagonal(final, axis1=1, axis2=2)[:, None, :n_outputs]
        responses[places] = course / ends
    return times, responses, loops.stable


class StepMeasure(Measure):
    """A measure of the response to a step of the set points."""

    larger_is_better: ClassVar[bool] = False

    @abstractmethod
    def response_values(self, times: Array, responses: Array) -> Array:
        """Return the measure of each loop; what it is for an unstable one is ignored.

        Args:
            times: of `step_responses`.
            responses: of `step_responses`.
        """

    def values(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the measure of every policy at every context, inf if unstable.

        Args:
            system: the tasks.
            policies: a stack of controllers with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        times, responses, stable = step_responses(system, policies, contexts)
        return np.where(stable, self.response_values(times, responses), np.inf)


class Overshoot(StepMeasure):
    """How far a step response exceeds its final value, as a share of it."""

    name: ClassVar[str] = "overshoot"
    words: ClassVar[str] = "an overshoot (simulated)"

    def response_values(self, times: Array, responses: Array) -> Array:
        """Return the largest overshoot of an output.

        Args:
            times: not needed.
            responses: of `step_responses`.
        """
        del times
        return np.maximum(responses.max((-1, -2)) - 1, 0.0)


class SettlingTime(StepMeasure):
    """When the last output has come to within 2 % of its final value for good."""

    name: ClassVar[str] = "settling_time"
    words: ClassVar[str] = "a settling time to 2 % (simulated)"
    unit: ClassVar[str] = "units of time"

    def response_values(self, times: Array, responses: Array) -> Array:
        """Return the settling time, NaN where the response has not settled at the end.

        Args:
            times: of `step_responses`.
            responses: of `step_responses`.
        """
        with np.errstate(invalid="ignore"):
            away = np.asarray(~(np.abs(responses - 1) <= SETTLED).all(-1))
        last = N_TIMES - 1 - away[..., ::-1].argmax(-1)
        later = np.minimum(last + 1, N_TIMES - 1)
        settled = np.take_along_axis(times, later[..., None], -1)[..., 0]
        settled = np.where(away.any(-1), settled, 0.0)
        return np.where(away[..., -1], np.nan, settled)


OVERSHOOT = Overshoot()
SETTLING_TIME = SettlingTime()
