"""Covers, curves and profiles in a notebook: lines, tables, data frames."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.cover import complexity_profile, coverage_curve
from taskspace.questions import Question
from taskspace.sets import pack
from taskspace.systems import PythonPolicies
from tests.certificates.test_fresh_samples import Memory

LOSS = np.array([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 5.0, 9.0], [3.0, 3.0, 0.0, 9.0]])


def test_a_cover_has_one_row_a_target():
    cover = ts.greedy_cover(pack(LOSS <= 1.0))
    frame = cover.to_frame()
    assert frame["target"].tolist() == [0, 1, 2, 3]
    served = frame["source"].fillna(-1).to_numpy(np.int64)
    np.testing.assert_array_equal(served, cover.assignment)
    assert frame["source"].isna().tolist() == [False, False, False, True]
    text = repr(cover)
    assert "2 of 3 sources serve 75 % of 4 targets" in text
    assert "served by no source: 3" in text
    assert len(text.splitlines()) == 4
    assert "2 of 3 sources" in cover._repr_html_()


def test_a_large_cover_stays_short():
    cover = ts.greedy_cover(pack(np.eye(1000, dtype=bool)))
    assert "and 988 more" in repr(cover)
    assert len(repr(cover)) < 500
    assert len(cover._repr_html_()) < 5000


def test_a_curve_says_how_many_sources_a_share_needs():
    curve = coverage_curve(pack(np.eye(10, dtype=bool)))
    assert "50 % of the targets: 5 sources" in repr(curve)
    assert "100 % of the targets: 10 sources" in repr(curve)
    frame = curve.to_frame()
    np.testing.assert_array_equal(frame["coverage"], np.arange(1, 11) / 10)
    assert list(frame) == ["n_sources", "coverage", "low", "high"]
    assert "<table" in curve._repr_html_()
    empty = coverage_curve(pack(np.zeros((2, 3), bool)))
    assert len(empty.to_frame()) == 0
    assert repr(empty).startswith("CoverageCurve by greedy")


def test_a_profile_is_a_list_with_a_table():
    profile = complexity_profile(LOSS[:, :3], epsilons=[0.0, 1.0, 5.0])
    assert profile == list(profile)
    frame = profile.to_frame()
    assert frame["epsilon"].tolist() == [0.0, 1.0, 5.0]
    assert frame["upper"].tolist() == [3, 2, 1]
    assert "3 proven" in repr(profile)
    assert "<table" in profile._repr_html_()
    # A tolerance at which a target has no source has no sizes.
    none = complexity_profile(LOSS, epsilons=[1.0]).to_frame()
    assert none["upper"].isna().tolist() == [True]
    assert none["n_uncoverable"].tolist() == [1]
    assert "0 proven" in repr(complexity_profile(LOSS, epsilons=[1.0]))


def test_an_answer_names_its_sources_and_hides_no_markup():
    names = ["<b>one</b>", "two", "three"]
    table = ts.performance.table_from_matrix(-LOSS[:, :3]).assign_coords(source=names)
    question = Question("regret", epsilon=1.0)
    answer = ts.greedy_cover(question.sets(table)).about(table)
    frame = answer.to_frame("source")
    assert frame["name"].tolist() == [names[s] for s in answer.sources]
    assert sum(frame["n_served"].tolist()) == 3
    assert question.statement in repr(answer)
    assert "<b>" not in answer._repr_html_()
    assert "&lt;b&gt;one" in answer._repr_html_()


def test_contexts_of_an_answer_are_columns():
    space = ts.Grid(n_served=[1.0, 2.0, 3.0])
    table = ts.performance.table_from_matrix(-LOSS[:, :3], sources=space, targets=space)
    question = Question("regret", epsilon=1.0)
    answer = ts.greedy_cover(question.sets(table)).about(table)
    frame = answer.to_frame("source")
    np.testing.assert_array_equal(frame["context n_served"], frame["source"] + 1.0)


def test_a_cover_of_a_study_says_what_its_numbers_rest_on():
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 4))
    exact = ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
    given = ts.study_from(LOSS, lower_is_better=True, home=[0, 0, 0])
    assert given.table["performance"].values[0, 0].tolist() == [0, -1, -2, -9]
    assert given.table["home_performance"].values.ravel().tolist() == [0, 0, 0]
    for method in (ts.minimum_cover, ts.greedy_cover):
        assert "given table" not in str(method(exact, "regret <= 0.5"))
        assert "on the given table" in str(method(given, "regret <= 1"))
        measured = str(method(exact, "regret <= 0.5 with k=5 %"))
        assert "No target has another within the error (k ± 5 %)" in measured


@pytest.mark.parametrize(
    ("question", "said"),
    [("score >= 1.5", "No policy can reach"), ("score >= 0", "Every policy reaches")],
)
def test_a_level_that_no_return_decides_is_said(question, said):
    system, policies = Memory(), PythonPolicies([[range(4)]])
    space = ts.Points(["x"], np.zeros((1, 1)))
    study = ts.evaluate_policies(system, policies, space, sources=space)
    assert said in str(ts.minimum_cover(study, question))
    assert "Note" not in str(ts.minimum_cover(study, "score >= 0.5"))
