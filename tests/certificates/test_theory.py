"""Every counterexample of docs/theory.md: the printed statement fails, ours holds."""

import math

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.paper import (
    ball_volume,
    check_balls,
    inner_radius,
    loss_rates,
    packing_count,
    volume_bounds,
)
from taskspace.certificates.table import (
    cell_radii,
    margin_rule,
)
from taskspace.errors import InvalidInputError
from taskspace.systems.tabular import (
    TabularFamily,
    deterministic_policies,
)
from tests.certificates.worlds import TOYS, line_table, policy_table


def loss_of(table, criterion="signed", judge="worst"):
    return ts.loss(table, ts.Question(criterion, judge, epsilon=0.0)).values


# 1 ----------------------------------------------------------------------------------


def test_1_a_bad_policy_covers_everything_under_signed_but_not_under_regret():
    matrix = np.array([[0.0, 0.0, 0.0], [0.0, 100.0, 50.0], [0.0, 50.0, 100.0]])
    table = ts.performance.table_from_matrix(matrix)
    signed = ts.greedy_cover(ts.tolerance_sets(loss_of(table), 1.0))
    assert signed.size == 1
    assert signed.sources[0] == 0  # the policy that scores 0 everywhere
    left = ts.Question(epsilon=0.0).assigned_losses(table, signed.assignment)
    assert left.max() == 100
    regret = ts.greedy_cover(ts.tolerance_sets(loss_of(table, "regret"), 1.0))
    assert 0 not in regret.sources[1:]
    assert ts.Question(epsilon=0.0).assigned_losses(table, regret.assignment).max() <= 1


# 2 ----------------------------------------------------------------------------------


def test_2_adding_policies_enlarges_the_worst_and_shrinks_the_best():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(6, 4, 6))
    some, more = (
        ts.performance.table_from_matrix(matrix[:, :n], home=matrix[:, :n, 0])
        for n in (2, 4)
    )
    assert (loss_of(more) >= loss_of(some)).all()
    assert (loss_of(more, judge="best") <= loss_of(some, judge="best")).all()
    for criterion in ("signed", "regret"):
        worst, best = (loss_of(more, criterion, f) for f in ("worst", "best"))
        assert (best <= worst).all()


# 3 ----------------------------------------------------------------------------------


def test_3_the_inner_ball_ends_at_r():
    def performance(source, target):
        t = np.abs(target - source)
        return np.where(t <= 1, -0.1 * t, -0.1 - 10 * (t - 1))

    table = line_table(np.linspace(0, 3, 31), performance)
    rates = loss_rates(table, 1.0)
    assert rates.upper[0] == pytest.approx(0.1)
    printed = 0.2 / rates.upper[0]
    assert printed == pytest.approx(2.0)
    assert loss_of(table)[0, 20] == pytest.approx(10.1)  # D(0; 2), far above 0.2
    balls, ours = check_balls(table, 0.2, radius=1.0)
    assert balls.inner[0] == pytest.approx(1.0)
    assert ours.holds
    assert ours.values["violations"] == 0


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_3_a_rate_that_is_not_positive_gives_radius_r(slope):
    table = line_table([0.0, 1.0, 2.0], lambda s, t: slope * np.abs(t - s))
    rates = loss_rates(table, 1.5)
    assert (rates.upper <= 0).all()
    assert inner_radius(rates.upper, 1.5, 0.1) == pytest.approx(1.5)
    assert inner_radius([np.inf, 0.5], 1.5, 0.0) == pytest.approx(0.0)
    assert check_balls(table, 0.1, radius=1.5)[1].holds


# 4 ----------------------------------------------------------------------------------


def back_at_two(source, target):
    """J = −|t| up to 1, back to 0 at 2."""
    t = np.abs(target - source)
    return -np.where(t <= 1, t, np.maximum(0, 2 - t))


def test_4_the_outer_ball_is_local_unless_the_rest_was_checked():
    table = line_table(np.linspace(-2, 2, 41), back_at_two)
    centre = 20
    balls, _ = check_balls(table, 0.5, radius=1.0)
    assert balls.rates.lower[centre] == pytest.approx(1.0)
    assert balls.outer[centre] == pytest.approx(0.5)
    assert loss_of(table)[centre, 40] == pytest.approx(0.0)  # 2 ∈ S, not in B_0.5
    assert not balls.outer_is_global[centre]
    # With r over the whole space M is honest, and the claim goes away.
    whole, _ = check_balls(table, 0.5, radius=4.0)
    assert whole.outer[centre] == np.inf


def test_4_a_cone_has_a_global_outer_ball():
    table = line_table(np.linspace(-2, 2, 41), lambda s, t: -np.abs(t - s))
    balls, _ = check_balls(table, 0.55, radius=1.0)
    assert balls.outer == pytest.approx(0.55)
    assert balls.outer_is_global.all()


# 5 ----------------------------------------------------------------------------------


def test_5_the_volume_lower_bound_fails_beyond_r_and_we_give_none():
    points = np.linspace(0, 200, 801)
    table = line_table(points, lambda s, t: -np.abs((t - s + 1) % 2 - 1))
    rates = loss_rates(table, 1.0)
    assert rates.lower.min() == pytest.approx(1.0)
    printed = 200 / ball_volume(1, 0.5 / rates.lower.min())
    assert printed == pytest.approx(200)
    truth = ts.greedy_cover(ts.tolerance_sets(loss_of(table), 0.5)).size
    assert truth == 2
    balls, _ = check_balls(table, 0.5, radius=1.0)
    for bound in volume_bounds([200.0], balls, same_sides=True):
        assert not [b for b in bound.bounds if b.side == "lower"]
        assert bound.values["value"] >= truth


def test_5_it_cannot_hold_where_performance_is_differentiable():
    table = line_table(np.linspace(0, 1, 101), lambda s, t: -((t - 0.3) ** 2))
    rates = loss_rates(table, 0.05)
    assert (rates.lower[1:-1] <= 0.05).all()


# 6 ----------------------------------------------------------------------------------


def printed_upper_count(widths, rho):
    """The paper's 3^d Vol(Θ) / Vol(B_ρ): false on thin boxes."""
    d = len(widths)
    return 3**d * math.prod(widths) / ball_volume(d, rho)


def test_6_thin_boxes():
    widths, rho = [1.0, 0.001], 0.1
    assert printed_upper_count(widths, rho) == pytest.approx(0.286, abs=1e-3)
    needed = math.ceil(1.0 / (2 * rho))  # balls of diameter 0.2 on a length of 1
    assert needed == 5
    assert packing_count(widths, rho) >= needed


@pytest.mark.parametrize("widths", [[3.0], [1.0, 2.0], [1.0, 0.3, 2.0]])
@pytest.mark.parametrize("rho", [0.2, 0.45])
def test_6_a_packing_really_covers(widths, rho):
    rng = np.random.default_rng(0)
    d = len(widths)
    points = rng.random((2000, d)) * widths
    packing: list[np.ndarray] = []
    for point in points:  # a maximal packing of the points
        if all(np.linalg.norm(point - other) > rho for other in packing):
            packing.append(point)
    assert len(packing) <= packing_count(widths, rho)
    if min(widths) >= 2 * rho:
        assert len(packing) <= printed_upper_count(widths, rho)


def test_6_axes_that_do_not_vary_do_not_count():
    assert packing_count([2.0, 0.0], 0.5) == packing_count([2.0], 0.5)
    with pytest.raises(InvalidInputError, match="radius > 0"):
        packing_count([1.0], 0.0)


# 7 ----------------------------------------------------------------------------------


def test_7_the_radius_rule_goes_the_other_way():
    grid = ts.Grid(x=(0.0, 1.0, 2))
    # Printed: nodes {0, 1} are in B_1(0), so B_0.5(0) covers [0, 1]. It does not.
    assert (np.abs(grid.points) <= 1.0).all()
    assert not (np.linspace(0, 1, 11) <= 0.5).all()


@pytest.mark.parametrize("seed", range(5))
def test_7_balls_that_cover_the_nodes_with_room_cover_the_box(seed):
    rng = np.random.default_rng(seed)
    grid = ts.Grid(x=(0.0, 4.0, 9), y=(1.0, 10.0, 6, "log"))
    centres = grid.points[rng.choice(grid.size, 12, replace=False)]
    nearest = np.linalg.norm(grid.points[:, None] - centres, axis=-1).min(1)
    delta = np.linalg.norm(cell_radii(grid), axis=1)
    radius = float((nearest + delta).max())
    points = grid.low + rng.random((20_000, 2)) * (grid.high - grid.low)
    reach = np.linalg.norm(points[:, None] - centres, axis=-1).min(1)
    assert reach.max() <= radius


# 8 ----------------------------------------------------------------------------------


def flat_then_steep(target):
    return 9 * np.maximum(0, target - 0.9)


def test_8_an_anchored_rate_does_not_bound_what_is_between_nodes():
    grid = ts.Grid(x=(0.0, 1.0, 11))
    loss = flat_then_steep(grid.points[:, 0])
    anchored = loss[1:] / grid.points[1:, 0]
    assert anchored.max() == pytest.approx(0.9)
    # The printed shrink with L = 0.9 would grant the cell of node 0.9 ...
    assert loss[9] <= 0.3 - anchored.max() * 0.05
    assert flat_then_steep(0.95) == pytest.approx(0.45)  # ... where D exceeds 0.3.
    wrong = margin_rule(grid, loss, 0.3, anchored.max())
    assert wrong[9]
    # A two-point constant does not.
    ours = margin_rule(grid, loss, 0.3, 9.0)
    assert not ours[9]
    assert ours[:9].sum() == 0  # 9 · 0.05 = 0.45 > 0.3 everywhere


@pytest.mark.parametrize("seed", range(5))
def test_8_the_margin_rule_is_sound(seed):
    rng = np.random.default_rng(seed)
    grid = ts.Grid(x=(0.0, 6.0, 13))
    centres = np.sort(rng.random(3) * 6)
    losses = 3 * np.abs(grid.points[:, 0] - centres[:, None])
    x = np.linspace(0, 6, 6001)
    exact = 3 * np.abs(x - centres[:, None]).min(0)
    cell = np.abs(x[:, None] - grid.points[:, 0]).argmin(1)
    for epsilon in (2.0, 3.0, 4.0):
        rule = margin_rule(grid, losses, epsilon, 3.0)
        assert (exact[rule[cell]] <= epsilon + 1e-12).all()


def test_8_half_the_constant_is_caught_on_a_tight_instance():
    grid = ts.Grid(x=(0.0, 2.0, 3))
    losses = 3 * grid.points[:, 0][None]  # J = −3x, source 0: Λ = 3 exactly
    rule = margin_rule(grid, losses, 3.8, 3.0)
    assert rule.tolist() == [True, False, False]
    half = margin_rule(grid, losses, 3.8, 1.5)
    assert half.tolist() == [True, True, False]
    assert abs(1.49 - grid.points[1, 0]) < abs(1.49 - grid.points[2, 0])
    assert 3 * 1.49 > 3.8  # in the cell that half the constant certified


# 9, 10, 11 --------------------------------------------------------------------------


def common_family(first, second):
    """D both ways for two contexts and a common family with these scores."""
    performance = np.array([[first, second]] * 2).transpose(0, 2, 1)  # s, p, t
    home = np.array([first, second])
    table = ts.performance.table_from_matrix(performance, home=home)
    return loss_of(table)


@pytest.mark.parametrize(
    ("f", "there", "back"), [([5, -5], 5, 5), ([3, 3], 3, -3), ([5, -8], 5, 8)]
)
def test_9_symmetry_is_about_sup_plus_inf(f, there, back):
    divergence = common_family(np.array(f, float), np.zeros(len(f)))
    assert divergence[0, 1] == there
    assert divergence[1, 0] == back
    assert (divergence[0, 1] == divergence[1, 0]) == (max(f) + min(f) == 0)


@pytest.mark.parametrize("epsilon", [4.9, 5.0, 7.9, 8.0])
def test_9_in_the_toy_the_choice_matters_from_5_up_to_below_8(epsilon):
    toy, policies = TOYS.directionality_toy()
    table = policy_table(toy, policies, ts.Points(["theta"], [1.0, 2.0]))
    sets = ts.Question("signed", "worst", epsilon=epsilon).sets(table)
    covers_both = sets.sizes == 2
    matters = bool(covers_both[0]) != bool(covers_both[1])
    assert matters == (5 <= epsilon < 8)
    if matters:
        assert covers_both.tolist() == [True, False]
        assert ts.minimum_cover(sets).sources.tolist() == [0]


def test_10_triangle_inequality_holds_for_a_common_family_only():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(7, 5))  # policy, context
    common = np.repeat(scores[None], 5, axis=0)
    home = scores.T
    d = loss_of(ts.performance.table_from_matrix(common, home=home))
    via = (d[:, :, None] + d[None, :, :]).min(1)
    assert (d <= via + 1e-12).all()
    # One policy a context: π0 loses 10 from 0 to 2 though 0→1 and 1→2 lose nothing.
    own = np.array([[0.0, 0.0, -10.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    d = loss_of(ts.performance.table_from_matrix(own))
    assert d[0, 2] == 10
    assert d[0, 1] + d[1, 2] == 0


def test_11_a_finite_family_is_as_lipschitz_as_its_steepest_member():
    points = np.linspace(0, 1, 51)
    slopes = np.array([1.0, 4.0, 2.0])
    performance = -slopes[None, :, None] * np.abs(points - points[:, None])[:, None]
    space = ts.Points(["x"], points)
    table = ts.performance.table_from_matrix(performance, sources=space, targets=space)
    d = loss_of(table)
    steps = np.abs(np.diff(d, axis=1)) / np.diff(points)
    assert steps.max() <= slopes.max() + 1e-9


# 12 is in test_smoothness.py; 13 and 14 belong to covers and runs. -------------------


def test_definitions_divergence_is_zero_at_home_and_monotone():
    family = TabularFamily(
        values=[0.0, 1.0, 2.0],
        transitions=[[[1.0], [1.0]]],
        rewards=[[[1.0, 0.0]], [[0.5, 2.0]], [[0.0, 1.0]]],
        start=[1.0],
        discount=0.9,
    )
    both = deterministic_policies([[[0], [1]]] * 3, n_actions=2)
    one = both[:, :1]
    space = ts.Points(["theta"], family.values)
    small, large = (loss_of(policy_table(family, p, space)) for p in (one, both))
    assert np.diag(large) == pytest.approx(0)
    assert (small <= large).all()
