"""Gains for a region: slopes, minimax against brute force, masks, walls."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.systems import LinearFamily
from taskspace.trainers.minimax import GainRegion, design_gains, gain_mask

from ..helpers import four_states
from .plants import discrete_plant, small_space


def regret_region(system, space) -> GainRegion:
    contexts = system.contexts(space)
    return GainRegion.of(system, contexts, -system.optimum(contexts))


def jax_cost(A, B, Q, R, S, K, continuous):
    """The cost by a linear equation of all entries, which JAX differentiates."""
    F, W = A - B @ K, Q + K.T @ R @ K
    eye = jnp.eye(len(F))
    if continuous:
        M = jnp.kron(F, eye) + jnp.kron(eye, F)
    else:
        M = jnp.kron(F, F) - jnp.eye(len(F) ** 2)
    X = jnp.linalg.solve(M, -S.reshape(-1)).reshape(F.shape)
    return (W * X).sum()


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_slopes_are_those_of_jax_and_of_differences(time):
    system, space = four_states(), ts.Grid(coupling=(0.1, 1.0, 3), mass=(0.5, 2.0, 2))
    if time == "discrete":
        system, space = discrete_plant(), ts.Grid(a=(0.9, 1.1, 3))
    region = regret_region(system, space)
    contexts = system.contexts(space)
    rng = np.random.default_rng(0)
    middle = system.optimal_gain(contexts)[0].mean(0)
    gain = middle + 0.05 * rng.standard_normal(middle.shape)
    losses, X = region.pair_losses(gain[None, None])
    assert np.isfinite(losses).all()
    slopes = region.slopes(np.repeat(gain[None], len(contexts), 0), X[0])
    with jax.enable_x64(True):
        S, continuous = system.initial_covariance, system.is_continuous
        slope = jax.grad(lambda K, a, b, q, r: jax_cost(a, b, q, r, S, K, continuous))
        each = jax.vmap(slope, (None, 0, 0, 0, 0))(gain, *system.matrices(contexts))
        np.testing.assert_allclose(slopes, each, rtol=1e-8, atol=1e-9)
    way = rng.standard_normal(gain.shape)
    h = 1e-5
    up, down = (region.losses((gain + x * way)[None])[0] for x in (h, -h))
    np.testing.assert_allclose((slopes * way).sum((1, 2)), (up - down) / (2 * h), 1e-5)


def test_one_entry_is_minimax_as_brute_force_finds_it():
    system, space = ts.systems.ScalarLqr(), ts.Grid(b=(0.2, 1.0, 9))
    contexts = system.contexts(space)
    cost = -system.optimum(contexts)
    region = GainRegion.of(system, contexts, cost, cost)
    start = system.optimal_gain(contexts)[0][:1]
    found = design_gains(region, start, gain_mask(system, None))
    k = np.linspace(5.01, 30, 200_001)[:, None]
    b = contexts[:, 0]
    brute = ((1 + k**2) / (2 * (b * k - 1)) / cost - 1).max(1).min()
    assert brute - 1e-12 <= found.worst <= brute * (1 + 2e-4)


def test_two_entries_are_minimax_as_brute_force_finds_it():
    system = ts.systems.MassSpringDamper()
    region = regret_region(system, small_space())
    found = design_gains(region, np.array([[[1.5, 1.5]]]), gain_mask(system, None))
    side = np.linspace(-0.3, 0.3, 161)
    near = found.gains[0] + np.stack(np.meshgrid(side, side), -1).reshape(-1, 1, 2)
    brute = region.losses(near).max(1).min()
    assert brute - 1e-3 * brute <= found.worst <= brute * (1 + 1e-3)
    far = np.random.default_rng(1).uniform(-0.4, 6, (20_000, 1, 2))
    assert region.losses(far).max(1).min() >= found.worst * (1 - 1e-3)


def test_several_gains_do_better_than_one_and_never_worse_than_their_start():
    system = ts.systems.MassSpringDamper()
    region = regret_region(system, small_space(6))
    mask = gain_mask(system, None)
    optimal = system.optimal_gain(system.contexts(small_space(6)))[0]
    worst = []
    for n in (1, 2, 3):
        start = optimal[np.linspace(0, 35, n).astype(int)]
        found = design_gains(region, start, mask)
        assert found.worst <= region.losses(start).min(0).max()
        assert found.worst == region.losses(found.gains).min(0).max()
        worst.append(found.worst)
    assert worst[0] > worst[1] > worst[2]


def test_entries_that_are_not_free_are_zero_to_the_bit():
    system, space = four_states(), ts.Grid(coupling=(0.1, 0.5, 3))
    region = regret_region(system, space)
    mask = gain_mask(system, [[1, 1, 0, 0], [0, 0, 1, 1]])
    start = system.optimal_gain(system.contexts(space))[0][:1]
    found = design_gains(region, start, mask)
    assert found.worst < region.losses(np.where(mask, start, 0.0)).max()
    assert (found.gains[:, ~mask].view(np.int64) == 0).all()
    with pytest.raises(InvalidInputError, match="2 inputs and 4 states"):
        gain_mask(system, [[1, 0]])


def test_a_wall_of_instability_is_not_crossed():
    system = LinearFamily(
        context_axes=[ts.systems.ContextAxis("a", 1.0)],
        A=lambda a: [[a]],
        B=lambda a: [[1.0]],
        Q=[[1e-6]],  # the optimum is next to the wall of the most unstable plant
        R=[[1.0]],
    )
    region = regret_region(system, ts.Grid(a=(0.1, 2.0, 8)))
    found = design_gains(region, np.array([[[50.0]]]), gain_mask(system, None))
    assert np.isfinite(found.worst)
    assert found.gains[0, 0, 0] > 2.0
    lost = design_gains(region, np.array([[[1.0]]]), gain_mask(system, None))
    assert lost.worst == np.inf


def test_units_of_the_states_do_not_matter():
    space = ts.Grid(a=(0.8, 1.1, 5))
    found = []
    for units, unit in (((1.0, 1.0), 1.0), ((1e3, 1e-4), 50.0)):
        system = discrete_plant(units, unit)
        start = system.optimal_gain(system.contexts(space))[0][:1]
        region = regret_region(system, space)
        found.append(design_gains(region, start, gain_mask(system, None)).worst)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_a_start_that_stabilises_no_context_stays_and_the_others_descend():
    system = ts.systems.ScalarLqr()
    contexts = system.contexts(ts.Grid(b=(0.2, 1.0, 5)))
    region = GainRegion.of(system, contexts)
    best, _ = system.optimal_gain(contexts)
    useless = np.array([[[-5.0]]])
    assert np.isinf(region.losses(useless)).all()
    starts = np.concatenate([2 * best[:1], useless])
    mask = gain_mask(system, None)
    moved = design_gains(region, starts, mask)
    assert moved.gains[1] == useless[0]
    alone = design_gains(region, starts[:1], mask)
    assert moved.worst == pytest.approx(alone.worst, rel=1e-6)
    assert moved.worst < region.losses(starts[:1]).max()


def test_gains_that_lose_nothing_are_left_as_they_are():
    system = ts.systems.ScalarLqr()
    contexts = system.contexts(ts.Grid(b=(0.2, 1.0, 3)))
    best, _ = system.optimal_gain(contexts)
    cost = -system.optimum(contexts)
    region = GainRegion.of(system, contexts, offset=cost)
    region = replace(region, offset=region.losses(best).diagonal() + cost)
    assert (region.losses(best).min(0) == 0).all()
    made = design_gains(region, best, gain_mask(system, None))
    assert (made.gains == best).all()
