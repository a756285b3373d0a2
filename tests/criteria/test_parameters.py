"""Criteria with parameters: a floor under costs."""

import json
import tomllib

import numpy as np
import pytest

import taskspace as ts
from taskspace.criteria import CRITERIA, criterion_named
from taskspace.criteria.ratio import Ratio
from taskspace.errors import InvalidInputError, UnknownNameError

COSTS = np.array([[0.0, 3.0, 100.0], [0.05, 1.0, 130.0], [0.4, 1.4, np.inf]])


@pytest.fixture
def study():
    return ts.study_from(-COSTS)


def test_costs_below_a_floor_are_alike(study):
    question = ts.Question("ratio:floor=0.1", epsilon=0.5)
    low = np.maximum(COSTS, 0.1)
    expected = low / low.min(0) - 1
    np.testing.assert_allclose(question.losses(study), expected, rtol=1e-12)


def test_a_best_cost_of_nothing_is_refused_with_the_floor_named(study):
    with pytest.raises(InvalidInputError, match=r"ratio:floor=0\.1"):
        ts.Question("ratio", epsilon=0.5).losses(study)


def test_the_loss_falls_in_performance_and_rises_in_the_reference():
    rng = np.random.default_rng(0)
    performance, reference = (-0.1 - rng.exponential(size=500) for _ in range(2))
    rule = Ratio(0.3)
    loss = rule.loss(performance, reference)
    assert (rule.loss(performance - 0.1, reference) >= loss).all()
    assert (rule.loss(performance, reference + 0.05) >= loss).all()


@pytest.mark.parametrize("rule", [Ratio(0.1), Ratio(1 / 3), Ratio()])
def test_parameters_travel_with_the_question(rule):
    question = ts.Question(rule, epsilon=0.5)
    assert question.rule == rule
    assert criterion_named(question.criterion) == rule
    record = question.to_dict()
    assert ts.Question.from_dict(json.loads(json.dumps(record))) == question
    text = f'criterion = "{record["criterion"]}"'
    assert criterion_named(tomllib.loads(text)["criterion"]) == rule
    assert all(criterion_named(name).text == name for name in CRITERIA)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("ratio:flor=1", UnknownNameError, "floor"),
        ("ratio:floor=x", InvalidInputError, "must be a number"),
        ("ratio:floor=-1", InvalidInputError, "floor >= 0"),
        ("ratio:floor=inf", InvalidInputError, "floor >= 0"),
        ("rato:floor=1", UnknownNameError, "ratio"),
        ("regret:floor=1", UnknownNameError, "parameter"),
    ],
)
def test_unknown_parameters_are_refused_in_words(text, error, words):
    with pytest.raises(error, match=words):
        ts.Question(text, epsilon=0.1)


def test_scores_are_no_costs():
    with pytest.raises(InvalidInputError, match="lower_is_better"):
        ts.Question("ratio", epsilon=0.1).losses(ts.study_from(np.eye(2) + 1))


def test_no_bound_over_boxes_forgets_a_parameter():
    assert not Ratio(0.1).has_box_bounds
    assert Ratio().has_box_bounds
