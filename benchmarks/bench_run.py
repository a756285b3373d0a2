"""The whole of `taskspace run msd`: where the time goes, and its peak memory.

Each run is a fresh process. Peer of the second run: the first one.

    python benchmarks/bench_run.py
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

CODE = """
import json, resource, sys, time
began = time.perf_counter()
from taskspace.show.curves import draw_run
from taskspace.runs import load_experiment, run_experiment
marks = {"import": time.perf_counter() - began}
stages = {}
def report(stage, done, total, note=""):
    now = time.perf_counter()
    first, _ = stages.setdefault(stage, (now, now))
    stages[stage] = (first, now)
experiment = load_experiment("msd")
result = run_experiment(experiment, sys.argv[1], report=report)
marks |= {stage: last - first for stage, (first, last) in stages.items()}
start = time.perf_counter()
draw_run(result.path, result.results)
marks["figures"] = time.perf_counter() - start
marks["total"] = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"marks": marks, "peak GiB": peak}))
"""


def run(out: Path) -> dict:
    began = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", CODE, str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    record = json.loads(process.stdout)
    record["marks"]["process"] = time.perf_counter() - began
    return record


def main() -> None:
    console = Console()
    console.print(f"{psutil.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        first = run(Path(folder) / "msd")
        second = run(Path(folder) / "msd")
    table = Table("", "first run", "second run")
    for name in ("import", "train", "evaluate", "cover", "figures", "total", "process"):
        cells = [r["marks"].get(name) for r in (first, second)]
        table.add_row(name, *("–" if c is None else f"{c:.2f} s" for c in cells))
    table.add_row("peak memory", *(f"{r['peak GiB']:.2f} GiB" for r in (first, second)))
    console.print(table)
    marks = first["marks"]
    outside = marks["process"] - marks["evaluate"] - marks["cover"]
    ratio = marks["process"] / second["marks"]["process"]
    console.print(f"outside evaluation and cover: {outside:.1f} s (target: below 30 s)")
    console.print(f"the second run is {ratio:.1f} x faster than the first")


if __name__ == "__main__":
    main()
