"""Cost of every gain at every context, against one SciPy call a pair.

Peer: the loop that people write, `scipy.linalg.solve_continuous_lyapunov` once for
each (gain, context) pair, measured on a sample. Both run in this process, in turns,
so that a busy machine slows both; the ratio is what counts.

    python benchmarks/bench_evaluation.py
"""

import time
from functools import partial

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

import taskspace as ts
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily, LinearSystem, Pi
from taskspace.systems.linear.controllers import augmented

ROUNDS = 5
SCIPY_SAMPLE = 300


def scipy_seconds_per_cost(system: LinearSystem, gains, contexts) -> float:
    matrices, C = system.matrices(contexts), None
    if gains.shape[-1] != matrices.A.shape[-1]:  # controllers, as feedback of C x
        C = system.output_matrix(contexts)
        n_states = gains.shape[-1] - C.shape[1]
        start = system.initial_covariance
        matrices, C, _ = augmented(matrices, C, start, n_states)
    A, B, Q, R = matrices
    flat = gains.reshape(-1, *gains.shape[2:])
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, [len(flat), len(contexts)], (SCIPY_SAMPLE, 2))
    began = time.perf_counter()
    for p, t in pairs:
        K = flat[p] if C is None else flat[p] @ C[t]
        F, W = A[t] - B[t] @ K, Q[t] + K.T @ R[t] @ K
        np.trace(scipy.linalg.solve_continuous_lyapunov(F.T, -W))
    return (time.perf_counter() - began) / SCIPY_SAMPLE


def compare(system: LinearSystem, gains, contexts, evaluate) -> tuple[float, float]:
    """Median seconds a cost of SciPy and of ours, measured in turns."""
    evaluate()  # compile
    n_costs = gains.shape[0] * gains.shape[1] * len(contexts)
    peer, ours = [], []
    for _ in range(ROUNDS):
        peer.append(scipy_seconds_per_cost(system, gains, contexts))
        began = time.perf_counter()
        evaluate()
        ours.append((time.perf_counter() - began) / n_costs)
    return float(np.median(peer)), float(np.median(ours))


def mass_spring_damper():
    """Time a slice of the paper's instance: 1,000 sources, 10 gains, 10,000 targets."""
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Grid(k=(0.1, 8.0, 100), c=(0.1, 8.0, 100)))
    sources = contexts[::10]
    family = ts.trainers.Lqr(n_policies=10, noise=0.1)
    gains = family.train(system, sources, seed=0).policies.gain
    home = system.home_performance(LinearGain(gains), sources)

    def evaluate():
        for rows in range(0, len(gains), 250):
            block = slice(rows, rows + 250)
            system.reduce_family(LinearGain(gains[block]), home[block], contexts)

    return system, gains, contexts, evaluate


def general_family():
    """Four states, two inputs, no fast path: 20 sources x 10 gains x 400 targets."""
    system = LinearFamily(
        context_axes=[ContextAxis("k", 1.0), ContextAxis("m", 1.0)],
        A=lambda k, m: [
            [0, 1, 0, 0],
            [-(1 + k) / m, -0.3 / m, k / m, 0],
            [0, 0, 0, 1],
            [k, 0, -(1 + k), -0.2],
        ],
        B=lambda k, m: [[0, 0], [1 / m, 0], [0, 0], [0, 1]],
        Q=np.eye(4),
        R=np.eye(2),
    )
    contexts = system.contexts(ts.Grid(k=(0.1, 2.0, 20), m=(0.5, 2.0, 20)))
    family = ts.trainers.Lqr(n_policies=10, noise=0.1)
    gains = family.train(system, contexts[::20], seed=0).policies.gain
    return (
        system,
        gains,
        contexts,
        lambda: system.performance(LinearGain(gains), contexts),
    )


def controlled_family(n: int):
    """PI controllers on a chain of lags, n closed-loop states: 50 x 400 costs."""
    lags = n - 1

    def A(k):
        return np.diag([-k] + [-1.0] * (lags - 1)) + np.diag([1.0] * (lags - 1), -1)

    system = LinearFamily(
        context_axes=[ContextAxis("k", 1.0)],
        A=A,
        B=lambda k: np.eye(lags, 1),
        Q=np.eye(lags),
        R=np.eye(1),
        C=np.eye(lags)[-1:],
    )
    contexts = system.contexts(ts.Grid(k=(0.5, 2.0, 400)))
    gains = np.linspace(0.02, 0.1, 50)
    stack = Pi(gains[:, None], 0.2 * gains[:, None])
    feedback = stack.feedback
    return system, feedback, contexts, lambda: system.performance(stack, contexts)


def main() -> None:
    table = Table("family", "SciPy loop", "taskspace", "ratio", "target")
    for name, build, target in (
        ("mass-spring-damper, 1e8 costs", mass_spring_damper, 20_000),
        ("4 states, no fast path, 8e4 costs", general_family, 100),
        *(
            (
                f"PI controllers, {n} closed-loop states",
                partial(controlled_family, n),
                100,
            )
            for n in (4, 8, 12)
        ),
    ):
        peer, ours = compare(*build())
        table.add_row(
            name,
            f"{1e6 * peer:.0f} µs",
            f"{1e9 * ours:.2f} ns",
            f"{peer / ours:,.0f} x",
            f"{target:,} x",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
