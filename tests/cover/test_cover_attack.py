"""Attacks on covers: every number called proven, by other people's arithmetic.

Brute force in fractions for few sources, HiGHS for sixty, changes of unit and of
order, and negative controls: a planted error that each attack must find.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from taskspace.cover import (
    Cover,
    CoverRefutedError,
    greedy_cover,
    least_mean,
    local_cover,
    lower_bounds,
    minimum_cover,
    random_cover,
    verify_cover,
)
from taskspace.cover.minimum import CoreSearch
from taskspace.errors import InvalidInputError
from taskspace.questions import tolerance_sets
from taskspace.sets import pack
from tests.cover.cover_problems import exact_cost, least_cost, selections


def most_served(matrix, budget):
    """Most targets that so many sources serve."""
    chosen = selections(len(matrix), most=min(budget, len(matrix)))
    return max(int(matrix[c].any(0).sum()) for c in chosen)


def false_claims(cover: Cover, matrix, costs) -> list[str]:
    """What a cover of everything says of itself and brute force does not."""
    best = least_cost(matrix, costs)
    spent = exact_cost(costs, cover.sources)
    # Costs that are rounded multiples of one unit are compared as these multiples.
    slack = best / 2**48
    found = []
    if Fraction(cover.lower_bound) > best:
        found.append("the lower bound is above the optimum")
    if cover.optimal and spent > best + slack:
        found.append("optimal is not the least cost")
    if cover.optimal and abs(Fraction(cover.lower_bound) - best) > slack:
        found.append("the bound of an optimum is not its cost")
    if abs(Fraction(cover.cost) - spent) > slack:
        found.append("the cost is not that of the sources")
    return found


def all_covers(sets, costs=None):
    yield greedy_cover(sets, costs=costs)
    yield local_cover(sets, costs=costs, max_steps=60)
    yield minimum_cover(sets, costs=costs, time_limit=10)
    if costs is None:
        yield random_cover(sets, seed=0)


matrices = st.integers(0, 2**32 - 1).map(
    lambda seed: (
        np.random.default_rng(seed).random(
            tuple(np.random.default_rng(seed + 1).integers(1, 9, 2))
        )
        < np.random.default_rng(seed + 2).choice([0.15, 0.3, 0.6])
    )
)
cost_kinds = st.sampled_from(["one", "whole", "float", "decimal", "mixed", "tiny"])


def make_costs(kind, n, seed):
    rng = np.random.default_rng(seed)
    return {
        "one": np.ones(n),
        "whole": rng.integers(1, 9, n).astype(float),
        "float": rng.uniform(0.2, 3, n),
        "decimal": rng.integers(1, 30, n) * 0.1,
        "mixed": np.where(rng.random(n) < 0.4, 1e12, rng.uniform(1, 3, n)),
        "tiny": rng.uniform(1, 3, n) * 1e-15,
    }[kind]


@settings(deadline=None, max_examples=40)
@given(matrices, cost_kinds, st.integers(0, 99))
def test_what_is_proven_is_least_cost(matrix, kind, seed):
    costs = make_costs(kind, len(matrix), seed)
    sets = pack(matrix)
    for cover in all_covers(sets, None if kind == "one" else costs):
        assert false_claims(cover, matrix, costs) == []
        found = verify_cover(cover, sets, costs)
        assert found.holds
        assert not found.not_checked  # so small a problem is always settled
    best = least_cost(matrix, costs)
    for bound in lower_bounds(sets, costs=costs, time_limit=0.02):
        assert Fraction(bound.value) <= best


@settings(deadline=None, max_examples=30)
@given(matrices, st.integers(0, 4), st.floats(0, 1))
def test_partial_claims_are_least_cost(matrix, budget, share):
    sets = pack(matrix)
    ones = np.ones(len(matrix))
    part = greedy_cover(sets, share=share)
    asked = math.ceil(Fraction(share) * (1 - Fraction(1, 2**50)) * matrix.shape[1])
    needed = min(asked, int(matrix.any(0).sum()))
    assert part.lower_bound <= least_cost(matrix, ones, needed)
    cover = greedy_cover(sets, budget=budget)
    served = int(matrix[cover.sources].any(0).sum())
    assert cover.lower_bound <= least_cost(matrix, ones, served)
    if cover.coverage_bound is not None:
        most = most_served(matrix, budget)
        assert cover.coverage_bound >= most / matrix.shape[1]
        assert not cover.optimal or served == most
    for claim in (part, cover):
        assert verify_cover(claim, sets).holds


@settings(deadline=None, max_examples=25)
@given(
    matrices, cost_kinds, st.integers(0, 99),
    st.sampled_from([2.0**-200, 2.0**-3, 2.0**90, 1e-15, 1e-8, 0.1, 1e9, 1e80]),
)  # fmt: skip
def test_no_answer_depends_on_the_unit_of_costs(matrix, kind, seed, factor):
    costs = make_costs(kind, len(matrix), seed)
    assume(len(matrix) > 0)
    sets = pack(matrix)
    is_binary = math.frexp(factor)[0] == 0.5
    for one, two in zip(
        all_covers(sets, costs), all_covers(sets, costs * factor), strict=True
    ):
        assert two.optimal == one.optimal
        if is_binary:
            assert two.sources.tolist() == one.sources.tolist()
            # Decimals are multiples of a unit in their own scale only, and sums of
            # them are rounded down: one rounding apart, both bounds are true.
            slack = 2**-51 if kind == "decimal" else 0.0
            wanted = one.lower_bound * factor
            assert abs(two.lower_bound - wanted) <= slack * wanted
        else:
            assert two.cost == pytest.approx(one.cost * factor, rel=1e-13)
            assert two.lower_bound == pytest.approx(one.lower_bound * factor, rel=1e-13)


@settings(deadline=None, max_examples=25)
@given(matrices, cost_kinds, st.integers(0, 99))
def test_no_proven_answer_depends_on_the_order(matrix, kind, seed):
    costs = make_costs(kind, len(matrix), seed)
    rng = np.random.default_rng(seed)
    rows, columns = (rng.permutation(n) for n in matrix.shape)
    one = minimum_cover(pack(matrix), costs=costs, time_limit=10)
    two = minimum_cover(
        pack(matrix[rows][:, columns]), costs=costs[rows], time_limit=10
    )
    assert one.optimal
    assert two.optimal
    assert two.lower_bound == pytest.approx(one.lower_bound, rel=1e-15)
    assert two.coverage == one.coverage


def highs_optimum(matrix, units):
    """Least cost of integer costs by HiGHS."""
    constraints = LinearConstraint(matrix.T[matrix.any(0)].astype(float), lb=1.0)
    found = milp(
        np.asarray(units, float),
        integrality=np.ones(len(units)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0.0},
    )
    assert found.success
    return sum(u for u, x in zip(units, found.x, strict=True) if x > 0.5)


@pytest.mark.parametrize("factor", [1.0, 2.0**-49, 2.0**40])
@pytest.mark.parametrize("seed", range(2))
def test_sixty_sources_agree_with_highs(seed, factor):
    """Costs around 2e-15 were once proven optimal 20 % above the optimum."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((60, 60)) < 0.08
    units = rng.integers(2**20, 2**22, 60)  # no small common unit
    sets = pack(matrix)
    costs = units * factor
    best = highs_optimum(matrix, units.tolist())
    cover = minimum_cover(sets, costs=costs, time_limit=30)
    assert cover.optimal
    assert cover.lower_bound == cover.cost == best * factor
    assert greedy_cover(sets, costs=costs).lower_bound <= best * factor


@pytest.mark.parametrize("seed", range(2))
def test_sixty_mixed_costs_agree_with_highs(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.random((60, 60)) < 0.08
    units = np.where(rng.random(60) < 0.3, 10**12, rng.integers(2, 5, 60))
    # Fewest dear sources first; 10**4 of the cheap unit is as good, and HiGHS is exact.
    best = highs_optimum(matrix, np.minimum(units, 10**4).tolist())
    best += best // 10**4 * (10**12 - 10**4)
    cover = minimum_cover(pack(matrix), costs=units.astype(float), time_limit=30)
    assert cover.optimal
    assert cover.lower_bound == cover.cost == best


# --- negative controls: an attack that cannot fail is none -------------------------

CONTROL = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], bool)


def test_a_planted_wrong_bound_is_found():
    honest = greedy_cover(pack(CONTROL))
    assert false_claims(honest, CONTROL, np.ones(4)) == []
    planted = replace(honest, lower_bound=3, cost=3)
    assert "the lower bound is above the optimum" in false_claims(
        planted, CONTROL, np.ones(4)
    )
    assert not verify_cover(planted, pack(CONTROL))


def test_a_planted_wrong_optimum_is_found():
    wasteful = replace(
        greedy_cover(pack(CONTROL)), sources=np.arange(4), size=4, cost=4, optimal=True
    )
    assert "optimal is not the least cost" in false_claims(
        wasteful, CONTROL, np.ones(4)
    )
    assert not verify_cover(wasteful, pack(CONTROL))


def test_a_bound_that_a_solver_invents_is_found(monkeypatch):
    """A search that claims whatever it has to be optimal does not get away with it."""

    def invent(self, stage, clock, tell):
        self.claim(self.best_cost)

    monkeypatch.setattr(CoreSearch, "improve", invent)
    n_false = 0
    for seed in range(40):
        matrix = np.random.default_rng(seed).random((13, 30)) < 0.25
        try:
            cover = minimum_cover(pack(matrix))
        except CoverRefutedError:  # its own last check saw it
            n_false += 1
            continue
        if false_claims(cover, matrix, np.ones(13)):
            n_false += 1
            assert not verify_cover(cover, pack(matrix)), seed
    assert n_false > 1


def test_prices_that_are_too_high_are_found():
    cover = minimum_cover(pack(CONTROL))
    assert cover.prices is not None
    dear = replace(cover.prices, units=cover.prices.units + 1)
    found = verify_cover(replace(cover, prices=dear), pack(CONTROL))
    assert any("prove nothing" in failure for failure in found.failures)


def test_a_bound_of_all_targets_is_no_bound_of_a_share():
    # One source serves the share; the bound of the full cover was "proven" of it by
    # searching through covers of all targets.
    matrix = np.array([[1, 1, 1, 0], [0, 0, 1, 1]], bool)
    full = minimum_cover(pack(matrix))
    claim = replace(full, share=0.5, prices=None, lower_bound_kind="exact")
    found = verify_cover(claim, pack(matrix))
    assert not found.holds  # one source does
    found = verify_cover(claim, pack(matrix), effort=0)
    assert not found.proven
    assert found.not_checked
    assert verify_cover(replace(claim, share=None), pack(matrix)).proven  # as it was


def test_a_budget_proves_no_number_of_sources():
    # The smaller cover takes a swap that greedy does not see.
    matrix = np.array(
        [[1, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], bool
    )
    claim = replace(
        greedy_cover(pack(matrix)), lower_bound=3.0, optimal=True, prices=None, budget=3
    )
    assert claim.size == 3
    found = verify_cover(claim, pack(matrix))
    assert not found.holds
    claim = replace(claim, coverage_bound=1.0)
    assert verify_cover(claim, pack(matrix)).not_checked


@pytest.mark.parametrize("share", [None, 1.0])
@pytest.mark.parametrize("weight", [1.0, 1e-8, 1e-250])
def test_a_share_of_one_leaves_no_small_weight_out(share, weight):
    sets = pack(np.eye(2, dtype=bool))
    cover = minimum_cover(sets, share=share, target_weights=[1e16, weight])
    assert cover.size == 2
    assert cover.optimal
    one = replace(cover, sources=cover.sources[:1], size=1, cost=1.0, lower_bound=1.0)
    one = replace(one, assignment=np.array([0, -1]), coverage=0.5)
    assert not verify_cover(one, sets, target_weights=[1e16, weight]).holds


@pytest.mark.parametrize("asked", [{}, {"share": 0.5}, {"budget": 1}])
def test_weights_beyond_the_range_of_floats_are_refused(asked):
    for method in (minimum_cover, greedy_cover):
        with pytest.raises(InvalidInputError, match="target_weights must be at most"):
            method(pack(np.eye(2, dtype=bool)), target_weights=[1e20, 1e-300], **asked)


def test_a_budget_beyond_all_numbers_is_a_budget():
    sets = pack(np.eye(3, dtype=bool))
    for method in (greedy_cover, minimum_cover):
        cover = method(sets, budget=10**30)
        assert cover.size == 3
        assert cover.optimal


def test_a_mean_is_proven_of_selections_within_the_tolerance():
    # The first source has the smaller mean, and a loss above the tolerance.
    losses = np.array([[0.0, 0.0, 6.0], [3.0, 3.0, 3.0]])
    capped = least_mean(losses, 1, epsilon=3.5)
    assert capped.mean_loss == 3.0
    (sentence,) = verify_cover(capped, tolerance_sets(losses, 3.0)).proven
    assert "no loss above the tolerance" in sentence
    assert not verify_cover(capped, tolerance_sets(losses, 6.0)).holds
