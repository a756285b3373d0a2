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


# Name: system, centre, axes that vary, and µs a (source, box) of a trial without
# outward rounding and without the optimum.
CASES = {
    "2 states, 2 axes": (ts.systems.MassSpringDamper(), [1.0, 1.0, 1.0], 2, 3.4),
    "4 states, 2 axes": (chain(2, 2), [1.0] * 2, 2, 8.8),
    "6 states, 3 axes": (chain(3, 3), [1.0] * 3, 3, 48.0),
    "12 states, 4 axes": (ts.systems.Quadrotor(), [0.4] * 4, 4, 442.0),
}
N_SOURCES = 8


def main(n_boxes: int = 4096) -> None:
    print("ratio against the true optimum, boxes 4 % wide; µs of a processor:")
    for name, (system, centre, n_live, trial) in CASES.items():
        source = np.array([centre])
        gain = system.optimal_gain(source)[0][:, None]
        rng = np.random.default_rng(0)
        n = n_boxes if gain.shape[-1] < 12 else n_boxes // 8
        low = np.repeat(source, n, 0)
        low[:, :n_live] *= rng.uniform(0.8, 1.2, (n, n_live))
        top = low.copy()
        top[:, :n_live] *= 1.04
        boxes = Boxes(low, top)
        for order in (1, 2):
            spent = []
            for n_sources in (1, 1 + N_SOURCES):
                bounds = LinearEnclosure(
                    system,
                    LinearGain(np.repeat(gain, n_sources, 0)),
                    np.repeat(source, n_sources, 0),
                    ts.Question("ratio", epsilon=0.0),
                    order=order,
                )
                bounds.bounds(boxes[:2])
                wall, busy = time.perf_counter(), time.process_time()
                _, high = bounds.bounds(boxes)
                wall, busy = time.perf_counter() - wall, time.process_time() - busy
                spent.append(1e6 * busy / n)
            # What eight more gains on each box add.
            pair = (spent[1] - spent[0]) / N_SOURCES
            print(
                f"{name:18s} order {order}: {spent[0]:6.1f} a box with one gain and "
                f"the optimum ({2e6 / spent[0]:7,.0f} boxes/s on two cores), "
                f"{pair:6.1f} a further (source, box) = {pair / trial:.2f} of the "
                f"trial's; median bound {np.median(high):.2g}"
            )


if __name__ == "__main__":
    main()
