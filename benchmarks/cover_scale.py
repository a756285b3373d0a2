"""Greedy on 10^4, 10^5 and 10^6 sources and as many targets: time and memory.

The sets are discs of varying radius around the points of a square grid, made as runs
straight away: no matrix of n x n exists at any time, and as bits the largest would
take 125 GB. Usage: `python benchmarks/cover_scale.py [largest side, 1000]`.
"""

import resource
import sys
import time

import numba
import numpy as np

from taskspace.cover import greedy_cover
from taskspace.sets import TargetSets, pack


@numba.njit(cache=True)
def _disc_runs(side, radii, starts, stops, offsets, fill):
    """One run for each grid row that a disc meets; counts only, unless `fill`."""
    n = 0
    for i in range(side):
        for j in range(side):
            radius = radii[i * side + j]
            reach = int(radius)
            for k in range(max(0, i - reach), min(side, i + reach + 1)):
                half = int(np.sqrt(radius * radius - (k - i) * (k - i)))
                if fill:
                    starts[n] = k * side + max(0, j - half)
                    stops[n] = k * side + min(side, j + half + 1)
                n += 1
            offsets[i * side + j + 1] = n
    return n


def disc_sets(side, seed=0):
    """Discs of radius 0.05 to 0.1 of the side."""
    radii = np.random.default_rng(seed).uniform(0.05, 0.1, side * side) * side
    offsets = np.zeros(side * side + 1, np.int64)
    none = np.zeros(0, np.int32)
    n_runs = _disc_runs(side, radii, none, none, offsets, False)
    starts, stops = np.empty(n_runs, np.int32), np.empty(n_runs, np.int32)
    _disc_runs(side, radii, starts, stops, offsets, True)
    return TargetSets(offsets, starts, stops, side * side)


def main():
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    small = disc_sets(20)
    matrix = small.to_bool()
    assert greedy_cover(small).sources.tolist() == (
        greedy_cover(pack(matrix)).sources.tolist()
    ), "runs differ"
    greedy_cover(disc_sets(80))  # compile
    print("| n | runs | sets GB | as bits GB | making s | greedy s | peak GB | "
          "sources | lower bound |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for side in (100, 316, 1000):
        if side > largest:
            break
        start = time.perf_counter()
        sets = disc_sets(side)
        making = time.perf_counter() - start
        cover = greedy_cover(sets)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        n = side * side
        print(
            f"| {n} | {len(sets.starts)} | {sets.nbytes / 1e9:.3f} "
            f"| {n * n / 8e9:.3f} | {making:.2f} | {cover.seconds:.2f} | {peak:.2f} "
            f"| {cover.size} | {cover.lower_bound} ({cover.lower_bound_kind}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
