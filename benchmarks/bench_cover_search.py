"""Smaller covers than greedy, with bounds, beside OR-tools' set-cover searches.

For n = 400, 2,500 and 10,000: greedy, local search (and when it found its best),
OR-tools' searches for the same time, and the minimum cover with its gap.
"""

import time

from cover_instances import blob_sets, msd_sets
from cover_peers import ortools_model, ortools_search

from taskspace.cover import greedy_cover, local_cover, minimum_cover
from taskspace.sets import pack

SECONDS = {20: (1, 60), 50: (5, 10), 100: (10, 30)}  # local search, minimum cover
SEARCHES = ("steepest", "guided local", "guided tabu")


def local_history(sets, seconds):
    history = []
    began = time.perf_counter()

    def look(stage, lower, best, note=""):
        if not history or best < history[-1][1]:
            history.append((time.perf_counter() - began, best))

    cover = local_cover(sets, time_limit=seconds, progress=look)
    return cover, history


def main():
    minimum_cover(pack(blob_sets(12, radius=0.2)), time_limit=30)  # compile
    local_cover(pack(blob_sets(12)), max_steps=10)
    print("| n | instance | greedy | local search | OR-tools, same time "
          "(steepest / guided local / guided tabu) | minimum cover [lower, upper] | "
          "gap | seconds |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for side, (seconds, limit) in SECONDS.items():
        for name, matrix in (("msd", msd_sets(side)), ("blobs", blob_sets(side))):
            sets = pack(matrix)
            greedy = greedy_cover(sets)
            local, history = local_history(sets, seconds)
            model = ortools_model(matrix)
            peers = [ortools_search(model, search, seconds) for search in SEARCHES]
            start = time.perf_counter()
            best = minimum_cover(sets, time_limit=limit)
            spent = time.perf_counter() - start
            gap = (best.size - best.lower_bound) / best.size
            print(
                f"| {side**2} | {name} | {greedy.size} "
                f"| {local.size} in {history[-1][0]:.3f} s "
                f"| {' / '.join(map(str, peers))} in {seconds} s "
                f"| [{best.lower_bound}, {best.size}] | {gap:.1%} | {spent:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
