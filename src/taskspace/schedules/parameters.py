"""What a schedule interpolates: entries of gains, named parameters of controllers."""

from dataclasses import dataclass

import numpy as np

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain, Policy
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem, Pi, Pid

PI, PID = ("kp", "ki"), ("kp", "ki", "kd", "filter_time")


@dataclass(frozen=True, eq=False)
class Structure:
    """How policies are made from the numbers that a schedule interpolates.

    Args:
        names: one name per number, e.g. `("K[1,1]", "K[1,2]")` or `("kp", "ki")`.
        shape: of a gain; empty for PI and PID controllers.
        is_gain: whether policies are gains of the state, not PI or PID controllers.
        setpoint_weight: of PI and PID controllers.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    is_gain: bool
    setpoint_weight: float = 1.0

    def policies(self, numbers: Array) -> Policy:
        """Return the policies of some numbers.

        Args:
            numbers: shape `(…, len(names))`.
        """
        front = numbers.shape[:-1]
        if self.is_gain:
            return LinearGain(numbers.reshape(*front, *self.shape))
        kp, ki, *others = np.moveaxis(numbers, -1, 0)
        if self.names == PI:
            return Pi(kp, ki, setpoint_weight=self.setpoint_weight)
        kd, tau = others
        return Pid(kp, ki, kd, filter_time=tau, setpoint_weight=self.setpoint_weight)


def gain_structure(shape: tuple[int, ...]) -> Structure:
    """Return the structure of state feedback gains.

    Args:
        shape: of K, `(n_inputs, n_states)`.
    """
    names = tuple(f"K[{i + 1},{j + 1}]" for i, j in np.ndindex(shape))
    return Structure(names, shape, is_gain=True)


def structure_of(system: System, policies: Policy) -> tuple[Structure, Array]:
    """Return what policies are made from, and the numbers of each.

    Args:
        system: the tasks.
        policies: a stack with dims `(source, policy)`, one policy per source.

    Returns:
        The structure, and numbers of shape `(source, number)`.
    """
    if isinstance(policies, LinearGain):
        gain = policies.gain[:, 0]
        return gain_structure(gain.shape[1:]), gain.reshape(len(gain), -1)
    if not isinstance(policies, LinearController) or policies.names not in (PI, PID):
        raise InvalidInputError(
            "A schedule interpolates gains of the state, or PI and PID controllers by "
            f"their parameters, but got {type(policies).__name__} without these."
        )
    assert policies.parameters is not None
    numbers = policies.parameters[:, 0]
    structure = Structure(policies.names, (), False, _setpoint_weight(policies))
    # What the numbers give must be the policies themselves.
    made = structure.policies(numbers[:, None])
    if isinstance(system, LinearSystem):
        made, policies = system.stacked(made), system.stacked(policies)  # type: ignore
    own = policies.arrays()
    for name, array in made.arrays().items():
        if own[name].shape != array.shape or not np.allclose(
            own[name], array, rtol=1e-12, atol=0
        ):
            raise InvalidInputError(
                "A schedule makes controllers from their parameters anew at every "
                "context, as Pi and Pid do in continuous time, but these controllers "
                "are others."
            )
    return structure, numbers


def _setpoint_weight(policies: LinearController) -> float:
    """Return b of u = kp (b r − y) + …, from the first controller with kp ≠ 0."""
    assert policies.D_r is not None
    assert policies.parameters is not None
    kp, direct = policies.parameters[:, 0, 0], policies.D_r[:, 0, 0]
    if not direct.shape[-1] or not kp.any():
        return 1.0
    first = int(np.flatnonzero(kp)[0])
    return float(-direct[first, 0] / kp[first])
