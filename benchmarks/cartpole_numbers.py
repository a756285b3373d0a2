"""The numbers of docs/cartpole.md, from what is shipped in examples/data.

Three sets of episodes, none of which meets another's choice:

1. `cartpole.npz`: 1,200 policies at 400 contexts, episodes 0 to 31. It says which
   sources are worth a pilot.
2. `cartpole_pilot.npz`: ten of the 400 sources, 256 other episodes. Covers are selected
   on it.
3. Fresh episodes, played here by the policies of `cartpole_policies.npz` until each
   target is decided: they judge, as `taskspace certify RUN --pilot 10 256` does.

    python benchmarks/cartpole_numbers.py               (twelve minutes of a processor)
    python benchmarks/cartpole_numbers.py --judge       (3 alone, six minutes)
    python benchmarks/cartpole_numbers.py --make        (makes 2 and the policies anew)
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy import sparse
from scipy.optimize import linprog

import taskspace as ts
from taskspace.certificates import check_on_fresh_episodes, least_assignment, play_pilot
from taskspace.certificates.pilot import shortlist
from taskspace.cover import greedy_cover, minimum_cover, random_cover, uniform_cover
from taskspace.performance import source_space, target_space
from taskspace.policies import Mlp
from taskspace.systems import CartPole
from taskspace.systems.cartpole import MAX_ANGLE, MAX_POSITION
from taskspace.systems.rollouts import episode_keys

DATA = Path(__file__).parents[1] / "examples" / "data"
TABLE, PILOT = DATA / "cartpole.npz", DATA / "cartpole_pilot.npz"
POLICIES = DATA / "cartpole_policies.npz"
EPSILONS = (0.0, 1.0, 5.0, 10.0, 16.0, 25.0, 50.0)
LOOKED, JUDGED = (5.0, 10.0, 25.0), (25.0, 5.0)
N_SOURCES, N_EPISODES = 10, 256
# The source that `taskspace certify RUN --ask 'regret <= 25' --pilot 10 256` selects.
ALONE = (2.25, 9.0)
MOST = 500.0


def asked(epsilon: float, judge: str = "worst") -> ts.Question:
    return ts.Question("regret", judge, epsilon=epsilon)


def names(table: xr.Dataset, sources) -> str:
    space = source_space(table)
    assert space is not None
    points = space.points
    return ", ".join("{:g} m with {:g} kg".format(*points[int(s)]) for s in sources)


def training(table: xr.Dataset) -> None:
    home = table["home_performance"].values
    steps = table["environment_steps"].values
    print("## Training")
    print(f"policies {home.size}, solved at home {(home >= 475).mean():.2%}, ", end="")
    print(f"least {home.min():.2f}, at 500: {(home == MOST).mean():.1%}")
    print(f"steps {steps.sum():,}, mean {steps.mean():,.0f}, ", end="")
    print(f"median {np.median(steps):,.0f}, whole budget {(steps >= 3e5).sum()}")


def transfer(table: xr.Dataset) -> None:
    J = table["performance"].values
    print("## Transfer")
    print(f"mean J {J.mean():.1f}, cells >= 475: {(J >= 475).mean():.1%}")
    print(f"least best known {table['best_known'].values.min():.2f}")
    noise(table)


def noise(table: xr.Dataset) -> None:
    J, error = table["performance"].values, table["standard_error"].values
    close = (J > 470) & (J < 499)
    print(f"cells with 470 < J < 499: {close.mean():.1%}, ", end="")
    print(f"their standard error: median {np.median(error[close]):.1f}, ", end="")
    print(f"largest {error[close].max():.1f}; J = 500: {(J == MOST).mean():.1%}")


def covers(table: xr.Dataset) -> None:
    print("## Covers of the table of all sources, 32 episodes")
    for judge in ("worst", "best"):
        for epsilon in EPSILONS:
            sets = asked(epsilon, judge).sets(table)
            greedy, best = greedy_cover(sets), minimum_cover(sets, time_limit=60)
            said = f"regret, {judge}, ε = {epsilon:g}: greedy {greedy.size}, "
            said += f"minimum {best.lower_bound} to {best.size}"
            if judge == "worst":
                even = uniform_cover(sets, shape=(20, 20))
                sizes = [random_cover(sets, seed=seed).size for seed in range(100)]
                said += f", even sub-grid {even.size}, random {np.mean(sizes):.3g}"
                said += f" ± {np.std(sizes, ddof=1) / 10:.2g}"
                said += f" ({min(sizes)} to {max(sizes)}): {names(table, best.sources)}"
            print(said)


def make(table: xr.Dataset) -> None:
    """Trains the shortlist again, and plays it in other episodes."""
    short = shortlist(table, asked(5.0), N_SOURCES)
    system, space = CartPole(), source_space(table)
    assert space is not None
    trained = ts.trainers.Ppo().train(system, system.contexts(space)[short], seed=0)
    steps = table["environment_steps"].values[short]
    if not (trained.environment_steps == steps).all():
        raise SystemExit("This processor trains other policies than the table's.")
    few = table.isel(source=short)
    found = play_pilot(
        few,
        asked(5.0),
        system,
        trained.policies,
        n_sources=N_SOURCES,
        n_episodes=N_EPISODES,
        progress=lambda *said: print(*said, flush=True),
    )
    ts.performance.write_matrix(found.table, PILOT)
    arrays = trained.policies.arrays()
    np.savez_compressed(POLICIES, sources=short, **arrays)


def pilot(table: xr.Dataset) -> None:
    print(f"## A pilot of ten sources, {N_EPISODES} episodes")
    noise(table)
    losses = asked(5.0).losses(table).values
    for number, row in enumerate(losses):
        within = [int((row <= epsilon).sum()) for epsilon in LOOKED]
        print(f"  {names(table, [number])}: worst regret {row.max():.2f}, ", end="")
        print(f"targets within {LOOKED}: {within}")
    best = losses.min(0)
    print(
        f"the best of the ten at each target: worst regret {best.max():.2f}, ", end=""
    )
    print(f"within: {[int((best <= epsilon).sum()) for epsilon in LOOKED]}")
    top = table["performance"].values.max((0, 1))
    print(f"no policy of the 30 within 5: {int((top < MOST - 5).sum())} targets")


def lost_starts(table: xr.Dataset) -> None:
    """Count starts of the pilot from which no policy keeps the pole up, at the corner.

    A linear programme: physics linearised about upright (angles stay below 12°), any
    force in ±10 N, the cart and the pole within their limits for 500 steps.
    """
    system, space = CartPole(), target_space(table)
    assert space is not None
    row = system.contexts(space)[-1]
    length, cart, pole, gravity, force, step = row
    total, n = cart + pole, system.horizon
    arm = length * (4 / 3 - pole / total)
    drag = pole * length / (total * arm)
    move, push = np.eye(4), np.zeros((4, 1))
    move[0, 1] = move[2, 3] = step
    move[1, 2], move[3, 2] = -step * drag * gravity, step * gravity / arm
    push[1], push[3] = step * (1 + drag) / total, -step / (arm * total)
    before = sparse.diags([np.ones(n - 1)], [-1], shape=(n, n))
    every = sparse.identity(n)
    laws = sparse.hstack(
        [sparse.identity(4 * n) - sparse.kron(before, move), -sparse.kron(every, push)]
    ).tocsr()
    free = (None, None)
    place, angle = (-MAX_POSITION, MAX_POSITION), (-MAX_ANGLE, MAX_ANGLE)
    bounds = [place, free, angle, free] * n + [(-force, force)] * n
    n_lost = 0
    with jax.enable_x64(False):
        numbers = np.arange(32, 32 + N_EPISODES, dtype=np.int32)
        keys = episode_keys(jax.random.key(system.episode_seed), jnp.asarray(numbers))
        context = jnp.asarray(row, jnp.float32)
        starts = [np.array(system.reset(key, context)) for key in keys[:, 0]]
    for start in starts:
        first = np.zeros(4 * n)
        first[:4] = move @ start
        zero = np.zeros(5 * n)
        n_lost += linprog(zero, A_eq=laws, b_eq=first, bounds=bounds).status == 2
    print(f"at 5 m with 10 kg {n_lost} of {N_EPISODES} starts are lost")


def judge(table: xr.Dataset, policies: Mlp) -> None:
    space = source_space(table)
    assert space is not None
    alone = int(np.flatnonzero((space.points == ALONE).all(1))[0])
    one = np.full(table.sizes["target"], alone)
    cases = [(e, least_assignment(table, asked(e))) for e in JUDGED] + [(25.0, one)]
    for epsilon, assignment in cases:
        question = asked(epsilon)
        left = question.assigned_losses(table, assignment)
        print(f"## ε = {epsilon:g}: {names(table, np.unique(assignment))}")
        print(f"on the pilot: largest regret {left.max():.2f}, ", end="")
        print(f"within ε: {(left <= epsilon).sum()} of {len(left)}")
        began = time.process_time()
        found = check_on_fresh_episodes(
            table, question, assignment, CartPole(), policies, confidence=0.999
        )
        print(found.certificate.why)
        said = found.certificate.values
        print("serving:", names(table, said["sources"]))
        print("refuted:", said["refuted_contexts"])
        print("undecided:", said["undecided_contexts"])
        played = found.n_episodes
        print(f"median episodes {np.median(played):,.0f}, most ", end="")
        print(f"{played.max():,}, over three policies", end="; ")
        print(f"{time.process_time() - began:.0f} s of a processor", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--quick", action="store_true", help="play no fresh episodes")
    parser.add_argument("--judge", action="store_true", help="play them, nothing else")
    options = parser.parse_args()
    table = ts.open(TABLE).table
    if not options.judge:
        training(table)
        transfer(table)
        covers(table)
    if options.make:
        make(table)
    near = ts.performance.read_matrix(PILOT)
    near["best_known"] = table["best_known"]  # a matrix knows only the best of its own
    with np.load(POLICIES) as data:
        arrays = {name: data[name] for name in data.files if name != "sources"}
    if not options.judge:
        pilot(near)
        lost_starts(near)
    if not options.quick:
        judge(near, Mlp.from_arrays(arrays, {"head": "argmax"}))


if __name__ == "__main__":
    main()
