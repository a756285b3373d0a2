"""Stable-Baselines3 models as networks of ours."""

import numpy as np
import pytest

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.cartpole import CartPole
from taskspace.systems.pendulum import Pendulum
from taskspace.trainers.sb3 import Sb3, mlp_from_sb3

pytest.importorskip("stable_baselines3")
import stable_baselines3 as sb3
from torch import nn


def default_context(system):
    return np.array([axis.default for axis in system.axes])


def untrained(algorithm, system, **options):
    context = default_context(system)
    context[-1] *= 1.5  # other bounds than Gymnasium's default, for Pendulum
    environment = system.environment(context)
    model = getattr(sb3, algorithm)("MlpPolicy", environment, seed=1, **options)
    if "PPO" in algorithm:  # the small first head would hardly use its bounds
        nn.init.normal_(model.policy.action_net.weight, std=2.0)
    return model, context


@pytest.mark.parametrize(
    ("algorithm", "system"),
    [
        ("PPO", CartPole()),
        ("A2C", CartPole()),
        ("DQN", CartPole()),
        ("PPO", Pendulum()),
        ("SAC", Pendulum()),
        ("TD3", Pendulum()),
        ("DDPG", Pendulum()),
    ],
    ids=lambda case: getattr(case, "id", case),
)
def test_converted_model_acts_identically(rng, algorithm, system):
    model, _ = untrained(algorithm, system)
    policy = mlp_from_sb3(model)
    observations = rng.normal(size=(500, system.n_observations)).astype(np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    found = np.array([policy.act(row) for row in observations])
    if system.n_actions:
        np.testing.assert_array_equal(found, expected)
        assert 0 < expected.mean() < 1
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    if algorithm == "PPO" and not system.n_actions:
        assert (np.abs(expected) == 3.0).any()  # the clip is at work


def test_converted_model_plays_as_in_its_own_environment():
    system = Pendulum(n_episodes=8)
    model, context = untrained("TD3", system)
    ours = system.performance(mlp_from_sb3(model)[None, None], context[None]).item()
    environment = system.environment(context)
    totals = []
    for episode in range(20):
        observation, _ = environment.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, _, over, _ = environment.step(action)
            total += reward
        totals.append(total)
    # Other initial states: the means agree within four standard errors.
    error = np.std(totals) * np.sqrt(1 / 20 + 1 / 8)
    assert abs(ours - np.mean(totals)) < 4 * error


def test_other_activations_are_refused():
    model, _ = untrained("PPO", CartPole(), policy_kwargs={"activation_fn": nn.ELU})
    with pytest.raises(InvalidInputError, match="ELU"):
        mlp_from_sb3(model)


def test_training_gives_a_family_and_repeats():
    system = CartPole(horizon=60, n_episodes=4)
    trainer = Sb3(
        n_policies=2,
        total_steps=256,
        evaluate_every=128,
        n_evaluation_episodes=4,
        stop_return=1000.0,
        options={"n_steps": 64, "batch_size": 32, "n_epochs": 2},
    )
    contexts = np.stack([default_context(system)] * 2)
    contexts[1, 0] = 2.0  # a longer pole
    both = trainer.train(system, contexts, seed=0)
    assert both.policies.weights[0].shape == (2, 2, 4, 64)
    assert (both.environment_steps == 256).all()
    # At 128 and 256 steps, and once more when training is over.
    assert (both.log["evaluations"] == 3).all()
    again = trainer.train(system, contexts[1:], seed=0)
    for name, array in both.policies.arrays().items():
        np.testing.assert_array_equal(array[1:], again.policies.arrays()[name])
    assert (both.policies.weights[0][0, 0] != both.policies.weights[0][0, 1]).any()


def test_unknown_algorithm_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'PPO'"):
        Sb3(algorithm="PPO2")
