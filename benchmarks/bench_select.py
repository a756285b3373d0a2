"""Trainings until every target is covered, by selector, beside the oracle's covers.

    python benchmarks/bench_select.py msd --seeds 10
    python benchmarks/bench_select.py scalar quadrotor --selectors coverage farthest

Mean over seeds; deterministic selectors run once. A selector that is not done after
`--cap` times the oracle's greedy is shown as more than that.
"""

import argparse
import time

import numpy as np

import taskspace as ts
from taskspace.select import SELECTORS

REPEATED = ("random", "uncovered", "coverage")
GAIN = ts.trainers.Lqr(n_policies=1, noise=0.0)


def worlds(n: int) -> dict:
    """System, trainer, space and questions, by name."""
    ratio = [ts.Question("ratio", epsilon=e) for e in (0.02, 0.05, 0.1, 0.2)]
    regret = [ts.Question("regret", epsilon=e) for e in (0.02, 0.05, 0.1, 0.2)]
    sigma = (0.1, 1.0, 5, "log")
    return {
        "msd": (
            ts.systems.MassSpringDamper(),
            GAIN,
            ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n)),
            regret,
        ),
        "scalar": (
            ts.systems.ScalarLqr(),
            GAIN,
            ts.Grid(b=(0.01, 1.0, 400, "log")),
            ratio,
        ),
        "quadrotor": (
            ts.systems.Quadrotor(),
            GAIN,
            ts.Grid(thrust=sigma, roll=sigma, pitch=sigma, yaw=sigma),
            ratio[2:],
        ),
        "pendulum": (
            ts.systems.Pendulum(),
            ts.trainers.Ppo(n_policies=1, total_steps=200_000),
            ts.Grid(mass=(0.5, 2.0, 6), length=(0.5, 1.5, 6)),
            [ts.Question("floor", epsilon=e) for e in (300.0, 400.0)],
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", default=["msd", "scalar", "quadrotor"])
    parser.add_argument("--selectors", nargs="*", default=list(SELECTORS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--points", type=int, default=50, help="of an axis of msd")
    parser.add_argument("--cap", type=float, default=4.0)
    parser.add_argument("--epsilons", nargs="*", type=float)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a cover")
    options = parser.parse_args()
    # The covers of trained sources are not shown; a short search will do.
    seconds_of = 1.0, options.seconds
    for name in options.worlds:
        system, trainer, space, questions = worlds(options.points)[name]
        began = time.perf_counter()
        table = ts.evaluate(system, trainer, space, seed=0)
        print(
            f"\n{name}: {space.size} candidates and targets; the full table took "
            f"{time.perf_counter() - began:.1f} s"
        )
        for question in questions:
            if options.epsilons and question.epsilon not in options.epsilons:
                continue
            sets = question.sets(table)
            greedy = ts.greedy_cover(sets)
            least = ts.minimum_cover(sets, time_limit=options.seconds)
            print(
                f"{question.label}: oracle greedy {greedy.size}, minimum "
                f"[{least.lower_bound:g}, {least.size}]",
                flush=True,
            )
            for selector in options.selectors:
                runs, covers, seconds = [], [], []
                n_seeds = options.seeds if selector in REPEATED else 1
                cap = int(options.cap * greedy.size) + 16
                for seed in range(n_seeds):
                    began = time.perf_counter()
                    found = ts.select(
                        system,
                        trainer,
                        space,
                        question,
                        seed=seed,
                        selector=selector,
                        budget=cap,
                        cover_time_limit=seconds_of[selector == "interpolated"],
                    )
                    seconds.append(time.perf_counter() - began)
                    done = len(found.unserved) == len(least.uncoverable)
                    runs.append(found.trainings if done else np.inf)
                    covers.append(found.cover.size)
                mean = np.mean(runs)
                shown = f"{mean:6.1f}" if np.isfinite(mean) else f"> {cap:4d}"
                print(
                    f"  {selector:<13}{shown} trainings ({mean / greedy.size:.2f} of "
                    f"greedy), cover {np.mean(covers):.1f}, {np.mean(seconds):.1f} s, "
                    f"{len(runs)} seeds",
                    flush=True,
                )


if __name__ == "__main__":
    main()
