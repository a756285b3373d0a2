"""Compile every kernel once, before two test workers would do it side by side.

Tests of time limits then measure searches, not compilers. Quick where all is there.
"""

import time

import numpy as np

import taskspace as ts
from taskspace.cli.kernels import KERNELS, compile_kernels


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


def main() -> None:
    """Compile, and say how long it took."""
    began = time.perf_counter()
    compile_kernels(lambda *what: print("compile:", *what[3:]), list(KERNELS))
    linear_boxes()
    print(f"kernels are compiled ({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
