"""What plain floating point says of a measure is no proof (ATTACKS A7)."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily

N = 4
CHAIN = np.eye(N, k=1)
rng = np.random.default_rng(0)
T = np.tril(rng.integers(-2, 3, (N, N)), -1) + np.eye(N)
T = T @ (np.triu(rng.integers(-2, 3, (N, N)), 1) + np.eye(N))  # integer, determinant 1
JORDAN = T @ CHAIN @ np.round(np.linalg.inv(T))


def jordan():
    """A = T J T⁻¹ − k I with one Jordan chain: the rate is k, exactly."""
    assert np.array_equal(np.linalg.matrix_power(JORDAN, N), np.zeros((N, N)))
    return LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: (JORDAN - k * np.eye(N)).tolist(),
        B=np.ones((N, 1)),
        Q=np.eye(N),
        R=[[1.0]],
    )


def study():
    gain = [np.zeros((1, N))]
    return ts.evaluate_policies(jordan(), gain, ts.Grid(k=(0.5, 1.0, 3)))


def test_the_table_of_a_rate_is_off_and_called_an_estimate():
    known = study()
    rate = -ts.loss(known, "decay_rate").values[0]
    assert (rate != [0.5, 0.75, 1.0]).any()  # plain eigenvalues miss a Jordan chain
    assert known.provenance == "exact"
    question = ts.Question("decay_rate >= 0.5")
    assert question.provenance_of(known) == "computed"
    assert ts.certify(known, question, time_limit=3)["grid cover"].kind == "estimate"
    library = ts.library(known, ts.minimum_cover(known, "decay_rate >= 0.4"))
    assert library.guarantee.kind == "estimate"
    assert library.select({"k": 1.0}).status.name != "GUARANTEED"


@pytest.mark.parametrize("level", [0.3, 0.4])
def test_a_proof_of_a_level_is_by_boxes(level):
    result = ts.certify(study(), f"decay_rate >= {level}", time_limit=10)
    assert result["continuum cover"].kind == "proof"
    assert result["continuum cover"].holds
