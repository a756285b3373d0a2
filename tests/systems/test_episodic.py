"""Episodes by number: the same everywhere, others when asked; how noisy they are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Mlp
from taskspace.systems import (
    CartPole,
    ContextAxis,
    EpisodicSystem,
    GymnasiumSystem,
    Pendulum,
    fresh_episodes,
    zero_performance,
)
from taskspace.systems.episodic import FIRST_FRESH, FIRST_TRAINING, standard_error

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'rl'")


def networks(n_in, n_out, head, n=2, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (n_in, 8), (8, n_out)
    return Mlp(
        tuple(rng.normal(size=(n, 1, *s)).astype(np.float32) for s in sizes),
        tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=head,
    )


@dataclass(frozen=True)
class Dice(EpisodicSystem):
    """Return of an episode: minus the distance, plus noise of its number alone."""

    horizon: int = 1
    n_episodes: int = 5
    episode_seed: int = 0
    id: ClassVar[str] = "dice-v0"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def returns(self, policies, contexts, *, episodes=None):
        assert isinstance(policies, LinearGain)
        numbers = self.episode_numbers(episodes)
        noise = np.array(
            [np.random.default_rng([self.episode_seed, e]).normal() for e in numbers]
        )
        distance = np.abs(policies.gain[..., 0, 0][..., None] - contexts[:, 0])
        return (noise - distance[..., None]).astype(np.float32)


# Of two kinds: in JAX, and played by Gymnasium.
JAX = CartPole(horizon=60, n_episodes=5), networks(4, 2, "argmax")
GYM = GymnasiumSystem("CartPole-v1", horizon=60, n_episodes=5), JAX[1]
KINDS = pytest.mark.parametrize(
    ("system", "policies"), [JAX, GYM], ids=["jax", "gymnasium"]
)


def rows(system):
    found = np.array([[axis.default for axis in system.axes]] * 3)
    found[:, 0] *= [0.5, 1.0, 4.0]
    return found


@KINDS
def test_an_episode_is_its_number(system, policies):
    contexts = rows(system)
    usual = system.returns(policies, contexts)
    assert usual.shape == (2, 1, 3, 5)
    np.testing.assert_array_equal(
        usual, system.returns(policies, contexts, episodes=range(5))
    )
    # In any order, repeated, and with one target alone (another compiled size).
    order = [4, 0, 2, 2, 1]
    np.testing.assert_array_equal(
        usual[..., order], system.returns(policies, contexts, episodes=order)
    )
    np.testing.assert_array_equal(
        usual[:, :, 1:2], system.returns(policies, contexts[1:2], episodes=range(5))
    )


@KINDS
def test_fresh_episodes_differ_and_repeat(system, policies):
    contexts = rows(system)
    fresh = system.returns(policies, contexts, episodes=fresh_episodes(5))
    again = system.returns(policies, contexts, episodes=fresh_episodes(5))
    later = system.returns(policies, contexts, episodes=fresh_episodes(5, first=5))
    np.testing.assert_array_equal(fresh, again)
    assert (fresh != system.returns(policies, contexts)).any()
    assert (fresh != later).any()
    joined = system.returns(policies, contexts, episodes=[FIRST_FRESH + 7])
    np.testing.assert_array_equal(joined[..., 0], later[..., 2])


def test_numbers_of_episodes_never_meet():
    """J, judging and training use numbers apart, whatever n_episodes is."""
    most = Dice(n_episodes=FIRST_FRESH)
    assert most.n_episodes - 1 < fresh_episodes(1)[0]
    assert fresh_episodes(FIRST_TRAINING - FIRST_FRESH)[-1] < FIRST_TRAINING
    with pytest.raises(InvalidInputError, match="kept for judging"):
        Dice(n_episodes=FIRST_FRESH + 1)
    for n, first in ((0, 0), (1, -1), (FIRST_TRAINING, 0)):
        with pytest.raises(InvalidInputError, match="n >= 1 and first >= 0"):
            fresh_episodes(n, first)


@pytest.mark.parametrize("wrong", [[], [-1], [0.5], [[0]], [2**31], ["a"]])
def test_numbers_that_are_no_episodes(wrong):
    with pytest.raises(InvalidInputError, match="Episodes are numbered"):
        Dice().returns(
            LinearGain(np.zeros((1, 1, 1, 1))), np.zeros((1, 1)), episodes=wrong
        )


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.floats(-1e3, 1e3, width=32, allow_subnormal=False), min_size=2, max_size=40
    )
)
def test_standard_error_by_hand(values):
    n = len(values)
    mean = sum(values) / n
    variance = sum((v - mean) ** 2 for v in values) / (n - 1)
    found = standard_error(np.array(values, np.float32))
    assert found == pytest.approx((variance / n) ** 0.5, rel=1e-6, abs=1e-9)


def test_standard_error_where_there_is_none():
    assert np.isnan(standard_error(np.ones((2, 1)))).all()
    assert np.isnan(standard_error(np.array([1.0, -np.inf, 2.0])))
    assert standard_error(np.full(7, 3.0)) == 0


def test_a_table_holds_the_standard_error_of_its_means():
    policies = LinearGain(np.array([0.0, 2.0]).reshape(2, 1, 1, 1))
    space = ts.Points(["x"], [0.0, 1.0, 2.0])
    table = ts.evaluate_policies(Dice(n_episodes=9), policies, space).table
    returns = Dice(n_episodes=9).returns(policies, space.points)
    np.testing.assert_allclose(table["performance"], returns.mean(-1, dtype=float))
    by_hand = returns.astype(float).std(-1, ddof=1) / 3
    np.testing.assert_allclose(table["standard_error"], by_hand)
    assert table.attrs["provenance"] == "sampled"
    assert table.attrs["n_episodes"] == 9


@KINDS
def test_returns_stay_within_their_bounds(system, policies):
    low, high = system.return_bounds(rows(system)).T[:, None, None, :, None]
    found = system.returns(policies, rows(system), episodes=fresh_episodes(5))
    assert (found >= low).all()
    assert (found <= high).all()
    assert low.min() == 1
    assert high.max() == 60


def test_bounds_of_the_pendulum_are_not_exceeded_and_not_idle():
    system = Pendulum(horizon=40, n_episodes=4)
    contexts = np.array([[axis.default for axis in system.axes]] * 2)
    contexts[:, -1] = [0.5, 60.0]
    bounds = system.return_bounds(contexts)
    # Pump with all there is: the speed is at its limit, the torque at its own.
    pump = LinearGain(np.array([[[[0.0, 0.0, -1e4]]]]))
    found = system.returns(pump, contexts, episodes=fresh_episodes(200))[0, 0]
    assert (found >= bounds[:, :1]).all()
    assert (found <= 0).all()
    assert found[1].min() < 0.3 * bounds[1, 0]
    theirs = GymnasiumSystem("Pendulum-v1", horizon=40)
    np.testing.assert_array_equal(theirs.return_bounds(contexts), bounds)


def test_bounds_are_not_claimed_where_the_reward_may_be_another():
    for options in (
        {"arguments": {"sutton_barto_reward": True}},
        {"apply": "arguments"},
    ):
        axes = [ContextAxis("gravity", 9.8)] if "apply" in options else ()
        system = GymnasiumSystem("CartPole-v1", axes, **options)
        assert system.return_bounds(np.ones((1, len(system.axes)))) is None
    stated = GymnasiumSystem(
        "CartPole-v1", [ContextAxis("tau", 0.02)], return_range=(-100.0, 100.0)
    )
    assert stated.return_bounds(np.ones((2, 3))).tolist() == [[-100, 100]] * 2
    assert Dice().return_bounds(np.zeros((1, 1))) is None


def test_doing_nothing_scores_what_it_scores():
    system = CartPole(horizon=60, n_episodes=5)
    scored = zero_performance(system, rows(system))
    assert scored is not None
    tried, zero = scored
    assert tried.tolist() == [0, 1, 2]
    # The policy that does nothing pushes to the left, always.
    environment = system.environment(rows(system)[1])
    lengths = []
    for seed in range(100):
        environment.reset(seed=seed)
        steps, over = 0, False
        while not over:
            _, _, terminated, truncated, _ = environment.step(0)
            steps, over = steps + 1, terminated or truncated
        lengths.append(steps)
    assert min(lengths) <= zero[1] <= max(lengths)
    scored = zero_performance(system, np.repeat(rows(system), 25, axis=0))
    assert scored is not None
    many = scored[0]
    assert many.tolist() == np.linspace(0, 74, 9).round().astype(int).tolist()
    assert zero_performance(ts.systems.MassSpringDamper(), np.ones((1, 3))) is None
