"""Scaled costs, exact weights, and what covers claim about sums of them."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskspace._util.clock import Clock
from taskspace.cover import (
    exact,
    greedy_cover,
    local_cover,
    lower_bounds,
    minimum_cover,
    verify_cover,
)
from taskspace.cover.costs import exact_weights, round_down, scale_costs
from taskspace.cover.exact import branch_and_bound
from taskspace.cover.prices import coverage_limit, knapsack_bound
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import (
    blobs,
    exact_cost,
    least_cost,
    random_problem,
    selections,
)


@pytest.fixture(params=[63, 0], ids=["few sources", "branch and bound"])
def any_search(request, monkeypatch):
    monkeypatch.setattr(exact, "_MAX_FEW", request.param)


COSTS = {
    "tiny": lambda rng, n: rng.uniform(1, 3, n) * 1e-15,
    "subnormal": lambda rng, n: rng.integers(1, 9, n) * 5e-324,
    "huge": lambda rng, n: rng.uniform(1, 3, n) * 1e300,
    "mixed": lambda rng, n: np.where(
        rng.random(n) < 0.4, 1e12 * rng.uniform(1, 2, n), rng.uniform(1, 3, n)
    ),
    "mixed integers": lambda rng, n: np.where(
        rng.random(n) < 0.4, 1e12, rng.integers(1, 4, n)
    ),
    "decimals": lambda rng, n: rng.integers(1, 9, n) * 0.1,
    "ties": lambda rng, n: rng.choice([math.pi, math.e], n),
    "near ties": lambda rng, n: 1 + rng.integers(0, 3, n) * 2.0**-52,
    "far apart": lambda rng, n: 10.0 ** rng.integers(-60, 60, n),
}


@pytest.mark.parametrize("kind", COSTS)
def test_bounds_and_optima_are_true_whatever_the_costs(kind, any_search):
    n_proven = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        matrix = rng.random((8, 9)) < 0.3
        costs = COSTS[kind](rng, 8)
        best = least_cost(matrix, costs)
        sets = pack(matrix)
        for cover in (
            greedy_cover(sets, costs=costs),
            local_cover(sets, costs=costs, max_steps=100),
            minimum_cover(sets, costs=costs, time_limit=10),
        ):
            spent = exact_cost(costs, cover.sources)
            assert Fraction(cover.lower_bound) <= best, seed
            # Exactly the least, but for costs that are rounded multiples of a unit.
            slack = best / 2**49 if kind in ("decimals", "near ties") else 0
            assert not cover.optimal or spent <= best + slack, seed
            assert not cover.optimal or cover.lower_bound == cover.cost, seed
            assert verify_cover(cover, sets, costs).holds, seed
        n_proven += cover.optimal
        for bound in lower_bounds(sets, costs=costs, time_limit=0.02):
            assert Fraction(bound.value) <= best, (seed, bound)
    assert n_proven >= (4 if kind == "ties" else 8)


@given(st.data())
def test_scaled_costs_are_the_given_ones(data):
    values = st.one_of(st.floats(1e-9, 1e9), st.integers(1, 50).map(lambda k: k * 0.01))
    given = np.array(data.draw(st.lists(values, min_size=1, max_size=6)))
    costs = scale_costs(given, len(given))
    for cost, value in zip(given.tolist(), costs.values.tolist(), strict=True):
        again = Fraction(value) * costs.unit
        assert again <= Fraction(cost) <= again * (1 + Fraction(1, 2**48))
        assert costs.is_whole or again == Fraction(cost)


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=8),
    st.sampled_from([2.0**-300, 2.0**40, 1e-15, 0.1, 1e-300, 1e100, math.pi]),
)
def test_multiples_of_a_unit_are_recognised_in_every_unit(multiples, unit):
    plain = scale_costs(np.array(multiples, float), len(multiples))
    scaled = scale_costs(np.array(multiples) * unit, len(multiples))
    divisor = math.gcd(*multiples)
    assert plain.is_whole
    assert plain.values.tolist() == [k / divisor for k in multiples]
    if max(multiples) // min(multiples) < 10**4 and divisor * 10**3 > max(multiples):
        assert scaled.is_whole
        assert scaled.values.tolist() == plain.values.tolist()


def test_random_costs_are_not_taken_for_multiples():
    costs = np.random.default_rng(0).uniform(1, 2, 40)
    assert not scale_costs(costs, 40).is_whole
    assert scale_costs(np.full(3, 0.7), 3).values.tolist() == [1, 1, 1]


def test_costs_too_far_apart_are_refused():
    with pytest.raises(InvalidInputError, match="1e240 times"):
        scale_costs([1e-200, 1e100], 2)


def test_round_down_is_the_next_float_below():
    third = Fraction(1, 3)
    assert Fraction(round_down(third)) < third
    assert Fraction(math.nextafter(round_down(third), 1)) > third
    assert round_down(Fraction(1, 4)) == 0.25


@pytest.mark.parametrize("factor", [1e-15, 0.1, 1e100])
def test_powers_of_ten_change_no_answer(factor):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        matrix = rng.random((30, 30)) < 0.12
        for costs in (rng.integers(1, 5, 30).astype(float), rng.uniform(1, 3, 30)):
            one, two = (
                minimum_cover(pack(matrix), costs=c, time_limit=20)
                for c in (costs, costs * factor)
            )
            assert one.sources.tolist() == two.sources.tolist()
            assert one.optimal
            assert two.optimal
            assert two.lower_bound == pytest.approx(one.lower_bound * factor, rel=1e-14)


def test_float_costs_are_solved():
    """Reductions may leave nothing to solve: that is an answer, not an error."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        matrix = rng.random((80, 80)) < 0.05
        costs = rng.uniform(0.5, 2, 80)
        assert minimum_cover(pack(matrix), costs=costs, time_limit=20).optimal, seed
    nothing = exact.solve_exact(
        pack(np.zeros((0, 0), bool)),
        np.zeros(0),
        clock=Clock(),
        work=1,
        goal=0,
    )
    assert nothing.sources is not None
    assert nothing.bound == 0


@pytest.mark.parametrize("seed", range(8))
def test_exact_searches_are_brute_force(seed):
    matrix = random_problem(seed)
    matrix = matrix[:, matrix.any(0)]
    costs = np.random.default_rng(seed).integers(1, 7, len(matrix)).astype(float)
    sets = pack(matrix)
    best = int(least_cost(matrix, costs))
    chosen, is_closed = exact._search_few(sets, costs, 10**6)
    assert is_closed
    assert matrix[chosen].any(0).all()
    assert costs[chosen].sum() == best
    chosen, _ = exact._search_few(sets, costs, 3)
    assert matrix[chosen].any(0).all()
    found = branch_and_bound(sets, costs, clock=Clock(), max_nodes=10**6)
    assert found.sources is not None
    assert (found.bound, found.is_closed) == (best, True)
    assert matrix[found.sources].any(0).all()
    assert costs[found.sources].sum() == best
    for limit, n in ((0.0, 10**6), (60.0, 1), (60.0, 3)):
        stopped = branch_and_bound(sets, costs, clock=Clock(limit), max_nodes=n)
        assert stopped.bound <= best


def test_branch_and_bound_proves_what_prices_alone_do_not():
    sets = pack(blobs(8, radius=0.2))
    found = branch_and_bound(sets, np.ones(64), clock=Clock(30), max_nodes=10**6)
    assert found.is_closed
    assert found.bound == minimum_cover(sets, time_limit=30).lower_bound
    early = branch_and_bound(
        sets, np.ones(64), clock=Clock(30), max_nodes=10**6, goal=found.bound - 1
    )
    assert found.bound - 1 <= early.bound <= found.bound


WEIGHTS = {
    "plain": lambda rng, n: None,
    "far apart": lambda rng, n: 10.0 ** rng.integers(-16, 17, n),
    "some zero": lambda rng, n: rng.integers(0, 3, n).astype(float),
}


def weight_of(weights, served):
    if weights is None:
        return Fraction(int(served.sum()))
    return sum((Fraction(float(w)) for w in weights[served]), Fraction(0))


@pytest.mark.parametrize("kind", WEIGHTS)
def test_partial_covers_claim_what_is_true(kind):
    proven = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        matrix = rng.random((7, 8)) < 0.35
        weights = WEIGHTS[kind](rng, 8)
        costs = rng.choice([1.0, 2.0, 0.7], 7) if seed % 2 else None
        sets = pack(matrix)
        given = np.ones(7) if costs is None else costs
        total = weight_of(weights, np.ones(8, bool))
        every = [(c, weight_of(weights, matrix[c].any(0))) for c in selections(7)]
        for share in (0.3, 0.8, 1.0):
            cover = greedy_cover(sets, costs=costs, target_weights=weights, share=share)
            most = max(w for _, w in every)
            asked = Fraction(share) * (1 - Fraction(1, 2**50)) * total
            goal = most if share == 1 else min(asked, most)
            best = min(exact_cost(given, c) for c, w in every if w >= goal)
            assert Fraction(cover.lower_bound) <= best, (seed, share)
            if cover.optimal:
                assert exact_cost(given, cover.sources) <= best * (
                    1 + Fraction(1, 2**49)
                )
            found = verify_cover(cover, sets, costs, target_weights=weights)
            assert found.failures == (), (seed, share)
        for budget in (0, 1, 2, 3):
            cover = greedy_cover(
                sets, costs=costs, target_weights=weights, budget=budget
            )
            found = verify_cover(cover, sets, costs, target_weights=weights)
            assert found.failures == (), (seed, budget)
            mine = weight_of(weights, sets.union(cover.sources))
            most = max(w for c, w in every if len(c) <= budget)
            if cover.stop_reason != "budget spent":
                assert mine == max(w for _, w in every)
                assert cover.coverage_bound is None
                continue
            assert cover.optimal <= (mine == most), (seed, budget)
            assert cover.coverage_bound is not None
            assert (
                Fraction(cover.coverage_bound) * (1 + Fraction(1, 2**50))
                >= most / total
            )
            proven += cover.optimal
    assert proven > 5  # it is not merely silent


def test_a_budget_that_greedy_spends_badly_is_not_called_optimal():
    """Greedy takes the middle first; two others serve everything."""
    matrix = np.array(
        [
            [0, 1, 1, 1, 1, 0],
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 1, 1],
        ],
        bool,
    )
    cover = greedy_cover(pack(matrix), budget=2)
    assert cover.coverage == 5 / 6
    assert not cover.optimal
    assert cover.coverage_bound == 1
    false = replace(cover, optimal=True, coverage_bound=5 / 6)
    for claim in (false, replace(false, prices=None)):
        assert "coverage_bound" in verify_cover(claim, pack(matrix)).failures[0]
    assert not verify_cover(replace(cover, optimal=True), pack(matrix))


def test_weights_that_no_source_serves_do_not_count():
    matrix = np.array([[1, 0, 0], [0, 1, 0]], bool)
    weights = [1.0, 1.0, 1e16]
    cover = greedy_cover(pack(matrix), target_weights=weights)
    assert (cover.size, cover.lower_bound) == (2, 2)
    half = greedy_cover(pack(matrix), target_weights=[1.0, 1.0, 1e16], budget=1)
    assert half.lower_bound == 1
    heavy = greedy_cover(pack(matrix[:, :2]), target_weights=[1e16, 1.0])
    assert heavy.size == 2  # the light one is not lost beside the heavy one
    assert heavy.stop_reason == "covered"


def test_exact_weights_and_their_bounds():
    matrix = np.random.default_rng(0).random((6, 9)) < 0.4
    sets = pack(matrix)
    for weights in (None, np.geomspace(1e-135, 1e135, 9)):
        exact_ones = exact_weights(weights, 9)
        loads = [int(exact_ones[row].sum()) for row in matrix]
        most, _ = coverage_limit(sets, exact_ones, [int(np.argmax(loads))], 1)
        assert most == max(loads)
        assert knapsack_bound(sets, np.ones(6), exact_ones, max(loads)) == 1
    with pytest.raises(InvalidInputError, match="target_weights"):
        exact_weights([1.0, -1.0], 2)
