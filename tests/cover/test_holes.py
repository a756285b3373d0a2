"""Unmeasured cells against all completions of small tables; the value of one source."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

import taskspace as ts
from taskspace.cover import (
    cover_with_holes,
    fill_cells,
    measure_cells,
    minimum_cover,
    source_values,
)
from taskspace.cover.ask import CoverProblem
from taskspace.cover.values import best_of
from taskspace.errors import InvalidInputError
from taskspace.sets import PackedSets

QUESTION = ts.Question("floor", epsilon=-0.5)  # a score of at least 0.5


def least(matrix):
    """Size of the smallest cover of all targets by trying all; None for none."""
    n = len(matrix)
    sizes = [
        sum(chosen)
        for chosen in product([False, True], repeat=n)
        if matrix[list(chosen)].any(0).all()
    ]
    return min(sizes, default=None)


def with_holes(rng):
    n, m = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    scores = rng.random((n, m)).round(2)
    holes = np.zeros((n, m), bool)
    holes.flat[rng.permutation(n * m)[: rng.integers(1, 7)]] = True
    frame = pd.DataFrame(np.where(holes, np.nan, scores))
    frame.index = [f"s{k}" for k in range(n)]
    frame.columns = [f"t{k}" for k in range(m)]
    return frame, holes


@pytest.mark.parametrize("seed", range(25))
def test_every_completion_lies_between_the_bounds(seed):
    rng = np.random.default_rng(seed)
    frame, holes = with_holes(rng)
    study = ts.study_from(frame, missing="unknown")
    answer = cover_with_holes(study, QUESTION)
    sizes = []
    for filled in product([0.0, 1.0], repeat=int(holes.sum())):
        scores = frame.to_numpy().copy()
        scores[holes] = filled
        sizes.append(least(scores >= 0.5))
    known = [size for size in sizes if size is not None]
    if known:
        assert answer.lower == min(known)  # and no larger bound would be true
    if answer.upper is None:
        assert None in sizes
    else:
        assert answer.upper == max(known)
    assert answer.is_decided == (len(set(sizes)) == 1 and known != [])
    # Measured cells alone carry the safe cover.
    measured = np.nan_to_num(frame.to_numpy(), nan=0.0) >= 0.5
    served = measured[answer.safe.sources].any(0)
    assert served.sum() == measured.any(0).sum()
    # If the cells to measure next are served, so is all that the hopeful cover hopes.
    for source, target in answer.cells:
        assert holes[source, target]
        measured[source, target] = True
    assert measured[answer.hopeful.sources].any(0).all() or answer.hopeful.coverage < 1


@pytest.mark.parametrize("n_at_once", [1, 3])
def test_measuring_ends_at_the_number_of_the_whole_table(n_at_once):
    rng = np.random.default_rng(n_at_once)
    n_cells = 0
    for _ in range(12):
        truth = rng.random((5, 7))
        truth[rng.integers(0, 5, 7), np.arange(7)] = 0.9  # some source serves each
        holes = rng.random((5, 7)) < 0.5
        holes[:, holes.all(0)] &= np.arange(5)[:, None] > 0
        study = ts.study_from(
            pd.DataFrame(np.where(holes, np.nan, truth)), missing="unknown"
        )
        asked = []

        def measure(cells, truth=truth, asked=asked):
            asked.extend(cells)
            return [truth[cell] for cell in cells]

        found = measure_cells(study, QUESTION, measure, n_at_once=n_at_once)
        assert found.stop_reason == "decided"
        assert found.answer.lower == found.answer.upper == least(truth >= 0.5)
        assert found.cells == tuple(asked)
        assert len(set(asked)) == len(asked)
        assert all(holes[cell] for cell in asked)
        n_cells += holes.sum() - len(asked)
        few = measure_cells(study, QUESTION, measure, budget=len(asked) // 2)
        assert len(few.cells) <= len(asked) // 2
        assert few.answer.lower <= found.answer.lower
    assert n_cells > 0  # not all cells had to be measured


def test_cells_are_filled_in_once_and_by_numbers():
    frame = pd.DataFrame([[1.0, np.nan], [0.2, 0.4]], columns=["a", "b"])
    study = ts.study_from(frame, missing="unknown")
    full = fill_cells(study, {(0, 1): 0.7})
    assert full.table["best_known"].values.tolist() == [1.0, 0.7]
    for table, scores in (
        (study, {(0, 1): np.nan}),
        (study, {(1, 1): 0.5}),
        (full, {(0, 1): 0.5}),
        (ts.study_from(frame.fillna(0)), {(0, 1): 0.5}),
    ):
        with pytest.raises(InvalidInputError, match=r"measured|filled in"):
            fill_cells(table, scores)


def test_a_table_without_holes_is_told_so():
    study = ts.study_from(pd.DataFrame(np.eye(2), columns=["a", "b"]))
    with pytest.raises(InvalidInputError, match="missing unknown"):
        cover_with_holes(study, QUESTION)


@pytest.mark.parametrize("seed", range(15))
def test_values_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.random((5, 7)) < 0.5
    matrix |= np.arange(5)[:, None] == rng.integers(0, 5, 7)
    sets = PackedSets.from_bool(matrix)
    cover = minimum_cover(sets)
    values = {value.source: value for value in source_values(cover, sets)}
    assert sorted(values) == list(range(5))
    for source, value in values.items():
        others = np.delete(np.arange(5), source)
        if value.selected:
            left = matrix[others]
            assert value.unserved == (~left.any(0)).sum()
            assert value.value == value.lower_bound == least(left[:, left.any(0)])
        else:
            rest = matrix[np.ix_(others, ~matrix[source])]
            assert value.value == value.lower_bound == 1 + least(rest)
        assert value.extra == value.lower_bound - cover.cost


def test_values_of_budgets_and_means_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    losses = rng.random((5, 8))
    weights = rng.random(8)

    def unserved(chosen):
        return weights[(losses[list(chosen)] > 0.3).all(0)].sum() / weights.sum()

    def mean(chosen):
        return losses[list(chosen)].min(0).mean()

    def solve(include, exclude, seconds):
        limits = {"include": include, "exclude": exclude, "time_limit": seconds}
        return best_of(ts.cover.least_mean(losses, 2, **limits))

    sets = PackedSets.from_bool(losses <= 0.3)
    best = minimum_cover(sets, budget=2, target_weights=weights)
    for measure, values, chosen in (
        (unserved, source_values(best, sets, target_weights=weights), best.sources),
        (
            mean,
            source_values(least := ts.cover.least_mean(losses, 2), solve),
            least.sources,
        ),
    ):
        own = min(measure(pair) for pair in combinations(range(5), 2))
        for value in values:
            assert value.selected == (value.source in chosen)
            truth = min(
                measure(pair)
                for pair in combinations(range(5), 2)
                if (value.source in pair) != value.selected
            )
            assert value.value == pytest.approx(truth)
            assert value.lower_bound == pytest.approx(truth)
            assert value.extra == pytest.approx(truth - own)


def test_targets_that_nothing_serves_are_left_out_only_if_asked():
    scores = np.array([[1.0, 0.2, -np.inf], [0.3, 0.9, -np.inf]])
    study = ts.study_from(scores)
    question = ts.Question("regret", epsilon=0.0)
    with pytest.raises(InvalidInputError, match="leave_out=True"):
        CoverProblem(study, question).smallest_tolerance(1)
    answer = CoverProblem(study, question).smallest_tolerance(1, leave_out=True)
    assert answer.left_out == (2,)
    assert answer.optimal
    assert answer.upper == pytest.approx(0.7)
    assert "but the 1 of no finite loss" in answer.statement
    losses = question.losses(study)
    with pytest.raises(InvalidInputError, match="serve"):
        ts.cover.least_mean(losses, 1)
    mean = ts.cover.least_mean(losses, 1, leave_out=True)
    assert mean.mean_loss == pytest.approx(0.35)
    assert mean.uncoverable.tolist() == [2]
