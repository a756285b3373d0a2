"""Components against a plain search through the graph of sources and targets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taskspace.cover import verify as reprove
from taskspace.cover.reductions import Core, components
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
    core = Core.of(pack(matrix), np.ones(n_sources))
    found = {
        (frozenset(part.targets.tolist()), frozenset(part.sources.tolist()))
        for part in components(core)
    }
    assert found == plain_components(matrix)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 30))
def test_the_verifier_finds_them_by_itself(seed, n_sources, n_targets):
    """Its labels of some targets, and its loads."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((n_sources, n_targets)) < rng.choice([0.03, 0.1, 0.3])
    targets = np.flatnonzero(rng.random(n_targets) < 0.7)
    prices = rng.integers(0, 9, n_targets)
    problem = reprove.Problem.of(pack(matrix), None, None)
    assert (problem.loads(prices) == matrix @ prices).all()
    labels = reprove._apart(pack(matrix), targets).tolist() if len(targets) else []
    found = {
        frozenset(
            t
            for t, other in zip(targets.tolist(), labels, strict=True)
            if other == label
        )
        for label in labels
    }
    priced = matrix[:, targets]
    linked = {
        frozenset(targets[sorted(part)].tolist())
        for part, _ in plain_components(priced)
    }
    alone = {frozenset([int(t)]) for t in targets[~priced.any(0)]}
    assert found == linked | alone
