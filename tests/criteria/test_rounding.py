"""Cells of computed tables that lie within rounding of the bound are counted."""

import numpy as np
import pytest

import taskspace as ts

CELLS = np.array([[1.0, 0.8, 0.2], [0.7, 1.0, 0.0], [0.1, 0.3, 1.0]])


def note(cells, epsilon, provenance="computed"):
    table = ts.study_from(cells, provenance=provenance)
    question = ts.Question("regret", epsilon=epsilon)
    cover = ts.minimum_cover(table, question)
    said = question.rounding_note(table, cover.sources, is_minimum=True)
    return said, cover


def test_no_cell_near_the_bound_is_no_note():
    assert note(CELLS, 0.25)[0] is None


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_cell_that_could_change_the_answer(shift):
    """0.2 = 1 − 0.8 lies on the bound, give or take the last digit."""
    cells = CELLS.copy()
    cells[0, 1] = np.nextafter(0.8, 0.8 + shift)
    said, cover = note(cells, 0.2)
    assert cover.size in (2, 3)
    assert said == (
        "1 cell lies within rounding of the bound, which could change the answer."
    )


def test_a_cell_that_cannot_change_the_answer():
    """A served cell of a source that is not chosen: sets only shrink."""
    cells = np.array([[1.0, 1.0], [0.8125, 0.0]])
    said, cover = note(cells, 0.1875)
    assert cover.sources.tolist() == [0]
    assert said == (
        "1 cell lies within rounding of the bound, which cannot change the answer."
    )
    cells[1, 0] = np.nextafter(0.8125, 1.0)  # served by a hair: the same
    assert note(cells, 0.1875)[0] == said


@pytest.mark.parametrize("provenance", ["given", "sampled"])
def test_decimals_and_samples_have_no_such_note(provenance):
    assert note(CELLS, 0.2, provenance)[0] is None


def test_units_change_no_note():
    for scale in (1e-9, 1e9):
        said, _ = note(CELLS * scale, 0.2 * scale)
        assert said is not None


def test_only_of_a_minimum_cover_it_is_said_that_nothing_changes():
    """Greedy may choose another source where a set is larger by one target."""
    study = ts.study_from(np.array([[1.0, 1.0], [0.8125, 0.0]]), provenance="computed")
    question = ts.Question("regret <= 0.1875")
    said = question.rounding_note(study, np.array([0]), is_minimum=False)
    assert said is not None
    assert said.endswith("which could change the answer.")


def test_scores_at_home_are_compared_with_themselves():
    space = ts.Grid(k=(0.5, 4.0, 3))
    system = ts.systems.MassSpringDamper()
    study = ts.evaluate(system, ts.trainers.Lqr(), space, seed=0)
    for text in ("regret <= 0", "ratio <= 0 %", "signed <= 0"):
        question = ts.Question(text)
        losses = question.losses(study).values
        assert (np.diagonal(losses) == 0).all()
        assert (losses == 0).sum() == 3
        sources = np.arange(3)
        assert question.rounding_note(study, sources, is_minimum=True) is None
    # Without contexts: the best score of each target, unless two are equal.
    assert note(CELLS, 0.0)[0] is None
    cells = CELLS.copy()
    cells[1, 0] = 1.0
    said = note(cells, 0.0)[0]
    assert said is not None
    assert said.startswith("2 cells lie")
