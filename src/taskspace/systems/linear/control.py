"""python-control: state-space models as systems (extra `control`)."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.family import LinearFamily

if TYPE_CHECKING:
    import control

__all__ = ["control_family", "import_control"]


def control_family(
    plant: "Callable[..., control.StateSpace]",
    context_axes: Sequence[ContextAxis],
    *,
    Q: ArrayLike | Callable[..., ArrayLike],
    R: ArrayLike | Callable[..., ArrayLike],
    x0_covariance: ArrayLike | None = None,
    horizon: float = np.inf,
    name: str = "python-control family",
) -> LinearFamily:
    """A linear family from a function that gives a `control.StateSpace`.

    Only A and B are used, and the names of states and inputs: the policies are
    full-state feedback.

    Args:
        plant: function of the context, by name, giving the model; all of them in
            continuous time (`dt = 0`), or all with the same time step.
        context_axes: the parameters that it takes.
        Q: state weight, or a function of the context.
        R: input weight, or a function of the context.
        x0_covariance: second moment of the initial state; the identity if left out.
        horizon: time or number of steps; infinite by default.
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
    first = plant(**{axis.name: axis.default for axis in context_axes})

    @lru_cache(maxsize=1)
    def model(context: tuple[tuple[str, float], ...]) -> Any:
        found = plant(**dict(context))
        if not isinstance(found, ct.StateSpace):
            raise InvalidInputError(
                "plant(context) must give a control.StateSpace, but at "
                f"{dict(context)} it gave {type(found).__name__}."
            )
        if found.dt != first.dt:
            raise InvalidInputError(
                "All models must have the same time step, but dt is "
                f"{first.dt} in one and {found.dt} at {dict(context)}."
            )
        return found

    labels: tuple[list[str] | None, list[str] | None] = (None, None)
    if isinstance(first, ct.StateSpace):
        labels = list(first.state_labels), list(first.input_labels)
    discrete = isinstance(first, ct.StateSpace) and first.isdtime(strict=True)
    return LinearFamily(
        context_axes=context_axes,
        A=lambda **context: model(tuple(context.items())).A,
        B=lambda **context: model(tuple(context.items())).B,
        Q=Q,
        R=R,
        x0_covariance=x0_covariance,
        time="discrete" if discrete else "continuous",
        horizon=horizon,
        name=name,
        state_names=labels[0],
        input_names=labels[1],
    )


def import_control() -> Any:
    """Import python-control, or say which extra has it."""
    try:
        import control
    except ImportError as error:
        raise MissingExtraError("The python-control bridge", "control") from error
    return control
