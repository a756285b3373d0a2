"""Boxes a second of the bounds for linear families, by states and axes.

python benchmarks/bench_boxes.py
"""

import time

import numpy as np

import taskspace as ts
from taskspace.certificates import Boxes, LinearEnclosure
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily


def chain(n_masses: int, n_axes: int) -> LinearFamily:
    """Masses in a row, springs between them; the first springs are the context."""
    names = [f"k{i}" for i in range(n_axes)]

    def A(**context):
        k = [context[f"k{i}"] if i < n_axes else 1.0 for i in range(n_masses)]
        a = np.zeros((2 * n_masses, 2 * n_masses))
        for i in range(n_masses):
            a[i, n_masses + i] = 1.0
            a[n_masses + i, n_masses + i] = -0.3
            a[n_masses + i, i] -= k[i]
            if i:
                a[n_masses + i, i - 1] += k[i]
                a[n_masses + i - 1, i] += k[i]
                a[n_masses + i - 1, i - 1] -= k[i]
        return a

    B = np.zeros((2 * n_masses, 1))
    B[-1] = 1.0
    return LinearFamily(
        [ContextAxis(n, 1.0, low=0.0, low_open=True) for n in names],
        A=A,
        B=lambda **_: B,
        Q=np.eye(2 * n_masses),
        R=[[1.0]],
    )


CASES = {
    "2 states, 2 axes": (ts.systems.MassSpringDamper(), [1.0, 1.0, 1.0], 2),
    "4 states, 2 axes": (chain(2, 2), [1.0] * 2, 2),
    "6 states, 3 axes": (chain(3, 3), [1.0] * 3, 3),
    "12 states, 4 axes": (ts.systems.Quadrotor(), [0.4] * 4, 4),
}


def main(n_boxes: int = 4096) -> None:
    print("ratio against the true optimum, one gain; boxes 4 % wide; processor time")
    for name, (system, centre, n_live) in CASES.items():
        source = np.array([centre])
        policies = LinearGain(system.optimal_gain(source)[0][:, None])
        rng = np.random.default_rng(0)
        n = n_boxes if len(policies.gain[0, 0, 0]) < 12 else n_boxes // 8
        low = np.repeat(source, n, 0)
        low[:, :n_live] *= rng.uniform(0.8, 1.2, (n, n_live))
        top = low.copy()
        top[:, :n_live] *= 1.04
        row = []
        for order in (1, 2):
            bounds = LinearEnclosure(
                system, policies, source, criterion="ratio", order=order
            )
            bounds.bounds(Boxes(low[:2], top[:2]))
            wall, busy = time.perf_counter(), time.process_time()
            _, high = bounds.bounds(Boxes(low, top))
            wall, busy = time.perf_counter() - wall, time.process_time() - busy
            row.append(
                f"order {order}: {n / wall:7,.0f} boxes/s "
                f"({1e6 * busy / n:5.0f} µs of a processor each), "
                f"median bound {np.median(high):.2g}"
            )
        print(f"{name:18s} {'   '.join(row)}")


if __name__ == "__main__":
    main()
