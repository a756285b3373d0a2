"""Two carts and a spring: how many LQG controllers does an unknown spring need?

A benchmark of multi-model adaptive control (after Fekri, Athans and Pascoal): the force
acts on the first cart, the position of the second is measured, a coloured disturbance
pushes it, and the stiffness k1 of the spring between them is unknown. There the answer
is four models. Here a controller is the LQG controller of one k1, and it serves another
k1 if its cost is near that of the LQG controller made for it. The costs come from SciPy
as a table, so every answer is about this table.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from problem import Problem, percentages, show
from scipy.linalg import block_diag, solve_continuous_are, solve_continuous_lyapunov

import taskspace as ts

EFFORT, NOISE = 0.1**2, 1e-6  # weight of the force; intensity of the sensor's noise


@dataclass
class Carts:
    """Masses, spring of the second cart, dampers, bandwidth of the disturbance."""

    stiffness: np.ndarray
    m1: float = 1.0
    m2: float = 1.0
    k2: float = 0.15
    b: float = 0.1
    alpha: float = 0.1
    weight: float = 50.0**2

    def plant(self, k1):
        """States: both positions, both speeds, the disturbance."""
        m1, m2, b = self.m1, self.m2, self.b
        A = [
            [0, 0, 1, 0, 0],
            [0, 0, 0, 1, 0],
            [-k1 / m1, k1 / m1, -b / m1, b / m1, 0],
            [k1 / m2, -(k1 + self.k2) / m2, b / m2, -2 * b / m2, 1 / m2],
            [0, 0, 0, 0, -self.alpha],
        ]
        B, C = np.zeros((5, 1)), np.zeros((1, 5))
        B[2, 0], C[0, 1] = 1 / m1, 1.0
        push = np.diag([0, 0, 0, 0, self.alpha**2])
        return np.array(A), B, C, push

    def lqg(self, k1):
        """Return the LQG controller of one stiffness: its dynamics, filter and gain."""
        A, B, C, push = self.plant(k1)
        P = solve_continuous_are(A, B, self.weight * C.T @ C, [[EFFORT]])
        S = solve_continuous_are(A.T, C.T, push, [[NOISE]])
        K, L = B.T @ P / EFFORT, S @ C.T / NOISE
        return A - B @ K - L @ C, L, K

    def cost(self, controller, k1):
        """Return the mean of weighted output and effort; infinite if unstable."""
        (A, B, C, push), (inner, L, K) = self.plant(k1), controller
        loop = np.block([[A, -B @ K], [L @ C, inner]])
        if np.linalg.eigvals(loop).real.max() >= 0:
            return np.inf
        X = solve_continuous_lyapunov(loop, -block_diag(push, NOISE * L @ L.T))
        weights = np.asarray(block_diag(self.weight * C.T @ C, EFFORT * K.T @ K))
        return np.trace(weights @ np.asarray(X))

    def study(self):
        """Return the cost of every controller at every stiffness."""
        names = [f"k1={k:.4g}" for k in self.stiffness]
        costs = [
            [self.cost(controller, k1) for k1 in self.stiffness]
            for controller in map(self.lqg, self.stiffness)
        ]
        frame = pd.DataFrame(costs, index=names, columns=names)
        return ts.study_from(frame, lower_is_better=True)


PROBLEM = Problem(
    name="carts",
    plant="two carts and a spring, LQG",
    contexts="stiffness 0.25 to 1.75",
    in_use="4 models",
    source="after Fekri, Athans and Pascoal (2006), doi:10.1002/acs.912",
    demand="cost at most twice that of the best output feedback at each stiffness",
    questions=percentages(100, 5, 10, 20, 50, 200),
    make_study=Carts(np.linspace(0.25, 1.75, 61)).study,
    interpolate=False,
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
