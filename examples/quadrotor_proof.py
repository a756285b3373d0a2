"""One gain for a quadrotor whose motors wear, proven for every efficiency.

Preiss & Sukhatme (L4DC 2021) cover σ in [0.1, 1]⁴ within a factor α = 2 of the optimal
cost by 4⁴ = 256 guaranteed-cost controllers, proven for every σ. Here one LQR gain, that
of σ = 0.178 in all four, is shown to do: bounds on whole boxes of σ, rigorous rounding.

    python examples/quadrotor_proof.py
"""

import time

import numpy as np

import taskspace as ts
from taskspace.certificates import LinearEnclosure, certify_cover

PUBLISHED = 256


def main(alpha: float = 2.0, sigma: float = 0.178, low: float = 0.1) -> None:
    system = ts.systems.Quadrotor()
    source = np.full((1, 4), sigma)
    gain, _ = system.optimal_gain(source)
    policies = ts.policies.LinearGain(gain[:, None])
    bounds = LinearEnclosure(system, policies, source, criterion="ratio")
    # Compiled once; later processes find it in the cache.
    bounds.bounds(ts.certificates.Boxes.points(source))
    start = time.perf_counter()
    axes = [axis.name for axis in system.axes]
    edges = [np.geomspace(low, 1.0, 5)] * 4
    cover = certify_cover(bounds, [0], edges, alpha - 1, axes=axes)
    seconds = time.perf_counter() - start
    print(cover.certificate.why)
    print(
        f"α = {alpha:g}: holds {cover.certificate.holds}, {len(cover.boxes)} boxes kept, "
        f"{seconds:.1f} s; published: {PUBLISHED} controllers"
    )


if __name__ == "__main__":
    main()
