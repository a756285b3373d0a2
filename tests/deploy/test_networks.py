"""One network that sees the context: frozen, played, trained, and put on trial."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import conditioned_networks, try_library
from taskspace.deploy.trial.contenders import training_steps
from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp
from taskspace.systems import Pendulum
from taskspace.trainers import Ppo
from taskspace.trainers.conditioned import (
    ConditionedNetwork,
    Sighted,
    train_conditioned,
)

from .helpers import networks

TINY = Ppo(
    n_envs=4, n_steps=16, batch_size=32, n_epochs=2, hidden=(8,), evaluate_every=64,
    n_evaluation_episodes=4, stop_return=1e6,
)  # fmt: skip
NAMES = [axis.name for axis in ts.systems.CartPole().axes]
SHOWN = ["pole_length", "cart_mass"]
COLUMNS = [NAMES.index(name) for name in SHOWN]


def sighted(n_observations=4, n_outputs=2, seed=0, **settings) -> ConditionedNetwork:
    rng = np.random.default_rng(seed)
    sizes = (n_observations + 2, 6, n_outputs)
    weights = tuple(
        rng.standard_normal((a, b)).astype(np.float32)
        for a, b in itertools.pairwise(sizes)
    )
    weights[0][-2:] *= 5  # so that the context decides
    biases = tuple(rng.standard_normal(b).astype(np.float32) for b in sizes[1:])
    return ConditionedNetwork(
        Mlp(weights, biases, **settings),
        tuple(SHOWN),
        np.array([0.25, 0.5]),
        np.array([5.0, 10.0]),
    )


def rows(n=5, seed=1):
    system = ts.systems.CartPole()
    rng = np.random.default_rng(seed)
    points = [0.25, 0.5] + rng.random((n, 2)) * [4.75, 9.5]
    return system.contexts(ts.Points(SHOWN, points)), points


def test_a_frozen_network_is_the_network_that_is_told_the_context():
    rng = np.random.default_rng(2)
    one = sighted(head="clip", n_outputs=3)
    _, points = rows()
    frozen = one.frozen(points)
    assert frozen.weights[0].shape == (5, 4, 6)
    for k, point in enumerate(points):
        z = 2 * (point - one.low) / (one.high - one.low) - 1
        for observation in rng.standard_normal((20, 4)):
            told = one.network.act(np.concatenate([observation, z]))
            np.testing.assert_allclose(frozen[k].act(observation), told, atol=1e-4)
    assert one.scaled([one.low, one.high]).tolist() == [[-1, -1], [1, 1]]


def test_playing_it_is_playing_the_frozen_ones_each_at_home():
    system = ts.systems.CartPole(horizon=60, n_episodes=3)
    one, (contexts, points) = sighted(), rows()
    found = one.returns(system, contexts)
    home = system.home_performance(one.frozen(points)[:, None], contexts)[:, 0]
    np.testing.assert_allclose(found.mean(1), home, rtol=1e-6)
    # Told something else, it acts as if it were there.
    other = points[::-1].copy()
    told = one.returns(system, contexts, other)
    away = system.home_performance(one.frozen(other)[:, None], contexts)[:, 0]
    np.testing.assert_allclose(told.mean(1), away, rtol=1e-6)
    assert (told != found).any()


def test_every_episode_of_training_has_its_own_context_of_the_box():
    import jax

    system = Pendulum()
    low, high = (system.contexts(ts.Points(["mass"], [[m]]))[0] for m in (0.5, 2.0))
    stage = Sighted(system, (0,), draws=True)
    keys = jax.random.split(jax.random.key(0), 400)
    box = np.concatenate([low, high]).astype(np.float32)
    state = jax.vmap(stage.reset, (0, None))(keys, box)
    drawn, told = np.asarray(state[1]), np.asarray(state[2])
    assert drawn[:, 0].min() == pytest.approx(0.5, abs=0.02)
    assert drawn[:, 0].max() == pytest.approx(2.0, abs=0.02)
    assert (drawn[:, 1:] == low[1:].astype(np.float32)).all()
    np.testing.assert_allclose(told[:, 0], 2 * (drawn[:, 0] - 0.5) / 1.5 - 1, atol=1e-5)
    seen = np.asarray(jax.vmap(stage.observe, (0, None))(state, box))
    assert seen.shape == (400, 4)
    assert (seen[:, 3] == told[:, 0]).all()


SMALL = ts.systems.CartPole(horizon=40, n_episodes=2)
SPACE = ts.Grid(pole_length=(0.4, 1.0, 2), cart_mass=(0.5, 2.0, 2))


def test_training_takes_the_budget_and_repeats():
    low, high = SMALL.contexts(SPACE)[[0, -1]]
    found = [
        train_conditioned(SMALL, low, high, recipe=TINY, total_steps=100, seed=s)
        for s in (0, 0, 1)
    ]
    assert [one.environment_steps for one in found] == [128, 128, 128]
    first, again, other = (one.network.weights[0] for one in found)
    assert (first == again).all()
    assert (first != other).any()
    assert found[0].axes == tuple(SHOWN)
    assert first.shape == (6, 8)


def test_a_trial_with_networks_reports_their_spread():
    system = SMALL
    library = ts.PolicyLibrary.from_policies(networks(4), SPACE)
    assert training_steps(library) is None
    with pytest.raises(InvalidInputError, match="--network-steps"):
        conditioned_networks(library, system, 1)
    told = conditioned_networks(
        library, system, 2, recipe=TINY, total_steps=100, seed=5
    )
    assert [one.seed for one in told] == [5, 6]
    assert told[0].low.tolist() == library.low.tolist()
    trial = try_library(library, system, n_contexts=8, networks=told)
    found = {c.name: c for c in trial.contenders}["network with context"]
    means = [
        one.returns(system, *_drawn(library, system, 8)).mean(-1).mean() for one in told
    ]
    assert found.n_repeats == 2
    assert found.spread["mean_performance"] == pytest.approx((min(means), max(means)))
    assert found.mean_performance == pytest.approx(max(means))  # the upper of two
    assert trial.environment_steps == {found.name: 128}
    assert "three lose" in trial.line
    assert "one policy loses" in trial.line


def _drawn(library, system, n):
    points = library.low + (library.high - library.low) * np.random.default_rng(
        0
    ).random((n, 2))
    return system.contexts(ts.Points(list(library.names), points)), points


def test_mistakes_are_named():
    with pytest.raises(InvalidInputError, match="low < high"):
        ConditionedNetwork(
            sighted().network, tuple(SHOWN), np.array([1.0, 2.0]), np.array([1.0, 3.0])
        )
    system = ts.systems.CartPole()
    row = rows(1)[0][0]
    with pytest.raises(InvalidInputError, match="low < high on some axis"):
        train_conditioned(system, row, row, recipe=TINY, total_steps=10, seed=0)
    with pytest.raises(InvalidInputError, match="has mass"):
        sighted().returns(Pendulum(), rows()[0])
    with pytest.raises(InvalidInputError, match="SimulatedSystem"):
        conditioned_networks(
            ts.PolicyLibrary.from_policies(networks(2), ts.Points(["k"], [1.0, 2.0])),
            ts.systems.MassSpringDamper(), 1, total_steps=10,
        )  # fmt: skip


EXPERIMENT = """
name = "small"
seed = 0
[system]
id = "cartpole-v1"
horizon = 40
n_episodes = 2
[space]
pole_length = [0.4, 1.0, 2]
cart_mass = [0.5, 2.0, 2]
[trainer]
id = "ppo"
n_envs = 4
n_steps = 16
batch_size = 32
n_epochs = 2
hidden = [8]
evaluate_every = 64
n_evaluation_episodes = 4
stop_return = 1e6
[[criteria]]
criterion = "regret"
epsilon = [5.0]
[cover]
methods = ["greedy"]
"""


def test_the_command_trains_as_long_as_the_library_was(tmp_path):
    from tests.helpers import refused, taskspace

    (tmp_path / "small.toml").write_text(EXPERIMENT)
    library = ts.PolicyLibrary.from_policies(networks(4), SPACE)
    library = replace(library, provenance={"environment_steps": 100})
    library.save(tmp_path / "lib")
    words = ["evaluate", "lib", "small.toml", "--contexts", "5", "--networks", "2"]
    done = taskspace(*words, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    name = "network with context"
    assert record["environment_steps"] == {"library": 100, name: 128}
    row = next(c for c in record["contenders"] if c["name"] == name)
    assert row["n_repeats"] == 2
    text = taskspace(*words, cwd=tmp_path).stdout
    assert "the one in the middle of 2" in " ".join(text.split())
    assert "one policy loses" in text
    none = taskspace(*words[:-1], "0", "--format", "json", cwd=tmp_path)
    assert name not in none.stdout
    ts.PolicyLibrary.from_policies(networks(4), SPACE).save(tmp_path / "unknown")
    words[1] = "unknown"
    assert "Give --network-steps" in " ".join(
        taskspace(*words, cwd=tmp_path).stdout.split()
    )
    assert "--networks >= 0" in refused(*words[:-1], "-1", cwd=tmp_path)
