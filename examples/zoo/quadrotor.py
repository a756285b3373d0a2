"""A quadrotor whose four control authorities are unknown: 256 controllers, or one?

Preiss & Sukhatme (L4DC 2021) cover authorities in [0.1, 1]⁴ within a factor 2 of the
optimal cost by 4⁴ = 256 guaranteed-cost controllers, proven for every context. Their
linearised plant has 12 states; weights and initial states are identities. Candidates
here are the LQR gains of 4⁴ contexts, and the one of 0.178 in all four.
"""

import numpy as np
from problem import Problem, percentages, show

import taskspace as ts

quadrotor = ts.systems.Quadrotor()
names = [axis.name for axis in quadrotor.axes]
space = ts.Grid(**dict.fromkeys(names, (0.1, 1.0, 4, "log")))


def make_study():
    """Return the LQR gains at the candidates, tried at the points of the grid."""
    candidates = ts.Points(names, np.concatenate([[[0.178] * 4], space.points]))
    return ts.evaluate(quadrotor, ts.trainers.Lqr(), candidates, targets=space)


PROBLEM = Problem(
    name="quadrotor",
    plant="quadrotor, 12 states, LQR",
    contexts="four authorities, each 0.1 to 1",
    in_use="256 controllers, proven",
    source="Preiss & Sukhatme, L4DC 2021",
    demand="cost at most twice the optimum",
    questions=percentages(100, 20, 50, 200),
    system=quadrotor,
    space=space,
    make_study=make_study,
    interpolate=False,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
