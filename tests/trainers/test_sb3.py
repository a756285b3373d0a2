"""Stable-Baselines3 models as networks of ours."""

import numpy as np
import pytest

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.cartpole import CartPole
from taskspace.systems.pendulum import Pendulum
from taskspace.trainers.base import Region
from taskspace.trainers.sb3 import Sb3, _begin_from, _environment, mlp_from_sb3

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


def test_episodes_of_a_region_draw_their_contexts_by_weight():
    system = CartPole()
    rows = np.stack([default_context(system)] * 3)
    rows[:, 0] = [0.5, 1.0, 2.0]
    region = Region(rows, [1, 0, 3])
    lengths = []
    for _ in range(2):
        environment = _environment(system, region, 5)
        drawn = []
        for _ in range(400):
            environment.reset()
            drawn.append(environment.env.unwrapped.length)
        environment.close()
        lengths.append(drawn)
    assert lengths[0] == lengths[1]
    assert set(lengths[0]) == {0.5, 2.0}
    # Four standard errors of a proportion.
    assert abs(np.mean(np.equal(lengths[0], 2.0)) - 0.75) < 4 * np.sqrt(0.1875 / 400)
    one = _environment(system, Region(rows[1:2]), 5)
    assert one.unwrapped.length == 1.0


def test_a_warm_start_has_the_weights_of_its_start():
    system = CartPole()
    model, _ = untrained("PPO", system)
    start = mlp_from_sb3(untrained("PPO", system)[0])
    _begin_from(model, start)
    found = mlp_from_sb3(model)
    for one, other in zip(
        (*found.weights, *found.biases), (*start.weights, *start.biases), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    trainer = Sb3(
        n_policies=1,
        total_steps=64,
        n_evaluation_episodes=4,
        options={"n_steps": 32, "batch_size": 32},
    )
    rows = np.stack([default_context(system)] * 2)
    rows[1, 0] = 2.0
    trained = trainer.train_region(system, Region(rows), seed=0, start=start)
    assert trained.environment_steps.item() == 64
    assert trained.log["evaluations"].item() == 2  # of the start, and at the end
