"""Which few points of the published pitch schedule of a 5 MW turbine are enough?

The NREL offshore 5 MW turbine pitches its blades by a PI controller whose gains are
scheduled over the pitch angle (Jonkman et al., NREL/TP-500-38060, section 7.3): numbers
below are from there. Above rated wind speed the drive train turns at

    I dω/dt = N (∂P/∂θ) θ / Ω + P ω / Ω²,  ∂P/∂θ = −25.52 MW/rad (1 + θ₀ / 6.302°),

ω the deviation of the generator's speed, seen through the gear box, θ that of the pitch
angle, and the last term the torque of constant power, which drives the speed away. The
actuator's lag of 0.3 s is ours. A gust is a step of the wind's torque.

    python examples/wind_turbine_pi.py
"""

import numpy as np

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
    Q=np.eye(2),
    R=[[400.0]],  # a pitch rate of 0.05 rad/s counts as much as ...
    C=[[-1.0, 0.0]],  # positive gains pitch the blades when it turns too fast
    name="NREL 5 MW turbine",
    state_names=["generator speed [rad/s]", "pitch [rad]"],
    input_names=["pitch demand [rad]"],
    output_names=["speed error [rad/s]"],
)
# ... an error of 5 rad/s of the generator's 122.9.
servo = rate_form(turbine, output_weight=0.04, disturbance=[[1], [0]], set_point=0.0)

QUESTION = ts.Question(
    all_of=[
        ts.Question("ratio", epsilon=0.25),
        ts.Question("floor", measure="disk_margin", epsilon=-0.75),
        ts.Question("floor", measure="decay_rate", epsilon=-0.4),
    ]
)


def main(n: int = 30, time_limit: float = 30.0) -> None:
    points = ts.Grid(pitch=(0.0, 23.5, n))
    share = 1 / (1 + points.points[:, 0] / DOUBLING)  # the published schedule
    schedule = Pi(KP * share, KI * share)
    study = ts.evaluate_policies(servo, schedule, points, sources=points)
    cost = QUESTION.demands[0]
    own = np.diagonal(ts.loss(study, cost).values)
    print(
        f"At its own {n} points the schedule costs {own.min():.0%} to {own.max():.0%} "
        "more than the best feedback of all states."
    )
    for question in (*QUESTION.demands, QUESTION):
        cover = ts.minimum_cover(study, question, time_limit=10)
        at = ", ".join(f"{points.points[s, 0]:.1f}°" for s in cover.sources)
        print(f"{question.label}: {cover.size} of {n} points are enough ({at})")
    result = ts.certify(study, cost, time_limit=time_limit)
    print(next(c.why for c in result.certificates if c.name == "continuum cover"))


if __name__ == "__main__":
    main()
