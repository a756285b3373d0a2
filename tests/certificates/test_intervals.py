from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from taskspace.certificates.boxes import msd_bounds as iv
from taskspace.errors import InvalidInputError

numbers = st.floats(-1e15, 1e15, allow_nan=False)
pairs = st.tuples(numbers, numbers).map(lambda p: (min(p), max(p)))
shares = st.fractions(0, 1, max_denominator=97)


def inside(pair, share):
    low, high = map(Fraction, pair)
    return low + share * (high - low)


def contains(pair, exact):
    return Fraction(pair[0]) <= exact <= Fraction(pair[1])


@given(numbers)
def test_up_and_down_pass_the_neighbouring_float(x):
    assert iv.up(x) >= np.nextafter(x, np.inf)
    assert iv.down(x) <= np.nextafter(x, -np.inf)


@given(pairs, pairs, shares, shares)
def test_operations_contain_every_exact_result(x, y, s, t):
    a, b = inside(x, s), inside(y, t)
    assert contains(iv.add(x, y), a + b)
    assert contains(iv.sub(x, y), a - b)
    assert contains(iv.mul(x, y), a * b)
    assert contains(iv.sqr(x), a * a)
    assert iv.sqr(x)[0] >= 0


@given(pairs, st.tuples(*[st.floats(1e-15, 1e15)] * 2), shares, shares)
def test_quotients_and_roots_contain_the_exact_result(x, y, s, t):
    y = (min(y), max(y))
    a, b = inside(x, s), inside(y, t)
    assert contains(iv.div(x, y), a / b)
    low, high = iv.root(y)
    assert Fraction(low) ** 2 <= b <= Fraction(high) ** 2


@given(pairs, pairs)
def test_a_wider_argument_never_gives_a_narrower_result(x, y):
    wide = (min(x[0], y[0]), max(x[1], y[1]))
    for operation in (iv.sqr, lambda z: iv.mul(z, y), lambda z: iv.add(z, y)):
        narrow, broad = operation(x), operation(wide)
        assert broad[0] <= narrow[0]
        assert narrow[1] <= broad[1]


@given(st.floats(-1e15, 1e15), st.floats(-1e15, 1e15))
def test_a_float_sum_has_the_sign_of_the_exact_sum(x, y):
    # What the test of stability rests on.
    assume(x + y != 0 or Fraction(x) + Fraction(y) == 0)
    exact = Fraction(x) + Fraction(y)
    assert (x + y > 0) == (exact > 0)
    assert (x + y < 0) == (exact < 0)


def test_magnitudes_are_checked():
    iv.check_magnitude("k", [0.0, 1e15])
    with pytest.raises(InvalidInputError, match="k <= 1e\\+15"):
        iv.check_magnitude("k", [1e16])
    with pytest.raises(InvalidInputError, match="1e-15 <= m"):
        iv.check_magnitude("m", [0.0], positive=True)
    with pytest.raises(InvalidInputError):
        iv.check_magnitude("k", [np.nan])
