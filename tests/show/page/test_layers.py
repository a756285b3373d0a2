"""The numbers behind a page, without a browser."""

import base64
import zlib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.cover.profile import round_epsilons, round_numbers
from taskspace.show.maps import axes_of, seriation
from taskspace.show.page.data import ranks
from taskspace.show.page.html import Blobs, bundle, quantise
from taskspace.show.page.layers import first_steps, make_layer


def decoded(blobs, about):
    """What `web/data.js` does, in NumPy."""
    raw = np.frombuffer(
        zlib.decompress(base64.b64decode(blobs.texts[about["blob"]])), "u1"
    )
    if "width" not in about:
        return raw.view(f"<{about['type']}").reshape(about["shape"])
    bits = 8 * int(about["type"][1])
    planes = raw.reshape(bits // 8, -1).astype(np.int64)
    zigzag = np.sum([plane << (8 * i) for i, plane in enumerate(planes)], axis=0)
    rest = ((zigzag >> 1) ^ -(zigzag & 1)).reshape(
        about["shape"][0], -1, about["width"]
    )
    return (rest.cumsum(1).cumsum(2) & ((1 << bits) - 1)).reshape(about["shape"])


@given(st.integers(0, 2**32 - 1), st.sampled_from(["u1", "u2"]))
def test_filtered_arrays_come_back(seed, kind):
    rng = np.random.default_rng(seed)
    n, lines, width = rng.integers(1, 6, 3)
    array = rng.integers(0, np.iinfo(kind).max + 1, (n, lines * width)).astype(kind)
    blobs = Blobs()
    about = blobs.add(array, width=int(width))
    np.testing.assert_array_equal(decoded(blobs, about), array)


def test_equal_arrays_are_stored_once():
    blobs = Blobs()
    first = blobs.add(np.arange(5.0))
    assert blobs.add(np.arange(5.0)) == first
    assert len(blobs.texts) == 1


@given(st.integers(0, 2**32 - 1))
def test_first_steps_are_the_comparisons_themselves(seed):
    rng = np.random.default_rng(seed)
    losses = rng.choice([0.0, 0.1, 0.2, 0.3, np.inf, -1.0], (5, 9))
    epsilons = np.unique(rng.choice([0.0, 0.1, 0.2, 0.25, 1.0], 4))
    first = first_steps(losses, epsilons)
    for step, epsilon in enumerate(epsilons):
        np.testing.assert_array_equal(first <= step, losses <= epsilon)


def test_ranks_put_ties_to_the_lower_row():
    losses = np.array([[1.0, 2.0], [1.0, 1.0], [0.5, np.inf]])
    np.testing.assert_array_equal(ranks(losses), [[1, 1], [2, 0], [0, 2]])


def test_quantised_losses_are_close():
    rng = np.random.default_rng(0)
    losses = 10 ** rng.uniform(-4, 3, (20, 30))
    losses[0, 0] = np.inf
    codes, how = quantise(losses, 1e-5)
    back = how["scale"] * np.sinh(how["low"] + how["step"] * codes.astype(float))
    back[codes == 65535] = np.inf
    np.testing.assert_allclose(back, losses, rtol=1e-3)


def brute_force(served):
    """Fewest rows that serve all that can be served."""
    wanted = served.any(0)
    for size in range(len(served) + 1):
        for rows in combinations(range(len(served)), size):
            if (served[list(rows)].any(0) == wanted).all():
                return size
    raise AssertionError


@pytest.mark.parametrize("seed", range(8))
def test_bounds_and_sizes_hold_at_every_step(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, (7, 9)).astype(float)
    table = ts.performance.table_from_matrix(scores)
    question = ts.Question("regret", epsilon=0.0)
    losses = ts.loss(table, question).values
    layer = make_layer(losses, question, stored=[0.0, 2.0, 5.0], time_limit=0.2)
    for number, step in enumerate(layer.steps):
        served = losses <= step.epsilon
        least = brute_force(served)
        assert step.lower <= least <= step.best.size
        assert step.n_uncoverable == (~served.any(0)).sum()
        assert step.largest == served.sum(1).max()
        for cover in step.covers:
            union = served[cover.sources].any(0)
            assert union.sum() == served.any(0).sum()
            given = layer.assignment(cover.sources.tolist(), number)
            np.testing.assert_array_equal(given >= 0, union)
            mine = np.sort(cover.sources)
            for target in np.flatnonzero(union):
                assert given[target] == mine[losses[mine, target].argmin()]


@pytest.mark.parametrize("seed", range(2))
def test_a_page_and_a_profile_say_the_same(seed):
    losses = np.random.default_rng(seed).exponential(size=(9, 11))
    question = ts.Question("floor", epsilon=0.0)
    layer = make_layer(losses, question, n_steps=8, time_limit=60)
    points = ts.complexity_profile(losses, epsilons=layer.epsilons)
    for step, point in zip(layer.steps, points, strict=True):
        assert step.n_uncoverable == point.n_uncoverable
        greedy, best = step.covers[0].size, step.best.size
        if not point.n_uncoverable:
            assert (step.lower, best, greedy) == (
                (point.lower, point.upper, point.greedy)
            )
        assert step.lower == best == brute_force(losses <= step.epsilon)


def test_covers_known_already_are_used():
    table = ts.performance.table_from_matrix(np.eye(4) * 10)
    sets = ts.Question("regret", "worst", epsilon=1.0).sets(table)
    cover = ts.minimum_cover(sets, time_limit=1)
    question = ts.Question("regret", epsilon=0.0)
    losses = ts.loss(table, question).values
    layer = make_layer(losses, question, covers=[(1.0, cover)], time_limit=0)
    step = layer.steps[layer.epsilons.index(1.0)]
    assert step.is_stored
    assert not step.is_time_up  # greedy's bound closes it
    assert {c.method for c in step.covers} == {"greedy", "minimum"}


def test_a_step_says_that_the_time_limit_ended_its_search():
    losses = np.random.default_rng(0).uniform(0, 1, (24, 36))
    question = ts.Question("regret", epsilon=0.3)
    for time_limit in (0.0, 60.0):
        layer = make_layer(
            losses, question, stored=[0.3], n_steps=3, time_limit=time_limit
        )
        step = layer.steps[layer.epsilons.index(0.3)]
        assert step.is_time_up == (time_limit == 0.0)
        assert step.is_time_up == (step.best.size > step.lower)


def test_slider_holds_what_was_asked_and_the_ends():
    rng = np.random.default_rng(1)
    losses = rng.uniform(0, 3, (20, 30))
    steps = round_epsilons(losses, [0.123])
    assert 0.123 in steps
    assert steps[0] <= losses.min(0).max()
    assert steps[-1] >= losses.max(1).min()
    assert (np.diff(steps) > 0).all()


def test_slider_without_a_source_for_all():
    losses = np.array([[0.0, np.inf], [np.inf, 2.0]])
    steps = round_epsilons(losses, [1.0])
    assert np.isfinite(steps).all()


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1e-7), (3.0, 3e6), (0.1, 0.11)])
def test_round_numbers_in_any_unit(low, high):
    steps = round_numbers(low, high, 20, log=True)
    assert 1 <= len(steps) <= 45
    assert all(low * 0.999 <= s <= high * 1.001 for s in steps)


def test_log_axes_are_found():
    grid = ts.Grid(a=(0.1, 10.0, 5, "log"), b=(0.0, 1.0, 4))
    plain = ts.Points(grid.names, grid.points)
    for space in (grid, plain):
        a, b = axes_of(space)
        assert (a.scale, b.scale) == ("log", "linear")
        assert a.values == pytest.approx(np.geomspace(0.1, 10, 5).tolist())
    shuffled = ts.Points(grid.names, grid.points[::-1])
    assert axes_of(shuffled)[0].values is None


def test_seriation_undoes_a_shuffle():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 1, 30))
    losses = np.abs(x[:, None] - x)
    rows, columns = rng.permutation(30), rng.permutation(30)
    found, across = seriation(losses[rows][:, columns])
    for order in (rows[found], columns[across]):
        assert (np.diff(order) > 0).mean() in (0.0, 1.0)


def test_modules_share_no_name():
    """One script holds them all, so a name may be declared once only."""
    import re

    script = bundle("main")
    names = re.findall(
        r"^(?:async )?(?:function|class|const|let) +([A-Za-z_]\w*)", script, re.M
    )
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    assert not re.search(r"^(import|export) ", script, re.M)
    assert "</script" not in script
