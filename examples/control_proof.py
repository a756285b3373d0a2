"""A python-control plant, certified for every value of its parameters.

A crane carries a load on a rope: the plant comes from `control.ss`, a function of rope
length and load. How it depends on them is found from this code, and some gains of
`control.lqr` are proven to cost at most 10 % more than the best for every crane of the
box, not only for those they were designed for.

    python examples/control_proof.py        # needs python-control
"""

import control
import numpy as np

import taskspace as ts
from taskspace.certificates import certified_cover, enclosure_for
from taskspace.systems import control_family

GRAVITY, TROLLEY, DAMPING = 9.81, 500.0, 50.0  # m/s², kg, N s/m
Q, R = np.diag([1.0, 0.1, 10.0, 1.0]), np.eye(1)


def crane(rope, load):
    """States: place and speed of the trolley, angle of the rope and its rate."""
    pull = load * GRAVITY / TROLLEY
    drag = DAMPING / TROLLEY
    A = [
        [0, 1, 0, 0],
        [0, -drag, pull, 0],
        [0, 0, 0, 1],
        [0, drag / rope, -(GRAVITY + pull) / rope, 0],
    ]
    B = [[0], [1e3 / TROLLEY], [0], [-1e3 / (TROLLEY * rope)]]  # kN
    return control.ss(A, B, np.eye(4), 0)


def main(n: int = 4, epsilon: float = 0.1, time_limit: float = 120.0) -> None:
    family = control_family(
        crane,
        [
            ts.systems.ContextAxis("rope", 5.0, "m", low=0.0, low_open=True),
            ts.systems.ContextAxis("load", 200.0, "kg", low=0.0),
        ],
        Q=Q,
        R=R,
        name="crane",
    )
    space = ts.Grid(rope=(2.0, 10.0, n), load=(50.0, 800.0, n))
    contexts = family.contexts(space)
    # Any gains can be certified; these are python-control's own.
    gains = np.array([control.lqr(crane(*row), Q, R)[0] for row in contexts])
    policies = ts.policies.LinearGain(gains[:, None])
    bounds = enclosure_for(
        family, policies, contexts, ts.Question("ratio", epsilon=0.0)
    )
    cover = certified_cover(bounds, family, space, epsilon, time_limit=time_limit)
    print(cover.certificate.why)
    print(f"{cover.size} of {space.size} gains; {len(cover.boxes)} boxes")


if __name__ == "__main__":
    main()
