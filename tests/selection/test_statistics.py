"""Summaries over seeds against SciPy's own tests and known laws."""

import numpy as np
import pytest
from scipy import stats

from taskspace.errors import InvalidInputError
from taskspace.selection.statistics import probability_of_improvement, summarise


def test_the_middle_half_of_eight(rng):
    values = rng.permutation([-1e9, -5.0, 1.0, 2.0, 3.0, 6.0, 8.0, 1e9])
    assert summarise(values).interquartile_mean == pytest.approx(3.0)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Symmetric law, so the interquartile mean of the law is its centre."""
    inside = 0
    for seed in range(100):
        values = np.random.default_rng(seed).normal(5.0, 2.0, 30)
        found = summarise(values, level=0.9, seed=seed)
        assert found.low <= found.interquartile_mean <= found.high
        inside += found.low <= 5.0 <= found.high
    # Binomial(100, 0.9), four standard deviations; the percentile interval is narrow.
    assert 76 <= inside <= 100


def test_improvement_is_mann_whitneys_statistic(rng):
    ours, theirs = rng.integers(0, 9, 12), rng.integers(2, 9, 15)
    expected = stats.mannwhitneyu(theirs, ours).statistic / (12 * 15)
    assert probability_of_improvement(ours, theirs) == pytest.approx(expected)
    both = probability_of_improvement(ours, theirs)
    assert both + probability_of_improvement(theirs, ours) == pytest.approx(1)


def test_one_seed_equal_seeds_and_no_numbers():
    one = summarise([3.0])
    assert (one.n, one.low, one.high) == (1, 3.0, 3.0)
    assert summarise([2.0, 2.0, 2.0]).high == 2.0
    with pytest.raises(InvalidInputError, match="finite"):
        summarise([1.0, np.inf])
