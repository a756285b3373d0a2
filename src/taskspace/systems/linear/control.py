"""python-control: state-space models as systems (extra `control`)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.policies import LinearController
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.family import LinearFamily

if TYPE_CHECKING:
    import control


def control_family(
    plant: "Callable[..., control.StateSpace | control.TransferFunction]",
    context_axes: Sequence[ContextAxis],
    *,
    Q: ArrayLike | Callable[..., ArrayLike],
    R: ArrayLike | Callable[..., ArrayLike],
    x0_covariance: ArrayLike | None = None,
    name: str = "python-control family",
) -> LinearFamily:
    """Return a linear family from a function that gives a model of python-control.

    A, B and C are used, and the names of states, inputs and outputs. Gains act on the
    whole state, controllers (`Pi`, `Pid`, `controller_of`) on y = C x. A transfer
    function becomes the state space that python-control makes of it, so its states
    have no meaning of their own: weigh its output, see `rate_form`.

    Args:
        plant: function of the context, by name, giving the model; all of them in
            continuous time (`dt = 0`), or all with the same time step.
        context_axes: the parameters that it takes.
        Q: state weight, or a function of the context.
        R: input weight, or a function of the context.
        x0_covariance: second moment of the initial state; the identity if left out.
        name: what to call it in reports.

    Examples:
        >>> import control
        >>> family = control_family(
        ...     lambda k: control.ss([[0, 1], [-k, -1]], [[0], [1]], np.eye(2), 0),
        ...     [ContextAxis("k", 1.0)],
        ...     Q=np.eye(2),
        ...     R=[[1.0]],
        ... )
        >>> family.time
        'continuous'
    """
    ct = import_control()

    @lru_cache(maxsize=1)
    def model(context: tuple[tuple[str, float], ...]) -> Any:
        system: Any = plant(**dict(context))
        if isinstance(system, ct.TransferFunction):
            system = ct.ss(system)
        if not isinstance(system, ct.StateSpace):
            raise InvalidInputError(
                "plant(context) must give a control.StateSpace or TransferFunction, "
                f"but at {dict(context)} it gave {type(system).__name__}."
            )
        if np.any(system.D):
            raise InvalidInputError(
                "A plant must have no direct part, but D is not zero at "
                f"{dict(context)}. Add the lag of the actuator or of the sensor."
            )
        return system

    first = model(tuple((axis.name, axis.default) for axis in context_axes))

    def part(name: str) -> Callable[..., Any]:
        def matrix(**context: float) -> Any:
            system = model(tuple(context.items()))
            if system.dt != first.dt:
                raise InvalidInputError(
                    "All models must have the same time step, but dt is "
                    f"{first.dt} in one and {system.dt} at {context}."
                )
            return getattr(system, name)

        return matrix

    return LinearFamily(
        context_axes=context_axes,
        A=part("A"),
        B=part("B"),
        Q=Q,
        R=R,
        x0_covariance=x0_covariance,
        time="discrete" if first.isdtime(strict=True) else "continuous",
        name=name,
        C=part("C"),
        state_names=list(first.state_labels),
        input_names=list(first.input_labels),
        output_names=list(first.output_labels),
    )


def controller_of(
    model: "control.StateSpace | control.TransferFunction",
) -> LinearController:
    """Return a controller of python-control, u = −K y, as a policy.

    Args:
        model: K, from the measured outputs to the inputs of the plant.

    Example:
        >>> import control
        >>> s = control.tf("s")
        >>> controller_of(2 + 0.5 / s).n_states
        1
    """
    ct = import_control()
    system = ct.ss(model)
    discrete = system.isdtime(strict=True)
    return LinearController(
        system.A,
        system.B,
        system.C,
        system.D,
        time="discrete" if discrete else "continuous",
    )


def import_control() -> Any:
    """Import python-control, or say which extra has it."""
    try:
        import control
    except ImportError as error:
        raise MissingExtraError("The python-control bridge", "control") from error
    return control
