"""PPO against Stable-Baselines3's: steps a second, and what they teach.

Both run on one thread, with the same hyper-parameters, on CartPole with its default
context. Times are processor times, so a busy machine does not matter, without
compilation. The last column is what no implementation in float32 could exceed on this
core: as if the matrix products of the gradients were all the work, done at the rate of
the fastest of NumPy, torch and JAX. The second part trains ten seeds of each for the
same number of steps and plays all final policies in the same episodes.

    python benchmarks/bench_ppo.py [--quick]
"""

# ruff: noqa: E402 (threads are limited before the libraries load)
import os
import sys
import time
from dataclasses import replace
from itertools import pairwise

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import jax
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from taskspace.systems.cartpole import CartPole
from taskspace.trainers.ppo import Ppo
from taskspace.trainers.sb3 import mlp_from_sb3

torch.set_num_threads(1)
SYSTEM = CartPole(n_episodes=100, episode_seed=7)
CONTEXT = np.array([axis.default for axis in SYSTEM.axes])
# Plain PPO as both have it, without what is ours alone.
PLAIN = Ppo(
    n_policies=1,
    anneal=False,
    normalise_observations=False,
    stop_return=np.inf,
    n_evaluation_episodes=1,
)
SETTINGS = {
    "taskspace's defaults": PLAIN,
    "SB3's defaults": replace(
        PLAIN, n_envs=1, n_steps=2048, batch_size=64, learning_rate=3e-4
    ),
}


def only_final(ppo, n_steps):
    """Return the same training with one evaluation, at its end."""
    return replace(ppo, total_steps=n_steps, evaluate_every=n_steps)


def train_taskspace(ppo, seed):
    began = time.process_time()
    trained = ppo.train(SYSTEM, CONTEXT[None], seed=seed)
    seconds = time.process_time() - began
    return trained.policies[0, 0], int(trained.environment_steps[0, 0]), seconds


def train_sb3(ppo, seed):
    environments = DummyVecEnv([lambda: SYSTEM.environment(CONTEXT)] * ppo.n_envs)
    model = stable_baselines3.PPO(
        "MlpPolicy",
        environments,
        n_steps=ppo.n_steps,
        batch_size=ppo.batch_size,
        n_epochs=ppo.n_epochs,
        learning_rate=ppo.learning_rate,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=ppo.entropy_coefficient,
        vf_coef=ppo.value_coefficient,
        max_grad_norm=ppo.max_gradient_norm,
        seed=seed,
        device="cpu",
    )
    began = time.process_time()
    model.learn(ppo.total_steps)
    return mlp_from_sb3(model), model.num_timesteps, time.process_time() - began


def score(policy):
    return SYSTEM.performance(policy[None, None], CONTEXT[None]).item()


def operations(ppo):
    """Return the operations of the gradients' matrix products, per environment step.

    A product forward and two backward per layer; the first needs no gradient of its
    input.
    """
    total = 0
    for n_outputs in (SYSTEM.n_actions, 1):
        sizes = SYSTEM.n_observations, *ppo.hidden, n_outputs
        products = [3 * a * b for a, b in pairwise(sizes)]
        total += sum(products) - sizes[0] * sizes[1]
    return 2 * ppo.n_epochs * total


def product_rate(ppo, repeats=2000):
    """Return operations a second of the fastest product of one batch and one layer."""
    width = ppo.hidden[0]
    rng = np.random.default_rng(0)
    a = rng.random((ppo.batch_size, width), np.float32)
    b = rng.random((width, width), np.float32)
    out = np.empty_like(a)
    tensors = [torch.from_numpy(array) for array in (a, b, out.copy())]

    def by_numpy():
        for _ in range(repeats):
            np.matmul(a, b, out=out)

    def by_torch():
        for _ in range(repeats):
            torch.mm(*tensors[:2], out=tensors[2])

    @jax.jit
    def chain(a, b):
        return jax.lax.fori_loop(0, repeats, lambda _, x: (x @ b) * (1 / width), a)

    best = np.inf
    for way in (by_numpy, by_torch, lambda: chain(a, b).block_until_ready()):
        way()  # compiles, and warms up
        for _ in range(5):
            began = time.process_time()
            way()
            best = min(best, time.process_time() - began)
    return 2 * ppo.batch_size * width**2 * repeats / best


def speed(n_ours, n_theirs):
    print("Environment steps a second, one thread")
    heads = f"{'taskspace':>12}{'SB3':>10}{'ratio':>8}{'at most':>10}"
    print(f"{'hyper-parameters':24}{heads}")
    for name, ppo in SETTINGS.items():
        ours = only_final(ppo, n_ours)
        train_taskspace(ours, seed=0)  # compiles
        rates = []
        for train, setting in (
            (train_taskspace, ours),
            (train_sb3, only_final(ppo, n_theirs)),
        ):
            runs = [train(setting, seed=seed) for seed in (1, 2)]
            rates.append(max(steps / seconds for _, steps, seconds in runs))
        most = product_rate(ppo) / operations(ppo) / rates[1]
        text = f"{rates[0]:12,.0f}{rates[1]:10,.0f}{rates[0] / rates[1]:8.1f}"
        print(f"{name:24}{text}{most:10.1f}", flush=True)


def learning(n_steps, n_seeds):
    print(f"\nMean return of the final policies after {n_steps:,} steps, ± spread")
    print(f"over {n_seeds} seeds, {SYSTEM.n_episodes} deterministic episodes each")
    setting = only_final(PLAIN, n_steps)
    for label, train in (("taskspace", train_taskspace), ("SB3", train_sb3)):
        scores = [score(train(setting, seed)[0]) for seed in range(n_seeds)]
        print(
            f"{label:12}{np.mean(scores):8.1f} ± {np.std(scores):5.1f}   "
            f"least {min(scores):.0f}",
            flush=True,
        )


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    speed(n_ours=32_768 if quick else 131_072, n_theirs=2_048 if quick else 8_192)
    learning(n_steps=8_192 if quick else 32_768, n_seeds=2 if quick else 10)
