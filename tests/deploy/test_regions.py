"""Selection against brute force: boxes, grids, points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.deploy import BoxRegions, Status, regions_of
from taskspace.deploy.regions import GridRegions
from taskspace.errors import InvalidInputError

from .helpers import MAKERS, random_boxes, tricky_contexts


def brute_box(low, high, row):
    """The box with low < x <= high; on the lower rim of the range, the one there."""
    rim = low.min(0)
    above = (row > low) | ((low == rim) & (row >= low))
    return np.flatnonzero((above & (row <= high)).all(1))


def merged(low, high, label):
    """Regions of boxes whose policy is their label."""
    n = len(low)
    return BoxRegions.merged(low, high, label, np.zeros(n, bool), np.zeros(n))


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 60))
def test_merged_boxes_equal_brute_force(seed, d, n_cuts):
    rng = np.random.default_rng(seed)
    low, high = random_boxes(rng, n_cuts, -np.ones(d), np.arange(1.0, d + 1))
    label = rng.integers(0, 3, len(low))
    tree = merged(low, high, label)
    rows = np.concatenate([rng.uniform(low.min(0), high.max(0), (50, d)), low, high])
    for row, got in zip(rows, tree.policy[tree.locate(rows)], strict=True):
        (box,) = brute_box(low, high, row)
        assert label[box] == got
    # The regions tile the range: none is left out or counted twice.
    volume = np.prod(tree.box_high - tree.box_low, axis=1).sum()
    np.testing.assert_allclose(volume, np.prod(high.max(0) - low.min(0)))


def test_boxes_with_one_label_melt_into_one():
    edges = np.linspace(0, 1, 33)
    low = np.stack(np.meshgrid(edges[:-1], edges[:-1], indexing="ij"), -1).reshape(
        -1, 2
    )
    high = np.stack(np.meshgrid(edges[1:], edges[1:], indexing="ij"), -1).reshape(-1, 2)
    assert len(merged(low, high, np.zeros(1024, int)).policy) == 1
    left = (low[:, 0] >= 0.5).astype(int)
    assert len(merged(low, high, left).policy) == 2


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_gaps_and_overlaps_are_refused(seed, d):
    """One box moved, grown, left out or counted twice, whatever its volume."""
    rng = np.random.default_rng(seed)
    low, high = random_boxes(rng, 20, np.zeros(d), np.ones(d))
    label, i, axis = np.zeros(len(low), int), rng.integers(len(low)), rng.integers(d)
    merged(low, high, label)
    moved = np.eye(d)[axis] * (high - low)[i, axis] * 0.3
    wrong = [(low.copy(), high.copy()) for _ in range(2)]
    wrong[0][1][i] -= moved
    wrong[1][0][i], wrong[1][1][i] = low[i] + moved, high[i] + moved
    if len(low) > 1:
        wrong.append((np.delete(low, i, 0), np.delete(high, i, 0)))
        twice = np.append(np.arange(len(low)), i)
        wrong.append((low[twice], high[twice]))
        # A gap and an overlap of the same volume.
        other = (i + 1) % len(low)
        stays = np.delete(np.arange(len(low)), other)
        wrong.append((low[np.append(stays, i)], high[np.append(stays, i)]))
    for a, b in wrong:
        ranges = [(x.min(0).tolist(), x.max(0).tolist()) for x in (low, a, high, b)]
        if ranges[0][0] == ranges[1][0] and ranges[2][1] == ranges[3][1]:
            with pytest.raises(InvalidInputError, match="overlap or leave gaps"):
                merged(a, b, np.zeros(len(a), int))
    with pytest.raises(InvalidInputError, match="low < high"):
        merged(low, low, label)


@pytest.mark.parametrize("seed", range(5))
def test_margin_of_a_melted_region_is_the_least_of_its_boxes(seed):
    rng = np.random.default_rng(seed)
    low, high = random_boxes(rng, 60, [0.0, 0.0], [1.0, 2.0])
    policy, served = rng.integers(0, 2, len(low)), rng.random(len(low)) < 0.7
    margin = rng.random(len(low))
    regions = BoxRegions.merged(low, high, policy, served, margin)
    for i in range(len(regions.policy)):
        meets = (low < regions.box_high[i]).all(1) & (high > regions.box_low[i]).all(1)
        assert regions.margin[i] == margin[meets].min()
        assert set(policy[meets]) == {regions.policy[i]}
        assert set(served[meets]) == {regions.served[i]}


@given(st.integers(0, 10**6))
def test_grid_index_equals_the_nearest_node(seed):
    rng = np.random.default_rng(seed)
    space = ts.Grid(x=(-1.0, 3.0, 6), y=(0.5, 2.0, 4))
    regions = regions_of(space.points, np.zeros(24), np.ones(24), np.zeros(24))
    assert isinstance(regions, GridRegions)
    rows = rng.uniform(space.low, space.high, (40, 2))
    step = np.array([4.0 / 5, 1.5 / 3])
    for row, found in zip(rows, regions.locate(rows), strict=True):
        apart = np.abs(space.points - row) / step
        assert (apart[found] <= apart.min(0) + 1e-12).all()


def test_log_axes_have_geometric_borders():
    space = ts.Grid(y=(1.0, 100.0, 3, "log"))
    zeros = np.zeros(3)
    regions = regions_of(space.points, zeros, zeros, zeros, log_axes=[True])
    assert isinstance(regions, GridRegions)
    np.testing.assert_allclose(regions.borders[0], [10**0.5, 10**1.5])


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 40))
def test_scattered_points_have_a_box_each(seed, d, n):
    """Its own box holds each point, boxes tile the range, equal points share one."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (n, d)) * rng.choice([1e-3, 1.0, 1e3], d)
    zeros = np.zeros(n)
    regions = regions_of(points, zeros, zeros, zeros)
    if isinstance(regions, GridRegions):
        return
    assert isinstance(regions, BoxRegions)
    found = regions.locate(points)
    assert (points[found] == points).all()
    assert (found <= np.arange(n)).all()  # of equal points the first
    rows = rng.uniform(points.min(0), points.max(0), (50, d))
    boxes = regions.locate(rows)
    low, high = regions.box_low[boxes], regions.box_high[boxes]
    assert ((rows >= low) & (rows <= high)).all()
    live = np.ptp(points, axis=0) > 0
    first = np.unique(found)
    volume = np.prod((regions.box_high - regions.box_low)[first][:, live], axis=1).sum()
    np.testing.assert_allclose(volume, np.prod(np.ptp(points, axis=0)[live]))
    assert regions.knows(points, found).all()
    assert not regions.knows(np.nextafter(points, np.inf), found).any()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 3.7e12])
@pytest.mark.parametrize("kind", ["grid", "points"])
def test_a_change_of_units_changes_no_selection(kind, unit):
    library = MAKERS[kind]()
    points, rows = library.regions.centres, tricky_contexts(library, 200)[:200]
    zeros = np.zeros(len(points))
    scale = np.ones(points.shape[1])
    scale[0] = unit
    before = regions_of(points, zeros, zeros, zeros).locate(rows)
    after = regions_of(points * scale, zeros, zeros, zeros).locate(rows * scale)
    assert (before == after).all()


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("outside", ["refuse", "clamp"])
def test_select_equals_its_words(kind, outside):
    """One context at a time, from the documented law, without the library's code."""
    library = MAKERS[kind](outside=outside)
    regions = library.regions
    rows = tricky_contexts(library, 100)
    many = library.select(rows)
    for i, row in enumerate(rows):
        one = library.select(row)
        assert (one.policy, one.status) == (many.policy[i], many.status[i])
        inside = ((row >= library.low) & (row <= library.high)).all()
        if not np.isfinite(row).all() or (outside == "refuse" and not inside):
            assert (one.policy, one.status) == (-1, Status.REFUSED)
            assert np.isnan(one.margin)
            continue
        place = np.clip(row, library.low, library.high)
        if isinstance(regions, BoxRegions):
            (region,) = brute_box(regions.box_low, regions.box_high, place)
            nodes = regions.nodes
            known = nodes is None or (nodes[region] == row).all()
        else:
            assert isinstance(regions, GridRegions)
            places = [
                (b < x).sum() for b, x in zip(regions.borders, place, strict=True)
            ]
            region = np.ravel_multi_index(tuple(places), regions.shape)
            known = (regions.centres[region] == row).all()
        assert one.policy == regions.policy[region]
        expected = Status.INSIDE if inside else Status.OUTSIDE
        if inside and known and regions.served[region]:
            expected = Status.GUARANTEED
        assert one.status == expected
        assert one.margin == regions.margin[region]


def test_statuses_are_those_that_select_gives():
    """At every centre; beside a node nothing is known, and select says so."""
    for make in MAKERS.values():
        library = make(outside="clamp")
        centres = library.regions.centres
        assert (library.statuses() == library.select(centres).status).all()
        beside = library.select(np.nextafter(centres, np.inf)).status
        if library.guarantee.scope == "nodes":
            assert set(beside.tolist()) <= {Status.INSIDE, Status.OUTSIDE}
