"""Gymnasium environments, against our own physics and Stable-Baselines3."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearGain, Mlp
from taskspace.runs import run_experiment
from taskspace.runs.experiment import Experiment, load_experiment
from taskspace.runs.folder import RunFolder
from taskspace.systems import (
    ContextAxis,
    GymnasiumSystem,
    PythonPolicies,
    gymnasium_system,
)
from taskspace.systems.episodic import FIRST_TRAINING
from taskspace.systems.gymnasium import READY
from taskspace.testing import dead_axes, environment_outcomes
from taskspace.trainers.sb3 import mlp_from_sb3
from tests.systems import own

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'rl'")


def networks(n_in: int, n_out: int, head, n: int = 3, seed: int = 0) -> Mlp:
    rng = np.random.default_rng(seed)
    sizes = [(n_in, 8), (8, n_out)]
    return Mlp(
        weights=tuple(rng.normal(size=(n, 1, *s)).astype(np.float32) for s in sizes),
        biases=tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=head,
    )


@pytest.mark.parametrize("name", READY)
def test_every_ready_axis_is_alive(name):
    system = GymnasiumSystem(name)
    outcomes = environment_outcomes(system.environment, n_steps=100)
    assert dead_axes(outcomes, system.axes) == []


@pytest.mark.parametrize("name", READY)
def test_default_context_is_the_original_environment(name):
    system = GymnasiumSystem(name)
    row = np.array([axis.default for axis in system.axes])
    outcomes = [
        environment_outcomes(make, n_steps=40)(row)
        for make in (system.environment, lambda _: gymnasium.make(name))
    ]
    np.testing.assert_array_equal(*outcomes)


@pytest.mark.parametrize(
    ("ours", "name", "policies"),
    [
        (ts.systems.CartPole(), "CartPole-v1", networks(4, 2, "argmax")),
        (ts.systems.Pendulum(), "Pendulum-v1", networks(3, 1, "clip")),
    ],
)
def test_environment_equals_that_of_the_built_in_system(ours, name, policies):
    theirs = GymnasiumSystem(name, n_episodes=4, horizon=ours.horizon)
    assert [a.name for a in theirs.axes] == [a.name for a in ours.axes]
    row = np.array([axis.default * 1.3 for axis in ours.axes])
    outcomes = [
        environment_outcomes(s.environment, n_steps=40)(row) for s in (ours, theirs)
    ]
    np.testing.assert_array_equal(*outcomes)
    # Other initial states, the same law: the means agree within their spread.
    mine = ours.returns(policies, row[None])[:, 0, 0]
    played = theirs.returns(policies, row[None])[:, 0, 0]
    error = np.hypot(
        mine.std(1) / np.sqrt(mine.shape[1]), played.std(1) / np.sqrt(played.shape[1])
    )
    assert (abs(mine.mean(1) - played.mean(1)) < 5 * error + 1).all()


def test_a_forgotten_derived_field_is_a_dead_axis():
    axes = own.CART_AXES
    for system, expected in (
        (own.stale_cartpole(), ["masscart"]),
        (own.fresh_cartpole(), []),
    ):
        assert dead_axes(environment_outcomes(system.environment), axes) == expected


def test_two_ways_to_apply_a_context():
    axis = ContextAxis("gravity", 10.0, low=0.0)

    systems = [
        GymnasiumSystem(
            "Pendulum-v1", [axis], attributes={"gravity": "g"}, horizon=200
        ),
        GymnasiumSystem(
            "Pendulum-v1", [axis], apply="arguments", attributes={"gravity": "g"},
            horizon=200,
        ),
        GymnasiumSystem(
            lambda g: gymnasium.make("Pendulum-v1", g=g), [axis], apply="arguments",
            attributes={"gravity": "g"}, horizon=200,
        ),
    ]  # fmt: skip
    policies = LinearGain(np.array([[[[0.0, 5.0, 1.0]]]]))
    contexts = np.array([[4.0], [10.0]])
    scores = [s.performance(policies, contexts)[0, 0] for s in systems]
    assert scores[0][0] != scores[0][1]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-6)


def test_sb3_models_callables_and_our_networks_score_the_same():
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra 'rl'")
    system = GymnasiumSystem("CartPole-v1", n_episodes=3, horizon=100)
    contexts = np.array([[a.default for a in system.axes]] * 2)
    contexts[1, 1] = 4.0
    model = sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    mlp = mlp_from_sb3(model)
    given = [
        model,
        lambda seen: int(model.predict(seen, deterministic=True)[0]),
        mlp,
    ]
    scores = system.performance(PythonPolicies(given), contexts)
    stacked = system.performance(mlp[None, None], contexts)
    for score in scores:
        np.testing.assert_array_equal(score, stacked[0])


def test_processes_give_the_same_returns():
    system = GymnasiumSystem("CartPole-v1", n_episodes=3)
    contexts = np.array([[a.default for a in system.axes]] * 3)
    contexts[:, 0] = [0.3, 0.5, 2.0]
    policies = networks(4, 2, "argmax")
    shared = GymnasiumSystem("CartPole-v1", n_episodes=3, workers=2)
    expected = system.returns(policies, contexts)
    assert expected.shape == (3, 1, 3, 3)
    np.testing.assert_array_equal(shared.returns(policies, contexts), expected)


def test_by_name_with_axes_from_plain_values():
    system = gymnasium_system("Pendulum-v1")
    assert system.id == "gymnasium:Pendulum-v1"
    assert [a.name for a in system.axes][:2] == ["mass", "length"]
    # Own axes: a default value, or a table.
    axes = {"g": 10.0, "m": 1.0}
    named = gymnasium_system("Pendulum-v1", axes=axes, horizon=30, n_episodes=2)
    assert [(a.name, a.default) for a in named.axes] == [("g", 10.0), ("m", 1.0)]
    table = gymnasium_system(
        "Pendulum-v1", axes={"gravity": {"attribute": "g", "default": 10.0}, "m": 1.0},
        horizon=30, n_episodes=2,
    )  # fmt: skip
    policies = LinearGain(np.array([[[[0.0, 5.0, 1.0]]]]))
    contexts = np.array([[4.0, 2.0], [10.0, 1.0]])
    expected = GymnasiumSystem(
        "Pendulum-v1", [ContextAxis("g", 10.0), ContextAxis("m", 1.0)],
        horizon=30, n_episodes=2,
    ).performance(policies, contexts)  # fmt: skip
    for one in (named, table):
        np.testing.assert_array_equal(one.performance(policies, contexts), expected)
        # What is written down builds the same system again.
        again = gymnasium_system("Pendulum-v1", **one.settings())
        assert again.axes == one.axes
        assert again.settings() == one.settings()
        np.testing.assert_array_equal(again.performance(policies, contexts), expected)
    # Names of ready axes keep their meaning: no dead mass of a cart.
    ready = gymnasium_system("CartPole-v1", axes={"cart_mass": 2.0})
    assert ready.axes[1].default == 2.0
    assert ready.axes[1].unit == "kg"
    assert gymnasium_system("CartPole-v1", **ready.settings()).axes == ready.axes
    assert dead_axes(environment_outcomes(ready.environment), ready.axes) == []


def test_mistakes_by_name():
    with pytest.raises(InvalidInputError, match="registered id"):
        gymnasium_system("my_module:Env-v0")
    with pytest.raises(UnknownNameError, match="key of the axis g"):
        gymnasium_system("Pendulum-v1", axes={"g": {"lowest": 1.0}})
    with pytest.raises(InvalidInputError, match="must be a default value or a table"):
        gymnasium_system("Pendulum-v1", axes={"g": "ten"})
    with pytest.raises(InvalidInputError, match="needs a default"):
        gymnasium_system("Pendulum-v1", axes={"g": {"low": 0.0}})
    with pytest.raises(InvalidInputError, match="return_range"):
        gymnasium_system("Pendulum-v1", return_range=[0.0, -1.0])


EXPERIMENT = """
name = "swing"
seed = 0
ask = "regret <= 50"
[system]
id = "gymnasium:Pendulum-v1"
horizon = 20
n_episodes = 2
[system.axes]
gravity = {attribute = "g", default = 10.0, unit = "m/s²", low = 0.0}
[space]
gravity = [5.0, 15.0, 2]
[trainer]
id = "sb3"
n_policies = 1
total_steps = 64
evaluate_every = 64
n_evaluation_episodes = 1
options = {n_steps = 32, batch_size = 32, n_epochs = 1}
"""


def test_an_experiment_names_an_environment(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs the extra 'rl'")
    (tmp_path / "swing.toml").write_text(EXPERIMENT)
    experiment = load_experiment(str(tmp_path / "swing.toml"))
    built = experiment.built_system
    assert isinstance(built, GymnasiumSystem)
    assert built.axes[0].unit == "m/s²"
    again = Experiment.from_toml(experiment.resolved().to_toml())
    assert again.built_system.settings() == built.settings()
    assert again == experiment.resolved()
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(EXPERIMENT.replace("horizon = 20", "horizons = 20"))
    with pytest.raises(UnknownNameError, match="Did you mean 'horizon'"):
        load_experiment(str(wrong))
    run = run_experiment(experiment, tmp_path / "run", workers=0)
    assert run is not None
    store = RunFolder.open(tmp_path / "run")
    assert store.table()["performance"].shape == (2, 1, 2)


def test_training_is_judged_on_episodes_of_its_own(monkeypatch):
    """Neither those of J nor those that judge: they would flatter the checkpoint."""
    pytest.importorskip("stable_baselines3", reason="needs the extra 'rl'")
    played = []
    system = GymnasiumSystem("CartPole-v1", n_episodes=3, horizon=20)
    returns = GymnasiumSystem.returns

    def spy(self, policies, contexts, *, episodes=None):
        played.extend(self.episode_numbers(episodes).tolist())
        return returns(self, policies, contexts, episodes=episodes)

    monkeypatch.setattr(GymnasiumSystem, "returns", spy)
    trainer = ts.trainers.Sb3(
        n_policies=1, total_steps=32, evaluate_every=32, n_evaluation_episodes=4,
        options={"n_steps": 32, "batch_size": 32, "n_epochs": 1},
    )  # fmt: skip
    row = np.array([[a.default for a in system.axes]])
    trainer.train(system, row, seed=0)
    assert set(played) == set(range(FIRST_TRAINING, FIRST_TRAINING + 4))


def test_policies_with_a_memory_are_reset():
    class Counter:
        def reset(self):
            self.n = 0

        def __call__(self, seen):
            self.n += 1
            return self.n % 2

    system = GymnasiumSystem("CartPole-v1", n_episodes=4)
    row = np.array([[a.default for a in system.axes]])
    first = system.returns(PythonPolicies([Counter()]), row)
    again = system.returns(PythonPolicies([Counter()]), row)
    np.testing.assert_array_equal(first, again)


def test_mistakes_are_named():
    with pytest.raises(InvalidInputError, match="context_axes must be given"):
        GymnasiumSystem("Blackjack-v1")
    axes = [ContextAxis("mass_cart", 1.0)]
    row = np.array([1.0])
    with pytest.raises(UnknownNameError, match="Did you mean 'masscart'"):
        GymnasiumSystem("CartPole-v1", axes).environment(row)
    for former in ("options", print):
        with pytest.raises(InvalidInputError, match="let make be a function"):
            GymnasiumSystem("CartPole-v1", axes, apply=former)
    with pytest.raises(UnknownNameError, match="axis in attributes"):
        GymnasiumSystem("CartPole-v1", axes, attributes={"mas": "masscart"})
    system = GymnasiumSystem("CartPole-v1", n_episodes=1)
    full = np.array([[a.default for a in system.axes]])
    with pytest.raises(InvalidInputError, match="callable"):
        system.performance(PythonPolicies([3.0]), full)
    with pytest.raises(InvalidInputError, match="not JAX"):
        ts.trainers.Ppo(total_steps=1000).train(system, full, seed=0)
