"""Cells of computed tables that lie within rounding of the bound are counted."""

import numpy as np
import pytest

import taskspace as ts

CELLS = np.array([[1.0, 0.8, 0.2], [0.7, 1.0, 0.0], [0.1, 0.3, 1.0]])


def note(cells, epsilon, provenance="computed"):
    table = ts.study_from(cells, provenance=provenance)
    question = ts.Question("regret", epsilon=epsilon)
    cover = ts.minimum_cover(table, question)
    return question.rounding_note(table, cover.sources), cover


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
