"""Resampled covers: certain ones stay, doubtful ones change, and means are means."""

import numpy as np
import pytest
from scipy import stats

import taskspace as ts
from taskspace.cover.resample import aggregate_runs, resampled_covers
from taskspace.errors import InvalidInputError, UnknownNameError

QUESTION = ts.Question("floor", epsilon=-0.5)


def test_aggregates_are_those_of_scipy():
    scores = np.random.default_rng(0).normal(size=(3, 12, 5))
    mean, middle = (aggregate_runs(scores, how) for how in ("mean", "iqm"))
    np.testing.assert_allclose(mean, scores.mean(1), rtol=1e-12)
    np.testing.assert_allclose(
        middle, stats.trim_mean(scores, 0.25, axis=1), rtol=1e-12
    )
    with pytest.raises(UnknownNameError, match="iqm"):
        aggregate_runs(scores, "median")


def test_one_lucky_run_moves_the_mean_and_not_the_interquartile_mean():
    scores = np.zeros((1, 8, 1))
    scores[0, 0] = 100.0
    assert aggregate_runs(scores, "mean") == 12.5
    assert aggregate_runs(scores, "iqm") == 0.0


def runs(levels, noise, n_runs, seed):
    rng = np.random.default_rng(seed)
    noises = rng.normal(0, noise, (len(levels), n_runs, len(levels[0])))
    return ts.study_from(np.asarray(levels)[:, None, :] + noises)


def test_clear_tables_keep_their_cover_and_doubtful_ones_do_not():
    levels = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    clear = resampled_covers(runs(levels, 0.01, 6, 0), QUESTION, n_resamples=100)
    assert clear.still_serves == clear.same_size == 1.0
    assert clear.selected.tolist() == [1.0, 1.0, 0.0]
    assert "100 %" in clear.statement
    doubtful = [[0.51, 0.0], [0.0, 0.51], [0.0, 0.0]]
    study = runs(doubtful, 0.3, 6, 1)
    found = resampled_covers(study, QUESTION, n_resamples=200, aggregate="iqm")
    assert 0.0 < found.still_serves < 1.0
    again = resampled_covers(study, QUESTION, n_resamples=200, aggregate="iqm")
    assert again.to_dict() == found.to_dict()


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    study = runs([[1.0] * 400], 0.3, 30, 5)
    question = ts.Question("floor", epsilon=5.0)
    found = resampled_covers(study, question, n_resamples=300, confidence=0.9)
    hits = (found.low <= 1.0) & (found.high >= 1.0)
    assert 0.8 <= hits.mean() <= 0.95  # 0.9, less a little for 30 runs


@pytest.mark.parametrize("n_runs", [3, 5, 40])
def test_betting_holds_for_few_runs_where_the_bootstrap_does_not(n_runs):
    """Means of coins: three runs that are alike say little, and a bootstrap nothing."""
    rng = np.random.default_rng(n_runs)
    study = ts.study_from((rng.random((1, n_runs, 250)) < 0.8) * 10.0 - 5)
    question = ts.Question("floor", epsilon=50.0)
    found = resampled_covers(
        study, question, n_resamples=200, bounds=(-5.0, 5.0), confidence=0.9
    )
    assert found.bet is not None
    low, high = found.bet
    assert ((low <= 3.0) & (high >= 3.0)).mean() >= 0.9
    assert (low >= -5).all()
    assert (high <= 5).all()
    boot = ((found.low <= 3.0) & (found.high >= 3.0)).mean()
    if n_runs < 10:
        assert boot < 0.8  # the planted one: what a bootstrap would promise
    else:
        assert (high - low).max() < 6
    mirrored = ts.study_from(-study.table["performance"].values)
    other = resampled_covers(
        mirrored, question, n_resamples=2, bounds=(-5.0, 5.0), confidence=0.9
    )
    assert other.bet is not None
    np.testing.assert_allclose(other.bet, -found.bet[::-1], atol=1e-9)
    with pytest.raises(InvalidInputError, match="within its bounds"):
        resampled_covers(study, question, bounds=(-5.0, 4.0))


def test_betting_holds_for_sources_that_their_own_luck_selected():
    # Coins, of which the cover takes those that fell well ten times of ten.
    misses, n = 0, 0
    for seed in range(5):
        scores = (np.random.default_rng(seed).random((1000, 10, 3)) < 0.5).astype(float)
        found = resampled_covers(
            ts.study_from(scores),
            ts.Question("floor", epsilon=-0.95),
            n_resamples=1,
            bounds=(0.0, 1.0),
        )
        assert found.bet is not None
        low, high = found.bet[:, found.cover.assignment >= 0]
        misses += int(((low > 0.5) | (high < 0.5)).sum())
        n += len(low)
    assert n > 3
    assert misses <= 0.05 * n


def test_one_run_says_nothing_about_chance():
    with pytest.raises(InvalidInputError, match="at least two runs"):
        resampled_covers(ts.study_from(np.eye(3)), QUESTION)
