"""Blood pressure under a drug whose effect differs between patients by 36 to 1.

A family in which only the gain changes (after the literature on sodium nitroprusside,
where several models run in parallel): the pressure follows the infusion with a gain
κ from 0.25 to 9 mmHg h/ml. A controller serves while its loop gain lies within a factor
of the wanted one, so the fewest constant controllers have a closed form:
ceil(ln 36 / ln f), f the highest over the lowest loop gain allowed.
"""

import numpy as np
from problem import Problem, show

import taskspace as ts
from taskspace.policies import LinearGain

BANDWIDTH, LAG = 0.5, 1.0  # per minute, minutes
pressure = ts.systems.LinearFamily(
    [ts.systems.ContextAxis("kappa", 1.0, "mmHg h/ml", low=0.0, low_open=True)],
    A=[[0.0]],
    B=lambda kappa: [[kappa / LAG]],
    Q=[[1.0]],
    R=[[1.0]],
    name="blood pressure",
)


@ts.measure("loop_gain_factor", larger_is_better=False)
def loop_gain_factor(loop):
    """Return how far the loop gain is from the wanted one, as a factor up or down."""
    ratio = -loop.F[0, 0] / BANDWIDTH
    return float(max(ratio, 1 / ratio))


space = ts.Grid(kappa=(0.25, 9.0, 201, "log"))


def make_study():
    """Return the controllers that are right for each patient."""
    gains = BANDWIDTH * LAG / space.points
    policies = LinearGain(gains[..., None, None])
    return ts.evaluate_policies(pressure, policies, space, sources=space)


def law(factor):
    """Return the fewest constant controllers for all patients, by the closed form."""
    return int(np.ceil(np.log(36) / np.log(factor)))


PROBLEM = Problem(
    name="pressure",
    plant="blood pressure, infusion of a drug",
    contexts="gain 0.25 to 9 mmHg h/ml",
    in_use="several models",
    source="no number is claimed here",
    demand="loop gain within a factor 1.4 of the wanted one",
    questions={
        factor - 1: f"loop_gain_factor <= {factor}"
        for factor in (1.4, 1.2, 1.3, 1.6, 1.8, 2)
    },
    system=pressure,
    space=space,
    make_study=make_study,
    candidates=41,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
    print("closed form:", [law((1 + t) ** 2) for t in PROBLEM.questions])
