"""Environment steps and policies until learned policies cover a range, live.

Every selection trains from nothing. Rows are environments, the question is a level of
performance (`floor`); a selection ends when all targets reach it, or when its budget is
spent. Beside the selectors stand two single policies, trained once
on the whole range with as many environment steps as `noisy` took at the same seed, and
no fewer than one training may take: `randomised` does not see the context,
`conditioned` does.

    python benchmarks/bench_learned.py --out learned.jsonl              # hours
    python benchmarks/bench_learned.py --out learned.jsonl --report     # what is there
    python benchmarks/bench_learned.py --out learned.jsonl --rows hard --seeds 0 1

One line per selection is added to the file as soon as it has ended, and what the file
has is not computed again. Means over seeds have 95 % bootstrap intervals.

- steps: environment steps until the end; of a selection that did not cover everything
  these are a lower bound, and the number of those that did is told.
- kept: the smallest cover of what that selection trained, where it covered everything,
  and how many policies more than the fewest that is, at most.
- fewest: the smallest cover of what *all* methods trained at the same seed.
- experts: environment steps of one training per target, extrapolated from the trainings
  at points in the file that had the whole budget.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from environments import Acrobot, DelayedCartPole, PlanarQuadrotor
from numpy.typing import NDArray

import taskspace as ts
from taskspace.cover.methods import find_cover
from taskspace.performance.work import REGION, TRAINED
from taskspace.sets import pack
from taskspace.spaces import Points, Space
from taskspace.systems.base import ContextAxis
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.base import Region
from taskspace.trainers.ppo import Ppo

SELECTORS = ("noisy", "regions", "farthest", "uncovered", "mbtl")
SINGLE = ("randomised", "conditioned")
MOST_TRAININGS = 40
MOST_BUDGETS = 10
"""A selection may take so many times the environment steps of one training."""

DISCRETE = Ppo(n_policies=1)
CONTINUOUS = Ppo(
    n_policies=1, gamma=0.95, n_steps=128, batch_size=512, initial_log_std=0.0
)


@dataclass(frozen=True)
class Row:
    """An environment, its range, and the level that is asked for."""

    system: SimulatedSystem
    space: Space
    level: float
    trainer: Ppo

    @property
    def question(self) -> ts.Question:
        """At least this level at every target."""
        return ts.Question("floor", "worst", epsilon=-self.level)


def hard_cartpole() -> Points:
    """Return short poles, weak and strong pushes, long time steps.

    Three contexts are left out, which nothing trained has ever reached.
    """
    grid = ts.Grid(
        pole_length=(0.1, 1.0, 4, "log"),
        force=(3.0, 20.0, 4, "log"),
        time_step=(0.02, 0.05, 4),
    )
    length, force, step = grid.points.T
    # The larger force·step², the farther one push throws the pole.
    lost = (length < 0.11) & (force * step**2 > 0.02)
    return Points(grid.names, grid.points[~lost])


def delayed_cartpole() -> Points:
    """Return late pushes and short poles, without the one context nothing reached."""
    grid = ts.Grid(delay=(0.0, 4.0, 5), pole_length=(0.25, 2.0, 5, "log"))
    delay, length = grid.points.T
    return Points(grid.names, grid.points[(delay < 3.5) | (length > 0.26)])


ROWS = {
    "paper": Row(
        ts.systems.CartPole(),
        ts.Grid(pole_length=(0.25, 5.0, 20), cart_mass=(0.5, 10.0, 20)),
        495.0,
        DISCRETE,
    ),
    "hard": Row(ts.systems.CartPole(), hard_cartpole(), 475.0, DISCRETE),
    "pendulum": Row(
        ts.systems.Pendulum(),
        ts.Grid(mass=(0.5, 1.5, 8), length=(0.5, 1.25, 8)),
        -300.0,
        replace(CONTINUOUS, initial_log_std=0.7),
    ),
    "delayed": Row(DelayedCartPole(), delayed_cartpole(), 475.0, DISCRETE),
    "acrobot": Row(
        Acrobot(),
        ts.Grid(link_length_2=(0.5, 1.5, 6), link_mass_2=(0.5, 1.5, 6)),
        -150.0,
        DISCRETE,
    ),
    "quadrotor": Row(
        PlanarQuadrotor(),
        ts.Grid(payload=(0.0, 0.5, 5), wind=(-4.0, 4.0, 5)),
        150.0,
        CONTINUOUS,
    ),
}


@dataclass(frozen=True)
class Record:
    """What one selection, or one single policy, gave."""

    row: str
    method: str
    seed: int
    steps: list[int]
    """Environment steps in all, after each training."""
    regions: list[bool]
    """Which trainings were on a region."""
    served: list[str]
    """Targets that each training serves, packed bits in hexadecimal."""
    stop_reason: str
    seconds: float
    """Of a processor, compilation and evaluation included."""

    def bits(self) -> NDArray[np.bool_]:
        """Targets that each training serves, dims `(training, target)`."""
        n = ROWS[self.row].space.size
        rows = [np.frombuffer(bytes.fromhex(text), np.uint8) for text in self.served]
        return np.unpackbits(np.array(rows), axis=1, count=n).astype(bool)

    @property
    def covered(self) -> float:
        """Share of the targets that some training serves."""
        return float(self.bits().any(0).mean())


@dataclass(frozen=True)
class Sighted(SimulatedSystem):
    """A system whose observation ends with its context, scaled to [−1, 1].

    In place of a context it takes two rows of the inner system's axes: `low` and
    `high`, from which every episode draws its context (`draws`); or the context and,
    scaled, what the policy is told of it.
    """

    inner: SimulatedSystem
    shown: tuple[int, ...]
    draws: bool
    horizon: int = field(init=False)
    n_episodes: int = field(init=False)
    episode_seed: int = field(init=False)

    id: ClassVar[str] = "sighted"

    def __post_init__(self):
        for name in (
            "horizon", "n_episodes", "episode_seed", "n_actions", "action_size",
            "action_low", "action_high",
        ):  # fmt: skip
            object.__setattr__(self, name, getattr(self.inner, name))
        n = self.inner.n_observations + len(self.shown)
        object.__setattr__(self, "n_observations", n)
        super().__post_init__()

    @property
    def axes(self) -> tuple[ContextAxis, ...]:  # noqa: D102
        return self.inner.axes

    @property
    def stop_return(self) -> float | None:  # noqa: D102
        return self.inner.stop_return

    @property
    def solved_return(self) -> float | None:  # noqa: D102
        return self.inner.solved_return

    def reset(self, key: jax.Array, context: jax.Array) -> Any:  # noqa: D102
        first, second = jnp.split(context, 2)
        if self.draws:
            key_context, key = jax.random.split(key)
            share = jax.random.uniform(key_context, first.shape, context.dtype)
            first, second = first + share * (second - first), 2 * share - 1
        told = second[jnp.asarray(self.shown)]
        return self.inner.reset(key, first), first, told

    def step(  # noqa: D102
        self, state: Any, action: jax.Array, context: jax.Array, key: jax.Array
    ) -> tuple[Any, jax.Array, jax.Array]:
        inner, own, told = state
        inner, reward, terminated = self.inner.step(inner, action, own, key)
        return (inner, own, told), reward, terminated

    def observe(self, state: Any, context: jax.Array) -> jax.Array:  # noqa: D102
        inner, own, told = state
        return jnp.concatenate([self.inner.observe(inner, own), told])


def conditioned(
    system: SimulatedSystem, targets: NDArray[np.float64], recipe: Ppo, *, seed: int
) -> tuple[NDArray[np.float64], int]:
    """Train one network that sees the context, for every context of the range.

    Returns J at every target, dims `(1, target)`, and the environment steps.
    """
    low, high = targets.min(0), targets.max(0)
    shown = np.flatnonzero(low < high)
    stage = Sighted(system, tuple(shown.tolist()), draws=True)
    trained = recipe.train(stage, np.concatenate([low, high])[None], seed=seed)
    told = np.zeros_like(targets)
    told[:, shown] = 2 * (targets - low)[:, shown] / (high - low)[shown] - 1
    stage = replace(stage, draws=False)
    both = np.concatenate([targets, told], axis=1)
    scores = stage.returns(trained.policies, both)[0, 0].mean(-1)[None]
    return scores, int(trained.environment_steps.sum())


def run(name: str, method: str, seed: int, at_least: int) -> Record:
    """Train one selection, or one single policy, from nothing."""
    row, began = ROWS[name], time.process_time()
    targets = row.system.contexts(row.space)
    budget = replace(row.trainer, total_steps=max(row.trainer.total_steps, at_least))
    if method == "randomised":
        trained = budget.train_region(row.system, Region(targets), seed=1000 * seed)
        scores = row.system.performance(trained.policies, targets)[0]
        steps, regions = [int(trained.environment_steps.sum())], [True]
        reason = "one training"
    elif method == "conditioned":
        alone = replace(budget, n_policies=1, family="seeds")
        scores, spent = conditioned(row.system, targets, alone, seed=1000 * seed)
        steps, regions = [spent], [True]
        reason = "one training"
    else:
        result = ts.select(
            row.system,
            row.trainer,
            row.space,
            row.question,
            seed=1000 * seed,
            selector=method,
            budget=MOST_TRAININGS,
            environment_steps=MOST_BUDGETS * row.trainer.total_steps,
            patience=MOST_TRAININGS,  # luck may turn
        )
        assert result.table is not None
        scores = result.table["performance"].values[:, 0]
        steps = [entry["environment_steps"] for entry in result.history]
        kinds = result.table.get("source_kind", np.full(len(scores), TRAINED))
        regions = [kind == REGION for kind in np.asarray(kinds)]
        reason = result.stop_reason
    served = [bits.tobytes().hex() for bits in np.packbits(scores >= row.level, axis=1)]
    seconds = time.process_time() - began
    return Record(name, method, seed, steps, regions, served, reason, round(seconds, 1))


def read(path: Path) -> list[Record]:
    """Return what a file has."""
    if not path.exists():
        return []
    return [Record(**json.loads(line)) for line in path.read_text().splitlines()]


def fewest(records: list[Record]) -> int:
    """Return the size of the smallest cover of what several selections trained."""
    rows = np.concatenate([r.bits() for r in records if r.method != "conditioned"])
    return find_cover(pack(rows), method="minimum", time_limit=10.0).size


def resampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means of resampled seeds, dims `(resample, ...)`; seeds are rows."""
    picks = np.random.default_rng(0).integers(len(values), size=(4000, len(values)))
    return values[picks].mean(1)


def with_interval(values: list[int]) -> str:
    """Return a mean over seeds with its 95 % bootstrap interval."""
    array = np.array(values, float)
    low, high = np.quantile(resampled(array), [0.025, 0.975])
    return f"{array.mean():,.0f} ({low:,.0f} to {high:,.0f})"


def ratio(ours: dict[int, int], theirs: dict[int, int]) -> str:
    """Return the ratio of mean steps over the same seeds, with its interval."""
    seeds = sorted(ours.keys() & theirs.keys())
    pairs = np.array([[ours[seed], theirs[seed]] for seed in seeds], float)
    means = resampled(pairs)
    low, high = np.quantile(means[:, 0] / means[:, 1], [0.025, 0.975])
    centre = pairs[:, 0].mean() / pairs[:, 1].mean()
    return f"{centre:.2f} ({low:.2f} to {high:.2f})"


def experts(row: Row, records: list[Record]) -> str:
    """Return what one training per target would take."""
    points = [
        step
        for r in records
        if r.method not in ("noisy", "regions")  # theirs are cut short
        for step, region in zip(np.diff(r.steps, prepend=0), r.regions, strict=True)
        if not region
    ]
    each = np.mean(points) * row.space.size if points else np.nan
    return f"Experts: {each:,.0f} steps ({len(points)} trainings at points)."


def chance_of_fewer(ours: list[int], theirs: list[int]) -> float:
    """Return the chance that a number of ours is below one of theirs; a tie is half."""
    a, b = np.array(ours)[:, None], np.array(theirs)[None]
    return float(((a < b) + 0.5 * (a == b)).mean())


def lines(records: list[Record]) -> Iterator[str]:
    """Yield the report, in Markdown."""
    for name in [name for name in ROWS if name in {r.row for r in records}]:
        row, own = ROWS[name], [r for r in records if r.row == name]
        by_seed = {
            s: fewest([r for r in own if r.seed == s]) for s in {r.seed for r in own}
        }
        yield f"\n**{name}**: {row.space.size} targets, J >= {row.level:g}. "
        yield experts(row, own)
        least = f"kept (fewest {np.mean(list(by_seed.values())):.1f})"
        heads = "method | environment steps | trainings | covered all | covered, mean"
        yield f"\n| {heads} | {least} |"
        yield "|---|---|---|---|---|---|"
        spent: dict[str, dict[int, int]] = {}
        for method in (*SELECTORS, *SINGLE):
            several = sorted(
                (r for r in own if r.method == method), key=lambda r: r.seed
            )
            if not several:
                continue
            whole = [r for r in several if r.covered == 1.0]
            spent[method] = {r.seed: r.steps[-1] for r in several}
            cells = [
                f"`{method}`",
                with_interval([*spent[method].values()]),
                f"{np.mean([len(r.steps) for r in several]):.1f}",
                f"{len(whole)} of {len(several)}",
                f"{np.mean([r.covered for r in several]):.1%}",
            ]
            if whole and method not in SINGLE:
                more = [fewest([r]) - by_seed[r.seed] for r in whole]
                sizes = [fewest([r]) for r in whole]
                cells.append(f"{np.mean(sizes):.1f}, at most {max(more)} more")
            yield f"| {' | '.join(cells)} |"
        rivals = [m for m in SELECTORS[1:] if m in spent]
        if "noisy" in spent and rivals:
            best = min(rivals, key=lambda m: np.mean([*spent[m].values()]))
            text = f"\nnoisy / {best}, the best: {ratio(spent['noisy'], spent[best])}"
            for rival in (*rivals, *(m for m in SINGLE if m in spent)):
                pair = [*spent["noisy"].values()], [*spent[rival].values()]
                chance = chance_of_fewer(*pair)
                text += f"; fewer steps than {rival} with chance {chance:.2f}"
            yield text + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file of records")
    parser.add_argument("--rows", nargs="*", default=[*ROWS], choices=[*ROWS])
    parser.add_argument("--methods", nargs="*", default=[*SELECTORS, *SINGLE])
    parser.add_argument("--seeds", nargs="*", type=int, default=[*range(10)])
    parser.add_argument("--report", action="store_true", help="only print")
    options = parser.parse_args()
    for seed, name, method in product(options.seeds, options.rows, options.methods):
        there = {(r.row, r.method, r.seed): r for r in read(options.out)}
        if options.report or (name, method, seed) in there:
            continue
        noisy = there.get((name, "noisy", seed))
        record = run(name, method, seed, noisy.steps[-1] if noisy else 0)
        with options.out.open("a") as file:
            file.write(json.dumps(asdict(record)) + "\n")
        print(
            f"{name} {method} seed {seed}: {len(record.steps)} trainings, "
            f"{record.steps[-1]:,} steps, {record.covered:.1%} covered, "
            f"{record.stop_reason}, {record.seconds:.0f} s",
            flush=True,
        )
    for line in lines(read(options.out)):
        print(line)


if __name__ == "__main__":
    main()
