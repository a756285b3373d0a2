"""Rules for new targets: right where features decide, else as good as one source."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from taskspace._util.betting import LEVELS, good_share_bound, share_bound
from taskspace.cover import minimum_cover
from taskspace.deploy import RULES, SourceRule, judge_rules, make_rule
from taskspace.deploy.rules import _best_split
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.sets import PackedSets

ASSETS = Path(__file__).parents[1] / "assets"


def decided(n_targets, seed):
    """Three sources, each right in a third of the first feature, whatever the other."""
    rng = np.random.default_rng(seed)
    features = rng.random((n_targets, 2))
    right = np.minimum((features[:, 0] * 3).astype(int), 2)
    losses = np.where(np.arange(3)[:, None] == right, 0.0, 1.0)
    return losses, features


def test_where_features_decide_rules_find_the_source():
    losses, features = decided(120, 0)
    for trial in judge_rules(losses, features, [0, 1, 2], epsilon=0.1):
        assert trial.served_by_best == 1.0
        assert trial.served_by_one < 0.5
        assert trial.served > 0.9, trial
        assert trial.mean_regret == pytest.approx(1 - trial.served)
        assert trial.served_bound is not None
        assert 0.5 < trial.served_bound < 1.0


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


REPEATS = 200


def test_the_bound_holds_as_often_as_it_says():
    """Many sources of which each serves a new target with chance 0.8, whatever it is.

    A selection that is chosen with the targets that judge it looks better than that.
    """
    misses, cheats, chosen = 0, 0, 0
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        losses = np.where(rng.random((12, 40)) < 0.8, 0.0, 1.0)
        features = rng.random((40, 1))
        every = losses.sum(axis=1).argmin()  # the best of the table, known by looking
        options = {"epsilon": 0.5, "rules": ["nearest"], "confidence": 0.9}
        (trial,) = judge_rules(losses, features, [0], **options)
        misses += trial.served_bound > 0.8
        every_rule = judge_rules(losses, features, [0], epsilon=0.5, confidence=0.9)
        chosen += max(t.served_bound for t in every_rule) > 0.8
        rest = np.random.default_rng(0).permutation(40)[20:]
        cheats += share_bound(int((losses[every, rest] == 0).sum()), 20, 0.9) > 0.8
    assert misses / REPEATS <= 0.14  # at most 0.1, and the luck of 200 repetitions
    assert chosen / REPEATS <= 0.14
    assert cheats / REPEATS > 0.2


@pytest.mark.parametrize(
    ("threshold", "n_runs", "chances"),
    [(0.7, 5, (0.95, 0.65)), (0.5, 4, (0.9, 0.45)), (0.9, 20, (0.99, 0.87))],
)
@pytest.mark.parametrize("is_binary", [True, False])
def test_few_runs_of_few_tasks_bound_the_share_of_good_ones(
    threshold, n_runs, chances, is_binary
):
    """Half of the tasks are good, the others nearly: most of their runs look good."""
    rng = np.random.default_rng(1)
    share, n_tasks, confidence = 0.5, 30, 0.9
    misses, naive, bounds = 0, 0, []
    for _ in range(REPEATS):
        mean = np.where(rng.random(n_tasks) < share, *chances)
        shape, mean = (n_tasks, n_runs), mean[:, None]
        runs = (rng.random(shape) < mean).astype(float)
        if not is_binary:
            runs = rng.beta(3 * mean, 3 * (1 - mean), shape)
        bounds.append(good_share_bound(runs, threshold, confidence))
        misses += bounds[-1] > share
        passed = int((runs.mean(axis=1) >= threshold).sum())
        naive += share_bound(passed, n_tasks, confidence) > share
    assert misses / REPEATS <= 0.14
    # Who takes a task for good whose runs look good is too optimistic.
    assert naive / REPEATS > 0.2


def test_many_runs_of_many_good_tasks_give_a_bound_near_one():
    assert good_share_bound(np.ones((200, 40)), 0.8, 0.95) > 0.97
    assert good_share_bound(np.zeros((50, 5)), 0.8, 0.95) == 0.0
    few = np.where(np.arange(9) < 6, 1.0, np.nan)[None].repeat(80, 0)
    assert 0.8 < good_share_bound(few, 0.5, 0.95) < 1.0
    for runs, threshold in ((np.full((3, 2), np.nan), 0.5), (np.ones((3, 2)), 0.0)):
        with pytest.raises(InvalidInputError, match="must"):
            good_share_bound(runs, threshold, 0.9)
    assert max(LEVELS) < 0.5


def test_several_runs_are_judged_by_the_share_that_serves():
    losses, features = decided(120, 4)
    runs = np.repeat(losses[:, None], 6, axis=1)
    asked = {"epsilon": 0.1, "run_share": 0.6, "independent_runs": True}
    for trial in judge_rules(runs, features, [0, 1, 2], **asked):
        assert trial.served_bound is None
        assert trial.good_bound is not None
        assert 0.5 < trial.good_bound <= trial.served + 0.1


@pytest.mark.parametrize(("n_runs", "n_sources"), [(20, 1), (12, 6)])
def test_runs_that_targets_share_are_lucky_together(n_runs, n_sources):
    """A run serves every target or none, nearly half of them do: no target is good."""
    misses, naive = 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        losses = np.where(rng.random((n_sources, n_runs, 1)) < 0.49, 0.0, 1.0)
        losses, features = np.repeat(losses, 40, axis=2), rng.random((40, 1))
        asked = {"epsilon": 0.5, "rules": ["nearest"], "confidence": 0.95}
        (trial,) = judge_rules(losses, features, [0], **asked)
        misses += trial.good_bound > 0
        (trial,) = judge_rules(losses, features, [0], **asked, independent_runs=True)
        naive += trial.good_bound > 0
    assert misses / 100 <= 0.1  # at most 0.05, and the luck of 100 repetitions
    assert naive / 100 > 0.1


def test_enough_shared_runs_that_all_serve_give_a_bound():
    losses, features = decided(120, 4)
    runs = np.repeat(losses[:, None], 16, axis=1)
    for trial in judge_rules(runs, features, [0, 1, 2], epsilon=0.1):
        assert trial.good_bound > 0.5


@pytest.mark.parametrize("rule", RULES)
def test_a_saved_rule_chooses_as_before(rule, tmp_path):
    losses, features = decided(40, 5)
    made = make_rule(losses, features, [2, 0, 1], rule, axes=["x", "y"])
    made.save(tmp_path / "rule.json")
    again = SourceRule.load(tmp_path / "rule.json")
    new = np.random.default_rng(0).random((50, 2))
    assert again.choose(new).tolist() == made.choose(new).tolist()
    assert (again.axes, again.sources) == (("x", "y"), (2, 0, 1))
    right = np.minimum((new[:, 0] * 3).astype(int), 2)
    assert (made.choose(new) == right).mean() > 0.8
    if rule == "tree":
        node = json.loads((tmp_path / "rule.json").read_text())["tree"]
        for row, source in zip(new, made.choose(new), strict=True):
            at = node
            while "source" not in at:
                at = at["then" if row[at["feature"]] <= at["at_most"] else "else"]
            assert made.sources[at["source"]] == source
    (tmp_path / "rule.json").write_text('{"format": "taskspace-rule", "version": 1}')
    with pytest.raises(InvalidInputError, match="saved by taskspace"):
        SourceRule.load(tmp_path / "rule.json")
    with pytest.raises(InvalidInputError, match="x, y"):
        made.choose([1.0])


def test_a_rule_of_version_1_chooses_as_it_did():
    rule = SourceRule.load(ASSETS / "rule-v1.json")
    assert rule.choose([[0.1, 0.5], [0.5, 0.5], [0.9, 0.5]]).tolist() == [0, 1, 2]
    assert rule.names == ("2", "0", "1")


def test_the_judged_rule_knows_nothing_of_the_other_half():
    losses, features = decided(60, 6)
    half = np.random.default_rng(0).permutation(60)[:30]
    (trial,) = judge_rules(losses, features, [0], epsilon=0.1, rules=["tree"])
    assert np.array_equal(trial.made.features, features[half])
    cover = minimum_cover(PackedSets.from_bool(losses[:, half] <= 0.1))
    assert trial.made.sources == tuple(cover.sources.tolist())


def test_what_is_no_problem_for_rules_is_refused_in_words():
    losses, features = decided(8, 3)
    with pytest.raises(InvalidInputError, match="one row for each"):
        judge_rules(losses, features[:5], [0], epsilon=0.1)
    with pytest.raises(InvalidInputError, match="finite"):
        judge_rules(np.full((2, 8), np.inf), features, [0], epsilon=0.1)
    with pytest.raises(UnknownNameError, match="tree"):
        judge_rules(losses, features, [0], epsilon=0.1, rules=["tre"])
