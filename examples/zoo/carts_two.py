"""Two carts again, with other numbers: one robust controller, or how many LQG?

The second benchmark of multi-model adaptive control (after Fekri, Athans, Pascoal):
masses 1 and 2, a stiffer anchor, stiffness k1 from 1.2 to 2.8. Published: one mixed-mu
controller that holds a weighted norm below 1 for all k1: another demand than the cost
here. See carts.py for what is computed.
"""

import numpy as np
from carts import Carts
from problem import Problem, percentages, show

carts = Carts(
    np.linspace(1.2, 2.8, 61), m2=2.0, k2=1.0, b=0.05, alpha=0.25, weight=80.0**2
)

PROBLEM = Problem(
    name="carts_two",
    plant="two carts, second benchmark, LQG",
    contexts="stiffness 1.2 to 2.8",
    in_use="1 mixed-mu controller",
    source="the same article",
    demand="cost at most twice that of the best output feedback at each stiffness",
    questions=percentages(100, 5, 10, 20, 50, 200),
    make_study=carts.study,
    interpolate=False,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
