"""Rules for new targets: right where features decide, else as good as one source."""

import itertools

import numpy as np
import pytest

from taskspace.cover.rules import RULES, _best_split, judge_rules
from taskspace.errors import InvalidInputError, UnknownNameError


def decided(n_targets, seed):
    """Three sources, each right in a third of the first feature, whatever the other."""
    rng = np.random.default_rng(seed)
    features = rng.random((n_targets, 2))
    right = np.minimum((features[:, 0] * 3).astype(int), 2)
    losses = np.where(np.arange(3)[:, None] == right, 0.0, 1.0)
    return losses, features


def test_where_features_decide_rules_find_the_source():
    losses, features = decided(300, 0)
    for trial in judge_rules(losses, features, [0, 1, 2], epsilon=0.1):
        assert trial.served_by_best == 1.0
        assert trial.served_by_one < 0.5
        assert trial.served > 0.9, trial
        assert trial.mean_regret == pytest.approx(1 - trial.served)
        assert trial.served_bound <= 1.0


@pytest.mark.parametrize("rule", RULES)
def test_features_that_say_nothing_give_no_better_than_one_source(rule):
    rng = np.random.default_rng(1)
    losses = (rng.random((3, 200)) < 0.5).astype(float)
    trial = judge_rules(
        losses, rng.random((200, 2)), [0, 1, 2], epsilon=0.1, rules=[rule]
    )
    assert abs(trial[0].served - 0.5) < 0.15


@pytest.mark.parametrize("rule", RULES)
def test_units_of_features_do_not_matter(rule):
    losses, features = decided(60, 2)
    scaled = features * [1e-6, 1e9] + [3.0, -7.0]
    pair = [
        judge_rules(losses, f, [0, 1, 2], epsilon=0.1, rules=[rule])
        for f in (features, scaled)
    ]
    assert pair[0] == pair[1]


@pytest.mark.parametrize("seed", range(10))
def test_a_split_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    losses, features = rng.random((3, 12)), rng.integers(0, 5, (12, 2)).astype(float)
    split = _best_split(losses, features)
    totals = {
        (axis, cut): losses[:, left].sum(1).min() + losses[:, ~left].sum(1).min()
        for axis, cut in itertools.product(range(2), np.arange(0.5, 5))
        if 0 < (left := features[:, axis] <= cut).sum() < 12
    }
    assert split is not None
    axis, cut = split
    left = features[:, axis] <= cut
    found = losses[:, left].sum(1).min() + losses[:, ~left].sum(1).min()
    assert found == pytest.approx(min(totals.values()))


def test_the_bound_holds_as_often_as_it_says():
    misses = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        served = rng.random((1, 60)) < 0.8  # one source: every rule names it
        losses = np.where(served, 0.0, 1.0)
        trial = judge_rules(
            losses,
            rng.random((60, 1)),
            [0],
            epsilon=0.5,
            rules=["nearest"],
            confidence=0.9,
        )
        misses += trial[0].served_bound > 0.8
    assert misses / 200 <= 0.15  # at most 0.1, and the luck of 200 repetitions


def test_what_is_no_problem_for_rules_is_refused_in_words():
    losses, features = decided(8, 3)
    with pytest.raises(InvalidInputError, match="one row for each"):
        judge_rules(losses, features[:5], [0], epsilon=0.1)
    with pytest.raises(InvalidInputError, match="finite"):
        judge_rules(np.full((2, 8), np.inf), features, [0], epsilon=0.1)
    with pytest.raises(UnknownNameError, match="tree"):
        judge_rules(losses, features, [0], epsilon=0.1, rules=["tre"])
