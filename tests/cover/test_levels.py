"""A level that every policy or no policy can reach is noticed."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.cover.problem import CoverProblem
from taskspace.policies import Mlp
from taskspace.systems import CartPole

pytest.importorskip("jax", reason="needs the extra 'sim'")


@pytest.fixture(scope="module")
def study():
    """Two networks without weights push to the left, on poles of two lengths."""
    weights = (np.zeros((2, 1, 4, 2), np.float32),)
    biases = (np.zeros((2, 1, 2), np.float32),)
    system = CartPole(horizon=60, n_episodes=2)
    policies = Mlp(weights, biases, head="argmax")
    return ts.evaluate_policies(system, policies, ts.Grid(pole_length=(0.5, 1.0, 2)))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("score >= 61", "No policy can reach score >= 61"),
        ("score >= -475", "Every policy reaches score >= -475"),
        ("score >= 20", ""),
        ("score >= 60", ""),
        ("regret <= 5", ""),
    ],
)
def test_levels_against_the_bounds_of_returns(study, asked, says):
    notes = " ".join(CoverProblem(study, ts.Question(asked)).notes)
    assert says in notes
    assert ("policy" in notes) == bool(says)
