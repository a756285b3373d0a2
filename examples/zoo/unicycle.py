"""A unicycle of python-control's documentation: twelve gains, or how few?

The documentation of gain-scheduled state feedback (python-control 0.10.2, section
"Gain scheduling") linearises a unicycle at speeds 1, 5, 10 and four headings from 0 to
90 degrees, makes an LQR gain (Q = I, R = I) at each of the twelve, and interpolates.
"""

import numpy as np
from problem import Problem, percentages, show

import taskspace as ts

unicycle = ts.systems.LinearFamily(
    [
        ts.systems.ContextAxis("speed", 5.0, "m/s", low=0.0, low_open=True),
        ts.systems.ContextAxis("heading", 0.5, "rad"),
    ],
    A=lambda speed, heading: [
        [0, 0, -speed * np.sin(heading)],
        [0, 0, speed * np.cos(heading)],
        [0, 0, 0],
    ],
    B=lambda speed, heading: [[np.cos(heading), 0], [np.sin(heading), 0], [0, 1]],
    Q=np.eye(3),
    R=np.eye(2),
    name="unicycle",
)

PROBLEM = Problem(
    name="unicycle",
    plant="unicycle, LQR",
    contexts="speed 1 to 10 m/s × heading 0 to 90°",
    in_use="12 gains (3 × 4), interpolated",
    source="python-control 0.10.2, documentation of gain scheduling",
    demand="cost at most 5 % above the optimum at each condition",
    questions=percentages(5, 2, 10, 20, 50),
    system=unicycle,
    space=ts.Grid(speed=(1.0, 10.0, 10), heading=(0.0, np.pi / 2, 9)),
)

if __name__ == "__main__":
    show(PROBLEM)
