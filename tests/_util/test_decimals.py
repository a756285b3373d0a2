"""Bounds in few digits stay bounds."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from taskspace._util.decimals import round_to_side

NUMBERS = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(value=NUMBERS, digits=st.integers(1, 9))
def test_what_is_said_lies_on_the_side_that_is_true(value, digits):
    low, high = (
        Fraction(round_to_side(value, up=up, digits=digits)) for up in (False, True)
    )
    assert low <= Fraction(value) <= high
    step = abs(Fraction(value)) / 10 ** (digits - 1)
    assert high - low <= step


def test_plain_formatting_would_be_on_the_wrong_side():
    value = 0.3116461878864746
    assert float(f"{value:.3g}") > value > float(round_to_side(value, up=False))
    assert round_to_side(float("inf"), up=True) == "inf"
