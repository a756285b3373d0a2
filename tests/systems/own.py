"""Systems as users write them, some with a mistake planted in them."""

import numpy as np
import scipy.linalg

from taskspace.systems import ContextAxis, FunctionSystem, GymnasiumSystem, LinearFamily

AXIS_X = ContextAxis("x", 1.0)


def msd_performance(context, gain):
    """J of the mass-spring-damper by SciPy, in a context {k, c}."""
    A = np.array([[0.0, 1.0], [-context["k"], -context["c"]]])
    closed = A - np.array([[0.0], [1.0]]) @ gain
    if np.linalg.eigvals(closed).real.max() >= 0:
        return -np.inf
    weight = np.diag([10.0, 4.0]) + gain.T @ gain
    return -np.trace(scipy.linalg.solve_continuous_lyapunov(closed.T, -weight))


def hit(context, policy):
    """Score of aiming at `policy` where the target is at x."""
    return -((context["x"] - policy) ** 2)


def miss(context, policy):
    """The same with its sign flipped: a cost."""
    return (context["x"] - policy) ** 2


NOISE = np.random.default_rng()


def noisy(context, policy):
    return hit(context, policy) + NOISE.normal()


def broken(context, policy):
    """Not a number for large x."""
    return float("nan") if context["x"] > 1.2 else hit(context, policy)


def aiming(function, *axes):
    """A system of aiming, with three policies made for x = 0, 1 and 2."""
    return FunctionSystem(
        function,
        [AXIS_X, *axes],
        examples=[0.0, 1.0, 2.0],
        homes=[{"x": 0.0}, {"x": 1.0}, {"x": 2.0}],
    )


good = aiming(hit)
unjudged = FunctionSystem(hit, [AXIS_X], examples=[0.0, 1.0])
flipped = aiming(miss)
dead = aiming(hit, ContextAxis("colour", 1.0))
random = aiming(noisy)
not_a_number = aiming(broken)

pendulum = LinearFamily(
    [ContextAxis("length", 1.0, "m", low=0.0, low_open=True)],
    A=lambda length: [[0, 1], [9.81 / length, 0]],
    B=lambda length: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
)


def make_pendulum(gravity: float = 9.81) -> LinearFamily:
    """A pendulum with a setting."""
    return LinearFamily(
        [ContextAxis("length", 1.0, "m", low=0.0, low_open=True)],
        A=lambda length: [[0, 1], [gravity / length, 0]],
        B=lambda length: [[0], [1]],
        Q=np.eye(2),
        R=[[1.0]],
    )


CART_AXES = (
    ContextAxis("masscart", 1.0, "kg", low=0.0, low_open=True),
    ContextAxis("length", 0.5, "m", low=0.0, low_open=True),
)


def stale_cartpole() -> GymnasiumSystem:
    """CARL's mistake: `total_mass` is computed before `masscart` is set."""
    return GymnasiumSystem("CartPole-v1", CART_AXES, n_episodes=2)


def fresh_cartpole() -> GymnasiumSystem:
    """The same with its derived fields."""
    return GymnasiumSystem(
        "CartPole-v1",
        CART_AXES,
        derived={
            "total_mass": lambda env: env.masspole + env.masscart,
            "polemass_length": lambda env: env.masspole * env.length,
        },
        n_episodes=2,
    )
