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
        shape: of a gain, or of the output feedback of a static controller; empty for
            PI and PID controllers.
        is_gain: whether policies are gains of the whole state.
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
        if self.names == PI:
            return Pi(
                *np.moveaxis(numbers, -1, 0), setpoint_weight=self.setpoint_weight
            )
        if self.names == PID:
            kp, ki, kd, tau = np.moveaxis(numbers, -1, 0)
            weight = self.setpoint_weight
            return Pid(kp, ki, kd, filter_time=tau, setpoint_weight=weight)
        n_inputs, n_outputs = self.shape
        return LinearController(
            np.zeros((*front, 0, 0)),
            np.zeros((*front, 0, n_outputs)),
            np.zeros((*front, n_inputs, 0)),
            numbers.reshape(*front, n_inputs, n_outputs),
            parameters=numbers,
            names=self.names,
        )


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
        shape = gain.shape[1:]
        names = tuple(f"K[{i + 1},{j + 1}]" for i, j in np.ndindex(shape))
        return Structure(names, shape, is_gain=True), gain.reshape(len(gain), -1)
    if not isinstance(policies, LinearController) or not policies.names:
        raise InvalidInputError(
            "A schedule interpolates gains of the state, or controllers by their named "
            f"parameters (Pi, Pid), but got {type(policies).__name__} without them."
        )
    assert policies.parameters is not None
    numbers = policies.parameters[:, 0]
    structure = Structure(policies.names, policies.D.shape[2:], is_gain=False)
    if policies.names in (PI, PID):
        weight = _setpoint_weight(policies)
        structure = Structure(policies.names, (), False, weight)
    elif len(policies.names) != policies.D[0, 0].size:
        raise _unknown(policies.names)
    # What the numbers give must be the policies themselves.
    made = structure.policies(numbers[:, None])
    if isinstance(system, LinearSystem):
        made, policies = system.stacked(made), system.stacked(policies)  # type: ignore
    own = policies.arrays()
    for name, array in made.arrays().items():
        if own[name].shape != array.shape or not np.allclose(
            own[name], array, rtol=1e-12, atol=0
        ):
            raise _unknown(structure.names)
    return structure, numbers


def _setpoint_weight(policies: LinearController) -> float:
    assert policies.D_r is not None
    assert policies.parameters is not None
    kp, direct = policies.parameters[:, 0, 0], policies.D_r[:, 0, 0]
    if not direct.shape[-1] or not kp.any():
        return 1.0
    first = int(np.flatnonzero(kp)[0])
    return float(-direct[first, 0] / kp[first])


def _unknown(names: tuple[str, ...]) -> InvalidInputError:
    return InvalidInputError(
        "A schedule makes controllers from their parameters anew at every context, "
        "which it can for Pi, Pid and static output feedback in continuous time, but "
        f"got controllers that these do not give, with {', '.join(names)}."
    )
