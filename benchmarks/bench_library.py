"""Libraries: selections a second, C on this machine, and a million contexts.

    python benchmarks/bench_library.py

Asked: regret ≤ ε by one LQR gain a source (judge worst), every context of the box
certified. Times are processor time of one thread. Numbers to reach: 10⁶ selections/s in
Python; select and act in C below 1 µs for the mass-spring-damper and below 20 µs for a
64-64 network; no violation of ε.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

import numpy as np

import taskspace as ts
from taskspace.certificates.boxes.enclosures import MsdEnclosure
from taskspace.export.c99 import export_c99
from taskspace.export.onnx import library_model
from taskspace.policies import LinearGain, Mlp

EPSILON = 0.2
N = 1_000_000

TIMER = """
#include "lib.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    long n = atol(argv[1]), i;
    size_t width = LIB_N_AXES + LIB_N_OBSERVATIONS;
    lib_real *in = malloc((size_t)n * width * sizeof *in), action[LIB_N_ACTIONS];
    int *policy = malloc((size_t)n * sizeof *policy);
    double sum = 0;
    clock_t a, b;
    (void)argc;
    if (!in || !policy || fread(in, width * sizeof *in, (size_t)n, stdin) != (size_t)n)
        return 1;
    a = clock();
    for (i = 0; i < n; i++) {
        const lib_real *row = in + (size_t)i * width;
        policy[i] = lib_control(row, row + LIB_N_AXES, action).policy;
        sum += (double)action[0];
    }
    b = clock();
    fwrite(policy, sizeof *policy, (size_t)n, stdout);
    fprintf(stderr, "%g %g\\n",
            (double)(b - a) / CLOCKS_PER_SEC * 1e9 / (double)n, sum);
    free(in);
    free(policy);
    return 0;
}
"""


def in_c(library, rows, seen, precision: Literal["double", "float"] = "double"):
    """Policies that C selects, and nanoseconds of processor time a call."""
    kind = np.float64 if precision == "double" else np.float32
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "c"
        export_c99(library, folder, name="lib", precision=precision)
        (folder / "timer.c").write_text(TIMER)
        subprocess.run(
            ["cc", "-std=c99", "-O2", "lib.c", "timer.c", "-lm", "-o", "timer"],
            cwd=folder,
            check=True,
        )
        data = np.column_stack([rows, seen]).astype(kind)
        done = subprocess.run(
            [folder / "timer", str(len(data))],
            input=data.tobytes(),
            capture_output=True,
            check=True,
        )
    return np.frombuffer(done.stdout, np.int32), float(done.stderr.split()[0])


def regret(system, library, rows, policy, kind=np.float64):
    contexts = np.column_stack([rows, np.ones(len(rows))])
    played = np.empty(len(rows))
    for p in range(library.size):
        mine = policy == p
        rounded = library.policies.gain[p].astype(kind).astype(np.float64)
        gain = LinearGain(rounded[None, None])
        played[mine] = system.performance(gain, contexts[mine])[0, 0]
    return system.optimum(contexts) - played


def certified_library():
    space = ts.Grid(k=(0.1, 8.0, 20), c=(0.1, 8.0, 20))
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr()
    table = ts.evaluate(system, trainer, space, seed=0).table
    contexts = system.contexts(space)
    policies = trainer.train(system, contexts, seed=0).policies
    enclosure = MsdEnclosure(
        system, policies, contexts, ts.Question("regret", epsilon=0.0)
    )
    cover = ts.certificates.certified_cover(
        enclosure, system, space, EPSILON, time_limit=120.0
    )
    start = time.perf_counter()
    library = ts.library(ts.Study.of(table, system=system, policies=policies), cover)
    seconds = time.perf_counter() - start
    print(
        f"certified: {cover.certificate.holds}, {library.size} gains, "
        f"{len(cover.boxes):,} boxes merged into {len(library.regions.policy)} in "
        f"{seconds:.2f} s"
    )
    return system, library


def main():
    system, library = certified_library()
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.1, 8.0, (N, 2))
    library.select(rows[:10])
    start = time.process_time()
    chosen = library.select(rows)
    seconds = time.process_time() - start
    print(f"Python: {N / seconds:,.0f} selections/s (target 1,000,000)")
    worst = regret(system, library, rows, chosen.policy)
    print(
        f"Python: {N:,} contexts, {(worst > EPSILON).sum()} above ε = {EPSILON}, "
        f"worst {worst.max():.4f}, guaranteed {chosen.guaranteed.mean():.2%}"
    )
    for precision in ("double", "float"):
        given = rows.astype(np.float32).astype(float) if precision == "float" else rows
        given = np.clip(given, 0.1, 8.0)
        policy, nanoseconds = in_c(
            library, given, rng.standard_normal((N, 2)), precision
        )
        inside = policy >= 0
        kind = np.float64 if precision == "double" else np.float32
        worst = regret(system, library, given[inside], policy[inside], kind)
        print(
            f"C {precision}: {nanoseconds:.0f} ns select and act (target 1,000), "
            f"{(worst > EPSILON).sum()} of {inside.sum():,} above ε, "
            f"worst {worst.max():.4f}"
        )
    sizes = [(4, 64), (64, 64), (64, 2)]
    networks = Mlp(
        tuple(rng.standard_normal((5, *s)).astype(np.float32) / 8 for s in sizes),
        tuple(rng.standard_normal((5, s[1])).astype(np.float32) for s in sizes),
    )
    points = ts.Points(["length", "mass"], rng.uniform(0.1, 8.0, (5, 2)))
    deep = ts.PolicyLibrary.from_policies(networks, points, outside="clamp")
    seen = rng.standard_normal((50_000, 4))
    for precision in ("double", "float"):
        _, nanoseconds = in_c(deep, rows[:50_000], seen, precision)
        print(
            f"C {precision}: {nanoseconds / 1e3:.1f} µs for a 64-64 network (target 20)"
        )
    import onnxruntime

    model = library_model(deep).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    one = {"context": rows[:1], "observation": seen[:1].astype(np.float32)}
    for _ in range(100):
        session.run(None, one)
    start = time.process_time()
    for _ in range(2000):
        session.run(None, one)
    microseconds = (time.process_time() - start) / 2000 * 1e6
    size = f"{len(model) / 1e3:.0f} kB"
    print(f"ONNX: five 64-64 networks, {size}, {microseconds:.0f} µs a call")


if __name__ == "__main__":
    main()
