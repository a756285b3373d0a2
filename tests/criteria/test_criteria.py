"""Divergence, regret, ratio, floor; families; tolerance sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance import work
from taskspace.performance.table import table_from_matrix
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


def lost(matrix, criterion="signed", judge="worst", **more):
    """Losses of a matrix of scores."""
    question = ts.Question(criterion, judge, epsilon=0.0)
    return ts.loss(table_from_matrix(matrix, **more), question).values


def test_signs_on_a_hand_made_case():
    # A policy of source 0 scores 10 at home and 4 away: it loses 6.
    matrix = [[10.0, 4.0], [1.0, 8.0]]
    assert lost(matrix, "signed").tolist() == [[0.0, 6.0], [7.0, 0.0]]
    assert lost(matrix, "regret").tolist() == [[0.0, 4.0], [9.0, 0.0]]
    assert lost(matrix, "floor").tolist() == [[-10.0, -4.0], [-1.0, -8.0]]


def test_ratio_is_relative_extra_cost():
    found = lost([[-10.0, -4.0], [-11.0, -2.0]], "ratio")
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.1, 0.0]])
    with pytest.raises(InvalidInputError, match="compares costs, J = −cost < 0"):
        lost([[1.0]], "ratio")


@given(tables, st.permutations(range(5)))
def test_divergence_is_zero_at_home_and_follows_a_relabelling(matrix, order):
    divergence = lost(matrix)
    assert not np.isnan(divergence).any()
    np.testing.assert_array_equal(np.diag(divergence), 0.0)
    order = [i for i in order if i < len(matrix)]
    moved = lost(matrix[order][:, :, order])
    np.testing.assert_array_equal(moved, divergence[order][:, order])
    # Of fewer policies the worst one loses no more.
    assert (lost(matrix[:, :1]) <= divergence).all()


@given(tables)
def test_any_is_at_most_all(matrix):
    for criterion in CRITERIA:
        if criterion == "ratio" and (matrix.max((0, 1)) == -np.inf).any():
            continue
        assert (lost(matrix, criterion, "best") <= lost(matrix, criterion)).all()


@given(tables)
def test_regret_is_never_negative_and_someone_has_none(matrix):
    regret = lost(matrix, "regret", "best")
    possible = matrix.max((0, 1)) > -np.inf
    assert (regret >= 0).all()
    assert (regret[:, possible].min(0) == 0).all()
    assert (regret[:, ~possible] == np.inf).all()


@given(st.floats(0, 5), st.floats(0, 5))
def test_tolerance_sets_are_nested(a, b):
    losses = ts.loss(small_table(4), "regret")
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
            asked = ts.Question(criterion, judge, epsilon=0.0)
            np.testing.assert_array_equal(ts.loss(reduced, asked), ts.loss(full, asked))


def test_missing_family_is_explained(monkeypatch):
    monkeypatch.setattr(work, "FULL_TABLE_CELLS", 10)
    space = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
    trainer = ts.trainers.Lqr(n_policies=10, noise=0.1)
    system = ts.systems.MassSpringDamper()
    table = ts.evaluate(system, trainer, space, seed=0, judges=["worst"]).table
    with pytest.raises(InvalidInputError, match="judge='best' needs the reduction"):
        ts.loss(table, "regret best")


def test_bad_policy_covers_everything_under_signed_but_not_under_regret():
    # THEORY 1: scoring 0 everywhere loses nothing, while 100 is possible.
    table = table_from_matrix([[0.0, 0.0], [-50.0, 100.0]])
    cover = ts.greedy_cover(ts.tolerance_sets(ts.loss(table, "signed"), 1.0))
    assert cover.sources.tolist() == [0]
    left = ts.Question("regret").assigned_losses(table, cover.assignment)
    assert left.tolist() == [0.0, 100.0]
    honest = ts.greedy_cover(ts.tolerance_sets(ts.loss(table, "regret"), 1.0))
    assert sorted(honest.sources.tolist()) == [0, 1]


def test_regret_is_against_the_true_optimum_even_from_few_sources():
    space = ts.Points(["k", "c"], [[0.1, 0.1]])
    targets = ts.Points(["k", "c"], [[8.0, 8.0], [0.1, 0.1]])
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, targets=targets, seed=0).table
    optimum = system.optimum(system.contexts(targets))
    regret = ts.loss(table, "regret").values[0]
    np.testing.assert_allclose(regret, optimum - table["performance"].values[0, 0])
    assert regret[0] > 0.1
    assert regret[1] == 0


def test_names_and_tolerances_are_checked():
    with pytest.raises(UnknownNameError, match="Did you mean 'regret'"):
        ts.Question("regrets", epsilon=0.0)
    with pytest.raises(UnknownNameError, match="judge"):
        ts.Question("regret", "some", epsilon=0.0)
    losses = ts.loss(small_table(3), "regret")
    for epsilon in (-0.1, np.nan):
        with pytest.raises(InvalidInputError, match="epsilon >= 0 must hold"):
            ts.tolerance_sets(losses, epsilon)
    # "At least 10" is floor <= -10.
    scores = ts.loss(table_from_matrix([[10.0, 12.0]]), "score")
    assert ts.tolerance_sets(scores, -11).to_bool().tolist() == [[False, True]]


def test_a_bad_matrix_is_refused():
    with pytest.raises(InvalidInputError, match="row 1, policy 0, column 0 holds nan"):
        table_from_matrix([[1.0, 2.0], [np.nan, 3.0]])
    with pytest.raises(InvalidInputError, match="2 columns and there are 3 contexts"):
        table_from_matrix([[1.0, 2.0]], targets=ts.Points(["a"], [1.0, 2.0, 3.0]))


def test_signed_needs_scores_at_home():
    with pytest.raises(InvalidInputError, match="matrix must be square"):
        lost([[1.0, 2.0]])
    assert lost([[1.0, 2.0]], home=[3.0]).tolist() == [[2.0, 1.0]]
