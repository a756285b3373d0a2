"""Plants known at operating points: the same numbers as by formula, nothing between."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.systems import (
    ContextAxis,
    LinearFamily,
    Pi,
    points_family,
)

FORMULA = LinearFamily(
    [ContextAxis("k", 1.0), ContextAxis("c", 1.0)],
    A=lambda k, c: [[0, 1], [-k, -c]],
    B=lambda k, c: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)
POINTS = ts.Points(("k", "c"), [[0.5, 1.0], [1.0, 2.0], [2.0, 0.7], [3.0, 1.5]])


def test_numbers_of_a_mat_file_are_those_of_the_formula(tmp_path):
    A, B, _, _ = FORMULA.matrices(POINTS.points)
    savemat(tmp_path / "plant.mat", {"A": A, "B": B})
    read = loadmat(tmp_path / "plant.mat")
    options = {"Q": np.eye(2), "R": [[1.0]], "C": [[1.0, 0.0]]}
    listed = points_family(POINTS, read["A"], read["B"], **options)
    gains = np.array([0.2, 0.4, 0.6, 0.8])
    one, other = (
        ts.evaluate_policies(system, Pi(gains, 0.3 * gains), POINTS, sources=POINTS)
        for system in (FORMULA, listed)
    )
    for name in ("performance", "best_known", "home_performance"):
        assert (one.table[name].values == other.table[name].values).all()
    question = ts.Question(
        "ratio",
        epsilon=0.5,
        also=(ts.Question("floor", measure="disk_margin", epsilon=-0.5),),
    )
    assert (ts.loss(one, question).values == ts.loss(other, question).values).all()
    # Between the points nothing is claimed.
    result = ts.certify(other, ts.Question("ratio", epsilon=0.5), time_limit=5)
    statement = next(c for c in result.certificates if c.name == "continuum cover")
    assert statement.kind == "vacuous"
    assert "known at 4 points only" in statement.why


def test_other_contexts_and_wrong_shapes_are_refused():
    A, B, Q, R = (x for x in FORMULA.matrices(POINTS.points))
    plant = points_family(POINTS, A, B, Q=Q[0], R=R[0])
    with pytest.raises(InvalidInputError, match="4 operating points"):
        plant.matrices(np.array([[1.1, 1.0]]))
    with pytest.raises(InvalidInputError, match="one matrix per point"):
        points_family(POINTS, A[:3], B, Q=Q[0], R=R[0])
    twice = ts.Points(("k",), [[1.0], [1.0]])
    with pytest.raises(InvalidInputError):
        points_family(twice, A[:2], B[:2], Q=Q[0], R=R[0])
