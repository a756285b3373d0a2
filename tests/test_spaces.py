import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import space_from_dict


def test_points_run_in_c_order():
    grid = ts.Grid(k=(0.0, 1.0, 2), c=(10.0, 30.0, 3))
    assert grid.points.tolist() == [
        [0, 10], [0, 20], [0, 30], [1, 10], [1, 20], [1, 30],
    ]  # fmt: skip
    assert grid.context(4) == {"k": 1.0, "c": 20.0}


def test_half_cell_diagonal_is_the_farthest_a_context_can_be():
    grid = ts.Grid(a=(0.0, 3.0, 4), b=(0.0, 8.0, 3), c=(1.0, 100.0, 3, "log"))
    rng = np.random.default_rng(0)
    inside = rng.uniform(grid.low, grid.high, (20_000, 3))
    distance = np.linalg.norm(inside - grid.points[grid.nearest(inside)], axis=1)
    assert distance.max() <= grid.half_cell_diagonal
    # The centre of the largest cell reaches it.
    centre = np.array([0.5, 2.0, 55.0])
    nearest = grid.points[grid.nearest(centre)]
    assert np.linalg.norm(centre - nearest) == pytest.approx(grid.half_cell_diagonal)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_nearest_agrees_with_brute_force(shape, seed):
    rng = np.random.default_rng(seed)
    axes = {
        f"x{i}": (0.0, float(n > 1), n) if i % 2 else (1.0, 1.0 + 9.0 * (n > 1), n)
        for i, n in enumerate(shape)
    }
    grid = ts.Grid(**axes)
    contexts = rng.uniform(-1, 11, (20, len(shape)))
    brute = np.linalg.norm(contexts[:, None] - grid.points, axis=2)
    found = brute[np.arange(20), grid.nearest(contexts)]
    np.testing.assert_allclose(found, brute.min(1), rtol=1e-12)


def test_log_axis_has_equal_ratios():
    values = ts.Axis("x", 0.1, 10.0, 5, "log").values
    np.testing.assert_allclose(values[1:] / values[:-1], 10**0.5)


def test_volume_and_diameter():
    grid = ts.Grid(a=(0.0, 3.0, 4), b=(1.0, 5.0, 9))
    assert grid.volume == 12
    assert grid.diameter == 5
    assert grid.contains([[0, 1], [3, 5], [3.1, 2]]).tolist() == [True, True, False]


def test_subgrid_keeps_the_middle_and_the_whole():
    grid = ts.Grid(a=(0.0, 4.0, 5), b=(0.0, 2.0, 3))
    assert grid.points[grid.subgrid(1, 1)].tolist() == [[2.0, 1.0]]
    assert grid.subgrid(5, 3).tolist() == list(range(15))


@pytest.mark.parametrize(
    "space",
    [
        ts.Grid(k=(0.1, 8.0, 3), c=(1.0, 10.0, 4, "log")),
        ts.Points(["mass", "length"], [[1.0, 2.0], [0.1, 1 / 3]]),
    ],
    ids=["grid", "points"],
)
def test_space_round_trips_through_plain_values(space):
    again = space_from_dict(space.to_dict())
    assert again == space
    np.testing.assert_array_equal(again.points, space.points)


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ((0.0, 1.0, 0), "at least one point"),
        ((1.0, 0.0, 3), "low < high"),
        ((0.0, 1.0, 1), "low == high for a single point"),
        ((0.0, np.inf, 3), "finite"),
        ((0.0, 1.0, 3, "log"), "low > 0"),
        ((0.0, 1.0), "must be (low, high, n)"),
        ((0.0, "x", 3), "must be (low, high, n)"),
    ],
)
def test_bad_axis_is_named(axis, says):
    with pytest.raises(InvalidInputError) as error:
        ts.Grid(k=axis)
    assert says in str(error.value)
    assert "'k'" in str(error.value)


def test_unknown_scale_suggests():
    with pytest.raises(UnknownNameError, match="Did you mean 'linear'"):
        ts.Grid(k=(0.0, 1.0, 2, "linaer"))


def test_points_refuse_nan_and_wrong_width():
    with pytest.raises(InvalidInputError, match="row 1 has mass=nan"):
        ts.Points(["mass"], [1.0, np.nan])
    with pytest.raises(InvalidInputError, match="one column a name"):
        ts.Points(["a", "b"], [[1.0], [2.0]])
