"""Regions: one form for every order and unit, points bit by bit, steps to the unit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskspace.errors import InvalidInputError
from taskspace.systems.cartpole import CartPole
from taskspace.trainers.base import Region
from taskspace.trainers.ppo import ContextSampler, Ppo, _Algorithm
from tests.trainers.probes import Probe
from tests.trainers.test_ppo import QUICK_COMPILATION, SMALL, arrays_of

LONG = replace(SMALL, total_steps=8192, patience=3, stop_return=np.inf)
ACTION, MATCHING = Probe.context("action"), Probe.context("matching")


def same_bits(one, other):
    for a, b in zip(arrays_of(one), arrays_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=9),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_a_region_has_one_form(pairs, random):
    if not any(weight for _, weight in pairs):
        pairs = [*pairs, (0, 1)]
    shuffled = random.sample(pairs, len(pairs))
    one, other = (
        Region([[float(c)] for c, _ in some], [w * scale for _, w in some])
        for some, scale in ((pairs, 1), (shuffled, 4))
    )
    np.testing.assert_array_equal(one.contexts, other.contexts)
    np.testing.assert_array_equal(one.weights, other.weights)
    total = sum(weight for _, weight in pairs)
    for (context,), share in zip(one.contexts, one.weights, strict=True):
        expected = sum(w for c, w in pairs if c == context) / total
        assert share == pytest.approx(expected, rel=1e-12)
    words = [region.seed(7).generate_state(4).tolist() for region in (one, other)]
    assert words[0] == words[1] != one.seed(8).generate_state(4).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_equal_contexts_does_not_matter(seed):
    """Sums of floats depend on their order; the form of a region must not."""
    rng = np.random.default_rng(seed)
    rows, weights = rng.integers(0, 3, (40, 1)) + 0.0, rng.integers(1, 99, 40)
    order = rng.permutation(40)
    one, other = Region(rows, weights), Region(rows[order], weights[order])
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.seed(7).entropy == other.seed(7).entropy


def test_draws_follow_the_weights(rng):
    region = Region([[0.0], [1.0], [5.0]], [1, 2, 5])
    shares = rng.random(40_000)
    inside = np.asarray(ContextSampler.of(region).at(jnp.asarray(shares, jnp.float32)))
    for drawn in (region.draw(shares), inside):
        found = [(drawn[:, 0] == c).mean() for c in (0.0, 1.0, 5.0)]
        # Four standard errors of a proportion.
        np.testing.assert_allclose(found, [1 / 8, 1 / 4, 5 / 8], atol=0.01)
    many = Region(np.arange(700.0)[:, None])
    ends = jnp.asarray([0.0, 1 - 2**-24], jnp.float32)
    assert np.asarray(ContextSampler.of(many).at(ends)).ravel().tolist() == [
        0.0,
        699.0,
    ]


def test_every_episode_of_a_rollout_has_a_context_of_the_region():
    ppo, system = SMALL, Probe()
    rows = [Probe.context("endless", scale) for scale in (0.3, 0.5, 4.0)]
    sampler = ContextSampler.of(Region(rows, [1, 0, 1]))
    environments = _Algorithm(ppo, system).start(sampler, jax.random.key(0))
    seen = [np.asarray(environments.context)[:, 1]]
    start = _Algorithm(ppo, system).initial_parameters(np.random.default_rng(0))
    play = jax.jit(_Algorithm(ppo, system).rollout, compiler_options=QUICK_COMPILATION)
    for key in jax.random.split(jax.random.key(1), 3):
        environments, _ = play(start, environments, sampler, key)
        seen.append(np.asarray(environments.context)[:, 1])
    assert set(np.concatenate(seen)) == set(np.float32([0.3, 4.0]))
    assert len({tuple(row) for row in seen}) == 4  # each episode draws anew


def test_a_region_of_one_point_is_a_point():
    point = SMALL.train(Probe(), MATCHING[None], seed=3)
    same_bits(point, SMALL.train_region(Probe(), Region(MATCHING[None]), seed=3))
    # Said three times, and beside a context without weight.
    rows = np.stack([MATCHING, ACTION, MATCHING, MATCHING])
    region = Region(rows, [1, 0, 2, 1])
    same_bits(point, SMALL.train_region(Probe(), region, seed=3))


def test_trainings_on_a_set_repeat_and_serve_all_of_it():
    """One policy for two tasks, told apart by what it observes."""
    region = Region([ACTION, MATCHING], [1, 3])
    one = LONG.train_region(Probe(), region, seed=0)
    same_bits(one, LONG.train_region(Probe(), region, seed=0))
    other = LONG.train_region(Probe(), Region([ACTION, MATCHING], [1, 2]), seed=0)
    assert (one.policies.weights[0] != other.policies.weights[0]).any()
    assert (Probe().performance(one.policies, region.contexts) == 1).all()


def test_training_ends_on_a_plateau():
    """Nothing can be learned here, so the first evaluation stays the best."""
    trained = LONG.train(Probe(), Probe.context("constant")[None], seed=0)
    assert trained.log["since_best"].item() == 3
    assert trained.log["evaluations"].item() == 4
    assert trained.environment_steps.item() == 4 * 1024


def test_a_warm_start_is_held_while_the_critic_learns():
    """The first period changes the statistics of what is observed, not the policy."""
    system = CartPole(horizon=100)
    region = Region([[axis.default for axis in system.axes]])
    recipe = replace(SMALL, total_steps=1000, normalise_observations=True)
    start = recipe.train_region(system, region, seed=0).policies[0, 0]
    held = recipe.train_region(system, region, seed=1, start=start)
    assert held.environment_steps.item() == 1024
    assert held.log["evaluations"].item() == 1
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    before, after = (
        np.tanh(x @ p.weights[0] + p.biases[0]) @ p.weights[1] + p.biases[1]
        for p in (start, held.policies[0, 0])
    )
    np.testing.assert_allclose(after, before, atol=2e-4)
    cold = recipe.train_region(system, region, seed=1).policies[0, 0]
    assert np.abs(cold.weights[0] - start.weights[0]).max() > 0.1


def test_a_warm_start_counts_its_own_steps_and_repeats():
    region = Region([MATCHING])
    start = LONG.train_region(Probe(), region, seed=0).policies[0, 0]
    warm = LONG.train_region(Probe(), region, seed=1, start=start)
    same_bits(warm, LONG.train_region(Probe(), region, seed=1, start=start))
    # All is solved at the start: three evaluations more do not find anything better.
    assert warm.log["home_return"].item() == 1
    assert warm.environment_steps.item() == 4 * 1024


def test_what_is_no_region_or_start_is_refused():
    with pytest.raises(InvalidInputError, match="not all 0"):
        Region([[1.0]], [0.0])
    with pytest.raises(InvalidInputError, match="finite context rows"):
        Region([[np.nan]])
    with pytest.raises(InvalidInputError, match="patience >= 1"):
        Ppo(patience=0)
    small = SMALL.train(Probe(), ACTION[None], seed=0).policies[0, 0]
    with pytest.raises(InvalidInputError, match="Set hidden"):
        Ppo().train_region(Probe(), Region(ACTION[None]), seed=0, start=small)
