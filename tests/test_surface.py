"""The public functions: wrong arguments get a sentence, results show themselves."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.statements import Bound, Certificate

SPACE = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 4))
SYSTEM = ts.systems.MassSpringDamper()
TRAINER = ts.trainers.Lqr(n_policies=1, noise=0.0)
QUESTION = ts.Question("regret", epsilon=0.5)


@pytest.fixture(scope="module")
def study():
    return ts.evaluate(SYSTEM, TRAINER, SPACE, seed=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: ts.evaluate("msd", TRAINER, SPACE, seed=0), "a system.*str 'msd'"),
        (lambda s: ts.evaluate(SYSTEM, "lqr", SPACE, seed=0), "a trainer.*str 'lqr'"),
        (lambda s: ts.evaluate(SYSTEM, type(TRAINER), SPACE, seed=0), "call it"),
        (lambda s: ts.evaluate(SYSTEM, TRAINER, {"k": 1}, seed=0), "a space.*dict"),
        (lambda s: ts.evaluate_policies(SYSTEM, [1], [2]), "a space.*list"),
        (lambda s: ts.select(SYSTEM, "lqr", SPACE, QUESTION, seed=0), "a trainer"),
        (lambda s: ts.select(SYSTEM, TRAINER, SPACE, 0.1, seed=0), "a question"),
        (lambda s: ts.minimum_cover(s, 0.1), "a question"),
        (lambda s: ts.minimum_cover([[1, 0]]), "tolerance sets.*list"),
        (lambda s: ts.greedy_cover(np.eye(2, dtype=bool)), "sets.pack.*ndarray"),
        (lambda s: ts.smallest_epsilon(s, 2), "a question"),
        (lambda s: ts.smallest_epsilon(np.eye(2), 1, QUESTION), "matrix alone"),
        (lambda s: ts.verify_cover(s, s), "a cover"),
        (lambda s: ts.verify_cover(ts.minimum_cover(unasked(s)), s), "a question"),
    ],
)
def test_wrong_arguments_get_a_sentence(study, call, words):
    with pytest.raises(ts.TaskspaceError, match=words):
        call(study)


def unasked(study):
    """Sets of which nobody knows the question."""
    return ts.sets.pack(QUESTION.losses(study).values <= 0.5)


def test_a_study_and_a_question_go_everywhere(study):
    """Each function gives for a study what it gives for the study's losses."""
    losses = ts.loss(study, QUESTION)
    least, same = (
        ts.smallest_epsilon(study, 3, QUESTION),
        ts.smallest_epsilon(losses, 3),
    )
    assert least.upper == same.upper
    assert least.sources == same.sources
    cover = ts.minimum_cover(study, QUESTION)
    assert ts.verify_cover(cover, study).holds
    gone = np.delete(np.arange(study.n_sources), cover.sources)[0]
    forged = replace(cover, assignment=np.full(study.n_targets, gone))
    assert not ts.verify_cover(forged, study)
    first = ts.design(study, ts.Question(epsilon=2.0), time_limit=5)
    second = ts.design(study, question=ts.Question(epsilon=2.0), time_limit=5)
    assert first.cover.size == second.cover.size


def test_results_show_themselves_in_a_few_lines(study):
    """No arrays, and the numbers that matter."""
    cover = ts.minimum_cover(study, QUESTION)
    assert f"{cover.size} of 16 sources" in repr(cover)
    assert repr(cover).count("proven optimal") == 1
    proofs = ts.certify(study, QUESTION, time_limit=2)
    assert [c.name for c in proofs] == [c.name for c in proofs.certificates]
    for certificate in proofs:
        assert certificate.why in repr(proofs)
    assert "<table" in proofs._repr_html_()
    least = ts.smallest_epsilon(study, 3, QUESTION)
    assert str(least.upper) in repr(least)
    assert "can serve every target: proven." in repr(least)
    selection = ts.select(SYSTEM, TRAINER, SPACE, QUESTION, seed=0)
    assert f"{selection.trainings} trainings" in repr(selection)
    verified = ts.verify_cover(cover, study)
    assert verified.proven[0] in repr(verified)
    for value in (cover, proofs, least, selection, verified):
        assert "array(" not in repr(value)


@pytest.mark.parametrize("value", [9.0, 6.0003, 1234567.8, 0.99999999, 2 / 3])
def test_a_bound_in_words_holds(value):
    """Text has few digits, rounded to the side on which the bound holds."""
    low, high = (
        Certificate("x", True, "proof", "y.", bounds=(Bound(s, value, "box", "any"),))
        for s in ("lower", "upper")
    )
    assert float(str(low).split("at least ")[1].split(". ")[0]) <= value
    assert float(str(high).split("at most ")[1].split(". ")[0]) >= value
