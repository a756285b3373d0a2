"""Playing policies on CartPole, against Stable-Baselines3's `evaluate_policy`.

One network of 64-64 tanh units, trained at the default context, is played by both
on one thread: by us at all 400 contexts of the grid, by SB3 at some of them. Times
are processor times, so a busy machine does not matter.

    python benchmarks/bench_cartpole.py [--quick]
"""

# ruff: noqa: E402 (threads are limited before the libraries load)
import os
import resource
import sys
import time
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from taskspace.spaces import Grid
from taskspace.systems.cartpole import CartPole
from taskspace.trainers.ppo import Ppo

torch.set_num_threads(1)
SYSTEM = CartPole()
GRID = Grid(pole_length=(0.25, 5, 20), cart_mass=(0.5, 10, 20))


def as_sb3(policy, environment):
    """Return an SB3 model with the weights of our network."""
    model = stable_baselines3.PPO("MlpPolicy", environment, device="cpu")
    hidden = list(model.policy.mlp_extractor.policy_net.children())[::2]
    layers: list[Any] = [*hidden, model.policy.action_net]
    with torch.no_grad():
        for layer, weight, bias in zip(
            layers, policy.weights, policy.biases, strict=True
        ):
            layer.weight.copy_(torch.from_numpy(weight.T.copy()))
            layer.bias.copy_(torch.from_numpy(bias.copy()))
    return model


def main(quick):
    contexts = SYSTEM.contexts(GRID)
    home = np.array([[axis.default for axis in SYSTEM.axes]])
    policies = Ppo(n_policies=2).train(SYSTEM, home, seed=0).policies

    SYSTEM.returns(policies, contexts)  # compiles
    began = time.process_time()
    returns = SYSTEM.returns(policies, contexts)
    ours = time.process_time() - began
    n_ours = returns.size

    chosen = np.random.default_rng(0).choice(400, size=2 if quick else 10)
    theirs, n_theirs, steps, means = 0.0, 0, 0, []
    for index in chosen:
        environment = Monitor(SYSTEM.environment(contexts[index]))
        model = as_sb3(policies[0, 0], environment)
        began = time.process_time()
        found, _ = evaluate_policy(
            model, environment, n_eval_episodes=10, return_episode_rewards=True
        )
        assert isinstance(found, list)
        theirs += time.process_time() - began
        n_theirs += len(found)
        steps += sum(found)
        means.append(np.mean(found))

    print(f"{'':24}{'taskspace':>14}{'SB3':>10}{'ratio':>8}")
    # Per episode of the length that SB3 played, so that both have the same work.
    length = steps / n_theirs
    rates = returns.sum() / ours, steps / theirs
    rows = (
        ("episodes a second", rates[0] / length, rates[1] / length),
        ("steps a second", *rates),
    )
    for label, one, two in rows:
        print(f"{label:24}{one:14,.0f}{two:10,.0f}{one / two:8.0f}")
    print(f"{n_ours:,} episodes in {ours:.1f} s, mean return {returns.mean():.0f}")
    agree = np.abs(returns[0, 0, chosen].mean(-1) - means)
    print(
        f"largest difference of mean returns at {len(chosen)} contexts "
        f"(other initial states): {agree.max():.0f}"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main("--quick" in sys.argv)
