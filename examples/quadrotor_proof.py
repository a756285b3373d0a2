"""A quadrotor whose motors wear: covers that are proven for every efficiency.

Preiss & Sukhatme (L4DC 2021) cover σ in [0.1, 1]⁴ within a factor α = 2 of the optimal
cost by 4⁴ = 256 guaranteed-cost controllers, proven for every σ. Here a few LQR gains
are shown to do, by bounds on whole boxes of σ: one, that of σ = 0.178 in all four, for
α = 2. The candidates for smaller α are the LQR gains of a grid; a lower bound says
that no fewer of them serve some points, again by rigorous bounds.

    python examples/quadrotor_proof.py
"""

import time
from collections.abc import Sequence

import numpy as np

import taskspace as ts
from taskspace.certificates import Boxes, LinearEnclosure, certify_cover
from taskspace.certificates.continuum import CERTIFIED

PUBLISHED = 256
# Points are served a little better than needed, so that gaps between them stay small.
TIGHTER = 0.98


def grid(low: float, high: float, n: int) -> np.ndarray:
    values = np.geomspace(low, high, n)
    return np.stack(np.meshgrid(*[values] * 4, indexing="ij"), -1).reshape(-1, 4)


def main(
    alphas: Sequence[float] = (2.0, 1.5, 1.2),
    n: int = 4,
    low: float = 0.1,
    rounds: int = 15,
    time_limit: float = 600.0,
) -> None:
    system = ts.systems.Quadrotor()
    axes = [axis.name for axis in system.axes]
    sources = np.concatenate([np.full((1, 4), 0.178), grid(0.14, 0.6, n)])
    gains, _ = system.optimal_gain(sources)
    policies = ts.policies.LinearGain(gains[:, None])
    bounds = LinearEnclosure(system, policies, sources, criterion="ratio")
    bounds.bounds(Boxes.points(sources[:1]), [0])  # compiled, or found in the cache
    corners = Boxes.points(grid(low, 1.0, 3))
    at_least, _ = bounds.bounds(corners)
    print(f"published: {PUBLISHED} controllers for α = 2, proven for every σ")
    for alpha in alphas:
        needed = ts.minimum_cover(
            ts.sets.PackedSets.from_bool(at_least <= alpha - 1), time_limit=20
        ).lower_bound
        wall, busy = time.perf_counter(), time.process_time()
        targets = grid(low, 1.0, 4)
        for _ in range(rounds):
            optimum = system.optimum(targets)
            assert optimum is not None
            loss = -system.performance(policies, targets)[:, 0] / -optimum - 1
            chosen = ts.minimum_cover(
                ts.tolerance_sets(loss, TIGHTER * (alpha - 1)), time_limit=20
            ).sources
            cover = certify_cover(
                bounds,
                chosen,
                [np.array([low, 1.0])] * 4,
                alpha - 1,
                axes=axes,
                max_boxes=10**6,
                time_limit=time_limit,
                until_failure=True,
            )
            if cover.certificate.holds:
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
