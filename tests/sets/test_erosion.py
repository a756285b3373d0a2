"""Windows of measured contexts: erosion and largest losses against brute force."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import TaskspaceError
from taskspace.measured import ErrorBounds, windows_of
from taskspace.performance.table import table_from_matrix

# Whole numbers over 4: no rounding, so that "within" is the same in fractions.
VALUES = st.lists(st.integers(-40, 40), min_size=1, max_size=6, unique=True)
ERRORS = st.sampled_from([0, 1, 5, 11, "12.5%", "50%"])


def is_within(error, name, true, measured) -> bool:
    """The definition, in exact fractions."""
    value = error.get(name, 0)
    reach = Fraction(value) if not isinstance(value, str) else Fraction(value[:-1])
    if isinstance(value, str):
        reach = reach / 100 * abs(Fraction(measured))
    return abs(Fraction(true) - Fraction(measured)) <= reach


def brute_force(error, space, losses):
    """The largest loss of all targets within the error of each, by its definition."""
    worst = np.empty_like(losses)
    for m, measured in enumerate(space.points):
        near = [
            t
            for t, true in enumerate(space.points)
            if all(map(lambda *x: is_within(error, *x), space.names, true, measured))
        ]
        worst[:, m] = losses[:, near].max(1)
    return worst


@settings(max_examples=60, deadline=None)
@given(
    axes=st.lists(VALUES, min_size=1, max_size=3),
    errors=st.tuples(ERRORS, ERRORS, ERRORS),
    scattered=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_windows_are_those_of_the_definition(axes, errors, scattered, seed):
    names = list("abc"[: len(axes)])
    rng = np.random.default_rng(seed)
    grid = ts.Grid(**{n: sorted(v) for n, v in zip(names, axes, strict=True)})
    space = ts.Points(names, rng.permutation(grid.points)) if scattered else grid
    error = dict(zip(names, errors, strict=False))
    losses = rng.integers(0, 9, (5, space.size)).astype(float)
    losses[rng.random(losses.shape) < 0.1] = np.inf
    expected = brute_force(error, space, losses)
    bounds = ErrorBounds.of(error)
    if bounds is None:
        assert np.array_equal(expected, losses)
        return
    windows = windows_of(bounds, space)
    assert np.array_equal(windows.worst(losses), expected)
    for epsilon in (2.0, 7.0):
        served = windows.erode(losses <= epsilon)
        assert np.array_equal(served, expected <= epsilon)


def test_a_question_with_an_error_erodes_and_covers_as_brute_force_does():
    rng = np.random.default_rng(4)
    space = ts.Grid(a=list(range(7)), b=list(range(0, 10, 2)))
    table = ts.Study.of(
        table_from_matrix(-rng.integers(0, 10, (12, space.size)), targets=space)
    )
    question = ts.Question("floor", epsilon=8.0, error={"a": 1, "b": "30%"})
    plain = ts.Question("floor", epsilon=8.0)
    losses = plain.losses(table).values
    expected = brute_force({"a": 1, "b": "30%"}, space, losses)
    assert np.array_equal(question.losses(table).values, expected)
    sets = question.sets(table)
    assert np.array_equal(sets.to_bool(), expected <= 8.0)
    cover = ts.minimum_cover(table, question)
    assert np.array_equal(cover.uncoverable, np.flatnonzero((expected > 8).all(0)))
    assert cover.size >= ts.minimum_cover(table, plain).size
    left = question.assigned_losses(table, cover.assignment)
    assert (left[cover.assignment >= 0] <= 8.0).all()
    # A cover of the exact question says nothing about the measured one.
    exact = ts.minimum_cover(table, plain)
    assert (question.assigned_losses(table, exact.assignment) > 8.0).any()


@pytest.mark.parametrize("step", [0.1, 0.3, 1e-7 / 3, 7e8 / 3])
def test_an_error_of_one_step_reaches_both_neighbours_whatever_the_unit(step):
    space = ts.Grid(a=(0.0, 99 * step, 100), b=[0.0])
    windows = windows_of(ErrorBounds.of({"a": step}), space)
    served = np.ones((1, 100), bool)
    served[0, 50] = False
    assert np.flatnonzero(~windows.erode(served)).tolist() == [49, 50, 51]


def test_error_zero_gives_the_same_bits():
    space = ts.Grid(k=(0.1, 8.0, 9), c=(0.1, 8.0, 9))
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.1)
    study = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)
    for criterion, epsilon in [("regret", 0.2), ("signed", 0.2), ("ratio", 0.05)]:
        plain = ts.Question(criterion, epsilon=epsilon)
        zero = ts.Question(criterion, epsilon=epsilon, error={"k": 0.0, "c": "0%"})
        assert zero == plain
        assert zero.to_dict() == plain.to_dict()
        assert zero.statement == plain.statement
        one, two = (q.losses(study).values.tobytes() for q in (plain, zero))
        assert one == two
        a, b = ts.minimum_cover(study, plain), ts.minimum_cover(study, zero)
        assert np.array_equal(a.assignment, b.assignment)


def test_questions_with_errors_are_plain_values():
    question = ts.Question("ratio", epsilon=0.1, error={"speed": "5%", "mass": 20.0})
    assert ts.Question.from_dict(question.to_dict()) == question
    assert "speed ± 5 %, mass ± 20" in question.statement
    assert question.error == ErrorBounds.of({"speed": "5%", "mass": 20})
    assert question.measured_with(None) == ts.Question("ratio", epsilon=0.1)
    assert question.error.times(0.5) == ErrorBounds.of({"speed": "2.5%", "mass": 10})


@pytest.mark.parametrize(
    "error",
    [{"k": -1}, {"k": "100%"}, {"k": "x"}, {"k": float("nan")}, {"k": True}, 0.1, "k"],
)
def test_what_is_no_error_is_refused_in_words(error):
    with pytest.raises(TaskspaceError, match=r"must|error"):
        ts.Question("regret", epsilon=0.1, error=error)


@pytest.mark.parametrize("text", ["k", "k=", "k=1,k=2", "k=-3", "=1,", ""])
def test_what_is_no_written_error_is_refused_in_words(text):
    with pytest.raises(TaskspaceError):
        ts.Question(f"regret <= 0.1 with {text}")


def test_errors_need_contexts_and_their_axes():
    table = table_from_matrix([[1.0, 2.0], [2.0, 1.0]])
    question = ts.Question("regret", epsilon=0.1, error={"k": 1})
    with pytest.raises(TaskspaceError, match="names only"):
        question.sets(table)
    table = table_from_matrix([[1.0, 2.0], [2.0, 1.0]], targets=ts.Grid(mass=[1, 2]))
    with pytest.raises(TaskspaceError, match="mass"):
        question.sets(table)
