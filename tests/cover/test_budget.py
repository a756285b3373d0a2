"""The smallest tolerance of a budget, against every selection of that size."""

import itertools

import numpy as np
import pytest
import xarray as xr

from taskspace.cover import smallest_epsilon
from taskspace.errors import InvalidInputError


def brute_force(loss, budget, include=(), exclude=()):
    free = [s for s in range(len(loss)) if s not in exclude]
    return min(
        loss[list(chosen)].min(0).max()
        for size in range(1, budget + 1)
        for chosen in itertools.combinations(free, size)
        if set(include) <= set(chosen)
    )


@pytest.mark.parametrize("budget", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_brute_force(seed, budget):
    loss = np.random.default_rng(seed).exponential(size=(7, 9))
    loss[:, 0] -= 2.0  # losses may be negative
    for include, exclude in [((), ()), ((2,), ()), ((), (0, 3)), ((1,), (4,))]:
        found = smallest_epsilon(loss, budget, include=include, exclude=exclude)
        best = brute_force(loss, budget, include, exclude)
        assert found.optimal
        assert (found.lower, found.upper) == (best, best)
        assert len(found.sources) <= budget
        assert set(include) <= set(found.sources)
        assert not set(exclude) & set(found.sources)
        assert loss[list(found.sources)].min(0).max() <= best


@pytest.mark.parametrize("seed", range(24))
def test_infinite_losses_are_brute_force(seed):
    """Losses of −inf (a policy that fails at home, signed) and of +inf."""
    rng = np.random.default_rng(seed)
    loss = rng.choice([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf], (5, 4))
    loss[:, 0] = -np.inf if seed % 3 == 0 else loss[:, 0]
    for budget, limits in [(1, {}), (2, {"include": [1]}), (2, {"exclude": [0, 3]})]:
        found = smallest_epsilon(loss, budget, **limits)
        best = brute_force(loss, budget, **limits)
        assert (found.lower, found.upper) == (best, best)
        assert found.optimal == (best < np.inf)
        assert found.is_impossible == (best == np.inf)
        if best < np.inf:
            assert loss[list(found.sources)].min(0).max() == best
            assert "can serve every target" in found.statement
        else:
            assert found.sources == ()
            assert found.statement.startswith("No ")
            assert found.statement.endswith("within any tolerance: proven.")


def test_a_source_that_never_loses_serves_within_any_tolerance():
    found = smallest_epsilon(np.array([[0.5], [-np.inf]]), 1, exclude=[0])
    assert (found.lower, found.upper, found.sources) == (-np.inf, -np.inf, (1,))
    assert found.optimal


def test_more_sources_need_no_larger_tolerance():
    loss = np.random.default_rng(0).exponential(size=(12, 16))
    found = [smallest_epsilon(loss, k, time_limit=20).upper for k in range(1, 6)]
    assert found == sorted(found, reverse=True)
    array = xr.DataArray(loss.T, dims=("target", "source"))
    assert smallest_epsilon(array, 3).upper == found[2]


def test_units_change_nothing():
    loss = np.random.default_rng(1).exponential(size=(12, 12))
    one, two = (smallest_epsilon(loss * f, 3) for f in (1.0, 2.0**-60))
    assert two.upper == one.upper * 2.0**-60
    assert two.sources == one.sources


def test_without_time_the_interval_is_still_true():
    loss = np.random.default_rng(2).exponential(size=(9, 12))
    found = smallest_epsilon(loss, 2, time_limit=0.0)
    assert found.lower <= brute_force(loss, 2) <= found.upper
    assert not found.optimal


def test_a_budget_that_serves_nowhere_has_no_tolerance():
    loss = np.where(np.eye(3, dtype=bool), 0.0, np.inf)
    found = smallest_epsilon(loss, 2)
    assert (found.lower, found.upper, found.sources) == (np.inf, np.inf, ())
    assert not found.optimal
    assert smallest_epsilon(loss, 3).upper == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": 0}, "budget >= 1"),
        ({"budget": 1, "include": [0, 1]}, "fit into it"),
        ({"budget": 2, "include": [0], "exclude": [0]}, "either in or out"),
        ({"budget": 2, "exclude": [5]}, "0 <= source < 3"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        smallest_epsilon(np.zeros((3, 3)), **arguments)
