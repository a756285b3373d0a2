"""A gain schedule for a plant of your own: an inverted pendulum on a motor.

The length and the mass of the pendulum vary; which few LQR gains balance it
everywhere within 10 % of the optimal cost?

    python examples/own_plant.py
"""

import numpy as np

import taskspace as ts
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily

GRAVITY = 9.81

pendulum = LinearFamily(
    context_axes=[
        ContextAxis("length", 1.0, "m", low=0.0, low_open=True),
        ContextAxis("mass", 1.0, "kg", low=0.0, low_open=True),
    ],
    # State: angle and angular velocity; input: torque at the pivot.
    A=lambda length, mass: [[0, 1], [GRAVITY / length, -0.1 / (mass * length**2)]],
    B=lambda length, mass: [[0], [1 / (mass * length**2)]],
    Q=np.diag([10.0, 1.0]),
    R=[[0.1]],
)


def main(n: int = 20) -> None:
    space = ts.Grid(length=(0.3, 2.0, n), mass=(0.2, 2.0, n, "log"))
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(pendulum, trainer, space, seed=0)
    question = ts.Question("ratio", epsilon=0.1)  # extra cost relative to the optimum
    cover = ts.minimum_cover(study, question, time_limit=10)
    proof = "proven minimal" if cover.optimal else f"at least {cover.lower_bound}"
    print(f"{cover.size} gains serve all {space.size} pendulums ({proof}):")
    assert isinstance(study.policies, LinearGain)
    gains = study.policies.gain[:, 0]
    for source in cover.sources:
        served = int((cover.assignment == source).sum())
        context = ", ".join(f"{k} {v:.2f}" for k, v in space.context(source).items())
        print(f"  {context}: K = {gains[source][0].round(2)}, serves {served}")


if __name__ == "__main__":
    main()
