from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.cover import (
    coverage_curve,
    greedy_cover,
    random_cover,
    uniform_cover,
    uniform_grids,
)
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.runs.results import _size
from taskspace.sets import pack
from tests.cover.cover_problems import blobs

MATRIX = blobs(10)


def test_greedy_curve_is_the_order_of_selection():
    sets = pack(MATRIX)
    cover, curve = greedy_cover(sets), coverage_curve(sets)
    assert curve.n_sources.tolist() == list(range(1, cover.size + 1))
    expected = [MATRIX[cover.sources[:k]].any(0).mean() for k in curve.n_sources]
    np.testing.assert_allclose(curve.coverage, expected)
    assert curve.sizes.tolist() == [cover.size]
    gains = np.diff(curve.coverage, prepend=0)
    assert (np.diff(gains) <= 1e-12).all()  # gains only shrink


def test_random_curve():
    sets = pack(MATRIX)
    curve = coverage_curve(sets, method="random", n_repeats=30, seed=4)
    assert curve.n_repeats == len(curve.sizes) == 30
    assert curve.sizes[0] == random_cover(sets, seed=4).size
    assert (np.diff(curve.coverage) >= -1e-12).all()
    assert (curve.low <= curve.high + 1e-12).all()
    # The mean after one draw is the mean size, up to the error of 30 draws.
    assert abs(curve.coverage[0] - MATRIX.mean()) < 4 * MATRIX.mean(1).std() / 30**0.5
    again = coverage_curve(sets, method="random", n_repeats=30, seed=4)
    np.testing.assert_array_equal(curve.coverage, again.coverage)


def test_means_over_repeats_have_a_standard_error():
    sets = pack(MATRIX)
    curve = coverage_curve(sets, method="random", n_repeats=30, seed=4)
    size = curve.size_spread
    assert size["mean"] == curve.sizes.mean()
    assert size["standard_error"] == pytest.approx(curve.sizes.std(ddof=1) / 30**0.5)
    assert (size["least"], size["most"]) == (curve.sizes.min(), curve.sizes.max())
    said = f"takes {size['mean']:.4g} ± {size['standard_error']:.2g} sources on average"
    assert said in repr(curve)
    alone = coverage_curve(sets, method="random", n_repeats=1)
    assert np.isnan(alone.size_spread["standard_error"])
    assert "±" not in repr(coverage_curve(sets))


def test_a_random_cover_says_its_spread():
    space = ts.Grid(k=(0.5, 4.0, 6), c=(0.5, 4.0, 6))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table
    question = ts.Question("regret", epsilon=0.2)
    sets = question.sets(table)
    cover = uniform_cover(sets, shape=space.shape)
    answer = cover.about(table)
    assert 1 < cover.size < 36
    assert _size(answer) == str(cover.size)
    curve = coverage_curve(sets, method="random", n_repeats=20)
    drawn = random_cover(sets, seed=0).about(table, curve.size_spread)
    size = curve.size_spread
    said = f"{size['mean']:.0f} ± {size['standard_error']:.2g}"
    assert _size(drawn) == said
    many = {"mean": 5904.4, "standard_error": 219.6, "least": 1, "most": 9903}
    assert _size(replace(drawn, sizes=many)) == "5904 ± 220"
    alone = {"mean": 7.0, "standard_error": np.nan, "least": 7, "most": 7}
    assert _size(replace(drawn, sizes=alone)) == "7"
    assert drawn.to_dict()["sizes"]["standard_error"] == size["standard_error"]


def test_greedy_beats_random_and_uniform():
    sets = pack(MATRIX)
    greedy = coverage_curve(sets)
    uniform = coverage_curve(sets, method="uniform", shape=(10, 10))
    random = coverage_curve(sets, method="random")
    assert greedy.sizes[0] <= uniform.sizes[0]
    assert greedy.sizes[0] <= random.sizes.min()
    assert uniform.n_sources.tolist() == [k * k for k in range(1, 11)]
    assert uniform.coverage[-1] == 1


def test_uniform_grids():
    grids = list(uniform_grids((4, 2)))
    assert [len(grid) for grid in grids] == [1, 2, 6, 8]
    assert grids[-1].tolist() == list(range(8))
    assert grids[0].tolist() == [2 * 2 + 1]
    for grid in uniform_grids((7, 5, 3)):
        assert (np.diff(grid) > 0).all()


def test_uncoverable_targets_cap_the_curve():
    matrix = MATRIX.copy()
    matrix[:, :20] = False
    for method in ("greedy", "random", "uniform"):
        curve = coverage_curve(pack(matrix), method=method, shape=(10, 10), n_repeats=5)
        assert curve.max_coverage == 0.8
        assert curve.coverage[-1] == pytest.approx(0.8)
    nothing = coverage_curve(pack(np.zeros((3, 4), bool)), method="random", n_repeats=2)
    assert nothing.max_coverage == 0


def test_bad_input_is_refused():
    sets = pack(MATRIX)
    with pytest.raises(InvalidInputError, match=r"needs sources on a grid.* shape="):
        coverage_curve(sets, method="uniform")
    with pytest.raises(InvalidInputError, match="n_repeats >= 1"):
        coverage_curve(sets, method="random", n_repeats=0)
    with pytest.raises(UnknownNameError, match="greedy"):
        coverage_curve(sets, method="gredy")  # type: ignore[arg-type]
