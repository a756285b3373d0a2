"""The public set-cover files: best value and bound within each file's time limit.

Rows of a file are what must be covered, our targets; columns are our sources.

- OR-Library `scp*` (also the unicost `clr` and `cyc`): rows, columns, the column
  costs, then for each row the columns that cover it.
- OR-Library `rail*`: rows, columns, then for each column its cost and its rows.
- Steiner triples `sts*`: variables, triples, then the triples; choose the fewest
  variables that hit every triple.
- PACE hitting sets `*.hgr`: `p hs elements sets`, then the elements of each set;
  choose the fewest elements that hit every set.

Usage: `python benchmarks/cover_files.py FOLDER [NAME ...]`, with the OR-Library and
Steiner files in FOLDER. All of them take about eight minutes, because a limit is
used up where the optimum cannot be proven. A name with the suffix `-unicost` ignores
the costs.
"""

import gzip
import sys
import time
from pathlib import Path

import numpy as np

from taskspace.cover import minimum_cover
from taskspace.sets import pack

BEST_KNOWN = {  # name: (best known value, seconds)
    "scp41": (429, 10),
    "scp46": (560, 10),
    "scp51": (253, 10),
    "scp61": (138, 20),
    "scpa1": (253, 30),
    "scpb1": (69, 30),
    "scpe1": (5, 20),
    "scpe3": (5, 20),
    "scpclr10": (25, 60),
    "scpclr11": (23, 60),
    "scpcyc06": (60, 60),
    "scpcyc07": (144, 60),
    "sts9": (5, 5),
    "sts15": (9, 5),
    "sts27": (18, 5),
    "sts45": (30, 60),
    "sts81": (61, 60),
    "rail507": (174, 120),
    "scp41-unicost": (38, 10),
    "scp46-unicost": (37, 10),
    "scp51-unicost": (34, 10),
    "scp61-unicost": (21, 20),
    "scpa1-unicost": (38, 30),
    "scpb1-unicost": (22, 30),
    "rail507-unicost": (96, 120),
}


DATA = Path(__file__).parents[1] / "tests" / "assets" / "setcover"


def read_problem(path):
    """Return the sets and the costs of a file, named as its format.

    Args:
        path: `sts9.txt`, `rail507.txt`, `scp41.txt`, `exact_001.hgr`...; `.txt.gz` is
            read where only that is there.
    """
    if path.exists():
        text = path.read_text()
    else:
        text = gzip.decompress(path.with_suffix(".txt.gz").read_bytes()).decode()
    if path.suffix == ".hgr":
        lines = [line for line in text.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith("c")]
        n, m = map(int, lines[0].split()[2:])
        lists = [list(map(int, line.split())) for line in lines[1:]]
        return _sets(lists, n, m), None
    numbers = list(map(int, text.split()))
    if path.name.startswith("sts"):
        n, m = numbers[:2]
        triples = [numbers[k : k + 3] for k in range(2, len(numbers), 3)]
        return _sets(triples, n, m), None
    m, n = numbers[:2]
    if path.name.startswith("rail"):
        lists, costs, at = [], [], 2
        for _ in range(n):
            costs.append(numbers[at])
            stop = at + 2 + numbers[at + 1]
            lists.append(numbers[at + 2 : stop])
            at = stop
        return _sets(lists, m, n).inverse, np.array(costs, float)
    lists, at = [], 2 + n
    for _ in range(m):
        stop = at + 1 + numbers[at]
        lists.append(numbers[at + 1 : stop])
        at = stop
    return _sets(lists, n, m), np.array(numbers[2 : 2 + n], float)


def _sets(lists, n_members, n_lists):
    """Return the sets of each member: the lists that hold it, counted from 1."""
    if len(lists) != n_lists:
        raise ValueError(f"{len(lists)} lists are not {n_lists}")
    serves = np.zeros((n_members, n_lists), bool)
    for k, members in enumerate(lists):
        serves[np.array(members, int) - 1, k] = True
    return pack(serves)


def main():
    folder, *names = sys.argv[1:] or [str(DATA)]
    minimum_cover(read_problem(Path(folder) / "sts9.txt")[0])  # compile
    print("| file | best known | found | after s | lower bound | proven | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in names or BEST_KNOWN:
        best_known, limit = BEST_KNOWN[name]
        file_name = name.removesuffix("-unicost")
        sets, costs = read_problem(Path(folder) / f"{file_name}.txt")
        costs = costs if name == file_name else None
        seen = {}

        began = time.perf_counter()

        def look(stage, lower, best, note="", seen=seen, began=began):
            seen.setdefault(best, time.perf_counter() - began)

        cover = minimum_cover(sets, costs=costs, time_limit=limit, progress=look)
        after = seen.get(cover.cost, cover.seconds)
        print(
            f"| {name} | {best_known} | {cover.cost} | {after:.2f} "
            f"| {cover.lower_bound} ({cover.lower_bound_kind}) "
            f"| {'yes' if cover.optimal else 'no'} | {cover.seconds:.1f} of {limit} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
