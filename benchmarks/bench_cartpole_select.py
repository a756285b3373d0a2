"""Trainings until every target is covered, replayed on a finished table of policies.

A training is a pure function of context and seed, so the row of a table is what a live
selection would get there; nothing is trained or played here. `--live DIR` checks that:
it takes the run directory of `taskspace select` and compares its rows with the table's.

    python benchmarks/bench_cartpole_select.py examples/data/cartpole.npz
    python benchmarks/bench_cartpole_select.py examples/data/pendulum.npz \
        --epsilons 25 50 100

Regret is against the best known score of the whole table (500 of 500 steps in
CartPole), stated as the reference, so selection and oracle are asked the same
question. A selection goes on until every target is covered, or `--cap` sources
are trained.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

import taskspace as ts
from taskspace.performance import source_space
from taskspace.policies import LinearGain
from taskspace.runs import RunFolder
from taskspace.systems.base import ContextAxis, System
from taskspace.trainers.base import Trained, Trainer

REPEATED = ("random", "uncovered", "coverage")
OTHERS = ("farthest", "mbtl", "uniform")


@dataclass(frozen=True, eq=False)
class Replayed(System):
    """The tasks of a table; the "gain" of a policy is its row in it."""

    table: xr.Dataset
    id: ClassVar[str] = "replayed"

    @property
    def axes(self):
        """Those that the table varies."""
        space = source_space(self.table)
        assert space is not None
        return tuple(ContextAxis(name, 1.0) for name in space.names)

    def rows(self, contexts):
        """Place of each context among those of the table."""
        space = source_space(self.table)
        assert space is not None
        same = (contexts[:, None, :] == space.points[None]).all(-1)
        assert same.any(1).all()
        return same.argmax(1)

    def performance(self, policies, contexts):
        """Return what the table holds."""
        assert isinstance(policies, LinearGain)
        source = policies.gain[..., 0, 0].astype(int)
        policy = policies.gain[..., 0, 1].astype(int)
        J = self.table["performance"].values
        return J[source, policy][..., self.rows(contexts)]

    def home_performance(self, policies, contexts):
        """Return what the table holds."""
        return self.table["home_performance"].values[self.rows(contexts)]


@dataclass(frozen=True)
class Replay(Trainer):
    """Gives each source its rows of the table."""

    n_policies: int
    steps: Any
    id: ClassVar[str] = "replay"

    def train(self, system, contexts, *, seed, progress=None):
        """Return the rows of these contexts."""
        del seed, progress
        assert isinstance(system, Replayed)
        rows = system.rows(contexts)
        gain = np.empty((len(rows), self.n_policies, 1, 2))
        gain[..., 0, 0] = rows[:, None]
        gain[..., 0, 1] = np.arange(self.n_policies)
        return Trained(LinearGain(gain), self.steps[rows])


def live(run: Path, table: xr.Dataset) -> None:
    """Print whether the rows of a live selection are those of the table, bit by bit."""
    found = RunFolder.open(run).table()
    whole, few = source_space(table), source_space(found)
    assert whole is not None
    assert few is not None
    rows = [int((whole.points == p).all(1).argmax()) for p in few.points]
    same = (found["performance"].values == table["performance"].values[rows]).all()
    print(f"live selection {run.name}: trained {rows}; rows as in the table: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--epsilons", nargs="*", type=float, default=[5.0, 25.0])
    parser.add_argument("--selectors", nargs="*", default=[*REPEATED, *OTHERS])
    parser.add_argument("--judge", default="worst")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cap", type=int, default=100)
    parser.add_argument("--live", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    table = ts.open(options.file).table
    for run in options.live:
        live(run, table)
    space = source_space(table)
    assert space is not None
    system = Replayed(table)
    steps = table["environment_steps"].values
    trainer = Replay(table.sizes["policy"], steps)
    reference = table["best_known"].values
    print(f"{options.file.name}: {space.size} candidates and targets, ", end="")
    print(f"{trainer.n_policies} policies each, {steps.sum():,} steps for all")
    for epsilon in options.epsilons:
        question = ts.Question("regret", options.judge, epsilon=epsilon)
        sets = question.sets(table)
        greedy, least = ts.greedy_cover(sets), ts.minimum_cover(sets, time_limit=20)
        print(f"{question.label}: oracle greedy {greedy.size}, minimum ", end="")
        print(f"[{least.lower_bound:g}, {least.size}]", flush=True)
        for selector in options.selectors:
            runs, spent, thought, done = [], [], 0.0, 0
            for seed in range(options.seeds if selector in REPEATED else 1):
                began = time.process_time()
                found = ts.select(
                    system,
                    trainer,
                    space,
                    question,
                    seed=seed,
                    selector=selector,
                    reference=reference,
                    budget=options.cap,
                    patience=space.size,
                )
                thought += time.process_time() - began
                runs.append(found.trainings)
                spent.append(found.environment_steps)
                done += found.stop_reason == "covered"
            print(
                f"  {selector:<10}{np.mean(runs):6.1f} trainings ({min(runs)} to "
                f"{max(runs)}), {np.mean(runs) / greedy.size:.2f} of greedy, "
                f"done {done} of {len(runs)}, {np.mean(spent):,.0f} steps, "
                f"{thought / sum(runs):.2f} s of thought a training",
                flush=True,
            )


if __name__ == "__main__":
    main()
