"""The rate loop of a small aircraft: three profiles by airspeed, or how few?

The effectiveness of a control surface grows with the square of the airspeed, and little
else changes: ṗ = κ u with κ ~ v². A gain serves while the bandwidth κK of the loop lies
within a factor of the wanted one, so the fewest constant gains have a closed form:
ceil(ln(range of κ) / ln f), f the highest over the lowest bandwidth allowed. Small
autopilots offer three profiles.
"""

import numpy as np
from problem import Problem, show

import taskspace as ts
from taskspace.policies import LinearGain

BANDWIDTH = 10.0  # rad/s
wing = ts.systems.LinearFamily(
    [ts.systems.ContextAxis("airspeed", 50.0, "kn", low=0.0, low_open=True)],
    A=[[0.0]],
    B=lambda airspeed: [[(airspeed / 50) ** 2]],
    Q=[[1.0]],
    R=[[1.0]],
    name="roll rate of a small aircraft",
)


@ts.measure("bandwidth_factor", larger_is_better=False)
def bandwidth_factor(loop):
    """Return how far the bandwidth is from the wanted one, as a factor up or down."""
    ratio = -loop.F[0, 0] / BANDWIDTH
    return float(max(ratio, 1 / ratio))


space = ts.Grid(airspeed=(40.0, 65.0, 101))


def make_study():
    """Return the gains that give the wanted bandwidth at each airspeed."""
    gains = BANDWIDTH / (space.points / 50) ** 2
    return ts.evaluate_policies(
        wing, LinearGain(gains[..., None, None]), space, sources=space
    )


def law(factor):
    """Return the fewest constant gains on the whole range, by the closed form."""
    return int(np.ceil(2 * np.log(65 / 40) / np.log(factor)))


PROBLEM = Problem(
    name="wing",
    plant="small aircraft, roll rate",
    contexts="airspeed 40 to 65 kn",
    in_use="3 profiles",
    source="profiles of small autopilots",
    demand="bandwidth within a factor 1.3 of the wanted one",
    questions={
        factor - 1: f"bandwidth_factor <= {factor}"
        for factor in (1.3, 1.1, 1.2, 1.5, 1.7)
    },
    system=wing,
    space=space,
    make_study=make_study,
    candidates=41,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
    print("closed form:", [law((1 + t) ** 2) for t in PROBLEM.questions])
