"""Every criterion keeps its promises, and one that does not is found out."""

from fractions import Fraction

import numpy as np
import pytest

import taskspace as ts
from taskspace.criteria import (
    CRITERIA,
    Criterion,
    Level,
    Ratio,
    Regret,
    criterion,
)
from taskspace.errors import InvalidInputError
from taskspace.testing import check_criterion

RULES = [
    *CRITERIA.values(),
    Ratio(floor=0.3),
    Ratio(zero=0.0),
    Ratio(zero=-2.5),
    Level("score"),
    Level("cost"),
    Level("disk_margin"),
    Level("hinf"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_ours_keep_their_promises(rule):
    check_criterion(rule)


FLOORS = np.array([0.5, 1.0, 2.0] * 20)


class Relative(Criterion):
    """(best − J) / max(best, floor of the target): a floor for each target."""

    reference = "best known"
    is_relative = True

    def loss(self, scores, reference):
        with np.errstate(invalid="ignore"):
            loss = (reference - scores) / np.maximum(reference, FLOORS)
        return np.where(np.isneginf(scores) | np.isnan(reference), np.inf, loss)


@pytest.fixture
def relative():
    """The criterion of ATTACKS C, one class and one decorator."""
    yield criterion("relative", summary="(best − J) / max(best, floor)")(Relative)()
    del CRITERIA["relative"]


def test_a_floor_per_target_is_right_without_more_code(relative):
    """Its threshold was guessed as best − ε before, and a false claim was made."""
    check_criterion(relative, n_targets=len(FLOORS))
    best = np.linspace(0.2, 3.0, len(FLOORS))
    least = relative.threshold(0.25, best)
    np.testing.assert_allclose(least, best - 0.25 * np.maximum(best, FLOORS))
    assert str(ts.Question("relative <= 0.25")) == "relative <= 0.25"
    study = ts.study_from(np.stack([best, best - 0.3]))
    served = ts.Question("relative <= 0.25").sets(study).to_bool()
    np.testing.assert_array_equal(served[1], np.maximum(best, FLOORS) >= 0.3 / 0.25)


class Guessed(Relative):
    def threshold(self, epsilon, reference):
        return reference - epsilon


class Rising(Regret):
    def loss(self, scores, reference):
        return np.where(np.isneginf(scores), np.inf, scores - reference)


class Forgiving(Regret):
    def loss(self, scores, reference):
        return np.minimum(super().loss(scores, reference), 1e3)


class Loose(Regret):
    def enclose(self, scores, reference):
        low, high = super().enclose(scores, reference)
        return low, 0.9 * high


class Doubled(Regret):
    def quotient(self, scores, reference, number):
        return 2 * (reference - scores), number(1.0)


class Mute(Regret):
    name = "nobody"


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        (Guessed(), "threshold"),
        (Rising(), "order"),
        (Forgiving(), "failures"),
        (Loose(), "enclosure"),
        (Doubled(), "decimals"),
        (Mute(), "text"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_broken_promise_is_named(rule, promise):
    with pytest.raises(AssertionError, match=f"^{promise}: "):
        check_criterion(rule, n_targets=len(FLOORS))


def test_what_cannot_be_right_by_default_is_abstract():
    class Empty(Criterion):
        reference = "none"

    with pytest.raises(TypeError, match="abstract"):
        criterion("empty", summary="")(Empty)
    for name in ("regret", "cost", "hinf", "two words"):
        with pytest.raises(InvalidInputError, match="name of a criterion"):
            criterion(name, summary="")(Relative)


def test_thresholds_are_found_to_the_last_bit():
    best = np.array([-3.0, -0.1, -1e9])
    for rule, true in (
        (Regret(), [Fraction(b) - Fraction(0.2) for b in best]),
        (Ratio(), [Fraction(b) * (1 + Fraction(0.2)) for b in best]),
    ):
        least = rule.threshold(0.2, best)
        assert (rule.loss(least, best) <= 0.2).all()
        assert (rule.loss(np.nextafter(least, -np.inf), best) > 0.2).all()
        np.testing.assert_allclose(least, np.array(true, float), rtol=1e-15)
    assert Regret().threshold(0.2, np.array([np.nan]))[0] == np.inf
