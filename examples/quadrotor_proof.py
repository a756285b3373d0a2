"""A quadrotor whose motors wear: covers that are proven for every efficiency.

Preiss & Sukhatme (L4DC 2021) cover σ in [0.1, 1]⁴ within a factor α = 2 of the optimal
cost by 4⁴ = 256 guaranteed-cost controllers, proven for every σ. Here a few LQR gains
are proven to be enough, by bounds on whole boxes of σ. For α = 2 it is one: that of
σ = 0.178 in all four.

The σ that the gains for smaller α are optimal for were found by moving a few points so
that the worst of many σ loses least. How they were found does not matter to the proof.
For other α the gains of a grid are tried. A lower bound says that no fewer of all these
gains serve some σ, again by rigorous bounds.

    python examples/quadrotor_proof.py
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import taskspace as ts
from taskspace.certificates import Boxes, LinearEnclosure, certify_cover
from taskspace.certificates.boxes.check import CERTIFIED

PUBLISHED = 256
# α: σ (thrust, roll, pitch, yaw) of the gains.
PLACES = {
    2.0: [[0.178, 0.178, 0.178, 0.178]],
    1.5: [[0.178, 0.178, 0.178, 0.178], [0.14, 0.14, 0.369, 0.6]],
    1.2: [[0.4117, 0.1486, 0.1486, 0.4117], [0.4117, 0.3398, 0.3398, 0.4068]],
    1.1: [
        [0.3125, 0.1318, 0.1318, 0.2674],
        [0.2343, 0.4928, 0.4586, 0.2738],
        [0.2674, 0.1302, 0.4988, 0.2610],
        [0.2738, 0.4754, 0.1416, 0.3924],
        [0.2839, 0.2771, 0.2839, 0.2400],
    ],
}
# Points are served a little better than needed, so that gaps between them stay small.
TIGHTER = 0.98


def grid(low: float, high: float, *counts: int) -> NDArray[np.float64]:
    values = [np.geomspace(low, high, n) for n in counts]
    return np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, 4)


def covering(
    system: ts.systems.Quadrotor,
    policies: ts.policies.LinearGain,
    targets: NDArray[np.float64],
    alpha: float,
) -> NDArray[np.int64]:
    """Return sources that serve some targets a little better than needed."""
    optimum = system.optimum(targets)
    assert optimum is not None
    loss = -system.performance(policies, targets)[:, 0] / -optimum - 1
    sets = ts.tolerance_sets(loss, TIGHTER * (alpha - 1))
    return ts.minimum_cover(sets, time_limit=20).sources


def main(
    alphas: Sequence[float] = tuple(PLACES),
    n: int = 4,
    low: float = 0.1,
    rounds: int = 15,
    time_limit: float = 3600.0,
) -> None:
    system = ts.systems.Quadrotor()
    axes = [axis.name for axis in system.axes]
    sources = np.concatenate(
        [*map(np.array, PLACES.values()), grid(0.14, 0.6, n, n, n, n)]
    )
    counts = np.cumsum([0, *map(len, PLACES.values())])
    known = {a: np.arange(*counts[i : i + 2]) for i, a in enumerate(PLACES)}
    gains, _ = system.optimal_gain(sources)
    policies = ts.policies.LinearGain(gains[:, None])
    bounds = LinearEnclosure(
        system, policies, sources, ts.Question("ratio", epsilon=0.0)
    )
    bounds.bounds(Boxes.points(sources[:1]), [0])  # compiled, or found in the cache
    # Roll and pitch cost most: a bound from below needs more points there.
    points = Boxes.points(grid(low, 1.0, 2, 6, 6, 2))
    at_least, _ = bounds.bounds(points)
    print(f"published: {PUBLISHED} controllers for α = 2, proven for every σ")
    for alpha in alphas:
        needed = ts.minimum_cover(
            ts.sets.pack(at_least <= alpha - 1), time_limit=20
        ).lower_bound
        wall, busy = time.perf_counter(), time.process_time()
        targets = grid(low, 1.0, 4, 4, 4, 4)
        for _ in range(rounds):
            chosen = known.get(alpha)
            if chosen is None:
                chosen = covering(system, policies, targets, alpha)
            cover = certify_cover(
                bounds,
                chosen,
                [np.geomspace(low, 1.0, 5)] * 4,
                alpha - 1,
                axes=axes,
                max_boxes=10**6,
                time_limit=time_limit,
                until_failure=True,
            )
            if cover.certificate.holds or alpha in known:
                break
            # Where it fails becomes a target too.
            gaps = cover.boxes[cover.status != CERTIFIED].centre
            targets = np.concatenate([targets, gaps[:: 1 + len(gaps) // 100]])
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        word = "proven for every σ" if cover.certificate.holds else "not proven"
        print(
            f"α = {alpha:g}: {cover.size} LQR gains, {word}, {len(cover.boxes)} boxes, "
            f"at least {needed:g} of {len(sources)} candidates needed; {wall:.0f} s "
            f"({busy:.0f} s of a processor)",
            flush=True,
        )


if __name__ == "__main__":
    main()
