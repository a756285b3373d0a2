"""Each selector against a brute-force version on small tables."""

import itertools

import numpy as np
import pytest

import taskspace as ts
from taskspace.performance.ledger import Ledger
from taskspace.selection import SELECTORS, Candidates, Known
from taskspace.selection.baselines import (
    NOISE,
    acquisition,
    fall,
    gaussian_process,
)
from taskspace.selection.selecting import new_selection_ledger
from taskspace.spaces import Points
from tests.selection.worlds import PROPOSING, Copy, Line

SPACE = ts.Grid(x0=(0.0, 10.0, 11), x1=(0.0, 4.0, 5))
QUESTION = ts.Question("regret", epsilon=1.5)


def ledger_with(rows, space=SPACE, question=QUESTION) -> Ledger:
    system, trainer = Line(n_axes=len(space.names)), Copy()
    ledger = new_selection_ledger(system, trainer, space, space, question, seed=0)
    for row in rows:
        ledger.plan(Points(space.names, np.array([row], float)))
    if len(rows):
        ledger.work_off()
    return ledger


def unit(point):
    return point[0] / 10, point[1] / 4


def far(a, b):
    return np.hypot(unit(a)[0] - unit(b)[0], unit(a)[1] - unit(b)[1])


def uncovered_by_hand(rows):
    return [
        tuple(t)
        for t in SPACE.points
        if all(np.hypot(t[0] - r[0], t[1] - r[1]) > 1.5 for r in rows)
    ]


ROWS = [(2.0, 1.0), (8.0, 3.0), (5.0, 0.0)]


def test_the_first_is_the_middle_where_nothing_is_known():
    for name in ("uniform", "farthest", "mbtl", "coverage"):
        first = SELECTORS[name](SPACE).propose(ledger_with([]), QUESTION, 1)
        assert first.tolist() == [[5.0, 2.0]], name


def test_uniform_is_the_brute_force_maximin():
    found = SELECTORS["uniform"](SPACE).propose(ledger_with(ROWS), QUESTION, 4)
    rows = list(ROWS)
    for context in found:
        gaps = [min(far(p, r) for r in rows) for p in SPACE.points]
        assert min(far(context, r) for r in rows) == pytest.approx(max(gaps))
        rows.append(tuple(context))


def test_farthest_is_the_loneliest_uncovered_target():
    found = SELECTORS["farthest"](SPACE).propose(ledger_with(ROWS), QUESTION, 1)[0]
    open_ = uncovered_by_hand(ROWS)
    assert tuple(found) in open_
    best = max(min(far(p, r) for r in ROWS) for p in open_)
    assert min(far(found, r) for r in ROWS) == pytest.approx(best)


def test_random_proposes_anything_but_what_is_planned():
    ledger = ledger_with(ROWS)
    seen = set()
    for seed in range(100):
        rows = SELECTORS["random"](SPACE, seed).propose(ledger, QUESTION, 5)
        assert len({tuple(r) for r in rows}) == 5
        seen |= {tuple(r) for r in rows}
    assert seen == {tuple(p) for p in SPACE.points} - set(ROWS)


@pytest.mark.parametrize("name", PROPOSING)
def test_candidates_may_lie_between_the_targets_and_run_out(name):
    names = ("x0", "x1")
    space = Points(names, [[2.5, 1.0], [7.5, 3.0], [5.25, 2.0]])
    ledger = ledger_with([])
    ledger.plan(Points(names, [[5.25, 2.0]]))
    ledger.work_off()
    found = SELECTORS[name](space).propose(ledger, QUESTION, 10)
    assert sorted(map(tuple, found)) == [(2.5, 1.0), (7.5, 3.0)]


def test_mbtl_follows_its_formula():
    ledger = ledger_with(ROWS)
    space = SPACE.points
    scores = np.array([[-np.hypot(*(np.array(r) - t)) for t in space] for r in ROWS])
    home = np.zeros(3)
    spread = scores.std()
    away = np.array([[far(r, t) for t in space] for r in ROWS])
    slope = (-scores / spread).sum() / away.sum()
    assert fall(scores / spread, home, away) == pytest.approx(slope)
    mean, deviation = gaussian_process(
        np.array([unit(r) for r in ROWS]), home, np.array([unit(p) for p in space])
    )
    values = []
    for i, p in enumerate(space):
        total = 0.0
        for j, t in enumerate(space):
            best = max(scores[k, j] / spread for k in range(3))
            top = mean[i] + np.sqrt(np.log(3 + 1)) * deviation[i]
            total += max(0.0, top - slope * far(p, t) - best)
        values.append(-np.inf if tuple(p) in ROWS else total / len(space))
    found = SELECTORS["mbtl"](SPACE).propose(ledger, QUESTION, 1)[0]
    chosen = int(np.flatnonzero((space == found).all(1))[0])
    assert values[chosen] == pytest.approx(max(values), rel=1e-9)
    assert len({round(v, 9) for v in values}) > 10  # the formula tells them apart


def test_the_gaussian_process_is_conditioning_of_a_normal():
    rng = np.random.default_rng(0)
    x, y, z = rng.random((6, 2)), rng.standard_normal(6), rng.random((4, 2))
    mean, deviation = gaussian_process(x, y, z)
    fits = []
    for length, amplitude in itertools.product(
        np.geomspace(0.1, 3.0, 8), [0.1, 0.3, 1.0, 3.0, 10.0]
    ):
        both = np.concatenate([x, z])
        square = ((both[:, None] - both) ** 2).sum(-1)
        cov = amplitude * np.exp(-square / (2 * length**2))
        k = cov[:6, :6] + NOISE**2 * np.eye(6)
        inverse = np.linalg.inv(k)
        likelihood = -0.5 * y @ inverse @ y - 0.5 * np.linalg.slogdet(k)[1]
        variance = np.diag(cov[6:, 6:] - cov[6:, :6] @ inverse @ cov[:6, 6:])
        fits.append((likelihood, cov[6:, :6] @ inverse @ y, np.sqrt(variance)))
    best = max(fits, key=lambda fit: fit[0])
    np.testing.assert_allclose(mean, best[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(deviation, best[2], rtol=1e-6)


def test_acquisition_is_the_mean_of_positive_parts():
    rng = np.random.default_rng(1)
    mean, dev, best = rng.random(700), rng.random(700), rng.random(9)
    away = rng.random((700, 9))
    found = acquisition(mean, dev, away, 0.7, best, 4)
    gain = mean[:, None] + np.sqrt(np.log(5)) * dev[:, None] - 0.7 * away - best
    np.testing.assert_allclose(found, np.where(gain > 0, gain, 0).mean(1))


def test_units_and_log_axes():
    grid = ts.Grid(k=(1.0, 100.0, 5, "log"), c=(-2.0, 2.0, 3))
    candidates = Candidates(grid)
    np.testing.assert_allclose(candidates.points_of(candidates.unit), grid.points)
    assert grid.points[candidates.middle].tolist() == pytest.approx([10.0, 0.0])


def test_known_is_renewed_when_the_reference_moves():
    space = Points(("x0",), [[0.0], [1.0]])
    system = Line(optimum_known=False)
    question = ts.Question("regret", epsilon=0.5)
    ledger = new_selection_ledger(system, Copy(), space, space, question, seed=0)
    ledger.plan(Points(("x0",), [[0.0]]))
    ledger.work_off()
    before = Known.of(ledger, question)
    assert before.covered.all()  # the best seen is the only one
    ledger.plan(Points(("x0",), [[1.0]]))
    ledger.work_off()
    assert not Known.of(ledger, question, before).served[0, 1]
