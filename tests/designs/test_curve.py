"""Loss against the number of gains, against the closed form of the scalar family."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.designs import CURVE, DESIGNED, DesignCurve, design_curve
from taskspace.errors import InvalidInputError
from taskspace.show.page.subject import Subject

from .test_bound import stabbing_number

SPACE = ts.Grid(b=(0.1, 1.0, 25))
RATIO = ts.Question("ratio", epsilon=0.0)


@pytest.fixture(scope="module")
def curve() -> DesignCurve:
    return design_curve(ts.systems.ScalarLqr(), SPACE, RATIO, most=3, time_limit=6)


def test_the_least_loss_of_k_gains_lies_between_bound_and_design(curve):
    b = SPACE.points[:, 0]
    assert [point.k for point in curve.points] == [1, 2, 3]
    for point in curve.points:
        assert stabbing_number(b, point.lower) > point.k
        assert stabbing_number(b, point.designed * (1 + 1e-9)) <= point.k
        assert point.designed <= point.candidates
        assert point.lower > 0.8 * point.designed
        # A bound above what was designed would be found here.
        assert stabbing_number(b, 1.05 * point.designed) <= point.k


def test_sentences_round_to_the_side_on_which_they_are_true(curve):
    for point, said in zip(curve.points, curve.sentences, strict=True):
        shares = [float(word) / 100 for word in said.split() if word[:1].isdigit()
                  and "." in word]  # fmt: skip
        at_most, candidates, at_least = shares
        assert at_most >= point.designed
        assert candidates >= point.candidates
        assert at_least <= point.lower
        np.testing.assert_allclose(shares, [*curve_losses(point)], rtol=2e-3)


def curve_losses(point) -> tuple[float, float, float]:
    """The numbers of a sentence, in its order."""
    return point.designed, point.candidates, point.lower


def test_the_study_has_the_curve_and_the_page_shows_it(curve):
    record = json.loads(json.dumps(curve.study.table.attrs[CURVE]))
    assert [p["k"] for p in record["points"]] == [1, 2, 3]
    kinds = curve.study.table["source_kind"].values.tolist()
    assert kinds.count(DESIGNED) == 6
    page = Subject.of(curve.study).collect([RATIO.at(0.3)], time_limit=1.0)
    assert page.header["design"]["sentences"] == curve.sentences
    assert page.header["sources"]["kinds"] == kinds


def test_a_curve_needs_a_number():
    with pytest.raises(InvalidInputError, match="most >= 1"):
        design_curve(ts.systems.ScalarLqr(), SPACE, RATIO, most=0)
