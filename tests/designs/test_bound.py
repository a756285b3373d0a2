"""Bounds over all gains, attacked by closed forms, brute force and 50 digits."""

from itertools import product

import numpy as np
import pytest

import taskspace as ts
from taskspace.designs import bound_all_gains
from taskspace.designs.gain_boxes import GainBoxes
from taskspace.designs.gain_sets import make_gain_sets
from taskspace.designs.problem import fewer_contexts
from taskspace.systems import ContextAxis, LinearFamily

from ..helpers import four_states
from .plants import LOOSE, discrete_plant, exact_loss, small_space


def stabbing_number(b, epsilon) -> int:
    """How few gains serve the scalar plants b: points that stab closed intervals.

    (1 + k²) / (2 (bk − 1)) <= limit is a quadratic inequality in k.
    """
    limit = (1 + epsilon) * (1 + np.sqrt(1 + b**2)) / b**2
    root = np.sqrt((limit * b) ** 2 - 2 * limit - 1)
    low, high = limit * b - root, limit * b + root
    n, last = 0, -np.inf
    for right, left in sorted(zip(high, low, strict=True)):
        if left > last:
            n, last = n + 1, right
    return n


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("n", [5, 60])
def test_the_scalar_family_gets_its_closed_form(epsilon, n):
    space = ts.Grid(b=(0.1, 1.0, n))
    truth = stabbing_number(space.points[:, 0], epsilon)
    question = ts.Question("ratio", epsilon=epsilon)
    system = ts.systems.ScalarLqr()
    bound = bound_all_gains(system, space, question, goal=truth, time_limit=20)
    assert bound.value == truth
    assert bound.argument == "boxes"
    # With a goal out of reach it never claims more.
    above = bound_all_gains(system, space, question, goal=truth + 1, time_limit=0.5)
    assert above.value <= truth


@pytest.mark.parametrize("seed", range(3))
def test_no_bound_exceeds_what_a_dense_grid_of_gains_needs(seed):
    rng = np.random.default_rng(seed)
    system = ts.systems.MassSpringDamper()
    space = ts.Points(["k", "c"], rng.uniform(0.1, 8.0, (8, 2)))
    question = ts.Question("regret", epsilon=0.15)
    gains = np.array(list(product(np.linspace(0.2, 3.4, 90), repeat=2)))
    study = ts.evaluate_policies(system, gains[:, None, :], space)
    truth = ts.minimum_cover(study, question)
    assert truth.optimal
    assert truth.is_full
    bound = bound_all_gains(system, space, question, goal=truth.size, time_limit=20)
    assert 1 < bound.value <= truth.size
    free = bound_all_gains(system, space, question, time_limit=3)
    assert free.value <= truth.size


def boxes_of(system, space, question, centres, radius) -> GainBoxes:
    """Boxes around some gains with their sets."""
    sets = make_gain_sets(system, system.contexts(space), question)
    low, high = centres - radius, centres + radius
    every = np.ones((len(centres), len(sets)), bool)
    boxes = GainBoxes(low, high, every, ~every)
    where = np.argwhere(np.ones(sets.optimal.shape[1:], bool))
    boxes.exclude(sets, where)
    return boxes


def served_but_left_out(system, space, question, boxes, rng, n_tries=4) -> int:
    """Gains of boxes that serve, by 50 digits, a context that is not in the set."""
    contexts, wrong = system.contexts(space), 0
    shape = system.optimal_gain(contexts[:1])[0][0].shape
    for box in range(len(boxes)):
        left_out = np.flatnonzero(~boxes.may[box])
        if not len(left_out):
            continue
        # The contexts that are nearest to being served, in plain arithmetic.
        corners = rng.choice([0.0, 1.0], (64, boxes.low.shape[1]))
        shares = np.concatenate([corners, rng.random((64, boxes.low.shape[1]))])
        gains = boxes.low[box] + shares * (boxes.high[box] - boxes.low[box])
        gains = gains.reshape(-1, *shape)
        cost = -system.performance(system.gains(gains), contexts[left_out])[:, 0]
        best = -system.optimum(contexts[left_out])
        loss = cost - best if question.criterion == "regret" else cost / best - 1
        for flat in np.argsort(loss, axis=None)[:n_tries]:
            g, t = np.unravel_index(flat, loss.shape)
            exact = exact_loss(system, contexts[left_out[t]], gains[g], question)
            wrong += exact <= question.epsilon
    return wrong


CASES = {
    "msd": (ts.systems.MassSpringDamper(), small_space(), LOOSE),
    "ratio": (
        ts.systems.MassSpringDamper(), small_space(), ts.Question("ratio", epsilon=0.03)
    ),
    "discrete": (discrete_plant(), ts.Grid(a=(0.7, 1.2, 8)), LOOSE),
    "units": (discrete_plant((1e3, 1e-4), 20.0), ts.Grid(a=(0.7, 1.2, 8)), LOOSE),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_gain_of_a_box_serves_what_its_set_leaves_out(name):
    system, space, question = CASES[name]
    rng = np.random.default_rng(0)
    optimal = system.optimal_gain(system.contexts(space))[0].reshape(space.size, -1)
    spread = np.ptp(optimal, axis=0)
    for size in (0.02, 0.2, 1.0):
        centres = optimal[rng.integers(len(optimal), size=12)]
        centres = centres + spread * rng.normal(0, 0.5, centres.shape)
        boxes = boxes_of(system, space, question, centres, size * spread)
        assert served_but_left_out(system, space, question, boxes, rng) == 0
        if size < 1:
            assert not boxes.may.all()
            assert (boxes.may >= boxes.serves).all()


@pytest.mark.parametrize("name", ["msd", "discrete"])
def test_the_attack_finds_a_set_that_is_too_small(name):
    system, space, question = CASES[name]
    rng = np.random.default_rng(0)
    optimal = system.optimal_gain(system.contexts(space))[0].reshape(space.size, -1)
    radius = 0.3 * np.ptp(optimal, axis=0)
    planted = boxes_of(system, space, question, optimal, 0.4 * radius)
    false = GainBoxes(optimal - radius, optimal + radius, planted.may, planted.serves)
    assert served_but_left_out(system, space, question, false, rng) > 0


@pytest.mark.parametrize("name", [*CASES, "four states"])
def test_gains_that_serve_are_in_the_ellipsoid_of_the_context(name):
    if name == "four states":
        system, space = four_states(), ts.Grid(coupling=(0.1, 1.0, 4))
        question = ts.Question("ratio", epsilon=0.02)
    else:
        system, space, question = CASES[name]
    # None is outside; where the tolerance is small, two thirds of it are too little.
    assert reach_in_ellipsoid(system, space, question) <= 1
    assert 2 / 3 < reach_in_ellipsoid(system, space, question.at(1e-4)) <= 1


def reach_in_ellipsoid(system, space, question) -> float:
    """How far out in their ellipsoids random gains lie that serve, as a share."""
    contexts = system.contexts(space)
    sets = make_gain_sets(system, contexts, question)
    assert np.isfinite(sets.radius).all()
    rng = np.random.default_rng(0)
    largest = 0.0
    for t in range(len(contexts)):
        t_r, t_y = sets.t_r[t], sets.t_y[t]
        way = rng.standard_normal((300, *sets.optimal.shape[1:]))
        way /= np.sqrt((way**2).sum((1, 2), keepdims=True))
        share = rng.uniform(0, 1.5, (300, 1, 1))
        gains = sets.optimal[t] + t_r.T @ (way * share * sets.radius[t]) @ t_y
        cost = -system.performance(system.gains(gains), contexts[t : t + 1])[:, 0, 0]
        serves = cost <= sets.limit[t] * (1 - 1e-12)
        assert serves.any()
        largest = max(largest, share[serves].max())
    return largest


def test_ellipsoids_that_do_not_meet_have_no_gain_in_common():
    system, space = ts.systems.MassSpringDamper(), small_space(6)
    tight = ts.Question("regret", epsilon=0.02)
    contexts = system.contexts(space)
    sets = make_gain_sets(system, contexts, tight)
    apart = np.array([sets.apart_from(i) for i in range(len(sets))])
    assert apart.any()
    assert not apart.diagonal().any()
    gains = np.random.default_rng(0).uniform(0, 3.5, (40_000, 1, 2))
    losses = -system.performance(system.gains(gains), contexts)[:, 0]
    serves = losses + system.optimum(contexts) <= 0.02
    assert not (serves.T.astype(int) @ serves.astype(int))[apart].any()


def test_many_entries_are_bounded_by_packing_and_it_says_so():
    system = four_states()
    space = ts.Grid(coupling=(0.05, 6.0, 5), mass=(0.3, 4.0, 5))
    question = ts.Question("ratio", epsilon=1e-4)
    bound = bound_all_gains(system, space, question)
    assert bound.argument == "packing"
    assert "no two have a gain in common" in bound.statement
    # Of the optimal gains so many are needed; of all gains surely no more.
    study = ts.evaluate(system, ts.trainers.Lqr(1, 0.0), space, seed=0)
    assert 2 < bound.value <= ts.minimum_cover(study, question).size


def test_a_change_of_units_changes_no_bound():
    space, found = ts.Grid(a=(0.6, 1.3, 25)), []
    question = ts.Question("ratio", epsilon=0.02)
    for units, unit in (((1.0, 1.0), 1.0), ((1e3, 1e-4), 50.0)):
        bound = bound_all_gains(discrete_plant(units, unit), space, question, goal=3)
        found.append(bound.value)
    assert found[0] == found[1] > 1


def test_structures_need_at_least_as_many_gains():
    system, space = ts.systems.MassSpringDamper(), ts.Grid(k=(0.5, 4.0, 6))
    question = ts.Question("regret", epsilon=1.0)
    every = bound_all_gains(system, space, question, goal=9, time_limit=1)
    rate_only = bound_all_gains(
        system, space, question, mask=[[0, 1]], goal=9, time_limit=1
    )
    assert rate_only.value >= every.value
    assert "this structure (one free entry of 2)" in rate_only.statement


def test_an_initial_state_without_spread_proves_nothing_and_says_why():
    system = discrete_plant()
    flat = LinearFamily(
        context_axes=[ContextAxis("a", 1.0)],
        **{name: getattr(system, name) for name in "ABQR"},
        x0_covariance=[[1.0, 0.0], [0.0, 0.0]],
        time="discrete",
    )
    bound = bound_all_gains(flat, ts.Grid(a=(0.7, 1.2, 5)), LOOSE)
    assert (bound.value, bound.argument) == (1, "none")
    assert "initial covariance and R must be definite" in bound.statement


def test_fewer_contexts_keep_the_ends():
    grid = ts.Grid(k=(0.1, 8.0, 100), c=(0.1, 8.0, 100))
    few = fewer_contexts(grid, 1600)
    assert isinstance(few, ts.Grid)
    assert few.size == 1600
    assert set(map(tuple, few.points)) <= set(map(tuple, grid.points))
    assert [few.low.tolist(), few.high.tolist()] == [[0.1, 0.1], [8.0, 8.0]]


@pytest.mark.slow
def test_the_mass_spring_damper_needs_six_gains_of_any_kind():
    system, space = (
        ts.systems.MassSpringDamper(), ts.Grid(k=(0.1, 8.0, 40), c=(0.1, 8.0, 40))
    )  # fmt: skip
    question = ts.Question("regret", epsilon=0.2)
    bound = bound_all_gains(system, space, question, goal=6, time_limit=200)
    assert bound.value == 6
    gains = np.array(list(product(np.linspace(0.3, 3.3, 61), repeat=2)))
    study = ts.evaluate_policies(system, gains[:, None, :], space)
    assert ts.minimum_cover(study, question, time_limit=60).lower_bound >= 6
