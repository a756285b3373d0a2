"""A quadrotor whose four control authorities are unknown: 256 controllers, or one?

Preiss & Sukhatme (L4DC 2021) cover authorities in [0.1, 1]⁴ within a factor 2 of the
optimal cost by 4⁴ = 256 guaranteed-cost controllers, proven for every context. Their
linearised plant has 12 states; weights and initial states are identities.
"""

from problem import Problem, percentages, show

import taskspace as ts

PROBLEM = Problem(
    name="quadrotor",
    plant="quadrotor, 12 states, LQR",
    contexts="four authorities, each 0.1 to 1",
    in_use="256 controllers, proven",
    source="Preiss & Sukhatme, L4DC 2021",
    demand="cost at most twice the optimum",
    questions=percentages(100, 20, 50, 200),
    system=ts.systems.Quadrotor(),
    space=ts.Grid(
        **{axis.name: (0.1, 1.0, 5, "log") for axis in ts.systems.Quadrotor().axes}
    ),
    interpolate=False,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
