# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Designed gains at breakpoints, and the bound over all gains."""

import numpy as np
import pytest

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.errors import InvalidInputError
from taskspace.schedules.designed import bound_of_lines
from taskspace.systems import ContextAxis, LinearFamily
from taskspace.trainers.minimax import GainRegion, design_gains
from tests.schedules.test_search import plain_regret, spread, study_of


def test_designed_gains_need_fewer_vertices_and_serve():
    study = study_of("spring", 6)
    question = "regret <= 0.12"
    plain = ts.schedule(study, question, constant_pieces=False)
    found = ts.schedule(study, question, design=True, constant_pieces=False)
    assert found.size_of_candidates == plain.size
    assert found.lower_bound <= found.size < plain.size
    at = [spread(axis.values) for axis in study.sources.axes]
    rows = np.stack(np.meshgrid(*at, indexing="ij"), -1).reshape(-1, 2)
    losses = [
        plain_regret(study.system, numbers[None], row)
        for row, numbers in zip(rows, found.numbers_at(rows), strict=True)
    ]
    assert max(losses) <= 0.12
    assert found.worst == pytest.approx(max(losses), rel=1e-6)


def test_the_slope_of_the_worst_loss_is_that_of_differences():
    """A descent from gains that are off ends where small changes do not help."""
    study = study_of("spring", 5)
    system, space = study.system, study.targets
    best = system.optimum(system.contexts(space))
    region = GainRegion.of(system, system.contexts(space), offset=-best)
    at = {"k": [0.1, 8.0], "c": [0.1, 8.0]}
    units = ts.Schedule.of_gains(at, np.eye(4).reshape(2, 2, 1, 4))
    weights = units.numbers_at(space.points)
    assert np.allclose(weights.sum(1), 1)
    corners = np.array([[0.1, 0.1], [0.1, 8], [8, 0.1], [8, 8]])
    start = 1.2 * system.optimal_gain(corners)[0]
    mask = np.ones((1, 2), bool)
    found = design_gains(region, start, mask, weights=weights, stop_at=0)
    gains, worst = found.gains, found.worst

    def largest(x):
        each = np.tensordot(weights, x, 1)
        return max(
            plain_regret(system, k, row)
            for k, row in zip(each, space.points, strict=True)
        )

    assert worst == pytest.approx(largest(gains), rel=1e-6)
    assert worst < 0.6 * largest(start)
    rng = np.random.default_rng(0)
    tried = [largest(gains + 0.01 * rng.normal(size=gains.shape)) for _ in range(30)]
    assert min(tried) > worst * 0.98


def test_the_bound_over_all_gains_counts_axes_that_no_gain_serves():
    def family(b_matters):
        return LinearFamily(
            [ContextAxis("a", 1.0), ContextAxis("b", 1.0)],
            A=lambda a, b: [[0, 1], [-a, -(b if b_matters else 1.0)]],
            B=lambda a, b: [[0], [1.0]],
            Q=np.diag([10.0, 4.0]),
            R=[[1.0]],
        )

    space = ts.Grid(a=(0.1, 8.0, 9), b=(0.1, 8.0, 9))
    for b_matters, asked, bound in ((True, 0.1, 4), (False, 0.1, 2), (True, 1000, 1)):
        question = ts.Question(f"regret <= {asked}")
        found = bound_of_lines(family(b_matters), question, space, Clock(30))
        assert found == bound


def test_what_cannot_be_designed_is_said():
    study = study_of("spring", 3)
    for question in ("ratio <= 50 % and decay_rate >= 0.1", "ratio <= 50 % with k=1 %"):
        with pytest.raises(InvalidInputError, match="design=True"):
            ts.schedule(study, question, design=True)
