"""Sources that must be in or out: against every selection there is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from taskspace.cover import (
    Cover,
    find_cover,
    greedy_cover,
    local_cover,
    minimum_cover,
    verify_cover,
)
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import (
    blobs,
    least_cost,
    random_costs,
    random_problem,
    selections,
)

LIMITS = [
    {"include": [0]},
    {"exclude": [0]},
    {"include": [0], "exclude": [1]},
    {"include": [0, 1]},
]


def fitting(limits, n_sources):
    """The limits that speak of sources which there are."""
    return {name: [s for s in limits[name] if s < n_sources] for name in limits}


def check(cover, sets, costs, limits):
    picked = set(cover.sources.tolist())
    assert set(limits.get("include", ())) <= picked
    assert not set(limits.get("exclude", ())) & picked
    kept = [s for s in range(len(sets)) if s not in limits.get("exclude", ())]
    able = sets[kept].any(0)
    assert (sets[cover.sources].any(0) >= able).all()
    assert cover.uncoverable.tolist() == np.flatnonzero(~able).tolist()
    again = Cover.from_dict(json.loads(json.dumps(cover.to_dict())))
    assert again == cover
    found = verify_cover(again, pack(sets), costs)
    assert found.holds, found.failures
    return found


@pytest.mark.parametrize("kind", ["unicost", "whole", "real"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_bounds_and_optima_are_those_of_brute_force(seed, limits, kind):
    sets = random_problem(seed, max_size=9)
    costs = random_costs(seed, len(sets), kind)
    limits = fitting(limits, len(sets))
    best = float(least_cost(sets, costs, **limits))
    greedy = greedy_cover(pack(sets), costs=costs, **limits)
    check(greedy, sets, costs, limits)
    assert greedy.lower_bound <= best * (1 + 1e-12)
    assert greedy.cost >= best * (1 - 1e-12)
    cover = minimum_cover(pack(sets), costs=costs, **limits, time_limit=20)
    found = check(cover, sets, costs, limits)
    assert cover.optimal
    assert cover.cost == pytest.approx(best, rel=1e-12)
    assert not found.not_checked
    local = local_cover(pack(sets), costs=costs, max_steps=50, **limits)
    check(local, sets, costs, limits)
    assert local.lower_bound <= best * (1 + 1e-12) <= local.cost * (1 + 2e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{"budget": 3}, {"share": 0.7}], ids=str)
def test_shares_and_budgets_of_restricted_greedy(seed, options):
    rng = np.random.default_rng(seed)
    sets = rng.random((8, 10)) < 0.3
    weights = rng.integers(0, 5, 10).astype(float)
    weights[0] += 1
    include, exclude = [1], [0, 2]
    cover = greedy_cover(
        pack(sets),
        target_weights=weights,
        include=include,
        exclude=exclude,
        **options,
    )
    assert verify_cover(cover, pack(sets), target_weights=weights).holds
    served = {
        tuple(chosen): weights[sets[chosen].any(0)].sum()
        for chosen in selections(8, include, exclude)
    }
    mine = weights[sets[cover.sources].any(0)].sum()
    if cover.coverage_bound is not None:
        most = max(w for chosen, w in served.items() if len(chosen) <= 3)
        assert most <= cover.coverage_bound * weights.sum() * (1 + 1e-12)
        assert not cover.optimal or mine == most
        least = min(len(c) for c, w in served.items() if w >= mine)
    elif cover.stop_reason == "share reached":
        least = min(len(c) for c, w in served.items() if w >= 0.7 * weights.sum())
    else:
        least = min(len(c) for c, w in served.items() if w >= mine)
    assert cover.lower_bound <= least <= cover.size


TIGHT = pack(blobs(7, radius=0.25))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"include": np.array([3])}, "must be in is not selected"),
        ({"exclude": "first"}, "must not be in is selected"),
        ({"include": np.array([99])}, "does not exist"),
    ],
    ids=str,
)
def test_a_tampered_restriction_is_refuted(change, message):
    cover = minimum_cover(TIGHT, exclude=[0], time_limit=20)
    assert 3 not in cover.sources
    if "exclude" in change:
        change = {"exclude": cover.sources[:1]}
    found = verify_cover(replace(cover, **change), TIGHT)
    assert not found.holds
    assert any(message in failure for failure in found.failures), found.failures


def test_forgetting_a_restriction_refutes_its_bound():
    """The bound of a restricted cover is false of the free problem, and found so."""
    sets = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], bool)
    cover = minimum_cover(pack(sets), exclude=[0])
    assert (cover.size, cover.lower_bound) == (2, 2)
    assert verify_cover(cover, pack(sets)).holds
    freed = replace(cover, exclude=np.zeros(0, np.int64))
    assert not verify_cover(freed, pack(sets)).holds


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("random", {"include": [0]}, "does not support include"),
        ("uniform", {"exclude": [0], "shape": (2, 2)}, "does not support exclude"),
        ("greedy", {"include": [0, 1], "budget": 1}, "include must fit into it"),
        ("minimum", {"include": [0], "exclude": [0]}, "either in or out"),
        ("minimum", {"include": [4]}, "0 <= source < 4"),
        ("minimum", {"include": [0.5]}, "integers"),
    ],
)
def test_what_a_method_cannot_do_is_refused_by_name(method, options, message):
    with pytest.raises(InvalidInputError, match=message):
        find_cover(pack(np.eye(4, dtype=bool)), method=method, **options)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (3, 3)])
def test_edges_of_nothing(shape):
    sets = pack(np.ones(shape, bool))
    n = shape[0]
    for limits in ({}, {"exclude": list(range(n))}, {"include": list(range(n))}):
        for find in (greedy_cover, minimum_cover):
            cover = find(sets, **limits)
            assert verify_cover(cover, sets).holds
            out = n if "exclude" in limits else 0
            able = min(1, n - out) if shape[1] else 0
            assert cover.size == (n if "include" in limits else able)
            assert len(cover.uncoverable) == (shape[1] if n == out else 0)
