"""Candidates between the targets: another space, the whole box."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.runs import Experiment, run_selection
from taskspace.selection import Candidates
from taskspace.selection.coverage import Reaches, plan_line, sweep
from tests.selection.test_disk import Killed, assert_same, experiment
from tests.selection.worlds import Copy, Line

# Targets 0, 3, 6, …: a policy at 1.5 serves two of them within 2, at a node only one.
COARSE = ts.Grid(x0=(0.0, 21.0, 8))
QUESTION = ts.Question("regret", epsilon=2.0)
PLANE = ts.Grid(x0=(0.0, 9.0, 4), x1=(0.0, 9.0, 4))


def points(result):
    names = [n for n in result.table.coords if str(n).startswith("source_x")]
    return np.stack([result.table[n].values for n in names], 1)


@pytest.mark.parametrize("fine", [False, True])
def test_between_the_targets_fewer_are_enough(fine):
    nodes = ts.select(Line(), Copy(), COARSE, QUESTION, seed=0)
    assert nodes.trainings == 8  # each serves its own target only
    space, options = COARSE, {"candidates": "box"}
    if fine:
        space, options = ts.Grid(x0=(0.0, 21.0, 43)), {"targets": COARSE}
    found = ts.select(Line(), Copy(), space, QUESTION, seed=0, **options)
    assert found.stop_reason == "covered"
    assert 4 <= found.trainings <= 6
    where = points(found)
    assert not set(where[:, 0]) <= set(COARSE.points[:, 0])
    assert where.min() >= 0
    assert where.max() <= 21
    # Covered is evaluated, by another road.
    away = np.abs(where - COARSE.points[:, 0])
    assert (away.min(0) <= 2.0).all()
    # What serves is trained where the table says.
    np.testing.assert_array_equal(-found.table["performance"].values[:, 0], away)


def test_in_the_plane_too():
    question = ts.Question("regret", epsilon=2.2**2)  # mid-cell, four are served
    system = Line(2, power=2.0)
    nodes = ts.select(system, Copy(), PLANE, question, seed=0)
    found = ts.select(system, Copy(), PLANE, question, seed=0, candidates="box")
    assert nodes.trainings == 16
    assert found.stop_reason == "covered"
    assert found.trainings < 12
    assert len({tuple(row) for row in points(found)}) == found.trainings


def test_the_ends_of_the_box_are_not_left_by_rounding():
    grid = ts.Grid(k=(0.1, 8.3, 7, "log"))
    ends = Candidates(grid).points_of(np.array([[0.0], [1.0]]))
    assert ends[0, 0] >= 0.1
    assert ends[1, 0] <= 8.3


def test_bad_candidates_are_refused():
    for bad in (3, True, 2.5, "Box", [1, 2]):
        with pytest.raises(InvalidInputError, match="andidates"):
            ts.select(Line(), Copy(), COARSE, QUESTION, seed=0, candidates=bad)
    how = {"candidates": "box", "selector": "mbtl"}
    with pytest.raises(InvalidInputError, match="'coverage' only"):
        ts.select(Line(), Copy(), COARSE, QUESTION, **how)
    for bad in ("3", "true", '"all"'):
        with pytest.raises(InvalidInputError, match="candidates"):
            experiment(more=f"candidates = {bad}\n")


def test_on_disk_and_killed_they_are_the_same(tmp_path):
    asked = experiment("coverage", 'candidates = "box"\n')
    assert Experiment.from_toml(asked.to_toml()) == asked
    whole = run_selection(asked, tmp_path / "whole")
    assert whole.result.stop_reason == "covered"

    def kill(stage, done, total, note=""):
        if note == "3 trainings":
            raise Killed

    with pytest.raises(Killed):
        run_selection(asked, tmp_path / "killed", progress=kill)
    run_selection(asked, tmp_path / "killed")
    assert_same(tmp_path / "whole", tmp_path / "killed")


# --- plans on one axis ------------------------------------------------------------


def brute_force_size(serves):
    n = len(serves)
    sizes = [
        bin(mask).count("1")
        for mask in range(1, 2**n)
        if serves[[i for i in range(n) if mask >> i & 1]].any(0).all()
    ]
    return min(sizes)


@pytest.mark.parametrize("seed", range(12))
def test_a_sweep_of_stretches_is_a_minimum_cover(seed):
    rng = np.random.default_rng(seed)
    n_targets = int(rng.integers(3, 12))
    first = rng.integers(0, n_targets, 9)
    last = np.minimum(n_targets, first + rng.integers(1, 6, 9))
    serves = (np.arange(n_targets) >= first[:, None]) & (
        np.arange(n_targets) < last[:, None]
    )
    serves = serves[:, serves.any(0)]
    plan = sweep(serves)
    assert serves[plan].any(0).all()
    assert len(plan) == brute_force_size(serves)


def test_a_plan_on_a_line_spares_room_for_errors():
    x = np.linspace(0, 1, 101)
    ratio = np.abs(x - x[:, None]) / 0.15  # stretches of 0.3: four are needed
    plan = sorted(plan_line(ratio))
    assert len(plan) == 4
    edges = np.abs(x - x[plan][:, None]).min(0).max()
    assert edges <= 0.14  # 0.125 is the most even; a bare sweep would use all of 0.15


def test_reaches_are_read_off_the_rows():
    targets = np.linspace(0, 1, 11)
    sources = np.array([0.3, 0.6])
    ratio = np.abs(targets - sources[:, None]) / np.array([[0.15], [0.25]])
    found = Reaches.of(sources, targets, ratio, ratio <= 1)
    for side in (found.left, found.right):
        np.testing.assert_allclose(side[0], sources)
        np.testing.assert_allclose(side[1], [0.15, 0.25])
    # Interpolated between, constant beyond.
    middle = found.ratios(np.array([0.0, 0.45, 1.0]), np.array([0.45]))
    np.testing.assert_allclose(middle[:, 0], [0.45 / 0.15, 0.0, 0.55 / 0.25])
    # To the end of the axis nothing is known; a source bad at home tells nothing.
    wide = Reaches.of(np.array([0.9]), targets, ratio[:1] * 0 + 0.5, ratio[:1] >= 0)
    assert wide is None
    nothing = Reaches.of(sources, targets, ratio + 5, ratio + 5 <= 1)
    assert nothing is None
