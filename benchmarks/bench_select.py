"""Trainings until every target is covered, by selector, beside the oracle's covers.

    python benchmarks/bench_select.py msd --seeds 10
    python benchmarks/bench_select.py scalar quadrotor --selectors coverage farthest

Mean over seeds; deterministic selectors run once. What `random`, `uniform` and `mbtl`
train does not depend on ε: one sequence each (and seed) serves all ε, until the
smallest ε is covered or `--cap` trainings are made, which is shown as more
than that.
"""

import argparse
import time

import numpy as np

import taskspace as ts
from taskspace.selection import SELECTORS

REPEATED = ("random", "uncovered", "coverage")
BLIND = ("random", "uniform", "mbtl")  # to ε
GAIN = ts.trainers.Lqr()


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


def blind_rows(name, system, trainer, space, question, options) -> list:
    """Return the trainings of a selector that is blind to ε, one list per seed."""
    found = []
    for seed in range(options.seeds if name in REPEATED else 1):
        if name == "random":  # the same draws as the selector's, without its ledger
            rows, left = [], np.ones(space.size, bool)
            while left.any() and len(rows) < options.cap:
                rng = np.random.default_rng([seed, len(rows)])
                rows.append(int(rng.choice(np.flatnonzero(left))))
                left[rows[-1]] = False
        else:
            made = ts.select(
                system, trainer, space, question, seed=seed, selector=name,
                budget=options.cap, patience=options.cap, cover_time_limit=1.0,
            )  # fmt: skip
            place = {tuple(row): n for n, row in enumerate(space.points.tolist())}
            assert made.study is not None
            assert made.study.sources is not None
            rows = [place[tuple(row)] for row in made.study.sources.points.tolist()]
        found.append(rows)
    return found


def needed(losses, rows, epsilon) -> float:
    """Trainings until all that can be served is, infinite if they were too few."""
    served = losses <= epsilon
    done = (np.logical_or.accumulate(served[rows]) | ~served.any(0)).all(1)
    return float(done.argmax() + 1) if done.any() else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", default=["msd", "scalar", "quadrotor"])
    parser.add_argument("--selectors", nargs="*", default=list(SELECTORS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--points", type=int, default=50, help="of an axis of msd")
    parser.add_argument("--cap", type=int, default=300, help="trainings")
    parser.add_argument("--epsilons", nargs="*", type=float)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a cover")
    options = parser.parse_args()
    # The covers of trained sources are not shown; a short search will do.
    for name in options.worlds:
        system, trainer, space, questions = worlds(options.points)[name]
        began = time.perf_counter()
        table = ts.evaluate(system, trainer, space, seed=0).table
        losses = questions[0].losses(table).values
        print(
            f"\n{name}: {space.size} candidates and targets; the full table took "
            f"{time.perf_counter() - began:.1f} s"
        )
        least = min(questions, key=lambda question: question.epsilon)
        blind = {
            who: blind_rows(who, system, trainer, space, least, options)
            for who in BLIND
            if who in options.selectors
        }
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
                covers, seconds = [], []
                runs = [
                    needed(losses, rows, question.epsilon)
                    for rows in blind.get(selector, ())
                ]
                n_seeds = options.seeds if selector in REPEATED else 1
                for seed in range(0 if selector in blind else n_seeds):
                    began = time.process_time()
                    found = ts.select(
                        system,
                        trainer,
                        space,
                        question,
                        seed=seed,
                        selector=selector,
                        budget=options.cap,
                        cover_time_limit=1.0,
                    )
                    seconds.append(time.process_time() - began)
                    done = len(found.unserved) == len(least.uncoverable)
                    runs.append(found.trainings if done else np.inf)
                    covers.append(found.cover.size)
                mean = np.mean(runs)
                shown = f"{mean:6.1f}" if np.isfinite(mean) else f"> {options.cap:4d}"
                text = f"  {selector:<13}{shown} trainings, {len(runs)} seeds"
                if covers:
                    text += f", cover {np.mean(covers):.1f}, {np.mean(seconds):.1f} s"
                print(text, flush=True)


if __name__ == "__main__":
    main()
