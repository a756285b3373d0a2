"""Standard errors of sampled tables: of the scores that a cover rests on, and shown."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import certify
from taskspace.cover import Cover
from taskspace.cover.cover import assigned_errors
from tests.helpers import taskspace

RNG = np.random.default_rng(5)
SCORES = RNG.normal(size=(4, 3, 6))
ERRORS = RNG.uniform(0.1, 1.0, SCORES.shape)
TABLE = ts.performance.table_from_matrix(SCORES, standard_error=ERRORS)


@pytest.mark.parametrize("judge", ["worst", "best"])
def test_errors_are_of_the_policy_that_counts(judge):
    assignment = np.array([2, 0, -1, 3, 2, 0])
    found = assigned_errors(ts.Question(judge=judge, epsilon=0.0), TABLE, assignment)
    assert found is not None
    for target, source in enumerate(assignment):
        if source < 0:
            assert np.isnan(found[target])
            continue
        scores = SCORES[source, :, target].tolist()
        counts = min(scores) if judge == "worst" else max(scores)
        expected = ERRORS[source, scores.index(counts), target]
        assert found[target] == expected


def test_an_answer_and_a_certificate_hold_the_largest():
    question = ts.Question("regret", epsilon=2.0)
    cover = ts.minimum_cover(question.sets(TABLE))
    answer = cover.about(TABLE)
    errors = assigned_errors(question, TABLE, cover.assignment)
    assert errors is not None
    assert answer.standard_error == np.nanmax(errors)
    assert f"standard error up to {answer.standard_error:.4g}" in repr(answer)
    again = Cover.from_dict(answer.to_dict())
    assert again.standard_error == answer.standard_error
    found = certify(TABLE, question, time_limit=5)["grid cover"]
    assert found.kind == "estimate"
    assert "Standard error of its scores: up to" in found.why
    # Nothing is said where nothing is known.
    plain = ts.performance.table_from_matrix(SCORES)
    assert assigned_errors(question, plain, cover.assignment) is None
    answer = cover.about(plain)
    assert answer.standard_error is None
    assert "standard_error" not in answer.to_dict()
    assert (
        "Standard error"
        not in certify(plain, question, time_limit=5).certificates[0].why
    )


def test_a_matrix_may_bring_its_own(tmp_path):
    file = tmp_path / "arrays.npz"
    np.savez(
        file,
        performance=[[10.0, 5.0], [9.0, 8.0]],
        standard_error=[[0.5, 0.7], [0.4, 0.9]],
    )
    done = taskspace("cover", file, "--ask", "regret <= 1.5")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "on the estimated table" in said
    assert "standard error up to 0.9" in said
    done = taskspace("cover", file, "--ask", "regret <= 1.5", "--format", "json")
    assert json.loads(done.stdout)["standard_error"] == 0.9
