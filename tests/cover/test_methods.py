"""Every method against brute force, and against the mathematics of greedy."""

import numpy as np
import pytest

from taskspace._util.clock import Clock
from taskspace.cover import (
    greedy_cover,
    local_cover,
    lower_bounds,
    minimum_cover,
    random_cover,
    uniform_cover,
    verify_cover,
)
from taskspace.cover.methods import local
from taskspace.cover.reductions import Core, components, reduce_problem
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.sets import pack
from tests.cover.cover_problems import (
    blobs,
    brute_force,
    harmonic,
    naive_greedy,
    random_costs,
    random_problem,
)

KINDS = ["unicost", "whole", "float"]


@pytest.mark.parametrize("kind", KINDS)
def test_chain_of_inequalities(kind):
    """lower <= optimum = minimum <= local <= greedy <= H(max|S|) optimum."""
    for seed in range(48):
        matrix = random_problem(seed)
        costs = random_costs(seed, len(matrix), kind)
        best = brute_force(matrix, costs)
        sets = pack(matrix)
        greedy = greedy_cover(sets, costs=costs)
        local = local_cover(sets, costs=costs, max_steps=300)
        minimum = minimum_cover(sets, costs=costs, time_limit=20)
        slack = 1e-9 * max(1.0, best)
        assert minimum.optimal, seed
        assert minimum.cost == pytest.approx(best, abs=slack), seed
        assert minimum.lower_bound == pytest.approx(best, abs=slack), seed
        for cover in (greedy, local):
            assert cover.lower_bound <= best + slack, seed
            assert cover.cost >= best - slack, seed
        assert local.cost <= greedy.cost + slack, seed
        largest = int(matrix.sum(1).max(initial=0))
        assert greedy.cost <= max(1.0, harmonic(largest)) * best + slack, seed
        for cover in (greedy, local, minimum):
            assert verify_cover(cover, sets, costs).holds, seed
            np.testing.assert_array_equal(
                cover.uncoverable, np.flatnonzero(~matrix.any(0))
            )


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_keep_the_optimum(kind):
    reduced_something = False
    for seed in range(40):
        matrix = random_problem(seed)
        costs = random_costs(seed, len(matrix), kind)
        cost = np.ones(len(matrix)) if costs is None else costs
        reduced = reduce_problem(Core.of(pack(matrix), cost))
        parts = components(reduced.core)
        left = sum(brute_force(part.sets.to_bool(), part.costs) for part in parts)
        total = cost[reduced.forced].sum() + left
        assert total == pytest.approx(brute_force(matrix, costs)), seed
        reduced_something |= 0 < reduced.core.sets.n_targets < matrix.shape[1]
        for part in parts:
            assert (part.sets.inverse.sizes >= 2).all()
            np.testing.assert_array_equal(
                part.sets.to_bool(), matrix[part.sources][:, part.targets]
            )
    assert reduced_something


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_the_naive_greedy_index_for_index(kind):
    problems = [random_problem(seed) for seed in range(24)]
    problems += [blobs(12), blobs(16, seed=1)]
    noise = [np.random.default_rng(k).random((40, 200)) < 0.1 * k for k in range(1, 6)]
    stripes = np.abs(np.arange(300)[:, None] - np.arange(300)) < 40
    assert pack(noise[1]).is_dense  # by bits
    assert not pack(stripes).is_dense  # by runs
    problems += [*noise, stripes]
    for seed, matrix in enumerate(problems):
        costs = random_costs(seed, len(matrix), kind)
        found = greedy_cover(pack(matrix), costs=costs)
        assert found.sources.tolist() == naive_greedy(matrix, costs), seed


def test_greedy_with_target_weights_is_the_naive_one():
    rng = np.random.default_rng(0)
    for seed in range(40):
        matrix = random_problem(seed)
        weights = rng.integers(0, 5, matrix.shape[1]).astype(float)
        costs = random_costs(seed, len(matrix), "whole")
        found = greedy_cover(pack(matrix), costs=costs, target_weights=weights)
        assert found.sources.tolist() == naive_greedy(matrix, costs, weights), seed


def test_partial_and_budgeted_greedy_are_prefixes():
    matrix = blobs(14)
    sets = pack(matrix)
    whole = greedy_cover(sets)
    assert whole.coverage == 1
    assert whole.stop_reason == "covered"
    for share in (0.0, 0.3, 0.77, 0.99):
        part = greedy_cover(sets, share=share)
        assert part.sources.tolist() == whole.sources[: part.size].tolist()
        assert part.coverage >= share
        before = matrix[part.sources[:-1]].any(0).mean() if part.size else 0
        assert part.size == 0 or before < share
        assert part.lower_bound <= part.size
    for budget in (0, 1, 5):
        part = greedy_cover(sets, budget=budget)
        assert part.sources.tolist() == whole.sources[:budget].tolist()
        assert part.stop_reason == "budget spent"


def test_a_share_of_floats_needs_no_extra_target():
    sets = pack(np.eye(10, dtype=bool))
    assert greedy_cover(sets, share=0.3).size == 3  # 0.3 * 10 > 3 in floats
    assert greedy_cover(sets, share=0.31).size == 4


def test_local_search_is_reproducible():
    sets = pack(blobs(16))
    one = local_cover(sets, max_steps=200, seed=5)
    two = local_cover(sets, max_steps=200, seed=5)
    assert one.sources.tolist() == two.sources.tolist()
    better = local_cover(sets, max_steps=4000, seed=5)
    assert better.size < greedy_cover(sets).size


def test_time_limits_leave_valid_results():
    sets = pack(blobs(24, radius=0.1))
    minimum_cover(pack(blobs(5)), time_limit=5)  # compile
    for limit in (0.0, 0.05, 1.0):
        for method in (minimum_cover, local_cover):
            clock = Clock()
            cover = method(sets, time_limit=limit)
            assert clock.spent < limit + 2.0
            assert cover.coverage == 1
            assert cover.lower_bound <= cover.size
            assert verify_cover(cover, sets).holds


def test_data_too_large_to_search_get_greedy(monkeypatch):
    monkeypatch.setattr(local, "MAX_PAIRS", 10)
    sets = pack(blobs(8))
    for method in (local_cover, minimum_cover):
        cover = method(sets)
        assert cover.sources.tolist() == greedy_cover(sets).sources.tolist()
        assert "too large" in cover.stop_reason
        assert verify_cover(cover, sets).holds


def test_progress_is_reported():
    records = []

    def look(stage, done, total, note=""):
        assert (stage, bool(note)) == ("search", True)
        records.append((done, total))

    cover = minimum_cover(pack(blobs(12)), progress=look)
    assert records
    assert all(low <= cover.size <= best for low, best in records)
    n = len(records)
    local_cover(pack(blobs(12)), max_steps=100, progress=look)
    assert len(records) > n


def test_uniform_takes_the_coarsest_grid_that_covers():
    matrix = blobs(9, radius=0.2)
    cover = uniform_cover(pack(matrix), shape=(9, 9))
    side = round(cover.size**0.5)
    assert cover.coverage == 1
    assert side**2 == cover.size
    smaller = [(2 * i + 1) * 9 // (2 * (side - 1)) for i in range(side - 1)]
    grid = [9 * i + j for i in smaller for j in smaller]
    assert not matrix[grid].any(0).all()


def test_random_draws_until_covered():
    matrix = blobs(9)
    cover = random_cover(pack(matrix), seed=1)
    assert matrix[cover.sources].any(0).all()
    assert not matrix[cover.sources[:-1]].any(0).all()
    assert random_cover(pack(matrix), seed=2).sources.tolist() != list(cover.sources)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: greedy_cover(s, share=1.5), "0 <= share <= 1"),
        (lambda s: greedy_cover(s, budget=-1), "budget >= 0"),
        (lambda s: greedy_cover(s, costs=[1.0]), "one number for each"),
        (lambda s: greedy_cover(s, costs=[1.0, 0.0]), "0 < cost"),
        (lambda s: greedy_cover(s, target_weights=[-1, 1]), "target_weights"),
        (lambda s: minimum_cover(s, time_limit=-1), "time_limit >= 0"),
        (lambda s: uniform_cover(s, shape=(3, 3)), "multiply to 2"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(pack(np.eye(2, dtype=bool)))


def test_unknown_bound_is_refused():
    with pytest.raises(UnknownNameError, match="packing"):
        lower_bounds(pack(np.eye(2, dtype=bool)), kinds=["packin"])


@pytest.mark.parametrize("seed", range(3))
def test_targets_go_to_the_selected_source_of_least_loss(seed):
    rng = np.random.default_rng(seed)
    loss = rng.integers(0, 5, (12, 30)).astype(float)  # many ties
    loss[:, 3] = np.inf
    asked = []

    def row(source):
        asked.append(source)
        return loss[source]

    sets = pack(loss <= 2, losses=row)
    for find in (
        greedy_cover,
        lambda sets: local_cover(sets, max_steps=50),
        minimum_cover,
        lambda sets: random_cover(sets, seed=seed),
        lambda sets: uniform_cover(sets, shape=(3, 4)),
    ):
        cover = find(sets)
        chosen = np.sort(cover.sources)
        expected = np.where(
            (loss[chosen] <= 2).any(0), chosen[loss[chosen].argmin(0)], -1
        )
        np.testing.assert_array_equal(cover.assignment, expected)
        assert set(asked) <= set(cover.sources.tolist())  # no other row is made
        asked.clear()
        assert verify_cover(cover, sets).holds


def test_without_losses_the_lowest_source_that_serves_is_assigned():
    matrix = blobs(9)
    cover = greedy_cover(pack(matrix))
    chosen = np.sort(cover.sources)
    np.testing.assert_array_equal(cover.assignment, chosen[matrix[chosen].argmax(0)])
