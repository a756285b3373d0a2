"""A wind turbine's pitch loop: thirty rows, or how few?

The NREL offshore 5 MW turbine pitches its blades by a PI controller whose gains are
scheduled over the pitch angle (Jonkman et al., NREL/TP-500-38060, section 7.3); open
turbine controllers ship such a schedule as a table of 30 rows. Above rated wind speed

    I dω/dt = N (∂P/∂θ) θ / Ω + P ω / Ω²,  ∂P/∂θ = −25.52 MW/rad (1 + θ₀ / 6.302°),

ω the deviation of the generator's speed, seen through the gear box, θ that of the pitch
angle. The lag of the actuator, 0.3 s, and the weights are ours. A gust is a step of the
wind's torque. The schedule is the published one; only its points are chosen.
"""

from problem import Problem, show

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily, Pi, rate_form

INERTIA, GEAR, RATED = 43_784_725.0, 97.0, 1.2671  # kg m², -, rad/s
POWER, SENSITIVITY, DOUBLING = 5.29661e6, 25.52e6, 6.302336  # W, W/rad, deg
KP, KI, LAG = 0.01882681, 0.008068634, 0.3  # s, -, s

turbine = LinearFamily(
    [ContextAxis("pitch", 10.0, "deg", low=0.0, high=24.0)],
    A=lambda pitch: [
        [
            POWER / (INERTIA * RATED**2),
            -GEAR * SENSITIVITY * (1 + pitch / DOUBLING) / (INERTIA * RATED),
        ],
        [0, -1 / LAG],
    ],
    B=lambda pitch: [[0], [1 / LAG]],
    Q=[[1.0, 0.0], [0.0, 1.0]],
    R=[[400.0]],  # a pitch rate of 0.05 rad/s counts as much as ...
    C=[[-1.0, 0.0]],  # positive gains pitch the blades when it turns too fast
    name="NREL 5 MW turbine",
)
# ... an error of 5 rad/s of the generator's 122.9.
servo = rate_form(turbine, output_weight=0.04, disturbance=[[1], [0]], set_point=0.0)
points = ts.Grid(pitch=(0.0, 23.5, 30))


def make_study():
    """Return the published schedule at its 30 points."""
    share = 1 / (1 + points.points[:, 0] / DOUBLING)
    policies = Pi(KP * share, KI * share)
    return ts.evaluate_policies(servo, policies, points, sources=points)


PROBLEM = Problem(
    name="turbine",
    plant="wind turbine, PI of the pitch",
    contexts="pitch angle 0 to 23.5°",
    in_use="30 rows, interpolated",
    source="NREL/TP-500-38060, section 7.3; open turbine controllers",
    demand="cost at most 25 % above the best feedback of all states, disk margin 0.75, "
    "decay rate 0.4 per second",
    questions={
        p / 100: f"ratio <= {p} % and disk_margin >= 0.75 and decay_rate >= 0.4"
        for p in (25, 15, 20, 30, 50)
    },
    system=servo,
    space=points,
    make_study=make_study,
    used_at=tuple(points.points[:, 0]),
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
