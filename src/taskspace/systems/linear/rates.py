r"""A plant in rates: steps of set points and disturbances, and integral action.

A step moves the state in which a plant rests, and a cost of states and inputs that do
not go to zero is infinite. Their rates do go to zero, and so does the error y of a loop
with integral action. So the plant is written in $(\dot x, y)$ with the input $\dot u$:

$\ddot x = A \dot x + B \dot u$, $\dot y = C \dot x$,
$J = -\int y^\top W y + \dot u^\top R \dot u$.

A set point that jumps by 1 is $y(0) = -1$; a disturbance d that jumps, entering as
$\dot x = A x + B u + E d$, is $\dot x(0) = E$. A PI controller is static feedback of
$(\dot y, y)$ here, $\dot u = -(K_p \dot y + K_i y)$, with the set-point weight 0, and
the best feedback of the whole state is the LQR with integral action.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from taskspace.errors import InvalidInputError
from taskspace.systems.linear.base import weight_matrix
from taskspace.systems.linear.family import LinearFamily


@dataclass(frozen=True, eq=False)
class RateForm(LinearFamily):
    """A plant in rates, made by `rate_form`; takes `Pi` and `Pid` as they are."""

    id: ClassVar[str] = "rate-form"
    is_in_rates: ClassVar[bool] = True


def rate_form(
    plant: LinearFamily,
    *,
    output_weight: ArrayLike,
    disturbance: ArrayLike | None = None,
    set_point: float = 1.0,
) -> RateForm:
    """Return a plant in rates, for controllers with integral action.

    Args:
        plant: in continuous time, with C; R weighs the rates of its inputs, and its Q
            and initial covariance are not used.
        output_weight: W, weight of the outputs, a number or a matrix.
        disturbance: E, how disturbances that jump by 1 enter, a matrix with as many
            rows as the plant has states; none if left out.
        set_point: how far each set point jumps; 0 for none.

    Example:
        >>> from taskspace.systems import ContextAxis
        >>> plant = LinearFamily(
        ...     [ContextAxis("k", 1.0)],
        ...     A=lambda k: [[-k]],
        ...     B=lambda k: [[1.0]],
        ...     Q=[[1.0]],
        ...     R=[[0.1]],
        ... )
        >>> servo = rate_form(plant, output_weight=1.0)
        >>> servo.matrices(np.array([[2.0]])).A[0].tolist()
        [[-2.0, 0.0], [1.0, 0.0]]
    """
    if not isinstance(plant, LinearFamily) or not plant.is_continuous:
        raise InvalidInputError(
            "rate_form takes a LinearFamily in continuous time, but got "
            f"{type(plant).__name__}."
        )
    default = np.array([[axis.default for axis in plant.axes]])
    p, n = plant.output_matrix(default).shape[1:]
    m = plant.matrices(default).B.shape[2]
    weight = np.array(output_weight, np.float64)
    W = weight_matrix("output_weight", weight if weight.ndim else weight * np.eye(p))
    entry = np.zeros((n, 1)) if disturbance is None else np.array(disturbance, float)
    if entry.ndim != 2 or len(entry) != n or W.shape != (p, p):
        raise InvalidInputError(
            f"disturbance must have {n} rows and output_weight shape {(p, p)}, but got "
            f"{entry.shape} and {W.shape}."
        )
    whole = np.zeros((n + p, n + p))
    whole[:n, :n] = entry @ entry.T
    whole[n:, n:] = set_point**2 * np.eye(p)
    Q = np.zeros((n + p, n + p))
    Q[n:, n:] = W
    given_A, given_B = _function(plant.A), _function(plant.B)
    given_C = _function(np.eye(n) if plant.C is None else plant.C)

    def A(**context: Any) -> Any:
        top = np.hstack([np.array(given_A(**context)), np.zeros((n, p))])
        bottom = np.hstack([np.array(given_C(**context)), np.zeros((p, p))])
        return np.vstack([top, bottom])

    def B(**context: Any) -> Any:
        return np.vstack([np.array(given_B(**context)), np.zeros((p, m))])

    def C(**context: Any) -> Any:
        top = np.hstack([np.array(given_C(**context)), np.zeros((p, p))])
        bottom = np.hstack([np.zeros((p, n)), np.eye(p)])
        return np.vstack([top, bottom])

    return RateForm(
        plant.context_axes,
        A=A,
        B=B,
        Q=Q,
        R=plant.R,
        x0_covariance=whole,
        name=f"{plant.name}, in rates",
        state_names=[*(f"rate of {x}" for x in plant.states), *_errors(plant)],
        input_names=[f"rate of {u}" for u in plant.inputs],
        C=C,
        output_names=[*(f"rate of {y}" for y in plant.outputs), *_errors(plant)],
    )


def _errors(plant: LinearFamily) -> list[str]:
    return [f"error of {y}" for y in plant.outputs]


def _function(value: Any) -> Callable[..., Any]:
    """Return a matrix as a function of the context."""
    if callable(value):
        return value
    matrix = np.array(value, np.float64)
    return lambda **context: matrix
