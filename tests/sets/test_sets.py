import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import blobs

matrices = npst.arrays(
    bool,
    st.tuples(st.integers(0, 9), st.integers(0, 140)),
    elements=st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(matrix=matrices, data=st.data())
def test_sets_agree_with_the_boolean_matrix(matrix, data):
    sets = pack(matrix)
    n, m = matrix.shape
    assert (sets.n_sources, sets.n_targets) == (n, m)
    assert len(sets) == n
    np.testing.assert_array_equal(sets.to_bool(), matrix)
    np.testing.assert_array_equal(sets.sizes, matrix.sum(1))
    np.testing.assert_array_equal(sets.coverable, matrix.any(0))
    np.testing.assert_array_equal(sets.inverse.to_bool(), matrix.T)
    assert pack(sets.words, n_targets=m) == sets
    chosen = data.draw(st.lists(st.integers(0, n - 1), max_size=5)) if n else []
    chosen = np.array(chosen, np.int64)
    np.testing.assert_array_equal(sets.union(chosen), matrix[chosen].any(0))
    np.testing.assert_array_equal(sets.subset(chosen).to_bool(), matrix[chosen])
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=m, max_size=m)), bool)
    np.testing.assert_array_equal(sets.keep_targets(kept).to_bool(), matrix[:, kept])
    for source in chosen:
        np.testing.assert_array_equal(sets.row(int(source)), matrix[source])


def test_streamed_blocks_give_the_same_sets():
    matrix = blobs(12)
    stream = (matrix[k : k + 7] for k in range(0, len(matrix), 7))
    assert pack(stream) == pack(matrix)
    assert pack(iter(()), n_targets=3).n_sources == 0


def test_bits_are_where_the_docstring_says():
    matrix = np.zeros((1, 130), bool)
    matrix[0, [0, 65, 129]] = True
    np.testing.assert_array_equal(pack(matrix).words, [[1, 2, 2]])


def test_equality_sees_every_difference():
    matrix = blobs(6)
    other = matrix.copy()
    other[3, 5] ^= True
    assert pack(matrix) != pack(other)
    assert pack(matrix) != pack(matrix[:, :-1])
    assert pack(matrix) != "sets"


def test_bits_are_made_where_they_are_smaller():
    wide = np.zeros((4, 100_000), bool)
    wide[:, 10:90_000] = True
    assert pack(wide).nbytes < pack(wide).words.nbytes / 100
    assert not pack(wide).is_dense
    assert pack(np.random.default_rng(0).random((40, 999)) < 0.5).is_dense


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack(np.ones((2, 2))), "boolean matrix"),
        (lambda: pack(np.ones(3, bool)), "boolean matrix"),
        (lambda: pack(iter(())), "n_targets must be given"),
        (lambda: pack([np.ones((1, 2), bool), np.ones((1, 3), bool)]), "2 targets"),
        (lambda: pack(np.ones((2, 2), bool)).union([2]), "0 <= source < 2"),
        (lambda: pack(np.ones((2, 2), bool)).subset([0.5]), "list of integers"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_losses_follow_the_sources():
    losses = np.random.default_rng(0).integers(0, 4, (6, 80)).astype(float)
    sets = pack(losses <= 2, losses=losses.__getitem__)
    assert sets.losses is not None
    np.testing.assert_array_equal(sets.losses(3), losses[3])
    part = sets.subset([4, 1])
    assert part.losses is not None
    np.testing.assert_array_equal(part.losses(0), losses[4])
    assert sets == pack(losses <= 2)  # the relation is what counts
