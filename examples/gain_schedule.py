"""A gain schedule in python-control: the context is an input of the plant.

A crane moves a load on a rope. The length of the rope is not a state that the
controller steers: the hoist sets it. A few LQR gains serve every length within 2 % of
the optimal cost; a controller of eight lines asks the library for the gain of the
length that is measured, while the hoist moves or stands still.

    python examples/gain_schedule.py
"""

import control
import numpy as np

import taskspace as ts
from taskspace.systems import ContextAxis, control_family

GRAVITY = 9.81
STATES = ["position", "speed", "angle", "rate"]


def matrices(length: float):
    """Trolley whose acceleration is the input, and a damped load below it."""
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[3, 2:] = -GRAVITY / length, -0.1
    return A, np.array([[0.0], [1.0], [0.0], [-1.0 / length]])


def crane() -> control.NonlinearIOSystem:
    """Return the crane with the rope's length as its second input."""

    def rates(_t, x, u, _params):
        A, B = matrices(u[1])
        return A @ x + B @ u[:1]

    return control.nlsys(
        rates, None, states=STATES, inputs=["pull", "length"], outputs=STATES,
        name="crane",
    )  # fmt: skip


def scheduled(library: ts.PolicyLibrary) -> control.NonlinearIOSystem:
    """Return u = −K(length) x, the gain as the library selects it."""

    def pull(_t, _x, u, _params):
        return library.act(u[:1], u[1:])

    return control.nlsys(
        None, pull, inputs=["length", *STATES], outputs=["pull"], name="gains"
    )


def find_library(n: int) -> ts.PolicyLibrary:
    """Return the fewest gains for rope lengths from 1 to 10 m, and who serves what."""
    family = control_family(
        lambda length: control.StateSpace(*matrices(length), np.eye(4), 0),
        [ContextAxis("length", 2.0, "m", low=0.0, low_open=True)],
        Q=np.diag([1.0, 0.1, 1.0, 0.1]),
        R=[[1.0]],
    )
    space = ts.Grid(length=(1.0, 10.0, n))
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(family, trainer, space, seed=0)
    question = ts.Question("ratio", epsilon=0.02)
    cover = ts.minimum_cover(study, question, time_limit=10)
    return ts.library(study, cover, outside="clamp")


def main(n: int = 91, seconds: float = 20.0) -> None:
    library = find_library(n)
    print(f"{library.size} gains serve {n} rope lengths within 2 % of the optimum.")
    loop = control.interconnect(
        [crane(), scheduled(library)], inputs=["length"], outputs=STATES
    )
    time = np.linspace(0.0, seconds, 201)
    ropes = {"Hoisting from 8 m to 2 m": [8.0, 2.0]}
    ropes |= {f"Rope of {x:g} m": [x, x] for x in (1.0, 4.0, 10.0)}
    for name, ends in ropes.items():
        rope = np.interp(time, [0.0, seconds / 2], ends)
        moved = control.input_output_response(loop, time, rope, [1.0, 0.0, 0.0, 0.0])
        print(f"{name}: {abs(moved.outputs[0, -1]):.3f} m from the goal.")


if __name__ == "__main__":
    main()
