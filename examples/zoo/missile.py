"""A pitch-axis missile: 45 design points, or how few gains?

The missile of the gain-scheduling literature (after Reichert 1992 and Nichols, Reichert
and Rugh 1993), linearised at trim. Aerodynamic numbers are as commonly printed; the
weights, and state feedback in place of the published H-infinity designs with their
filters, are ours. So the number in use answers another question about this plant.
States: angle of attack [rad], pitch rate [rad/s], fin angle [rad], its rate.
"""

import numpy as np
from problem import Problem, percentages, show

import taskspace as ts

PRESSURE, AREA, DIAMETER = 973.3, 0.44, 0.75  # lb/ft², ft², ft
MASS, INERTIA, SOUND = 13.98, 182.5, 1036.4  # slug, slug ft², ft/s
K_ALPHA = 0.7 * PRESSURE * AREA / (MASS * SOUND)
K_Q = 0.7 * PRESSURE * AREA * DIAMETER / INERTIA
DEG = 180 / np.pi
FIN, DAMPING = 150.0, 0.7  # rad/s, -


def dynamics(alpha, mach):
    """Linearise at trim; alpha in degrees, coefficients per degree."""
    m1, m2, m3, m4 = 2.15e-4, -1.95e-2, 0.051 * (-7 + 8 * mach / 3), -0.206
    n1, n2, n3, n4 = 1.03e-4, -9.45e-3, -0.1696 * (2 - mach / 3), -0.034
    fin = -(m1 * alpha**3 + m2 * alpha**2 + m3 * alpha) / m4
    lift = n1 * alpha**3 + n2 * alpha**2 + n3 * alpha + n4 * fin
    lift_slope = (3 * n1 * alpha**2 + 2 * n2 * alpha + n3) * DEG
    turn_slope = (3 * m1 * alpha**2 + 2 * m2 * alpha + m3) * DEG
    c, s = np.cos(alpha / DEG), np.sin(alpha / DEG)
    return [
        [
            K_ALPHA * mach * (lift_slope * c - lift * s),
            1,
            K_ALPHA * mach * n4 * DEG * c,
            0,
        ],
        [K_Q * mach**2 * turn_slope, 0, K_Q * mach**2 * m4 * DEG, 0],
        [0, 0, 0, 1],
        [0, 0, -(FIN**2), -2 * DAMPING * FIN],
    ]


missile = ts.systems.LinearFamily(
    [
        ts.systems.ContextAxis("alpha", 10.0, "deg", low=0.0, high=20.0),
        ts.systems.ContextAxis("mach", 3.0, "", low=2.0, high=4.0),
    ],
    A=dynamics,
    B=[[0], [0], [0], [FIN**2]],
    Q=np.diag([10.0, 0.1, 0.0, 0.0]),
    R=[[1.0]],
    x0_covariance=np.diag([1.0, 1.0, 0.0, 0.0]),
    name="pitch-axis missile",
)

PROBLEM = Problem(
    name="missile",
    plant="pitch-axis missile, state feedback",
    contexts="angle of attack 0 to 20° × Mach 2 to 4",
    in_use="45 design points",
    source="after Nichols, Reichert and Rugh (1993)",
    demand="cost at most 10 % above the optimum at each condition",
    questions=percentages(10, 2, 5, 20, 50),
    system=missile,
    space=ts.Grid(alpha=(0.0, 20.0, 11), mach=(2.0, 4.0, 9)),
)

if __name__ == "__main__":
    show(PROBLEM)
