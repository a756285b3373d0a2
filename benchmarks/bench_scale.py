"""End to end on n targets x n sources of the mass-spring-damper, without a table.

One optimal gain a source, regret <= epsilon, on a square grid of (k, c). Losses go
straight into runs; then greedy and a lower bound. Each n is a fresh process, so that
peak memory is its own. Peer: the table of the same question at the first n, whose sets
must be the same. Processor time is counted besides wall-clock time, because a shared
machine makes the latter meaningless; the last line projects both from measured rates.

    python benchmarks/bench_scale.py [--n 10000 40000 100000] [--epsilon 0.005]
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time

import psutil


def measure(n: int, epsilon: float, with_table: bool) -> dict:
    """One size, in this process."""
    import taskspace as ts
    from taskspace.cover import greedy_cover, lower_bounds

    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr()
    question = ts.Question("regret", epsilon=epsilon)
    small = ts.Grid(k=(0.1, 8.0, 12), c=(0.1, 8.0, 12))
    study = ts.evaluate(system, trainer, small, seed=0, computed=True)
    greedy_cover(question.sets(study))  # compile
    side = round(math.sqrt(n))
    space = ts.Grid(k=(0.1, 8.0, side), c=(0.1, 8.0, side))
    marks = {}

    def timed(name, what):
        wall, work = time.perf_counter(), time.process_time()
        found = what()
        marks[name] = time.process_time() - work
        marks[f"{name} wall"] = time.perf_counter() - wall
        return found

    def make_sets():
        study = ts.evaluate(system, trainer, space, seed=0, computed=True)
        return question.sets(study)

    sets = timed("sets", make_sets)
    cover = timed("greedy", lambda: greedy_cover(sets))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    record = {
        "n": space.size,
        "runs": len(sets.starts),
        "sets GB": sets.nbytes / 1e9,
        "size": cover.size,
        "lower bound": cover.lower_bound,
        "kind": cover.lower_bound_kind,
        "coverage": cover.coverage,
        "peak GiB": peak,
    }
    if with_table:
        table = timed(
            "table", lambda: ts.evaluate(system, trainer, space, seed=0).table
        )
        same = timed("table sets", lambda: question.sets(table)) == sets
        assert same, "the table has other sets"
        bounds = lower_bounds(sets)
        record["bounds"] = {bound.kind: bound.value for bound in bounds}
    return record | marks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 40_000, 100_000])
    parser.add_argument("--epsilon", type=float, default=0.005)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--sample", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sample:
        print(json.dumps(sample(given.n[0], given.epsilon)))
        return
    if given.one:
        print(json.dumps(measure(given.n[0], given.epsilon, given.n[0] <= 10_000)))
        return
    load = psutil.getloadavg()[0]
    print(
        f"{psutil.cpu_count()} processors, load {load:.1f}; regret <= {given.epsilon}"
    )
    print("| n | runs | sets GB | sets CPU s | Mpairs / CPU s | greedy CPU s | wall s "
          "| peak GiB | sources | lower bound |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    found = []
    for n in given.n:
        words = [sys.executable, __file__, "--one", "--n", str(n)]
        words += ["--ask", f"regret <= {given.epsilon}"]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        r = json.loads(done.stdout)
        found.append(r)
        rate = r["n"] ** 2 / r["sets"] / 1e6
        wall = r["sets wall"] + r["greedy wall"]
        print(
            f"| {r['n']:,} | {r['runs']:,} | {r['sets GB']:.3f} | {r['sets']:.1f} | "
            f"{rate:.0f} | {r['greedy']:.2f} | {wall:.1f} | {r['peak GiB']:.2f} | "
            f"{r['size']} | {r['lower bound']:g} ({r['kind']}) |",
            flush=True,
        )
        if "table" in r:
            slow = r["table"] + r["table sets"]
            print(f"the table of the same sets: {slow / r['sets']:.1f} x the time")
    if len(found) > 1:
        project(found[-2], found[-1], given.epsilon)


def project(a: dict, b: dict, epsilon: float) -> None:
    """Estimate a million, from a few of its sources and from the growth of greedy."""
    words = [sys.executable, __file__, "--sample", "--n", "1000000"]
    words += ["--ask", f"regret <= {epsilon}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    r = json.loads(done.stdout)
    power = math.log(b["greedy"] / a["greedy"]) / math.log(b["n"] / a["n"])
    greedy = b["greedy"] * (1e6 / b["n"]) ** power
    name = "sources at 10^6 targets"
    print(
        f"{r['sources']} {name}: {r['rate'] / 1e6:.0f} Mpairs / CPU s; "
        f"10^6 x 10^6 takes {1e12 / r['rate'] / 60:.0f} CPU min and "
        f"{r['bytes'] * 1e6 / r['sources'] / 1e9:.2f} GB, greedy (n^{power:.2f}) "
        f"{greedy / 60:.1f} CPU min"
    )


def sample(n: int, epsilon: float) -> dict:
    """Return the rate at `n` targets, from sources spread over the whole range."""
    import taskspace as ts

    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr()
    question = ts.Question("regret", epsilon=epsilon)
    side = round(math.sqrt(n))
    targets = ts.Grid(k=(0.1, 8.0, side), c=(0.1, 8.0, side))
    seconds = []
    for across in (4, 24):  # the difference has no fixed costs in it
        few = ts.Grid(k=(0.1, 8.0, across), c=(0.1, 8.0, across))
        small = ts.evaluate(system, trainer, few, seed=0, computed=True)
        question.sets(small)  # compile
        began = time.process_time()
        study = ts.evaluate(
            system, trainer, few, targets=targets, seed=0, computed=True
        )
        sets = question.sets(study)
        seconds.append(time.process_time() - began)
    rate = (24**2 - 4**2) * targets.size / (seconds[1] - seconds[0])
    return {"sources": few.size, "rate": rate, "bytes": sets.nbytes}


if __name__ == "__main__":
    main()
