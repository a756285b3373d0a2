"""Greedy cover, boolean matrix in, cover out, beside three peers.

The peers: naive NumPy on the boolean matrix, apricot-select (lazy greedy, numba;
one run, on the largest instance on a part of the sources, see below) and OR-tools'
set-cover greedy with and without the building of its model.
"""

import time

from cover_instances import blob_sets, msd_sets
from cover_peers import apricot_greedy, naive_greedy, ortools_greedy, ortools_model

from taskspace.cover import greedy_cover
from taskspace.sets import pack

APRICOT_SOURCES = 30  # of the cover; all of it would take minutes at n = 10,000


def best_time(call, n_repeats):
    found = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        result = call()
        found.append((time.perf_counter() - start, result))
    return min(found, key=lambda pair: pair[0])


def main():
    apricot_greedy(msd_sets(5), 3)  # compile
    greedy_cover(pack(msd_sets(10)))
    greedy_cover(pack(msd_sets(40)))
    greedy_cover(pack(msd_sets(70)))
    print("| n | instance | sources | ours ms (packing ms) | naive | apricot | "
          "OR-tools with model | OR-tools solve alone |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for side in (20, 50, 100):
        for name, matrix in (("msd", msd_sets(side)), ("blobs", blob_sets(side))):
            packing, _ = best_time(lambda m=matrix: pack(m), 5)
            ours, cover = best_time(lambda m=matrix: greedy_cover(pack(m)), 5)
            naive, chosen = best_time(lambda m=matrix: naive_greedy(m), 1)
            assert cover.sources.tolist() == chosen, "not the naive cover"
            n_taken = min(cover.size, APRICOT_SOURCES)
            apricot, _ = best_time(lambda m=matrix, k=n_taken: apricot_greedy(m, k), 1)
            building, model = best_time(lambda m=matrix: ortools_model(m), 1)
            solving, _ = best_time(lambda m=model: ortools_greedy(m), 3)
            part = "" if n_taken == cover.size else f" for {n_taken} sources"
            print(
                f"| {side**2} | {name} | {cover.size} "
                f"| {1e3 * ours:.1f} ({1e3 * packing:.1f}) "
                f"| {naive / ours:.0f}x | {apricot / ours:.0f}x{part} "
                f"| {(building + solving) / ours:.0f}x | {solving / ours:.2f}x |",
                flush=True,
            )


if __name__ == "__main__":
    main()
