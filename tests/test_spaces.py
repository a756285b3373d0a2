import tomllib

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import grid_of, space_from_dict


def test_points_run_in_c_order():
    grid = ts.Grid(k=(0.0, 1.0, 2), c=(10.0, 30.0, 3))
    assert grid.points.tolist() == [
        [0, 10], [0, 20], [0, 30], [1, 10], [1, 20], [1, 30],
    ]  # fmt: skip
    assert grid.context(4) == {"k": 1.0, "c": 20.0}


def test_log_axis_has_equal_ratios():
    values = ts.Axis("x", 0.1, 10.0, 5, "log").values
    np.testing.assert_allclose(values[1:] / values[:-1], 10**0.5)


def test_a_list_is_values_and_a_tuple_is_ends():
    assert ts.Grid(m=[1, 3, 5]).points.ravel().tolist() == [1, 3, 5]
    assert ts.Grid(m=(1, 3, 5)).points.ravel().tolist() == [1, 1.5, 2, 2.5, 3]
    assert ts.Grid(m=np.array([1.0, 7.0])).shape == (2,)
    assert ts.Grid(m=[4]).to_dict() == {"m": {"values": [4.0]}}
    assert ts.Axis("m", values=[1, 3, 5]).values.tolist() == [1, 3, 5]
    mixed = ts.Grid(m=[1, 10], k=(0.0, 1.0, 3))
    assert mixed.shape == (2, 3)
    assert mixed.context(4) == {"m": 10.0, "k": 0.5}
    # In TOML there are only lists: they keep meaning low, high, n.
    assert space_from_dict({"k": [0.1, 8.0, 20]}) == ts.Grid(k=(0.1, 8.0, 20))
    assert space_from_dict({"k": {"values": [1, 3, 5]}}) == ts.Grid(k=[1, 3, 5])


@pytest.mark.parametrize("explicit", [[], [0], [1], [2], [0, 2], [0, 1, 2]])
def test_axes_keep_their_order_in_toml(explicit):
    # Tables stand last in TOML, so a mixture of both forms would be sorted anew.
    axes = {
        name: [1.0, 2.0, 5.0] if i in explicit else (0.1, 8.0, 3, "log")
        for i, name in enumerate("kcm")
    }
    grid = ts.Grid(**axes)
    again = space_from_dict(tomllib.loads(tomli_w.dumps(grid.to_dict())))
    assert again == grid
    assert again.to_dict() == grid.to_dict()
    named = {"k": {"low": 1, "high": 3, "n": 3}}
    assert space_from_dict(named) == ts.Grid(k=(1, 3, 3))


def test_spaces_with_the_same_contexts_are_equal():
    grid = ts.Grid(m=(1.0, 3.0, 3))
    assert grid == ts.Grid(m=[1, 2, 3]) == ts.Points(["m"], [1, 2, 3])
    assert len({grid, ts.Grid(m=[1, 2, 3]), ts.Points(["m"], [1, 2, 3])}) == 1
    assert grid != ts.Points(["n"], [1, 2, 3])
    assert grid != ts.Points(["m"], [1, 3, 2])
    zeros = ts.Points(["m"], [0.0, 1.0]), ts.Points(["m"], [-0.0, 1.0])
    assert zeros[0] == zeros[1]
    assert hash(zeros[0]) == hash(zeros[1])


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 2.0**40, 1e200])
@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([0.1, 0.15, 0.9], "uneven"),
        ([0.1, 0.2, 0.3, 0.4], "linear"),
        ([-1.0, 0.0, 1.0], "linear"),
        ([1.0, 2.0, 3.0 + 1e-6], "uneven"),
        ([0.1, 1.0, 10.0, 100.0], "log"),
        ([0.0, 1.0, 10.0, 100.0], "uneven"),
        ([3.0], "linear"),
        ([3.0, 8.0], "linear"),
    ],
)
def test_evenness_does_not_depend_on_the_unit(values, scale, unit):
    scaled = np.array(values) * unit
    assert ts.Axis("x", values=scaled).scale == scale
    found = grid_of(ts.Points(["x"], scaled))
    assert found is not None
    assert found.axes[0].scale == scale
    assert found.points.ravel().tolist() == scaled.tolist()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["linear", "log", "any"]),
)
def test_a_grid_is_found_again_from_its_points(shape, seed, kind):
    rng = np.random.default_rng(seed)
    axes = {}
    for i, n in enumerate(shape):
        values = np.unique(rng.uniform(0.1, 9.0, n) * 10.0 ** rng.integers(-9, 9))
        ends = (values[0], values[-1], len(values))
        axes[f"x{i}"] = values if kind == "any" else (*ends, kind)
    grid = ts.Grid(**axes)
    points = ts.Points(grid.names, grid.points)
    found = grid_of(points)
    assert found is not None
    assert found == grid
    assert found.shape == grid.shape
    assert space_from_dict(found.to_dict()) == grid
    # Any other order of the same contexts is a list, not a grid.
    order = rng.permutation(grid.size)
    moved = grid_of(ts.Points(grid.names, grid.points[order]))
    assert (moved is not None) == (order == np.arange(grid.size)).all()
    # One context moved by one bit is none either, but on one axis, where any is.
    bent = grid.points.copy()
    bent[-1, 0] = np.nextafter(bent[-1, 0], np.inf)
    if len(grid.points[grid.points[:, 0] == grid.points[-1, 0]]) > 1:
        assert grid_of(ts.Points(grid.names, bent)) is None


def test_the_closest_values_there_are_make_a_grid():
    close = 1.0 + np.spacing(1.0) * np.arange(4)
    found = grid_of(ts.Points(["x"], close))
    assert found is not None
    assert found.points.ravel().tolist() == close.tolist()


def test_no_grid_of_scattered_points():
    assert grid_of(None) is None
    assert grid_of(ts.Points(["x", "y"], [[0, 0], [1, 1], [2, 0.0]])) is None
    assert grid_of(ts.Points(["x"], [1.0, 1.0])) is None
    assert grid_of(ts.Points(["pole length"], [1.0, 2.0, 4.0])) is not None


@pytest.mark.parametrize(
    "space",
    [
        ts.Grid(k=(0.1, 8.0, 3), c=(1.0, 10.0, 4, "log")),
        ts.Points(["mass", "length"], [[1.0, 2.0], [0.1, 1 / 3]]),
        ts.Grid(k=[0.1, 1 / 3, 7], c=(1.0, 10.0, 4)),
    ],
    ids=["grid", "points", "explicit"],
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
        ((0.0, 1.0, 2.5), "at least one point"),
        ((0.0, 1.0, "3"), "at least one point"),
        ((0.0, 1.0, np.nan), "must be (low, high, n)"),
        ((0.0, 1.0, 10**13), "at most 1,000,000,000"),
        ((1.0, 1.0 + 1e-15, 50), "must differ"),
        ((-1.7e308, 1.7e308, 3), "must differ and be finite"),
        ([], "list of at least one"),
        ([1.0, np.nan], "number 2 is nan"),
        ([np.inf], "number 1 is inf"),
        ([1.0, 3.0, 2.0], "3 is followed by 2"),
        ([1.0, 1.0], "1 is followed by 1"),
        ([-0.0, 0.0], "0 is followed by 0"),
        ([True, False], "must be numbers"),
        (["a", "b"], "must be numbers"),
        ([[1.0, 2.0]], "must be a list"),
        (3.0, "must be (low, high, n)"),
    ],
)
def test_bad_axis_is_named(axis, says):
    with pytest.raises(InvalidInputError) as error:
        ts.Grid(k=axis)
    assert says in str(error.value)
    assert "'k'" in str(error.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"k": {"value": [1, 2]}}, "keys value"),
        ({"k": {"low": 1, "n": 2}}, "keys low, n"),
        ({"k": {"values": [1, 2], "scale": "log"}}, "either values or"),
        ({"k": {"values": 3}}, "must be a list"),
        ({"k": {"values": [1, "x"]}}, "must be numbers"),
        ({"k": 3}, "must be (low, high, n)"),
        ({"names": ["a"], "points": [[1], [2, 3]]}, "Points must be numbers"),
        ({"names": "a", "points": [1]}, "list of texts"),
        ({}, "at least one axis"),
        ({"a": [0, 1, 10**6], "b": [0, 1, 10**6]}, "at most 1,000,000,000 contexts"),
    ],
)
def test_bad_plain_values_are_named(values, says):
    with pytest.raises(InvalidInputError) as error:
        space_from_dict(values)
    assert says in str(error.value)


def test_unknown_scale_suggests():
    with pytest.raises(UnknownNameError, match="Did you mean 'linear'"):
        ts.Grid(k=(0.0, 1.0, 2, "linaer"))


def test_points_refuse_nan_and_wrong_width():
    with pytest.raises(InvalidInputError, match="row 1 has mass=nan"):
        ts.Points(["mass"], [1.0, np.nan])
    with pytest.raises(InvalidInputError, match="one column per name"):
        ts.Points(["a", "b"], [[1.0], [2.0]])
