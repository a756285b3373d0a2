"""Ways past the tracer: plants that are one thing for numbers, another for symbols.

Each plant has a spike, a millionth of the box wide, where the loop is unstable. Each
would hide it from symbols. Nobody may prove anything of such a plant; what cannot be
seen at all is the one assumption that a certificate states.
"""

import contextlib
import functools
import itertools
import json
import math
import numbers
import sys
from decimal import Decimal

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import certify, certify_cover, enclosure_for
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    LinearEnclosure,
    NoEnclosureError,
)
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily
from taskspace.systems.linear.tracing.traced import (
    UntraceableError,
    check_trace,
    trace_matrices,
)

WIDTH = 5e-6
TABLE = {5: 3.0}
NOMINAL = 1.0


def is_in_spike(c) -> bool:
    return abs(c - 5.0) < WIDTH


def except_exception(c):
    try:
        return 3.0 if is_in_spike(c) else NOMINAL
    except Exception:
        return NOMINAL


def except_value_error(c):
    try:
        return TABLE[int(c * 1000) // 1000] if is_in_spike(c) else NOMINAL
    except (ValueError, KeyError):
        return NOMINAL


def except_type_error(c):
    try:
        return TABLE[int(c)] if math.isclose(c, 5.0, abs_tol=WIDTH) else NOMINAL
    except TypeError:
        return NOMINAL


def except_everything(c):
    try:
        return 3.0 if is_in_spike(c) else NOMINAL
    except:  # noqa: E722
        return NOMINAL


def suppress(c):
    with contextlib.suppress(Exception):
        return 3.0 if is_in_spike(c) else NOMINAL
    return NOMINAL


def finally_return(c):
    growth = NOMINAL
    try:
        growth = 3.0 if is_in_spike(c) else NOMINAL
    finally:
        return growth  # noqa: B012


def is_a_float(c):
    return 3.0 if isinstance(c, float) and is_in_spike(c) else NOMINAL


def is_real(c):
    return 3.0 if isinstance(c, numbers.Real) and is_in_spike(c) else NOMINAL


def type_is_float(c):
    return 3.0 if type(c) is float and is_in_spike(c) else NOMINAL


def class_is_float(c):
    return 3.0 if c.__class__ is float and is_in_spike(c) else NOMINAL


def is_scalar(c):
    return 3.0 if np.isscalar(c) and is_in_spike(c) else NOMINAL


def has_attribute(c):
    return 3.0 if hasattr(c, "is_integer") and is_in_spike(c) else NOMINAL


def has_no_method(c):
    return 3.0 if not hasattr(c, "sqrt") and is_in_spike(c) else NOMINAL


def get_attribute(c):
    return 3.0 if getattr(c, "hex", None) and is_in_spike(c) else NOMINAL


def ask_dtype(c):
    array = np.asarray(c)
    return 3.0 if array.dtype == np.float64 and is_in_spike(c) else NOMINAL


def match_float(c):
    match c:
        case float():
            return 3.0 if is_in_spike(c) else NOMINAL
    return NOMINAL


@functools.singledispatch
def dispatched(c):
    return NOMINAL


@dispatched.register
def _(c: float):
    return 3.0 if is_in_spike(c) else NOMINAL


def text(c):
    return 3.0 if str(c) == "5.0" else NOMINAL


def f_string(c):
    return 3.0 if f"{c}" == "5.0" else NOMINAL


def percent(c):
    return 3.0 if "%s" % c == "5.0" else NOMINAL  # noqa: UP031


def representation(c):
    return 3.0 if repr(c) == "5.0" else NOMINAL


def to_json(c):
    try:
        return 3.0 if json.dumps(c) == "5.0" else NOMINAL
    except TypeError:
        return NOMINAL


def series_get(c):
    pandas = pytest.importorskip("pandas")
    return pandas.Series({5.0: 3.0}).get(c, NOMINAL)


def look_up(c):
    try:
        return TABLE[int(c)] if int(c * 2e5) == 1_000_000 else NOMINAL
    except Exception:
        return NOMINAL


def interpolate(c):
    try:
        at = [0.0, 5.0 - WIDTH, 5.0, 5.0 + WIDTH, 10.0]
        return float(np.interp(c, at, [1.0, 1.0, 3.0, 1.0, 1.0]))
    except Exception:
        return NOMINAL


def compiled(c):
    from numba import njit

    @njit
    def spike(x):
        return 3.0 if abs(x - 5.0) < 5e-6 else 1.0

    try:
        return spike(c)
    except Exception:
        return NOMINAL


def list_index(c):
    try:
        return 3.0 if [5.0].index(c) == 0 else NOMINAL
    except ValueError:
        return NOMINAL


def dict_get(c):
    try:
        return {5.0: 3.0}.get(round(c, 5), NOMINAL)
    except Exception:
        return NOMINAL


def solve(c):
    try:
        return NOMINAL + 2.0 * (1e5 * (5.0 - np.linalg.inv([[1 / c]])[0, 0]) ** 2 < 0.1)
    except Exception:
        return NOMINAL


def eigenvalues(c):
    try:
        found = np.linalg.eigvals(np.diag([c, 1.0])).max()
        return 3.0 if abs(found - 5.0) < WIDTH else NOMINAL
    except TypeError:
        return NOMINAL


def is_close(c):
    try:
        return 3.0 if np.isclose(c, 5.0, atol=WIDTH) else NOMINAL
    except TypeError:
        return NOMINAL


def is_nan(c):
    try:
        return NOMINAL if np.isnan(c) else (3.0 if is_in_spike(c) else NOMINAL)
    except TypeError:
        return NOMINAL


def round_array(c):
    try:
        return 3.0 if np.array([c]).round(5)[0] == 5.0 else NOMINAL
    except (TypeError, AttributeError):
        return NOMINAL


WAYS = {
    getattr(way, "__name__"): way  # noqa: B009
    for way in (
        except_exception, except_value_error, except_type_error, except_everything,
        suppress, finally_return, is_a_float, is_real, type_is_float, class_is_float,
        is_scalar, has_attribute, has_no_method, get_attribute, ask_dtype, match_float,
        dispatched, text, f_string, percent, representation, to_json, series_get,
        look_up, interpolate, compiled, list_index, dict_get, solve, eigenvalues,
        is_close, is_nan, round_array,
    )
}  # fmt: skip


def family(growth, **options) -> LinearFamily:
    return LinearFamily(
        [ContextAxis("c", 1.0)],
        A=lambda c: [[growth(c)]],
        B=lambda c: [[1.0]],
        Q=[[1.0]],
        R=[[1.0]],
        **options,
    )


GAIN = LinearGain(np.array([[[[1.0 + math.sqrt(2.0)]]]]))


@pytest.mark.parametrize("name", WAYS)
def test_a_hidden_spike_is_never_proven_away(name):
    plant = family(WAYS[name])
    if name not in ("compiled", "solve"):
        spike = plant.matrices(np.array([[5.0], [4.0]])).A[:, 0, 0]
        np.testing.assert_array_equal(spike, [3.0, NOMINAL])
    with pytest.raises(UntraceableError, match="cannot be followed"):
        trace_matrices(plant)
    with pytest.raises(NoEnclosureError, match="cannot be followed"):
        enclosure_for(plant, GAIN, np.array([[1.0]]), ts.Question("floor", epsilon=0.0))


def counter():
    calls = itertools.count()
    return lambda c: 3.0 if next(calls) > 10**6 else NOMINAL


def caller(c):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "trace_matrices":
            return NOMINAL
        frame = frame.f_back
    return 3.0 if is_in_spike(c) else NOMINAL


def decimal(c):
    try:
        return 3.0 if Decimal(c).quantize(Decimal("1e-5")) == 5 else NOMINAL
    except TypeError:
        return NOMINAL


@pytest.mark.parametrize("growth", [counter(), caller, decimal])
def test_what_cannot_be_seen_is_stated_as_an_assumption(growth):
    """A state, the caller, a type test in compiled code: the certificate says so."""
    bounds = enclosure_for(
        family(growth), GAIN, np.array([[1.0]]), ts.Question("floor", epsilon=0.0)
    )
    assert "depend on the context alone" in bounds.assumption
    cover = certify_cover(bounds, [0], [np.array([0.0, 4.0])], 9.0, axes=["c"])
    assert cover.certificate.holds
    assert bounds.assumption in cover.certificate.why
    assert cover.certificate.values["assumption"] == bounds.assumption
    # Where the spike is at a node, a source or a corner, it is seen nevertheless.
    if growth in (caller, decimal):
        for low, high in ((5.0, 5.0), (5.0, 6.0), (0.0, 5.0)):
            with pytest.raises(UntraceableError, match="formula"):
                bounds.bounds(Boxes(np.array([[low]]), np.array([[high]])))
        with pytest.raises(NoEnclosureError, match="formula"):
            enclosure_for(
                family(growth),
                GAIN,
                np.array([[5.0]]),
                ts.Question("floor", epsilon=0.0),
            )


def test_built_in_plants_need_no_assumption():
    system = ts.systems.ScalarLqr()
    bounds = LinearEnclosure(
        system,
        GAIN,
        np.array([[1.0] * len(system.axes)]),
        ts.Question("floor", epsilon=0.0),
    )
    assert bounds.assumption == ""


def test_contexts_are_drawn_anew_for_every_certificate_and_every_size():
    """A hidden share of the box is found at once by some certificates, by all soon."""

    def hidden(c):
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == "trace_matrices":
                return NOMINAL
            frame = frame.f_back
        return 3.0 if 0.3 < c < 0.32 else NOMINAL

    box = Boxes(np.array([[0.0]]), np.array([[1.0]]))
    drawn = []
    for gain in (2.4, 2.5):
        bounds = LinearEnclosure(
            family(hidden),
            LinearGain(np.full((1, 1, 1, 1), gain)),
            np.ones((1, 1)),
            ts.Question("floor", epsilon=0.0),
        )
        before = set(bounds._family._compared)
        with contextlib.suppress(UntraceableError):
            bounds.bounds(box)
        drawn.append(bounds._family._compared - before)
        many = Boxes(np.zeros((20_000, 1)), np.ones((20_000, 1)))
        with pytest.raises(UntraceableError, match="formula"):
            bounds._family.check(many)
    assert drawn[0] != drawn[1]


def test_a_look_up_with_a_fallback_gives_no_proof():
    """The table says regret = inf at a node: nothing may be called proven there."""
    plant = family(except_value_error)
    space = ts.Grid(c=(0.0, 10.0, 5))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(plant, trainer, space, seed=0).table
    policies = trainer.train(plant, plant.contexts(space), seed=0).policies
    result = certify(
        ts.Study.of(table, system=plant, policies=policies), ts.Question(epsilon=0.05)
    )
    last = result.certificates[-1]
    assert last.kind != "proof"
    assert not last.holds
    assert "cannot be followed" in last.why


# -- numbers that are not double precision --------------------------------------------


def whole_numbers(c):
    a = np.array([[0, 1], [-(10**12), 0]])
    a[1, 1] = -c  # an array of whole numbers: the damping is 0 for c < 1
    return a


def whole_zeros(c):
    a = np.zeros((2, 2), dtype=int)
    a[0, 1], a[1, 0] = 1, -4
    a[1, 1] = -c
    return a


def single_precision(c):
    return np.array([[0, 1], [-4, -c]], dtype=np.float32)


def single_number(c):
    return [[0, 1], [-4.0, -c * np.float32(0.1)]]


def cast(c):
    return np.array([[0, 1], [-4.0, -c]]).astype(int)


def like_whole(c):
    a = np.zeros_like(np.array([[1, 2], [3, 4]]))
    a[1, 1] = -c
    return a


GLOBAL_WHOLE = np.array([[0, 1], [-4, 0]])


def copied(c):
    a = GLOBAL_WHOLE.copy()
    a[1, 1] = -c
    return a


ROUNDED = [
    whole_numbers, whole_zeros, single_precision, single_number, cast, like_whole,
    copied,
]  # fmt: skip


@pytest.mark.parametrize("A", ROUNDED)
def test_rounding_of_other_number_types_is_refused(A):
    plant = LinearFamily(
        [ContextAxis("c", 0.5)],
        A=A,
        B=lambda c: [[0], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    with pytest.raises(UntraceableError, match="cannot be followed"):
        trace_matrices(plant)


def test_no_entry_is_too_small_to_be_compared():
    """The formula's damping is compared beside a stiffness that is 1e12 times it."""

    def tricked(c):
        return [[0, 1], [-1e12, -c if isinstance(c, float) else 0.0]]

    plant = LinearFamily(
        [ContextAxis("c", 0.5)],
        A=tricked,
        B=lambda c: [[0], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    trace = trace_matrices(plant)
    contexts = np.array([[0.3], [0.9]])
    check_trace(trace, plant, contexts)  # an honest plant after all
    for factor in (0.0, 1 + 1e-12, 1 - 1e-13):
        other = LinearFamily(
            [ContextAxis("c", 0.5)],
            A=lambda c, factor=factor: [[0, 1], [-1e12, -c * factor]],
            B=lambda c: [[0], [1.0]],
            Q=np.eye(2),
            R=[[1.0]],
        )
        with pytest.raises(UntraceableError, match=r"A\[1, 1\]"):
            check_trace(trace, other, contexts)


HONEST = {
    "sum of products": lambda c: [[sum([0.1 * c, 0.2 * c, c / 3])]],
    "type test of numbers": lambda c: [[c if isinstance(c, float) else 7.0]],
    "dtype": lambda c: np.zeros((1, 1), np.asarray(c).dtype) + c,
    "in place": lambda c: np.add(np.eye(1), c, out=np.zeros((1, 1))),
    "whole numbers": lambda c: np.array([[2]]) @ np.array([[3]]) * c,
    "constants solved": lambda c: np.linalg.inv(np.array([[4.0]])) * c,
    "cancelling": lambda c: [[(c + 1e8) - 1e8 - c * c + c**2]],
    "matrix product": lambda c: np.array([[0.6, 0.8]]) @ np.diag([c, 1]) @ [[0.6], [1]],
    "power": lambda c: [[c**7.5 + c**-3 + 2.0**c + np.power(c, 3)]],
    "deep copy": lambda c: __import__("copy").deepcopy([[c]]),
    "try without need": lambda c: [[except_nothing(c)]],
}


def except_nothing(c):
    try:
        return c / 3
    except ZeroDivisionError:
        return 0.0


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_is_still_followed(name):
    plant = LinearFamily(
        [ContextAxis("c", 1.0)], HONEST[name], lambda c: [[1.0]], [[1.0]], [[1.0]]
    )
    trace = trace_matrices(plant)
    contexts = np.random.default_rng(0).uniform(0.2, 5.0, (200, 1))
    check_trace(trace, plant, contexts)
