"""What a run directory costs, and what a second worker gives; as ratios.

- store overhead: processor time of `run_experiment` over that of the same work in
  memory (`evaluate` and the same answers), on the mass-spring-damper and on CartPole;
- workers: wall-clock time of CartPole training by one process over that by two, and by
  two Dask workers over two processes. On a loaded machine only ratios mean something,
  and those of workers only where two processors are free.

    python benchmarks/bench_runs.py [--msd-side 30] [--cartpole-side 2] [--workers]
"""

import argparse
import tempfile
import time
from pathlib import Path

import psutil

import taskspace as ts
from taskspace.runs import load_experiment, run_experiment
from taskspace.runs.answers import answer

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
        )
        answer(table, experiment)

    def in_a_directory():
        with tempfile.TemporaryDirectory() as folder:
            run_experiment(experiment, Path(folder) / "run", workers=0)

    in_memory()  # compile
    in_a_directory()
    times = [(processor(in_memory), processor(in_a_directory)) for _ in range(3)]
    return min(b for _, b in times) / min(a for a, _ in times)


def wall(options: list[str], **engine) -> float:
    """Wall-clock seconds of a CartPole run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        return run_experiment(
            load_experiment("cartpole", options), out, **engine
        ).seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--msd-side", type=int, default=30)
    parser.add_argument("--cartpole-side", type=int, default=2)
    parser.add_argument("--workers", action="store_true")
    given = parser.parse_args()
    load = psutil.getloadavg()[0]
    print(f"{psutil.cpu_count()} processors, load {load:.1f}")
    msd = overhead("msd", [f"space.n={given.msd_side}"])
    print(f"store overhead, msd {given.msd_side}²: {100 * (msd - 1):+.1f} %")
    cartpole = [f"space.n={given.cartpole_side}", *SHORT]
    ratio = overhead("cartpole", cartpole)
    print(
        f"store overhead, cartpole {given.cartpole_side}²: {100 * (ratio - 1):+.1f} %"
    )
    if given.workers:
        one, two = wall(cartpole, workers=1), wall(cartpole, workers=2)
        dask = wall(cartpole, workers=2, scheduler="local")
        print(
            f"two workers {one / two:.2f} x one; Dask {dask / two:.2f} x two processes"
        )


if __name__ == "__main__":
    main()
