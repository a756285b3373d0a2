"""Systems and tables that several tests use."""

import numpy as np

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily


def four_states(**options) -> LinearFamily:
    """Two coupled masses; the context is their coupling. No fast path."""
    return LinearFamily(
        context_axes=[
            ContextAxis("coupling", 0.3, "N/m", low=0.0),
            ContextAxis("mass", 1.0, "kg", low=0.0, low_open=True),
        ],
        A=lambda coupling, mass: [
            [0, 1, 0, 0],
            [-(2 + coupling) / mass, -0.4 / mass, coupling / mass, 0],
            [0, 0, 0, 1],
            [coupling, 0, -(1 + coupling), -0.2],
        ],
        B=lambda coupling, mass: [[0, 0], [1 / mass, 0], [0, 0], [0, 1]],
        **({"Q": np.diag([3.0, 1.0, 2.0, 1.0]), "R": np.eye(2)} | options),
    )


def small_table(n: int = 6, n_policies: int = 3, noise: float = 0.3):
    """A small table of the mass-spring-damper."""
    space = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
    trainer = ts.trainers.Lqr(n_policies=n_policies, noise=noise)
    return ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=3).table
