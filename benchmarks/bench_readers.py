"""Text tables: processor time and memory to read a matrix, beside pandas alone.

    python benchmarks/bench_readers.py [--n 1000 1900]

Every matrix is n × n normal numbers as `repr` writes them (19 MB at n = 1,000, 71 MB at
n = 1,900), with names of rows and columns and without. Every reading has a process of
its own; memory is what its peak adds to what importing takes.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import taskspace as ts


def peak() -> float:
    """Megabytes that this process has taken at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read(reader: str, path: Path) -> None:
    """Read a file and print seconds of the processor and megabytes."""
    small = path.with_name("small.csv")
    small.write_text("name,a\nx,1.5\n")
    header = 0 if path.stem == "named" else None
    for file in (small, path):
        before, start = peak(), time.process_time()
        if reader == "pandas":
            pd.read_csv(file, header=header)
        else:
            ts.performance.read_matrix(file, lower_is_better=False)
        seconds = time.process_time() - start
    print(seconds, peak() - before)


def measure(reader: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, __file__, "--read", reader, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def write(folder: Path, n: int) -> list[Path]:
    # Row by row: what this process takes would count as its children's peak.
    rng = np.random.default_rng(0)
    bare, named = folder / "bare.csv", folder / "named.csv"
    with bare.open("w") as first, named.open("w") as second:
        second.write(",".join(["name", *(f"t{j}" for j in range(n))]) + "\n")
        for i in range(n):
            text = ",".join(map(repr, rng.normal(size=n).tolist()))
            first.write(f"{text}\n")
            second.write(f"s{i},{text}\n")
    return [bare, named]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1000, 1900])
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read[0], Path(options.read[1]))
        return
    for n in options.n:
        with tempfile.TemporaryDirectory() as folder:
            for path in write(Path(folder), n):
                ours, peer = (measure(r, path) for r in ("taskspace", "pandas"))
                size = path.stat().st_size / 1e6
                print(
                    f"{n:,} × {n:,}, {path.stem}, {size:.0f} MB: "
                    f"taskspace {ours[0]:.2f} s, {ours[1]:.0f} MB; "
                    f"pandas {peer[0]:.2f} s, {peer[1]:.0f} MB; "
                    f"ratios {ours[0] / peer[0]:.1f} and {ours[1] / peer[1]:.1f}"
                )


if __name__ == "__main__":
    main()
