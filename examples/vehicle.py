"""A car's lateral dynamics, whatever its speed, load and tyres.

The bicycle model at some speed, mass and cornering stiffness (of both axles): rational
in the speed, so no polynomial says it. The plant is written as one writes it; how it
depends on the context is found from this code.

    python examples/vehicle.py
"""

import time

import numpy as np

import taskspace as ts
from taskspace.certificates import certified_cover, enclosure_for

WHEELBASE, LEVER = 2.7, 1.2  # m; of the centre of mass to the front axle


def lateral(speed, mass, stiffness):
    """States: sideslip angle, yaw rate, heading, lateral offset."""
    front, rear = LEVER, WHEELBASE - LEVER
    inertia = mass * front * rear
    c = 1e4 * stiffness
    A = np.zeros((4, 4))
    A[0, 0] = -2 * c / (mass * speed)
    A[0, 1] = -1 - c * (front - rear) / (mass * speed**2)
    A[1, 0] = -c * (front - rear) / inertia
    A[1, 1] = -c * (front**2 + rear**2) / (inertia * speed)
    A[2, 1] = 1.0
    A[3, 0] = speed
    A[3, 2] = speed
    return A


def steering(speed, mass, stiffness):
    c = 1e4 * stiffness
    inertia = mass * LEVER * (WHEELBASE - LEVER)
    return [[c / (mass * speed)], [c * LEVER / inertia], [0], [0]]


def make_car() -> ts.systems.LinearFamily:
    return ts.systems.LinearFamily(
        context_axes=[
            ts.systems.ContextAxis("speed", 20.0, "m/s", low=0.0, low_open=True),
            ts.systems.ContextAxis("mass", 1500.0, "kg", low=0.0, low_open=True),
            ts.systems.ContextAxis("stiffness", 8.0, "10 kN/rad", low=0.0),
        ],
        A=lateral,
        B=steering,
        Q=np.diag([1.0, 1.0, 10.0, 0.1]),
        R=[[10.0]],
        name="car",
    )


def main(n: int = 4, epsilon: float = 0.05, time_limit: float = 120.0) -> None:
    car = make_car()
    space = ts.Grid(
        speed=(10.0, 35.0, n), mass=(1200.0, 2000.0, n), stiffness=(6.0, 12.0, n)
    )
    contexts = car.contexts(space)
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(car, trainer, space, seed=0)
    bounds = enclosure_for(
        car, study.policies, contexts, ts.Question("ratio", epsilon=0.0)
    )
    bounds.bounds(ts.certificates.Boxes.points(contexts[:1]))
    start = time.perf_counter()
    cover = certified_cover(
        bounds, car, space, epsilon, n_cells=n - 1, time_limit=time_limit
    )
    print(cover.certificate.why)
    print(
        f"{cover.size} of {space.size} gains, at least {cover.lower_bound} needed; "
        f"{len(cover.boxes)} boxes, {time.perf_counter() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
