"""A car's lateral LQR over its speed: how few gains does a driving stack need?

Lateral error model of an open driving stack (Apollo, public configuration of its
lateral controller): offset, its rate, heading error, its rate. There the Riccati
equation is solved on line, with five rows of weights over the speed. That schedule of
weights changes the cost on purpose; here the weights stay, so the number is another.
"""

import numpy as np
from problem import Problem, percentages, show

import taskspace as ts

MASS, LEVER, STIFFNESS = 2080.0, 1.4224, 155494.663  # kg, m, N/rad of each axle
INERTIA = LEVER**2 * MASS  # kg m²

car = ts.systems.LinearFamily(
    [ts.systems.ContextAxis("speed", 15.0, "m/s", low=0.0, low_open=True)],
    A=lambda speed: [
        [0, 1, 0, 0],
        [0, -2 * STIFFNESS / (MASS * speed), 2 * STIFFNESS / MASS, 0],
        [0, 0, 0, 1],
        [0, 0, 0, -2 * LEVER**2 * STIFFNESS / (INERTIA * speed)],
    ],
    B=lambda speed: [[0], [STIFFNESS / MASS], [0], [LEVER * STIFFNESS / INERTIA]],
    Q=np.diag([0.05, 0.0, 1.0, 0.0]),
    R=[[1.0]],
    name="lateral control of a car",
)

PROBLEM = Problem(
    name="car",
    plant="car, lateral LQR",
    contexts="speed 2 to 35 m/s",
    in_use="5 rows of weights",
    source="Apollo, public configuration of the lateral controller",
    demand="cost at most 1 % above the optimum at each speed",
    questions=percentages(1, 0.5, 2, 5, 10, 20),
    system=car,
    space=ts.Grid(speed=(2.0, 35.0, 34)),
)

if __name__ == "__main__":
    show(PROBLEM)
