"""The public set-cover files: best value and bound within each file's time limit.

Usage: `python benchmarks/cover_files.py FOLDER [NAME ...]`, with the OR-Library and
Steiner files in FOLDER. All of them take about eight minutes, because a limit is
used up where the optimum cannot be proven. A name with the suffix `-unicost` ignores
the costs.
"""

import gzip
import sys
import tempfile
import time
from pathlib import Path

from taskspace.cover import minimum_cover, read_set_cover_file

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
    """Return a set-cover file, also if only its compressed form is there."""
    if path.exists():
        return read_set_cover_file(path)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.name
        plain.write_bytes(gzip.decompress(path.with_suffix(".txt.gz").read_bytes()))
        return read_set_cover_file(plain)


def main():
    folder, *names = sys.argv[1:] or [str(DATA)]
    minimum_cover(read_set_cover_file(Path(folder) / "sts9.txt").sets)  # compile
    print("| file | best known | found | after s | lower bound | proven | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in names or BEST_KNOWN:
        best_known, limit = BEST_KNOWN[name]
        file_name = name.removesuffix("-unicost")
        problem = read_problem(Path(folder) / f"{file_name}.txt")
        costs = problem.costs if name == file_name else None
        seen = {}

        began = time.perf_counter()

        def look(stage, lower, best, note="", seen=seen, began=began):
            seen.setdefault(best, time.perf_counter() - began)

        cover = minimum_cover(
            problem.sets, costs=costs, time_limit=limit, progress=look
        )
        after = seen.get(cover.cost, cover.seconds)
        print(
            f"| {name} | {best_known} | {cover.cost} | {after:.2f} "
            f"| {cover.lower_bound} ({cover.lower_bound_kind}) "
            f"| {'yes' if cover.optimal else 'no'} | {cover.seconds:.1f} of {limit} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
