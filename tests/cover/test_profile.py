import numpy as np
import pytest
import xarray as xr

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.cover import complexity_profile, greedy_cover, smallest_epsilon
from taskspace.cover.profile import default_epsilons
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import brute_force


def random_loss(seed, n=9):
    loss = np.random.default_rng(seed).exponential(size=(n, n))
    np.fill_diagonal(loss, 0)
    return loss


@pytest.mark.parametrize("seed", range(3))
def test_profile_is_brute_force_at_every_epsilon(seed):
    loss = random_loss(seed)
    points = complexity_profile(loss, n_epsilons=12)
    assert points[0].upper == brute_force(loss <= points[0].epsilon)
    assert points[-1].upper == 1
    for point in points:
        best = brute_force(loss <= point.epsilon)
        assert (point.lower, point.upper) == (best, best)
        assert point.greedy == greedy_cover(pack(loss <= point.epsilon)).size
    uppers = [point.upper for point in points]
    assert uppers == sorted(uppers, reverse=True)


def test_bounds_are_monotone_also_without_time():
    loss = random_loss(0, n=40)
    points = complexity_profile(loss, time_limit=0.0)
    for name in ("lower", "upper"):
        values = [getattr(point, name) for point in points]
        assert values == sorted(values, reverse=True)
    assert all(point.lower <= point.upper <= point.greedy for point in points)


def test_epsilons_below_the_feasible_ones_have_no_complexity():
    loss = random_loss(1) + 1.0
    points = complexity_profile(loss, epsilons=[0.5, 1.0, 2.0])
    assert (points[0].lower, points[0].upper, points[0].greedy) == (None, None, None)
    assert points[0].n_uncoverable == 9
    assert points[1].upper is not None
    assert points[0].to_dict()["epsilon"] == 0.5


def test_xarray_and_infinities():
    loss = random_loss(2)
    loss[0, 3] = np.inf
    array = xr.DataArray(loss.T, dims=("target", "source"))
    assert complexity_profile(array) == complexity_profile(loss)


def test_losses_may_be_integers():
    loss = np.random.default_rng(0).integers(0, 5, (6, 8))
    assert complexity_profile(loss) == complexity_profile(loss.astype(float))
    few, same = (smallest_epsilon(x, 2) for x in (loss, loss.astype(float)))
    assert (few.upper, few.sources) == (same.upper, same.sources)


def test_default_epsilons_are_values_of_the_loss():
    loss = random_loss(3)
    epsilons = default_epsilons(loss, 10)
    assert np.isin(epsilons, loss).all()
    assert epsilons[0] == 0
    assert epsilons[-1] == loss.max(1).min()
    assert len(epsilons) <= 10


def floor_losses(seed, shift):
    """Losses of the floor criterion, −J, with J around `shift`."""
    performance = shift + np.random.default_rng(seed).normal(size=(8, 10))
    return xr.DataArray(
        -performance, dims=("source", "target"), attrs={"criterion": "floor"}
    )


@pytest.mark.parametrize("shift", [-50.0, 0.0, 100.0])
def test_floor_profiles_have_their_whole_range(shift):
    loss = floor_losses(3, shift)
    points = complexity_profile(loss, n_epsilons=12)
    assert len(points) > 6
    assert points[-1].upper == 1
    for point in points:
        best = brute_force(loss.values <= point.epsilon)
        assert (point.lower, point.upper) == (best, best)
    asked = float(loss.min("source").max())  # the strictest that all can reach
    (one,) = complexity_profile(loss, epsilons=[asked])
    assert one.upper == brute_force(loss.values <= asked)


@pytest.mark.parametrize(
    ("loss", "arguments", "message"),
    [
        (np.full((2, 2), np.nan), {}, "NaN"),
        (np.zeros(3), {}, "matrix of numbers"),
        (np.zeros((2, 2), bool), {}, "matrix of numbers"),
        (np.zeros((2, 2)), {"epsilons": [-1.0]}, "epsilons must be"),
        (np.zeros((2, 2)), {"epsilons": []}, "epsilons must be"),
        (np.zeros((2, 2)), {"n_epsilons": 1}, "n_epsilons >= 2"),
        (np.full((2, 2), np.inf), {}, "finite loss"),
        (xr.DataArray(np.zeros((2, 2)), dims=("a", "target")), {}, "dims"),
    ],
)
def test_bad_input_is_refused(loss, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        complexity_profile(loss, **arguments)


def test_a_table_has_the_profile_of_its_losses(monkeypatch):
    table = ts.performance.table_from_matrix(-random_loss(5, 30))
    question = ts.Question("regret", epsilon=0.0)
    monkeypatch.setattr("taskspace.performance.table.BLOCK_CELLS", 100)
    streamed = complexity_profile(ts.Study.of(table), question, n_epsilons=9)
    assert streamed == complexity_profile(question.losses(table), n_epsilons=9)
    # Also where hardly any sets fit into memory.
    monkeypatch.setattr("taskspace._util.files.available_memory", lambda: 8 * 1000)
    assert complexity_profile(question.losses(table), n_epsilons=9) == streamed


def test_two_thousand_tolerances_within_the_time():
    loss = random_loss(6, 400)
    epsilons = np.linspace(0.0, 3.0, 2000)
    clock = Clock()
    points = complexity_profile(loss, epsilons=epsilons, time_limit=2.0)
    assert clock.spent < 2.0 + 3.0  # the last search may run over
    assert len(points) == 2000
    lower = [point.lower for point in points]
    upper = [point.upper for point in points]
    assert lower == sorted(lower, reverse=True)
    assert upper == sorted(upper, reverse=True)
    assert all(low <= up for low, up in zip(lower, upper, strict=True))
    # The bounds that were not computed but follow are true.
    for k in (1, 700, 1301, 1998):
        (one,) = complexity_profile(loss, epsilons=[epsilons[k]], time_limit=1.0)
        assert one.lower <= upper[k]
        assert lower[k] <= one.upper
