"""Components against a plain search through the graph of sources and targets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taskspace.cover.reductions import components, whole_problem
from taskspace.sets import pack


def plain_components(matrix):
    """Sets of targets that are linked by sources, by growing from one target."""
    left = set(np.flatnonzero(matrix.any(0)).tolist())
    parts = []
    while left:
        part = {left.pop()}
        while True:
            sources = matrix[:, sorted(part)].any(1)
            grown = set(np.flatnonzero(matrix[sources].any(0)).tolist())
            if grown == part:
                break
            part = grown
        left -= part
        parts.append((frozenset(part), frozenset(np.flatnonzero(sources).tolist())))
    return set(parts)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 30))
def test_components_are_those_of_a_plain_search(seed, n_sources, n_targets):
    rng = np.random.default_rng(seed)
    matrix = rng.random((n_sources, n_targets)) < rng.choice([0.03, 0.1, 0.3])
    core = whole_problem(pack(matrix), np.ones(n_sources)).core
    found = {
        (frozenset(part.targets.tolist()), frozenset(part.sources.tolist()))
        for part in components(core)
    }
    assert found == plain_components(matrix)
