"""PPO: its parts against plain arithmetic, and tasks whose values are known."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taskspace.errors import InvalidInputError
from taskspace.spaces import Grid
from taskspace.systems.cartpole import CartPole
from taskspace.systems.pendulum import Pendulum
from taskspace.systems.rollouts import network
from taskspace.trainers.base import Region
from taskspace.trainers.ppo import ContextSampler, Ppo, Samples, _Algorithm
from tests.trainers.probes import Probe, Regulator, Vector

GAMMA = 0.9
SMALL = Ppo(
    n_policies=1,
    hidden=(16,),
    n_envs=8,
    n_steps=16,
    batch_size=64,
    n_epochs=4,
    gamma=GAMMA,
    learning_rate=5e-3,
    anneal=False,
    normalise_observations=False,
    total_steps=2048,
    evaluate_every=1024,
    n_evaluation_episodes=8,
)


# These runs are short: most of their time would go into optimising the code.
QUICK_COMPILATION = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=QUICK_COMPILATION)
def learned(ppo, system, n_updates, sampler, parameters, key):
    """Parameters after some updates, by the trainer's own functions; reward's unit."""
    algorithm = _Algorithm(ppo, system)
    optimiser = algorithm.optimiser(ppo.n_periods)

    def update(carry, key):
        learner, environments = carry
        environments, samples = algorithm.rollout(
            learner[0], environments, sampler, key
        )
        learner = algorithm.learn(optimiser, learner, samples, key)
        return (learner, environments), None

    learner = parameters, optimiser.init(parameters)
    keys = jax.random.split(key, n_updates)
    carry = learner, algorithm.start(sampler, key)
    ((parameters, _), environments), _ = lax.scan(update, carry, keys)
    return parameters, jnp.sqrt(environments.returns.variance)


def sampler_of(*contexts):
    return ContextSampler.of(Region(contexts))


def train_parts(ppo, system, context, n_updates=100):
    return train_in_units(ppo, system, context, n_updates)[0]


def train_in_units(ppo, system, context, n_updates):
    start = _Algorithm(ppo, system).initial_parameters(np.random.default_rng(0))
    return learned(
        ppo, system, n_updates, sampler_of(context), start, jax.random.key(0)
    )


def values(parameters, *observations):
    return np.asarray(network(parameters.critic, jnp.asarray(observations)[:, None]))[
        :, 0
    ]


def probability_of_one(parameters, *observations):
    logits = network(parameters.actor, jnp.asarray(observations)[:, None])
    return np.asarray(jax.nn.softmax(logits))[:, 1]


@pytest.mark.parametrize(
    ("kind", "observations", "expected"),
    [
        ("constant", [0.0], [1.0]),
        ("observed", [-1.0, 1.0], [-1.0, 1.0]),
        ("discounted", [0.0, 1.0], [GAMMA, 1.0]),
    ],
)
def test_values_of_probes(kind, observations, expected):
    parameters = train_parts(SMALL, Probe(), Probe.context(kind))
    np.testing.assert_allclose(values(parameters, *observations), expected, atol=0.03)


@pytest.mark.parametrize(
    ("kind", "observations", "expected"),
    [("action", [0.0], [1.0]), ("matching", [-1.0, 1.0], [0.0, 1.0])],
)
def test_policies_of_probes(kind, observations, expected):
    parameters = train_parts(SMALL, Probe(), Probe.context(kind))
    chosen = probability_of_one(parameters, *observations)
    np.testing.assert_allclose(chosen, expected, atol=0.05)
    # Once the best action is certain, every observation is worth 1.
    np.testing.assert_allclose(values(parameters, *observations), 1.0, atol=0.15)


def test_truncation_keeps_the_future():
    endless = Probe.context("endless")
    kept = values(train_parts(SMALL, Probe(), endless, 400), 0.0)
    np.testing.assert_allclose(kept, 1 / (1 - GAMMA), rtol=0.05)


def test_continuous_actions_reach_their_aim():
    parameters = train_parts(SMALL, Vector(), [1.0], 300)
    aims = np.linspace(-0.9, 0.9, 7)
    means = network(parameters.actor, jnp.asarray(aims)[:, None])[:, 0]
    np.testing.assert_allclose(means, aims, atol=0.1)
    assert parameters.log_std[0] < -1  # it has become sure of itself


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_regulator_is_learned_with_rewards_of_any_size(scale):
    """Gain and value of the discounted Riccati equation."""
    ppo = replace(SMALL, initial_log_std=-1.0, learning_rate=3e-3)
    parameters, unit = train_in_units(ppo, Regulator(), [scale], 400)
    P, gain = Regulator.solution(GAMMA)
    x = jnp.linspace(-1, 1, 9)[:, None]
    means = np.asarray(network(parameters.actor, x))[:, 0]
    np.testing.assert_allclose(means, -gain * x[:, 0], atol=0.1)
    value = np.asarray(network(parameters.critic, x))[:, 0] * float(unit[0]) / scale
    # Noise of the actions costs the same everywhere: it drops out of differences.
    # Few episodes come to the ends, so the critic is tried where it has learned.
    errors = np.abs(value - value[4] + P * x[:, 0] ** 2)
    assert errors[1:-1].max() < 0.15 * P


def plain_advantages(reward, value, value_after, terminated, truncated, gamma, lam):
    result = np.zeros_like(reward)
    for env in range(reward.shape[1]):
        following = 0.0
        for t in reversed(range(len(reward))):
            future = 0.0 if terminated[t, env] else value_after[t, env]
            delta = reward[t, env] + gamma * future - value[t, env]
            if terminated[t, env] or truncated[t, env]:
                following = 0.0
            following = delta + gamma * lam * following
            result[t, env] = following
    return result


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_advantages_equal_a_plain_loop(rng, gamma, lam):
    reward, value, after = rng.normal(size=(3, 40, 5)).astype(np.float32)
    terminated = rng.random((40, 5)) < 0.1
    truncated = (rng.random((40, 5)) < 0.1) & ~terminated
    given = reward, value, after, terminated, truncated
    ppo = replace(SMALL, gamma=gamma, gae_lambda=lam)
    found = _Algorithm(ppo, Probe()).advantages(*given)
    expected = plain_advantages(*given, gamma, lam)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def moved(parameters, direction, step):
    return jax.tree.map(lambda p, d: p + step * d, parameters, direction)


@pytest.mark.parametrize("system", [Probe(), Vector()], ids=["discrete", "continuous"])
def test_gradient_of_the_loss_against_finite_differences(rng, system):
    ppo = replace(SMALL, entropy_coefficient=0.02)
    n = 32
    with jax.enable_x64(True):
        start = _Algorithm(ppo, system).initial_parameters(rng)
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        observation = jnp.asarray(rng.normal(size=(n, 1)))
        action = (
            rng.integers(2, size=n) if system.n_actions else rng.normal(size=(n, 1))
        )
        action = jnp.asarray(action)
        old, _ = _Algorithm(ppo, system).distribution(start, observation, action)
        # Old probabilities that differ put samples on both sides of the clip.
        samples = Samples(
            observation,
            action,
            old + 0.3 * jnp.asarray(rng.normal(size=n)),
            jnp.asarray(rng.normal(size=n)),
            jnp.asarray(rng.normal(size=n)),
        )
        both = jax.value_and_grad(_Algorithm(ppo, system).loss)
        both = jax.jit(both, compiler_options=QUICK_COMPILATION)
        _, gradient = both(start, samples)
        direction = jax.tree.map(
            lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), start
        )
        slope = sum(
            jax.tree.leaves(
                jax.tree.map(lambda a, b: (a * b).sum(), gradient, direction)
            )
        )
        step = 1e-6
        ahead, behind = (
            float(both(moved(start, direction, signed), samples)[0])
            for signed in (step, -step)
        )
    # Central differences: the error is of order step² plus rounding over step.
    np.testing.assert_allclose(float(slope), (ahead - behind) / (2 * step), rtol=1e-6)


def test_loss_is_the_printed_formula(rng):
    system, n = Probe(), 16
    ppo = replace(SMALL, normalise_advantages=False, entropy_coefficient=0.1)
    start = _Algorithm(ppo, system).initial_parameters(rng)
    observation = rng.normal(size=(n, 1)).astype(np.float32)
    action = rng.integers(2, size=n)
    old, advantage, target = rng.normal(size=(3, n)).astype(np.float32)
    found = _Algorithm(ppo, system).loss(
        start, Samples(observation, action, old, advantage, target)
    )
    logits = np.asarray(network(start.actor, observation))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    ratio = p[np.arange(n), action] / np.exp(old)
    gain = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean()
    value = np.asarray(network(start.critic, observation))[:, 0]
    entropy = -(p * np.log(p)).sum(1).mean()
    expected = -gain + 0.5 * ((value - target) ** 2).mean() - 0.1 * entropy
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_initial_weights_are_orthogonal(rng):
    start = _Algorithm(Ppo(), CartPole()).initial_parameters(rng)
    for layers, head in ((start.actor, 0.01), (start.critic, 1.0)):
        for (weight, bias), scale in zip(layers, (2**0.5, 2**0.5, head), strict=True):
            w = np.asarray(weight, float)
            product = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
            np.testing.assert_allclose(
                product, scale**2 * np.eye(len(product)), atol=1e-5 * scale**2
            )
            assert not np.asarray(bias).any()
    assert start.log_std.shape == (0,)


def test_statistics_of_observations_and_their_folding(rng):
    observations = rng.normal(size=(300, 4)) * [1, 0.1, 3, 5] + [0, 3, 1, -2]
    observations = observations.astype(np.float32)
    statistics = (
        _Algorithm(Ppo(), CartPole())
        .start(sampler_of(np.ones(6)), jax.random.key(0))
        .observations
    )
    for part in (observations[:50], observations[50:210], observations[210:]):
        statistics = statistics.updated(jnp.asarray(part))
    np.testing.assert_allclose(statistics.mean, observations.mean(0), atol=1e-4)
    np.testing.assert_allclose(statistics.variance, observations.var(0), rtol=1e-4)
    layers = _Algorithm(Ppo(), CartPole()).initial_parameters(rng).critic
    seen = network(layers, statistics.normalise(jnp.asarray(observations)))
    raw = network(statistics.fold(layers), jnp.asarray(observations))
    np.testing.assert_allclose(raw, seen, atol=1e-5)
    again = statistics.unfold(statistics.fold(layers))
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(layers), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rollout_counts_what_it_saw():
    ppo, system = replace(SMALL, normalise_observations=True), CartPole(horizon=20)
    row = sampler_of([axis.default for axis in system.axes])
    start = _Algorithm(ppo, system).initial_parameters(np.random.default_rng(0))
    environments = _Algorithm(ppo, system).start(row, jax.random.key(0))
    play = jax.jit(_Algorithm(ppo, system).rollout, compiler_options=QUICK_COMPILATION)
    raw = []
    for key in jax.random.split(jax.random.key(1), 3):
        before = environments.observations
        environments, samples = play(start, environments, row, key)
        spread = np.sqrt(before.variance + 1e-8)
        raw.append(np.asarray(samples.observation) * spread + before.mean)
    raw = np.concatenate(raw)
    found = environments.observations
    assert float(found.n_seen) == len(raw) == 3 * ppo.n_samples
    np.testing.assert_allclose(found.mean, raw.mean(0), atol=1e-5)
    np.testing.assert_allclose(found.variance, raw.var(0), rtol=1e-3)


def test_sampling_follows_the_distribution():
    start = _Algorithm(SMALL, Probe()).initial_parameters(np.random.default_rng(0))
    weight, bias = start.actor[-1]
    start = start._replace(actor=(*start.actor[:-1], (weight, bias.at[1].add(1.0))))
    n = 20_000
    noise = jax.random.gumbel(jax.random.key(0), (n, 2))
    observation = jnp.ones((n, 1))
    action = _Algorithm(SMALL, Probe()).sample(start, observation, noise)
    one = float(probability_of_one(start, 1.0)[0])
    # Four standard errors of a proportion.
    assert abs(float(action.mean()) - one) < 4 * np.sqrt(one * (1 - one) / n)
    logs, entropy = _Algorithm(SMALL, Probe()).distribution(start, observation, action)
    np.testing.assert_allclose(-logs.mean(), entropy[0], atol=0.02)


def arrays_of(trained):
    return [*trained.policies.arrays().values(), trained.environment_steps] + [
        trained.log[name] for name in sorted(trained.log)
    ]


def test_training_is_pure_in_seed_and_context():
    ppo, system = replace(SMALL, n_policies=2), Probe()
    contexts = np.stack([Probe.context("action"), Probe.context("matching")])
    both = ppo.train(system, contexts, seed=3)
    assert both.policies.biases[0].shape == (2, 2, 16)
    assert both.environment_steps.shape == (2, 2)
    assert (both.environment_steps > 0).all()
    alone = ppo.train(system, contexts[1:], seed=3)
    for one, two in zip(arrays_of(both), arrays_of(alone), strict=True):
        np.testing.assert_array_equal(one[1:], two)
    other = ppo.train(system, contexts[1:], seed=4)
    assert (other.policies.weights[0] != alone.policies.weights[0]).any()
    assert (alone.policies.weights[0][0, 0] != alone.policies.weights[0][0, 1]).any()


def test_same_policies_in_another_process():
    code = (
        "import hashlib, numpy as np\n"
        "from tests.trainers.test_ppo import SMALL, arrays_of\n"
        "from tests.trainers.probes import Probe\n"
        "t = SMALL.train(Probe(), Probe.context('matching')[None], seed=5)\n"
        "print(hashlib.sha256(b''.join(a.tobytes() for a in arrays_of(t))).hexdigest())"
    )
    here = Path(__file__).parents[2]
    path = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env=os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    import hashlib

    mine = SMALL.train(Probe(), Probe.context("matching")[None], seed=5)
    digest = hashlib.sha256(b"".join(a.tobytes() for a in arrays_of(mine)))
    assert other.stdout.strip() == digest.hexdigest()


def test_cartpole_is_solved_and_progress_reported():
    system = CartPole()
    contexts = system.contexts(Grid(pole_length=(0.5, 1.0, 2)))
    seen = []
    trained = Ppo(n_policies=1).train(
        system, contexts, seed=0, progress=lambda *said: seen.append(said)
    )
    assert seen == [("train", 1, 2), ("train", 2, 2)]
    assert trained.log["solved"].all()
    assert (trained.environment_steps <= 150_000).all()
    home = system.home_performance(trained.policies, contexts)
    assert (home >= 475).all()


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match="batch_size must divide"):
        Ppo(batch_size=100, n_envs=8, n_steps=8)
    with pytest.raises(InvalidInputError, match="n_policies >= 1"):
        Ppo(n_policies=0)
    with pytest.raises(InvalidInputError, match="gamma <= 1"):
        Ppo(gamma=1.5)
    with pytest.raises(InvalidInputError, match="patience >= 1"):
        Ppo(patience=0)


@pytest.mark.slow
def test_pendulum_swings_up():
    """Continuous torque: far better than the −1200 of a random policy."""
    system = Pendulum()
    contexts = system.contexts(Grid(mass=(1.0, 1.0, 1)))
    ppo = Ppo(n_policies=1, total_steps=300_000, gamma=0.95)
    trained = ppo.train(system, contexts, seed=0)
    home = system.home_performance(trained.policies, contexts)
    assert home.item() > -200
