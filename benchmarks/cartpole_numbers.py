"""The numbers of docs/cartpole.md, from what is shipped in examples/data.

`cartpole.npz` holds the table: mean returns of 1,200 policies at 400 contexts over 32
episodes each, and their standard errors. Covers are selected on it. The policies of
the selected sources are in `cartpole_policies.npz`; here they play episodes that no
selection has seen, and these judge.

    python benchmarks/cartpole_numbers.py [--episodes 1024]
    python benchmarks/cartpole_numbers.py --run DIR     (writes the policies of a run)
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np

from taskspace.cover import greedy_cover, minimum_cover, random_cover, uniform_cover
from taskspace.policies import Mlp
from taskspace.questions import Question
from taskspace.runs.archive import read_archive
from taskspace.runs.store import RunStore
from taskspace.spaces import Grid
from taskspace.systems import CartPole, fresh_episodes

GRID = Grid(pole_length=(0.25, 5.0, 20), cart_mass=(0.5, 10.0, 20))
DATA = Path(__file__).parents[1] / "examples" / "data"
EPSILONS = (0.0, 1.0, 5.0, 10.0, 16.0, 25.0, 50.0)
JUDGED = (5.0, 25.0)
QUESTIONS = (("regret", "worst"), ("regret", "best"), ("signed", "worst"))
CONFIDENCE = 0.95
MOST = 500.0


def upper_bound(mean: float, n: int, error: float) -> float:
    """Chernoff's bound above the mean of numbers in [0, 1], wrong with odds `error`.

    The largest p with n·kl(mean, p) <= log(1 / error); it holds for any numbers in
    [0, 1], without a normal approximation (Hoeffding 1963, theorem 1).
    """
    low, high = mean, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if n * kl(mean, middle) <= math.log(1 / error):
            low = middle
        else:
            high = middle
    return high


def kl(p: float, q: float) -> float:
    """Relative entropy of two coins."""
    total = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a > 0:
            total += math.inf if b <= 0 else a * math.log(a / b)
    return total


def context(points: np.ndarray, source: int) -> str:
    length, mass = points[source]
    return f"{length:g} m with {mass:g} kg"


def training(table) -> None:
    home = table["home_performance"].values
    steps = table["environment_steps"].values
    print("## Training")
    print(f"policies {home.size}, at home >= 475: {(home >= 475).sum()}, ", end="")
    print(f"least {home.min():.1f}, exactly 500: {(home == MOST).mean():.1%}")
    print(f"steps {steps.sum() / 1e6:.1f} million, mean {steps.mean():,.0f}, ", end="")
    print(f"median {np.median(steps):,.0f}, whole budget {(steps >= 3e5).sum()}")


def transfer(table) -> None:
    J, error = table["performance"].values, table["standard_error"].values
    print("## Transfer and noise")
    print(f"mean J {J.mean():.1f}, cells >= 475: {(J >= 475).mean():.1%}")
    print(f"least best known {table['best_known'].values.min():.2f}")
    by_length = J.reshape(20, 20, 3, 400).mean((1, 2, 3))
    print("mean over the grid by pole length of the source:", by_length.round(0))
    close = (J > 470) & (J < 499)
    print(f"cells with 470 < J < 499: {close.mean():.1%}, ", end="")
    print(f"their standard error: median {np.median(error[close]):.1f}, ", end="")
    print(f"largest {error[close].max():.1f}; all 500: {(J == MOST).mean():.1%}")


def covers(table, points) -> dict[float, np.ndarray]:
    print("## Sources that cover the estimated table")
    chosen = {}
    for criterion, judge in QUESTIONS:
        for epsilon in EPSILONS:
            sets = Question(criterion, judge, epsilon=epsilon).sets(table)
            greedy = greedy_cover(sets)
            best = minimum_cover(sets, time_limit=60)
            said = f"{criterion}, {judge}, ε = {epsilon:g}: greedy {greedy.size}, "
            said += f"minimum {best.lower_bound} to {best.size}"
            if (criterion, judge) == ("regret", "worst"):
                chosen[epsilon] = np.asarray(best.sources)
                even = uniform_cover(sets, (20, 20))
                sizes = [random_cover(sets, seed).size for seed in range(100)]
                said += f", even sub-grid {even.size}, random {np.mean(sizes):.0f}"
                said += f" ({min(sizes)} to {max(sizes)}): "
                said += ", ".join(context(points, s) for s in best.sources)
            print(said)
    return chosen


def judge_fresh(table, chosen, points, file: Path, n_episodes: int) -> None:
    print(f"## Judged on {n_episodes} fresh episodes")
    data = np.load(file)
    known = data["sources"].tolist()
    arrays = {k: data[k] for k in data.files if k != "sources"}
    policies = Mlp.from_arrays(arrays, {"head": "argmax"})
    system = CartPole()
    targets = system.contexts(GRID)
    episodes = fresh_episodes(n_episodes)
    fresh: dict[int, np.ndarray] = {}
    J = table["performance"].values
    for epsilon in JUDGED:
        sources = chosen[epsilon].tolist()
        for source in sources:
            if source not in fresh:
                began = time.perf_counter()
                stack = policies[known.index(source)][None]
                fresh[source] = system.returns(stack, targets, episodes=episodes)[0]
                print(f"(played {context(points, source)}: ", end="")
                print(f"{time.perf_counter() - began:.0f} s)")
        # Each target by the selected source of least loss in the table.
        losses = MOST - np.stack([J[source].min(0) for source in sources])
        assigned = losses.argmin(0)
        report(epsilon, losses, assigned, np.stack([fresh[s] for s in sources]))


def report(epsilon, losses, assigned, returns) -> None:
    """What the table said, and what fresh episodes say, of one selection."""
    every = np.arange(losses.shape[1])
    n = returns.shape[-1]
    played = returns[assigned, :, every].astype(float)  # (target, policy, episode)
    regret = MOST - played.mean(-1)
    error = played.std(-1, ddof=1) / math.sqrt(n)
    worst = regret.argmax(1)
    found, spread = regret[every, worst], error[every, worst]
    each = (1 - CONFIDENCE) / regret.size
    scale = MOST - 1  # returns are within [1, 500]
    most = np.array([[upper_bound(r / scale, n, each) for r in row] for row in regret])
    least = np.array(
        [[1 - upper_bound(1 - r / scale, n, each) for r in row] for row in regret]
    )
    above, below = scale * most.max(1), scale * least.max(1)
    t = int(found.argmax())
    print(f"ε = {epsilon:g}, {len(losses)} sources, worst of three seeds:")
    print(f"  table: largest regret {losses.min(0).max():.2f}")
    print(f"  fresh: largest regret {found[t]:.2f} (standard error {spread[t]:.2f}), ")
    print(f"  targets above ε: {(found > epsilon).sum()}, ", end="")
    print(f"by two standard errors: {(found - 2 * spread > epsilon).sum()}")
    print(f"  {CONFIDENCE:.0%} for all targets at once: regret <= {above.max():.1f}, ")
    print(f"  certified within ε: {(above <= epsilon).sum()}, ", end="")
    print(f"refuted: {(below > epsilon).sum()} of {len(every)}")


def write_policies(run: Path, chosen, file: Path) -> None:
    store = RunStore.open(run)
    sources = sorted({int(s) for e in JUDGED for s in chosen[e]})
    parts = [store.read_policies(slice(s, s + 1)).trained.policies for s in sources]
    stack = Mlp.concatenate([part for part in parts if isinstance(part, Mlp)])
    np.savez_compressed(file, sources=np.array(sources), **stack.arrays())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--run", type=Path, help="a run to take the policies from")
    options = parser.parse_args()
    table = read_archive(DATA / "cartpole.npz").table
    points = GRID.points
    training(table)
    transfer(table)
    chosen = covers(table, points)
    file = DATA / "cartpole_policies.npz"
    if options.run:
        write_policies(options.run, chosen, file)
    judge_fresh(table, chosen, points, file, options.episodes)


if __name__ == "__main__":
    main()
