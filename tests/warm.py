"""Compile every kernel once, before two test workers would do it side by side.

Tests of time limits then measure searches, not compilers. Quick where all is there.
"""

import time

import numpy as np

import taskspace as ts
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.sets import pack


def covers() -> None:
    """Greedy and searches, in a problem no reduction solves."""
    near = np.abs(np.arange(40)[:, None] - np.arange(40)) % 39 <= 1
    problem = near | (np.random.default_rng(0).random((40, 40)) < 0.05)
    ts.greedy_cover(pack(problem))
    ts.cover.local_cover(pack(problem), time_limit=0.1)
    ts.minimum_cover(pack(problem), time_limit=0.5)
    ts.minimum_cover(pack(problem), share=0.9, time_limit=0.5)
    ts.cover.least_mean(np.random.default_rng(0).random((6, 9)), 2)


def loops() -> None:
    """Costs of linear loops."""
    space, trainer = (
        ts.Grid(k=(1.0, 2.0, 2), c=(1.0, 2.0, 2)),
        ts.trainers.Lqr(n_policies=2, noise=0.1),
    )
    ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)


def boxes() -> None:
    """Bounds over boxes of the mass-spring-damper."""
    system, space = ts.systems.MassSpringDamper(), ts.Grid(k=(1, 1.5, 2), c=(1, 1.5, 2))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    study = ts.evaluate(system, trainer, space, seed=0)
    ts.certify(study, ts.Question(epsilon=0.5), time_limit=2.0)


def linear_boxes() -> None:
    """Bounds over boxes for a plant of one's own."""
    plant = ts.systems.LinearFamily(
        context_axes=[ts.systems.ContextAxis("k", 1.0)],
        A=lambda k: np.array([[0.0, 1.0], [-k, -1.0]]),
        B=lambda k: np.array([[0.0], [1.0]]),
        Q=np.eye(2),
        R=np.eye(1),
    )
    space = ts.Grid(k=(0.9, 1.1, 2))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(plant, trainer, space, seed=0).table
    policies = trainer.train(plant, plant.contexts(space), seed=0).policies
    question = ts.Question("ratio", epsilon=1.0)
    ts.certify(
        ts.Study.of(table, system=plant, policies=policies), question, time_limit=1.0
    )


def controllers() -> None:
    """Bounds over boxes of costs, rates and norms of controllers."""
    plant = ts.systems.LinearFamily(
        context_axes=[ts.systems.ContextAxis("k", 1.0)],
        A=lambda k: np.array([[0.0, 1.0], [-k, -1.0]]),
        B=lambda k: np.array([[0.0], [1.0]]),
        Q=np.eye(2),
        R=np.eye(1),
        C=np.array([[1.0, 0.0]]),
    )
    stack, box = plant.stacked(ts.systems.Pi(0.4, 0.2)), Boxes.points(np.ones((1, 1)))
    for question in (
        ts.Question("ratio", epsilon=1.0),
        ts.Question("floor", measure="decay_rate", epsilon=-0.1),
        ts.Question("floor", measure="hinf", epsilon=5.0),
    ):
        bounds = ts.certificates.enclosure_for(plant, stack, np.ones((1, 1)), question)
        bounds.bounds(box, epsilon=question.epsilon)


def main() -> None:
    """Compile, and say how long it took."""
    began = time.perf_counter()
    for warm in (covers, loops, boxes, linear_boxes, controllers):
        warm()
    print(f"kernels are compiled ({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
