"""Three loops that engineers know, tuned at each operating point: which few are enough?

A DC drive with a flexible shaft whose load inertia varies, the level of a tank behind a
pipe with a delay that depends on the flow (Padé approximation of order 2), and the
short period of an aircraft over its speed, with feedback of the pitch rate alone. Gains
are PI controllers of least cost after steps of the set point and of a disturbance.

    python examples/classic_loops.py
"""

import numpy as np

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily, rate_form

# States: motor speed, twist of the shaft, load speed; the load's speed is measured.
drive = LinearFamily(
    [ContextAxis("inertia", 1.0, "kg m²", low=0.0, low_open=True)],
    A=lambda inertia: [
        [-0.5, -40.0, 0],
        [1, 0, -1],
        [0, 40.0 / inertia, -0.2 / inertia],
    ],
    B=lambda inertia: [[1.0], [0], [0]],
    Q=np.eye(3),
    R=[[5.0]],
    C=[[0, 0, 1.0]],
    name="DC drive with a flexible shaft",
)

# A tank that leaks, and a pipe: e^(−Ts) ≈ (1 − Ts/2 + T²s²/12) / (1 + Ts/2 + T²s²/12)
# for the delay T = volume of the pipe / flow, as a chain behind the valve.
tank = LinearFamily(
    [ContextAxis("flow", 1.0, "l/s", low=0.0, low_open=True)],
    A=lambda flow: [
        [0, 1, 0],
        [-12 * flow**2, -6 * flow, 0],
        [0, -0.1, -0.2],
    ],
    B=lambda flow: [[0], [12 * flow], [0.1]],
    Q=np.eye(3),
    R=[[10.0]],
    C=[[0, 0, 1.0]],
    name="level behind a pipe, Padé of order 2",
)

# Angle of attack and pitch rate; derivatives grow with the speed and its square.
aircraft = LinearFamily(
    [ContextAxis("speed", 1.0, "of 200 m/s", low=0.0, low_open=True)],
    A=lambda speed: [[-0.8 * speed, 1], [-4.0 * speed**2, -1.2 * speed]],
    B=lambda speed: [[0], [-6.0 * speed**2]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[0, -1.0]],
    name="short period of an aircraft",
)

LOOPS = {
    "drive": (drive, [[0], [0], [1]], ts.Grid(inertia=(0.5, 4.0, 12, "log"))),
    "tank": (tank, [[0], [0], [1]], ts.Grid(flow=(0.5, 3.0, 12))),
    "aircraft": (aircraft, [[0], [1]], ts.Grid(speed=(0.5, 1.5, 12))),
}


def main(names: tuple[str, ...] = tuple(LOOPS), n: int | None = None) -> None:
    for name in names:
        plant, disturbance, space = LOOPS[name]
        if n is not None:
            axis = space.names[0]
            low, high = space.points[[0, -1], 0]
            space = ts.Grid(**{axis: (float(low), float(high), n)})
        servo = rate_form(plant, output_weight=1.0, disturbance=disturbance)
        trainer = ts.trainers.Structured("pi", n_starts=2)
        study = ts.evaluate(servo, trainer, space, seed=0)
        margin = ts.Question("floor", measure="disk_margin", epsilon=-0.4)
        best = np.diagonal(ts.loss(study, ts.Question("ratio", epsilon=0.1)).values)
        epsilon = float(best.max()) + 0.05
        question = ts.Question("ratio", epsilon=epsilon, also=(margin,))
        cover = ts.minimum_cover(study, question)
        print(
            f"{plant.name}: {cover.size} of {space.size} PI controllers are within "
            f"{epsilon:.0%} of the best feedback of all states, with a disk margin of "
            f"0.4, at {cover.coverage:.0%} of the points"
        )


if __name__ == "__main__":
    main()
