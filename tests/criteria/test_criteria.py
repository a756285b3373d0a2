"""Divergence, regret, ratio, floor; families; tolerance sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance import work
from tests.helpers import small_table

CRITERIA = ["signed", "regret", "ratio", "floor"]

# Scores with ties and failures, as (source, policy, target) of a square table.
tables = st.integers(1, 5).flatmap(
    lambda n: hnp.arrays(
        np.float64,
        st.tuples(st.just(n), st.integers(1, 3), st.just(n)),
        elements=st.one_of(
            st.floats(-50, -1, allow_nan=False), st.sampled_from([-np.inf, -3.0, -7.0])
        ),
    )
)


def test_signs_on_a_hand_made_case():
    # A policy of source 0 scores 10 at home and 4 away: it loses 6.
    table = ts.performance.table_from_matrix([[10.0, 4.0], [1.0, 8.0]])
    assert ts.loss(table, ts.Question("signed", epsilon=0.0)).values.tolist() == [
        [0.0, 6.0],
        [7.0, 0.0],
    ]
    assert ts.loss(table, ts.Question("regret", epsilon=0.0)).values.tolist() == [
        [0.0, 4.0],
        [9.0, 0.0],
    ]
    assert ts.loss(table, ts.Question("floor", epsilon=0.0)).values.tolist() == [
        [-10.0, -4.0],
        [-1.0, -8.0],
    ]


def test_ratio_is_relative_extra_cost():
    table = ts.performance.table_from_matrix([[-10.0, -4.0], [-11.0, -2.0]])
    np.testing.assert_allclose(
        ts.loss(table, ts.Question("ratio", epsilon=0.0)), [[0.0, 1.0], [0.1, 0.0]]
    )
    with pytest.raises(InvalidInputError, match="compares costs, J = −cost < 0"):
        ts.loss(
            ts.performance.table_from_matrix([[1.0]]), ts.Question("ratio", epsilon=0.0)
        )


@given(tables)
def test_divergence_is_zero_at_home(matrix):
    divergence = ts.loss(
        ts.performance.table_from_matrix(matrix), ts.Question("signed", epsilon=0.0)
    ).values
    assert not np.isnan(divergence).any()
    np.testing.assert_array_equal(np.diag(divergence), 0.0)


@given(tables)
def test_any_is_at_most_all(matrix):
    table = ts.performance.table_from_matrix(matrix)
    for criterion in CRITERIA:
        if criterion == "ratio" and (matrix.max((0, 1)) == -np.inf).any():
            continue
        best = ts.loss(table, ts.Question(criterion, "best", epsilon=0.0)).values
        worst = ts.loss(table, ts.Question(criterion, "worst", epsilon=0.0)).values
        assert (best <= worst).all()


@given(tables)
def test_loss_is_monotone_in_the_family(matrix):
    whole = ts.loss(
        ts.performance.table_from_matrix(matrix), ts.Question("signed", epsilon=0.0)
    ).values
    part = ts.loss(
        ts.performance.table_from_matrix(matrix[:, :1]),
        ts.Question("signed", epsilon=0.0),
    ).values
    assert (part <= whole).all()


@given(tables)
def test_regret_is_never_negative_and_someone_has_none(matrix):
    regret = ts.loss(
        ts.performance.table_from_matrix(matrix),
        ts.Question("regret", "best", epsilon=0.0),
    ).values
    possible = matrix.max((0, 1)) > -np.inf
    assert (regret >= 0).all()
    assert (regret[:, possible].min(0) == 0).all()
    assert (regret[:, ~possible] == np.inf).all()


@given(tables, st.permutations(range(5)))
def test_divergence_follows_a_relabelling(matrix, order):
    order = [i for i in order if i < len(matrix)]
    plain = ts.loss(
        ts.performance.table_from_matrix(matrix), ts.Question("signed", epsilon=0.0)
    ).values
    moved = ts.loss(
        ts.performance.table_from_matrix(matrix[order][:, :, order]),
        ts.Question("signed", epsilon=0.0),
    ).values
    np.testing.assert_array_equal(moved, plain[order][:, order])


@given(st.floats(0, 5), st.floats(0, 5))
def test_tolerance_sets_are_nested(a, b):
    losses = ts.loss(small_table(4), ts.Question("regret", epsilon=0.0))
    small = ts.tolerance_sets(losses, min(a, b)).to_bool()
    large = ts.tolerance_sets(losses, max(a, b)).to_bool()
    np.testing.assert_array_equal(small, losses.values <= min(a, b))
    assert (large | ~small).all()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("judge", ["worst", "best"])
def test_streamed_sets_equal_sets_of_the_whole(criterion, judge, monkeypatch):
    table = small_table()
    losses = ts.loss(table, ts.Question(criterion, judge, epsilon=0.0))
    epsilon = float(np.quantile(losses, 0.3)) if criterion == "floor" else 0.3
    whole = ts.tolerance_sets(losses, epsilon)
    monkeypatch.setattr("taskspace.performance.table.BLOCK_CELLS", 500)
    assert ts.Question(criterion, judge, epsilon=epsilon).sets(table) == whole


def test_reduced_table_gives_the_same_losses(monkeypatch):
    full = small_table()
    assert "performance" in full
    monkeypatch.setattr(work, "FULL_TABLE_CELLS", 10)
    reduced = small_table()
    assert "performance" not in reduced
    for criterion in CRITERIA:
        for judge in ("worst", "best"):
            np.testing.assert_array_equal(
                ts.loss(reduced, ts.Question(criterion, judge, epsilon=0.0)),
                ts.loss(full, ts.Question(criterion, judge, epsilon=0.0)),
            )


def test_missing_family_is_explained(monkeypatch):
    monkeypatch.setattr(work, "FULL_TABLE_CELLS", 10)
    space = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
    table = ts.evaluate(
        ts.systems.MassSpringDamper(),
        ts.trainers.Lqr(n_policies=10, noise=0.1),
        space,
        seed=0,
        judges=["worst"],
    ).table
    with pytest.raises(InvalidInputError, match="judge='best' needs the reduction"):
        ts.loss(table, ts.Question("regret", "best", epsilon=0.0))


def test_bad_policy_covers_everything_under_signed_but_not_under_regret():
    # THEORY 1: scoring 0 everywhere loses nothing, while 100 is possible.
    table = ts.performance.table_from_matrix([[0.0, 0.0], [-50.0, 100.0]])
    cover = ts.greedy_cover(
        ts.tolerance_sets(ts.loss(table, ts.Question("signed", epsilon=0.0)), 1.0)
    )
    assert cover.sources.tolist() == [0]
    assert ts.Question(epsilon=0.0).assigned_losses(
        table, cover.assignment
    ).tolist() == [0.0, 100.0]
    honest = ts.greedy_cover(
        ts.tolerance_sets(ts.loss(table, ts.Question("regret", epsilon=0.0)), 1.0)
    )
    assert sorted(honest.sources.tolist()) == [0, 1]


def test_regret_is_against_the_true_optimum_even_from_few_sources():
    space = ts.Points(["k", "c"], [[0.1, 0.1]])
    targets = ts.Points(["k", "c"], [[8.0, 8.0], [0.1, 0.1]])
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, targets=targets, seed=0).table
    optimum = system.optimum(system.contexts(targets))
    regret = ts.loss(table, ts.Question("regret", epsilon=0.0)).values[0]
    np.testing.assert_allclose(regret, optimum - table["performance"].values[0, 0])
    assert regret[0] > 0.1
    assert regret[1] == 0


def test_names_are_checked():
    table = small_table(3)
    with pytest.raises(UnknownNameError, match="Did you mean 'regret'"):
        ts.loss(table, ts.Question("regrets", epsilon=0.0))
    with pytest.raises(UnknownNameError, match="judge"):
        ts.loss(table, ts.Question("regret", "some", epsilon=0.0))


def test_epsilon_is_checked():
    losses = ts.loss(small_table(3), ts.Question("regret", epsilon=0.0))
    with pytest.raises(InvalidInputError, match="epsilon >= 0 must hold"):
        ts.tolerance_sets(losses, -0.1)
    with pytest.raises(InvalidInputError, match="epsilon >= 0 must hold"):
        ts.tolerance_sets(losses, np.nan)
    # "At least 10" is floor <= -10.
    scores = ts.loss(
        ts.performance.table_from_matrix([[10.0, 12.0]]),
        ts.Question("floor", epsilon=0.0),
    )
    assert ts.tolerance_sets(scores, -11).to_bool().tolist() == [[False, True]]


def test_nan_in_a_matrix_is_named():
    with pytest.raises(InvalidInputError, match="row 1, policy 0, column 0 holds nan"):
        ts.performance.table_from_matrix([[1.0, 2.0], [np.nan, 3.0]])


def test_matrix_that_does_not_fit_its_contexts():
    with pytest.raises(InvalidInputError, match="2 columns and there are 3 contexts"):
        ts.performance.table_from_matrix(
            [[1.0, 2.0]], targets=ts.Points(["a"], [1.0, 2.0, 3.0])
        )


def test_signed_needs_scores_at_home():
    with pytest.raises(InvalidInputError, match="matrix must be square"):
        ts.loss(
            ts.performance.table_from_matrix([[1.0, 2.0]]),
            ts.Question("signed", epsilon=0.0),
        )
    table = ts.performance.table_from_matrix([[1.0, 2.0]], home=[3.0])
    assert ts.loss(table, ts.Question("signed", epsilon=0.0)).values.tolist() == [
        [2.0, 1.0]
    ]
