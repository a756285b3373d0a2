r"""Controllers with states: makers, and the plant that they close.

A controller $\dot x_c = A_c x_c + B_c y$, $u = -(C_c x_c + D_c y)$ on $y = C x$ is
static feedback $u_a = -K_a y_a$ of the plant with the controller's states added,

$A_a = \mathrm{diag}(A, 0)$, $B_a = \mathrm{diag}(B, I)$, $C_a = \mathrm{diag}(C, I)$,
$K_a = [[D_c, C_c], [-B_c, -A_c]]$, so $A_a - B_a K_a C_a =
[[A - B D_c C, -B C_c], [B_c C, A_c]]$.

The controller's states start at zero and cost nothing: $Q_a = \mathrm{diag}(Q, 0)$,
$R_a = \mathrm{diag}(R, 0)$, $X_{0,a} = \mathrm{diag}(X_0, 0)$. A state that does not
reach the output u (an integral with gain 0) does not count, stable or not. See
docs/controllers.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices


def block_diagonal(first: Array, second: Array) -> Array:
    """Stack two matrices along the diagonal, at every context.

    Args:
        first: shape `(context, …, …)`.
        second: likewise, or one matrix for all contexts.
    """
    second = np.broadcast_to(second, (len(first), *second.shape[-2:]))
    rows, columns = first.shape[1:]
    shape = (rows + second.shape[1], columns + second.shape[2])
    whole = np.zeros((len(first), *shape))
    whole[:, :rows, :columns], whole[:, rows:, columns:] = first, second
    return whole


def augmented(
    matrices: LinearMatrices, C: Array, x0: Array, n_states: int
) -> tuple[LinearMatrices, Array, Array]:
    """Add the states of a controller to a plant.

    Args:
        matrices: of the plant.
        C: its outputs, shape `(context, n_outputs, n_states)`.
        x0: second moment of its initial state.
        n_states: number of the controller's states.

    Returns:
        Matrices, outputs and second moment of the plant with the added states.
    """
    zero, eye = np.zeros((n_states, n_states)), np.eye(n_states)
    A, B, Q, R = matrices
    larger = LinearMatrices(
        block_diagonal(A, zero),
        block_diagonal(B, eye),
        block_diagonal(Q, zero),
        block_diagonal(R, zero),
    )
    return larger, block_diagonal(C, eye), block_diagonal(x0[None], zero)[0]


def unheard_states(controllers: LinearController) -> NDArray[np.bool_]:
    """Return which states of controllers do not reach the output, by state.

    Args:
        controllers: a stack of any leading dims.
    """
    heard = (controllers.C != 0).any(-2)
    for _ in range(controllers.n_states):
        heard |= (heard[..., None] & (controllers.A != 0)).any(-2)
    return ~heard


def without_unheard(controller: LinearController) -> LinearController:
    """Return a single controller without the states that do not reach its output.

    Args:
        controller: without leading dims.
    """
    keep = np.flatnonzero(~unheard_states(controller))
    B_r = controller.B_r
    return replace(
        controller,
        A=controller.A[np.ix_(keep, keep)],
        B=controller.B[keep],
        C=controller.C[:, keep],
        B_r=None if B_r is None else B_r[keep],
    )


def unheard_at_rest(controllers: LinearController) -> LinearController:
    """Return controllers whose states that do not reach the output stay at zero.

    Their output is the same. In continuous time such a state obeys ẋ = −x.

    Args:
        controllers: a stack of any leading dims.
    """
    unheard = unheard_states(controllers)
    if not unheard.any():
        return controllers
    rows = unheard[..., None]
    own = -np.eye(controllers.n_states) * (controllers.time == "continuous")
    B_r = controllers.B_r
    return replace(
        controllers,
        A=np.where(rows, own, controllers.A),
        B=np.where(rows, 0.0, controllers.B),
        B_r=None if B_r is None else np.where(rows, 0.0, B_r),
    )


def Pi(
    kp: ArrayLike, ki: ArrayLike, *, setpoint_weight: float = 1.0
) -> LinearController:
    r"""Return PI controllers, $u = K_p (b r - y) + K_i \int (r - y)$.

    Args:
        kp: proportional gains, of any shape: the leading dims of the stack.
        ki: integral gains, likewise.
        setpoint_weight: b, how much of a step of the set point acts at once.

    Examples:
        >>> controller = Pi(2.0, 0.5)
        >>> controller.D.tolist(), controller.C.tolist()
        ([[2.0]], [[0.5]])
    """
    p, i = np.broadcast_arrays(*(np.asarray(k, np.float64) for k in (kp, ki)))
    one, p4, i4 = (
        np.ones_like(p)[..., None, None],
        p[..., None, None],
        i[..., None, None],
    )
    return LinearController(
        0 * one,
        one,
        i4,
        p4,
        -one,
        -setpoint_weight * p4,
        np.stack([p, i], -1),
        ("kp", "ki"),
    )


def Pid(
    kp: ArrayLike,
    ki: ArrayLike,
    kd: ArrayLike,
    *,
    filter_time: ArrayLike,
    setpoint_weight: float = 1.0,
) -> LinearController:
    r"""Return PID controllers with a filtered derivative of the measurement.

    $u = K_p (b r - y) + K_i \int (r - y) - \frac{K_d s}{1 + \tau s} y$: a step of the
    set point gives no kick of the derivative.

    Args:
        kp: proportional gains, of any shape: the leading dims of the stack.
        ki: integral gains, likewise.
        kd: derivative gains, likewise.
        filter_time: τ, the time constant of the derivative's filter, > 0.
        setpoint_weight: b, how much of a step of the set point acts at once.
    """
    parts = (np.asarray(k, np.float64) for k in (kp, ki, kd, filter_time))
    p, i, d, tau = np.broadcast_arrays(*parts)
    if not (tau > 0).all():
        raise InvalidInputError(
            f"filter_time > 0 must hold, but got {np.asarray(filter_time).tolist()}. "
            "Without a derivative use Pi."
        )
    zero, one = np.zeros_like(p), np.ones_like(p)

    def rows(*entries: tuple[Array, ...]) -> Array:
        return np.stack([np.stack(row, -1) for row in entries], -2)

    return LinearController(
        rows((zero, zero), (zero, -1 / tau)),
        rows((one,), (1 / tau,)),
        rows((i, -d / tau)),
        rows((p + d / tau,)),
        rows((-one,), (zero,)),
        rows((-setpoint_weight * p,)),
        np.stack([p, i, d, tau], -1),
        ("kp", "ki", "kd", "filter_time"),
    )


def in_rates(controllers: LinearController) -> LinearController:
    """Return PI or PID controllers for a plant in rates, which measures (ẏ, y).

    The integrator is gone: its rate is y itself. See `rate_form`.

    Args:
        controllers: of `Pi` or `Pid`; those that measure (ẏ, y) already stay as they
            are.
    """
    if controllers.D.shape[-1] == 2:
        return controllers
    n = controllers.n_states
    assert controllers.parameters is not None
    ki = controllers.parameters[..., 1, None, None]
    B = controllers.B[..., 1:, :]
    return LinearController(
        controllers.A[..., 1:, 1:],
        np.concatenate([B, np.zeros_like(B)], -1),
        controllers.C[..., :, 1:],
        np.concatenate([controllers.D, ki], -1),
        np.zeros((*B.shape[:-2], n - 1, 0)),
        np.zeros((*B.shape[:-2], 1, 0)),
        parameters=controllers.parameters,
        names=controllers.names,
    )
