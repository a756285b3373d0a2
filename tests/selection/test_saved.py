"""What a selection saved: rivals, oracle and bound from the full table."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.selection import SELECTORS
from taskspace.selection.compare import replay
from taskspace.selection.selecting import new_selection_ledger
from taskspace.show.figures.history import (
    draw_selection,
    save_selection,
    selection_plot,
)
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
    assert result.saved.minimum == (5, 5)
    assert result.saved.n_candidates == 21
    assert result.saved.environment_steps == 210
    assert result.saved.evaluations == 21 * 21
    greedy = ts.greedy_cover(QUESTION.sets(table))
    assert len(result.saved.greedy) == greedy.size
    assert ts.select(Line(), Copy(), LINE, QUESTION, seed=0).lower_bound_trainings == 1


@pytest.mark.parametrize("name", ["uniform", "mbtl", "coverage", "farthest", "random"])
def test_a_replay_is_the_selection_that_it_stands_for(table, name):
    real = ts.select(Line(), Copy(steps=10), LINE, QUESTION, seed=3, selector=name)
    ledger = new_selection_ledger(Line(), Copy(), LINE, LINE, QUESTION, seed=0)
    rows = replay(SELECTORS[name](LINE, 3), ledger, QUESTION, table, n_steps=21)
    assert rows == real.table["source_x0"].values.tolist()


def test_rivals_cost_what_they_train(table):
    result = ts.select(Line(), Copy(steps=10), LINE, QUESTION, seed=0, full_table=table)
    assert [rival.name for rival in result.saved.rivals] == [
        "uniform",
        "mbtl",
        "random",
    ]
    for rival in result.saved.rivals[:2]:
        real = ts.select(
            Line(), Copy(steps=10), LINE, QUESTION, seed=0, selector=rival.name
        )
        assert list(rival.coverage) == [e["coverage"] for e in real.history]
        assert list(rival.evaluations) == [e["evaluations"] for e in real.history]
        steps = [e["environment_steps"] for e in real.history]
        assert list(rival.environment_steps) == steps
        assert rival.trainings == real.trainings >= result.lower_bound_trainings
    random = result.saved.rivals[2]
    # The mean of one random source: 21 sources, 5 targets each but at the ends.
    assert random.coverage[0] == pytest.approx((17 * 5 + 2 * 4 + 2 * 3) / 21 / 21, 0.1)


def test_a_bound_is_claimed_only_where_it_holds(table):
    """Blends and other policies are outside of the table, its reference is not."""
    blends = ts.select(
        Line(),
        Copy(),
        LINE,
        ts.Question("regret", epsilon=1.0),
        seed=0,
        selector="interpolated",
        full_table=table,
    )
    assert blends.trainings < blends.saved.minimum[0]  # no contradiction is claimed
    assert blends.lower_bound_trainings == 1
    assert "without a training" in blends.saved.why_no_bound
    others = ts.evaluate(Line(scale=3.0), Copy(), LINE, seed=0).table
    odd = ts.select(Line(), Copy(), LINE, QUESTION, seed=0, full_table=others)
    assert odd.lower_bound_trainings == 1 < odd.saved.minimum[0]
    assert "others" in odd.saved.why_no_bound
    hidden = Line(optimum_known=False)
    best = ts.select(
        hidden, Copy(), LINE, QUESTION, seed=0, full_table=table, patience=1
    )
    # Both are judged by the reference of the table, so its bound holds for both.
    assert best.reference == "optimum of all candidates"
    assert best.saved.why_no_bound == ""
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
    limited = ts.select(
        Short(), Copy(), LINE, QUESTION, seed=0, reference=0.0, full_table=whole
    )
    assert ts.minimum_cover(QUESTION.sets(whole)).size == 5
    assert limited.lower_bound_trainings == 7 <= limited.trainings  # 3 targets each


def test_a_table_of_something_else_is_refused(table):
    for space, targets, what in (
        (ts.Grid(x0=(0.0, 20.0, 11)), ts.Grid(x0=(0.0, 20.0, 11)), "targets"),
        (ts.Grid(x0=(0.0, 20.0, 41)), LINE, "candidates"),
    ):
        with pytest.raises(InvalidInputError, match=what):
            ts.select(
                Line(),
                Copy(),
                space,
                QUESTION,
                seed=0,
                targets=targets,
                full_table=table,
                budget=0,
            )
    # Fewer candidates than the table has are bounded by their own rows.
    some = ts.Grid(x0=(0.0, 20.0, 6))
    few = ts.select(
        Line(), Copy(), some, QUESTION, seed=0, targets=LINE, full_table=table
    )
    assert few.saved.n_candidates == 6
    assert few.lower_bound_trainings == few.trainings == 6


def test_the_picture_shows_the_record(table, tmp_path):
    result = ts.select(Line(), Copy(steps=10), LINE, QUESTION, seed=0, full_table=table)
    plot = selection_plot(result)
    assert plot.own.coverage == tuple(e["coverage"] for e in result.history)
    assert plot.greedy[-1] == plot.own.coverage[-1] == 1.0
    assert plot.lower_bound == 5
    panels = draw_selection(plot).axes
    assert [axes.get_xlabel() for axes in panels] == [
        "trainings",
        "environment steps",
        "evaluations of a policy at a target",
    ]
    labels = [text.get_text() for text in panels[0].get_legend().get_texts()]
    assert f"coverage: {result.trainings} trainings" in labels
    assert "no selector needs fewer than 5" in labels
    for line in panels[0].lines:
        if line.get_label() == f"coverage: {result.trainings} trainings":
            np.testing.assert_array_equal(line.get_xdata(), plot.own.trainings)
            np.testing.assert_array_equal(line.get_ydata(), plot.own.coverage)
    alone = selection_plot(ts.select(Line(), Copy(), LINE, QUESTION, seed=0))
    assert len(draw_selection(alone).axes) == 2  # no steps were simulated
    files = save_selection(plot, tmp_path)
    assert {file.name for file in files} == {"selection.png", "selection.pdf"}
