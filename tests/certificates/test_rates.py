import numpy as np
import pytest
from scipy.spatial.distance import cdist

import taskspace as ts
from taskspace.certificates.paper import (
    check_balls,
    inner_radius,
    loss_rates,
    rate_bounds,
)
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows
from tests.certificates.worlds import MSD, line_table, msd_enclosure, msd_family

SPACE = ts.Grid(k=(0.1, 8.0, 7), c=(0.1, 8.0, 6))
OPTIONS = {"n_policies": 2, "noise": 0.05}


def in_box(contexts):
    return ((contexts >= SPACE.low) & (contexts <= SPACE.high)).all(1)


@pytest.fixture(scope="module")
def table():
    trainer = ts.trainers.Lqr(**OPTIONS)
    return ts.evaluate(MSD, trainer, SPACE, seed=0).table


def test_rates_are_the_largest_and_smallest_slopes(table):
    rates = loss_rates(table, 2.0)
    performance = table["performance"].values
    home = table["home_performance"].values
    for s in (0, 17, 41):
        distance = np.linalg.norm(SPACE.points - SPACE.points[s], axis=1)
        near = (distance > 0) & (distance <= 2.0)
        slope = (home[s][:, None] - performance[s][:, near]) / distance[near]
        assert rates.upper[s] == pytest.approx(slope.max())
        assert rates.lower[s] == pytest.approx(slope.min())
        assert rates.n_neighbours[s] == near.sum()


def test_rates_grow_with_r_and_say_when_nobody_is_near(table):
    small, large, none = (loss_rates(table, r) for r in (1.6, 5.0, 0.1))
    assert (small.upper <= large.upper).all()
    assert (small.lower >= large.lower).all()
    assert (none.upper == -np.inf).all()
    assert (none.n_neighbours == 0).all()
    assert check_balls(table, 0.5, radius=0.1)[1].kind == "vacuous"


def test_reduced_tables_give_the_same_upper_rates(table):
    everything = slice(0, SPACE.size)
    reduced = table.drop_vars("performance").assign(
        worst=(("source", "target"), family_rows(table, "worst", everything)),
        gap_worst=(("source", "target"), family_rows(table, "gap_worst", everything)),
    )
    assert loss_rates(reduced, 2.0).upper == pytest.approx(loss_rates(table, 2.0).upper)
    assert np.isnan(loss_rates(reduced, 2.0).lower).all()
    assert np.isinf(check_balls(reduced, 0.5, radius=2.0)[0].outer).all()


def test_bounds_on_rates_hold_on_the_continuum():
    policies = msd_family(SPACE, **OPTIONS)
    enclosure = msd_enclosure(SPACE, "signed", **OPTIONS)
    contexts = MSD.contexts(SPACE)
    radius = 1.3
    bounds = rate_bounds(enclosure, contexts, radius, contexts)
    rng = np.random.default_rng(0)
    home = MSD.home_performance(policies, contexts)
    seen = np.zeros(len(contexts))
    for s in range(len(contexts)):
        angle = rng.random(400) * 2 * np.pi
        reach = radius * np.sqrt(rng.random(400))
        around = np.repeat(contexts[s : s + 1], 400, axis=0)
        around[:, 0] += reach * np.cos(angle)
        around[:, 1] += reach * np.sin(angle)
        around = around[in_box(around[:, :2])]
        distance = np.linalg.norm(around - contexts[s], axis=1)
        loss = home[s][:, None] - MSD.performance(policies[s : s + 1], around)[0]
        seen[s] = (loss / distance).max()
    assert (seen <= bounds).all()
    # Inner balls from them hold between grid nodes; from half of them some do not.
    for share, sound in ((1.0, True), (0.15, False)):
        radii = inner_radius(bounds * share, radius, 0.5)
        worst = -np.inf
        for s in range(len(contexts)):
            angle = rng.random(300) * 2 * np.pi
            around = np.repeat(contexts[s : s + 1], 300, axis=0)
            around[:, 0] += radii[s] * np.cos(angle)
            around[:, 1] += radii[s] * np.sin(angle)
            around = around[in_box(around[:, :2])]
            loss = home[s][:, None] - MSD.performance(policies[s : s + 1], around)[0]
            worst = max(worst, loss.max())
        assert (worst <= 0.5) == sound


def test_inner_balls_never_leave_the_tolerance_set(table):
    enclosure = msd_enclosure(SPACE, "signed", **OPTIONS)
    contexts = MSD.contexts(SPACE)
    exact = rate_bounds(enclosure, contexts, 3.0, contexts)
    for epsilon in (0.0, 0.3, 2.0, 10.0):
        for radius in (1.7, 3.0):
            balls, inner = check_balls(table, epsilon, radius=radius)
            assert inner.values["violations"] == 0
            assert inner.kind == "estimate"
            # What is served within r lies in the outer ball.
            near = cdist(SPACE.points, SPACE.points)
            served = family_rows(table, "gap_worst", slice(None)) <= epsilon
            assert not (served & (near <= radius) & (near > balls.outer[:, None])).any()
        _, proven = check_balls(table, epsilon, radius=3.0, upper_rate=exact)
        assert proven.holds
        assert proven.kind == "proof"
    # Negative control: rates that are too small are found out.
    rates = loss_rates(table, 3.0).upper
    _, wrong = check_balls(table, 2.0, radius=3.0, upper_rate=rates / 2)
    assert wrong.values["violations"] > 0
    assert not wrong.holds


def test_failures_have_an_infinite_rate():
    table = line_table([0.0, 1.0, 2.0], lambda s, t: np.where(t == 2, -np.inf, 0.0))
    rates = loss_rates(table, 1.0)
    assert rates.upper.tolist() == [0.0, np.inf, -np.inf]
    assert check_balls(table, 1.0, radius=1.0)[0].inner[1] == 0


def test_what_cannot_be_had_is_refused(table):
    with pytest.raises(InvalidInputError, match="radius > 0"):
        loss_rates(table, 0.0)
    with pytest.raises(InvalidInputError, match="contexts of sources and targets"):
        loss_rates(ts.performance.table_from_matrix(np.eye(3)), 1.0)
    with pytest.raises(InvalidInputError, match="slopes of J"):
        rate_bounds(msd_enclosure(SPACE), MSD.contexts(SPACE), 1.0, MSD.contexts(SPACE))
    with pytest.raises(InvalidInputError, match="one number for each of 42"):
        check_balls(table, 0.1, radius=1.0, upper_rate=np.ones(3))
