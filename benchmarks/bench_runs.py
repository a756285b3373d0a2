"""What a run directory costs, and what a second worker gives; as ratios.

- store overhead: processor time of `run_experiment` over that of the same work in
  memory (`evaluate` and the same answers), on the mass-spring-damper and on CartPole;
- workers: wall-clock time of CartPole training (one seed, from the start of the command
  to the last policy, so the start of the workers is in it) by one process over that by
  two, and by two Dask workers over two processes. It means something only where two
  processors are free.

    python benchmarks/bench_runs.py [--msd-side 30] [--cartpole-side 2]
    python benchmarks/bench_runs.py --workers [--cartpole-side 16]
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

import taskspace as ts
from taskspace.runs import load_experiment, run_experiment
from taskspace.runs.results import answer

SHORT = ["trainer.total_steps=20000", "trainer.n_policies=1", "cover.n_repeats=5"]


def processor(what) -> float:
    """Processor time of this process for a piece of work."""
    began = time.process_time()
    what()
    return time.process_time() - began


def overhead(name: str, options: list[str]) -> float:
    """How much longer a run takes than the same work in memory."""
    experiment = load_experiment(name, options)

    def in_memory():
        table = ts.evaluate(
            experiment.built_system,
            experiment.built_trainer,
            experiment.sources,
            targets=experiment.target_space,
            seed=experiment.seed,
        ).table
        answer(table, experiment)

    def in_a_directory():
        with tempfile.TemporaryDirectory() as folder:
            run_experiment(experiment, Path(folder) / "run", workers=0)

    in_memory()  # compile
    in_a_directory()
    times = [(processor(in_memory), processor(in_a_directory)) for _ in range(3)]
    return min(b for _, b in times) / min(a for a, _ in times)


def training(options: list[str], **engine) -> float:
    """Wall-clock seconds until every policy of a CartPole run is trained.

    Each is tried at one target only, so that next to nothing but training is timed.
    """
    one = ts.Points(["pole_length", "cart_mass"], [[1.0, 1.0]]).to_dict()
    experiment = replace(load_experiment("cartpole", options), targets=one)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"

        ended: list[float] = []

        def look(stage: str, done: float, total: float, note: str = "", /) -> None:
            if stage == "train" and done == total:
                ended.append(time.perf_counter())

        run_experiment(experiment, out, report=look, **engine)
        return ended[0] - began


def compare_workers(side: int) -> None:
    """One process, two processes, two Dask workers."""
    options = [f"space.n={side}", "trainer.n_policies=1", "cover.n_repeats=5"]
    one = training(options, workers=1)
    two = training(options, workers=2)
    dask = training(options, workers=2, scheduler="local")
    print(f"{side**2} trainings: {one:.0f} s by one process, {two:.0f} s by two,")
    print(f"{dask:.0f} s by two Dask workers: two processes {one / two:.2f} x one,")
    print(f"Dask {dask / two:.2f} x the time of processes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--msd-side", type=int, default=30)
    parser.add_argument("--cartpole-side", type=int)
    parser.add_argument("--workers", action="store_true")
    given = parser.parse_args()
    load = psutil.getloadavg()[0]
    print(f"{psutil.cpu_count()} processors, load {load:.1f}")
    if given.workers:
        compare_workers(given.cartpole_side or 16)
        return
    msd = overhead("msd", [f"space.n={given.msd_side}"])
    print(f"store overhead, msd {given.msd_side}²: {100 * (msd - 1):+.1f} %")
    side = given.cartpole_side or 2
    ratio = overhead("cartpole", [f"space.n={side}", *SHORT])
    print(f"store overhead, cartpole {side}²: {100 * (ratio - 1):+.1f} %")


if __name__ == "__main__":
    main()
