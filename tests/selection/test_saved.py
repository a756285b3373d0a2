"""How few trainings any selector needs, from the full table."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from tests.selection.worlds import Copy, Line

LINE = ts.Grid(x0=(0.0, 20.0, 21))
QUESTION = ts.Question("regret", epsilon=2.0)


@pytest.fixture(scope="module")
def table():
    return ts.evaluate(Line(), Copy(steps=10), LINE, seed=0).table


def test_the_lower_bound_is_that_of_the_full_table(table):
    result = ts.select(Line(), Copy(steps=10), LINE, QUESTION, seed=0, full_table=table)
    least = ts.minimum_cover(QUESTION.sets(table)).size  # 21 targets, 5 a source
    assert least == 5
    assert result.lower_bound_trainings == 5 <= result.trainings
    assert result.fewest.size == 5
    assert result.fewest.of == ""
    assert ts.select(Line(), Copy(), LINE, QUESTION, seed=0).lower_bound_trainings == 1


def test_a_bound_is_claimed_only_where_it_holds(table):
    """Other policies are outside of the table, its reference is not."""
    others = ts.evaluate(Line(scale=3.0), Copy(), LINE, seed=0).table
    odd = ts.select(Line(), Copy(), LINE, QUESTION, seed=0, full_table=others)
    assert odd.lower_bound_trainings == 1 < odd.fewest.size
    assert "others" in odd.fewest.why_no_bound
    hidden = Line(optimum_known=False)
    how = {"full_table": table, "patience": 1}
    best = ts.select(hidden, Copy(), LINE, QUESTION, **how)
    # Both are judged by the reference of the table, so its bound holds for both.
    assert best.reference == "optimum of all candidates"
    assert best.fewest.why_no_bound == ""
    assert best.lower_bound_trainings == 5
    assert best.coverage < 1.0


@dataclass(frozen=True)
class Short(Line):
    """No policy comes nearer to the reference than 1."""

    id: ClassVar[str] = "short-v1"

    def performance(self, policies, contexts):
        return Line.performance(self, policies, contexts) - 1.0

    def optimum(self, contexts):
        return None


def test_a_stated_reference_bounds_against_it():
    """The table's own reference is the best of the table; the stated one is 1 above."""
    whole = ts.evaluate(Short(), Copy(), LINE, seed=0).table
    how = {"reference": 0.0, "full_table": whole}
    limited = ts.select(Short(), Copy(), LINE, QUESTION, **how)
    assert ts.minimum_cover(QUESTION.sets(whole)).size == 5
    assert limited.lower_bound_trainings == 7 <= limited.trainings  # 3 targets each


def test_a_table_of_something_else_is_refused(table):
    for space, targets, what in (
        (ts.Grid(x0=(0.0, 20.0, 11)), ts.Grid(x0=(0.0, 20.0, 11)), "targets"),
        (ts.Grid(x0=(0.0, 20.0, 41)), LINE, "candidates"),
    ):
        how = {"targets": targets, "full_table": table}
        with pytest.raises(InvalidInputError, match=what):
            ts.select(Line(), Copy(), space, QUESTION, **how)
    # Fewer candidates than the table has are bounded by their own rows.
    some = ts.Grid(x0=(0.0, 20.0, 6))
    how = {"targets": LINE, "full_table": table}
    few = ts.select(Line(), Copy(), some, QUESTION, **how)
    assert few.lower_bound_trainings == few.trainings == 6


def test_the_picture_shows_the_history(table):
    result = ts.select(Line(), Copy(steps=10), LINE, QUESTION, seed=0, full_table=table)
    panels = ts.show.history(result).axes
    assert [axes.get_xlabel() for axes in panels] == [
        "trainings",
        "environment steps",
        "evaluations of a policy at a target",
    ]
    labels = panels[0].get_legend_handles_labels()[1]
    assert labels == [
        f"coverage: {result.trainings} trainings",
        "no selector needs fewer than 5",
    ]
    names = ("trainings", "environment_steps", "evaluations")
    for axes, name in zip(panels, names, strict=True):
        line = axes.lines[0]
        spent = [entry[name] for entry in result.history]
        np.testing.assert_array_equal(line.get_xdata(), spent)
        shares = [entry["coverage"] for entry in result.history]
        np.testing.assert_array_equal(line.get_ydata(), shares)
    alone = ts.select(Line(), Copy(), LINE, QUESTION, seed=0)
    assert len(ts.show.history(alone).axes) == 2  # no steps were simulated
