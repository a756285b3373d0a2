"""What one tolerance says about the others, against every selection."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskspace._util.clock import Clock
from taskspace.cover import greedy_cover
from taskspace.cover.tolerance import ToleranceSearch
from taskspace.sets import pack
from tests.cover.cover_problems import least_cost


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_bounds_hold_at_every_tolerance_in_any_order(seed):
    rng = np.random.default_rng(seed)
    loss = rng.integers(0, 6, (5, 7)).astype(float)
    loss[rng.random(loss.shape) < 0.1] = np.inf
    epsilons = np.arange(6.0)
    best = [least_cost(loss <= epsilon) for epsilon in epsilons]
    search = ToleranceSearch(loss, epsilons)
    sizes = {}
    for k in rng.permutation(6).tolist():
        one = search.greedy(k) if rng.random() < 0.5 else search.minimum(k, Clock(), 3)
        sizes[k] = one.size
        assert (search.lower <= best).all()
        assert (search.upper >= best).all()
        assert search.lower[k] >= one.lower_bound
        assert search.upper[k] <= one.size
    # Whoever is named has found a cover of this size, and it serves here too.
    for k, place in enumerate(search.upper_from.tolist()):
        assert place <= k
        assert search.n_uncoverable[place] == search.n_uncoverable[k]
        assert sizes[place] >= search.upper[k]
    assert (search.lower_from >= np.arange(6)).all()


def test_nothing_is_carried_to_where_other_targets_can_be_served():
    loss = np.array([[0.0, 2.0], [1.0, 1.0]])
    search = ToleranceSearch(loss, np.array([0.0, 1.0, 2.0]))
    search.greedy(0)  # one source serves all that can be served, one target
    assert search.n_uncoverable.tolist() == [1, 0, 0]
    assert search.upper_from.tolist() == [0, -1, -1]


def test_a_cover_that_leaves_targets_out_says_nothing():
    loss = np.array([[0.0, 1.0], [1.0, 0.0]])
    search = ToleranceSearch(loss, np.array([0.0]))
    part = greedy_cover(pack(loss <= 0.0), share=0.5)
    assert part.size == 1
    search.learn(0, part)
    assert search.upper_from.tolist() == [-1]


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
def test_losses_of_any_type_have_the_same_bounds(kind):
    loss = np.random.default_rng(0).integers(0, 5, (6, 8))
    wanted = ToleranceSearch(loss.astype(float), np.arange(5.0))
    other = ToleranceSearch(loss.astype(kind), np.arange(5).astype(kind))
    for k in range(5):
        assert wanted.minimum(k, Clock(), 3).size == other.minimum(k, Clock(), 3).size
    assert wanted.lower.tolist() == other.lower.tolist()
