"""Environment steps and policies until learned policies cover a range, live.

Every selection trains from nothing. Rows are environments, the question is a level of
performance (`floor`); a selection ends when all targets reach it, when it gives up, or
when its budget is spent, and then what it covered is told. Means over seeds are
interquartile, with bootstrap intervals; with few seeds these are narrow by nature.

    python benchmarks/bench_learned.py --seeds 10                 # everything, hours
    python benchmarks/bench_learned.py --rows hard --seeds 2 --methods noisy farthest

Policies kept: the smallest cover of what that selection trained.
"""

import argparse
import time
from dataclasses import dataclass, replace

import numpy as np

import taskspace as ts
from taskspace.selection import Budget
from taskspace.selection.statistics import probability_of_improvement, summarise
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.ppo import Ppo

METHODS = ("noisy", "regions", "farthest", "uncovered", "mbtl", "coverage")
DISCRETE = Ppo(n_policies=1)
CONTINUOUS = Ppo(
    n_policies=1, gamma=0.95, n_steps=128, batch_size=512, initial_log_std=0.0
)


@dataclass(frozen=True)
class Row:
    """An environment, its range, and the level that is asked for."""

    system: SimulatedSystem
    space: ts.Grid
    level: float
    trainer: Ppo


ROWS = {
    "paper": Row(
        ts.systems.CartPole(),
        ts.Grid(pole_length=(0.25, 5.0, 20), cart_mass=(0.5, 10.0, 20)),
        495.0,
        DISCRETE,
    ),
    "hard": Row(
        ts.systems.CartPole(),
        ts.Grid(
            pole_length=(0.1, 1.0, 4, "log"),
            force=(3.0, 20.0, 4, "log"),
            time_step=(0.02, 0.05, 4),
        ),
        475.0,
        DISCRETE,
    ),
    "pendulum": Row(
        ts.systems.Pendulum(),
        ts.Grid(mass=(0.5, 1.5, 8), length=(0.5, 1.25, 8)),
        -300.0,
        replace(CONTINUOUS, initial_log_std=0.7),
    ),
    "acrobot": Row(
        ts.systems.Acrobot(),
        ts.Grid(link_length_2=(0.5, 1.5, 6), link_mass_2=(0.5, 1.5, 6)),
        -150.0,
        DISCRETE,
    ),
    "quadrotor": Row(
        ts.systems.PlanarQuadrotor(),
        ts.Grid(payload=(0.0, 0.5, 5), wind=(-4.0, 4.0, 5)),
        150.0,
        CONTINUOUS,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[*ROWS])
    parser.add_argument("--methods", nargs="*", default=[*METHODS])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--points", type=int, help="contexts per axis, to try it out")
    parser.add_argument("--trainings", type=int, default=40)
    parser.add_argument("--level", type=float)
    options = parser.parse_args()
    for name in options.rows:
        row = ROWS[name]
        space = row.space
        if options.points:
            space = ts.Grid(
                **{
                    a.name: (a.values[0], a.values[-1], options.points, a.scale)
                    for a in space.axes
                }
            )
        level = row.level if options.level is None else options.level
        print(f"{name}: {space.size} targets, J >= {level:g}", flush=True)
        steps: dict[str, list[int]] = {}
        for method in options.methods:
            results, began = [], time.process_time()
            for seed in range(options.seeds):
                results.append(
                    ts.select(
                        row.system,
                        row.trainer,
                        space,
                        ts.Question("floor", "worst", epsilon=-level),
                        seed=1000 * seed,
                        selector=method,
                        budget=Budget(trainings=options.trainings),
                    )
                )
                last = results[-1]
                print(
                    f"    {method} seed {seed}: {last.trainings} trainings, "
                    f"{last.environment_steps:,} steps, {last.cover.size} kept, "
                    f"{last.covered_at_least:.1%} covered, {last.stop_reason}",
                    flush=True,
                )
            steps[method] = [result.environment_steps for result in results]
            whole = np.mean([r.covered_at_least for r in results])
            print(
                f"  {method:<10} steps {summarise(steps[method])}; trainings "
                f"{summarise([r.trainings for r in results])}; kept "
                f"{summarise([r.cover.size for r in results])}; covered {whole:.1%}; "
                f"{time.process_time() - began:.0f} s of a processor",
                flush=True,
            )
        first, *others = steps
        for other in others:
            chance = probability_of_improvement(steps[first], steps[other])
            print(f"  chance that {first} takes fewer steps than {other}: {chance:.2f}")


if __name__ == "__main__":
    main()
