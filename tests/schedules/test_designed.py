# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Designed gains at breakpoints, and the bound over all gains."""

import numpy as np
import pytest

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.errors import InvalidInputError
from taskspace.schedules.designed import bound_of_lines, lower_worst, vertex_weights
from taskspace.systems import ContextAxis, LinearFamily
from taskspace.trainers.minimax import GainRegion
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
    at = [np.array([0.1, 8.0]), np.array([0.1, 8.0])]
    weights = vertex_weights(at, ["linear", "linear"], space.points)
    assert np.allclose(weights.sum(1), 1)
    corners = np.array([[0.1, 0.1], [0.1, 8], [8, 0.1], [8, 8]])
    start = 1.2 * system.optimal_gain(corners)[0]
    gains, worst = lower_worst(region, weights, start, stop_at=0, clock=Clock(60))

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

    values = [np.linspace(0.1, 8, 9)] * 2
    question = ts.Question("regret <= 0.1")
    for b_matters, bound in ((True, 4), (False, 2)):
        found = bound_of_lines(
            family(b_matters), question, ["a", "b"], values, Clock(60)
        )
        assert found == bound
    wide = ts.Question("regret <= 1000")
    assert bound_of_lines(family(True), wide, ["a", "b"], values, Clock(20)) == 1


def test_what_cannot_be_designed_is_said():
    study = study_of("spring", 3)
    for question in ("ratio <= 50 % and decay_rate >= 0.1", "ratio <= 50 % with k=1 %"):
        with pytest.raises(InvalidInputError, match="design=True"):
            ts.schedule(study, question, design=True)
