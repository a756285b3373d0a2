"""Proposition 2: performance is no rougher than the model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskspace.certificates.smoothness import (
    model_smoothness,
    performance_smoothness,
    smoothness_certificate,
)
from taskspace.errors import InvalidInputError
from taskspace.systems.tabular import (
    TabularFamily,
    deterministic_policies,
)
from tests.certificates.test_tabular import random_family, random_policies
from tests.certificates.worlds import TOYS


@given(
    st.integers(0, 2**32),
    st.one_of(
        st.floats(0.0, 0.95).map(lambda g: {"discount": g}),
        st.integers(1, 6).map(lambda t: {"horizon": t}),
    ),
)
def test_performance_is_never_rougher_than_the_model(seed, time):
    family, policies = random_family(seed, n=5, **time), random_policies(seed + 1)
    model = model_smoothness(family)
    measured = performance_smoothness(family, policies)
    assert measured <= model.model * (1 + 1e-9)
    certificate = smoothness_certificate(family, policies)
    assert certificate.holds
    assert certificate.kind == "proof"


def test_all_pairs_are_no_steeper_than_neighbours():
    family, policies = random_family(3, n=6), random_policies(4)
    values = np.asarray(family.values)
    scores = family.performance(policies, values[:, None])
    quotients = [
        abs(scores[..., i] - scores[..., j]).max() / abs(values[i] - values[j])
        for i in range(6)
        for j in range(i)
    ]
    assert performance_smoothness(family, policies) == pytest.approx(max(quotients))


def tight_family(discount=0.5):
    """One state, reward θ: L_perf = L_model = 1 / (1 − γ) exactly."""
    values = np.linspace(0, 1, 11)
    return TabularFamily(
        values=values,
        transitions=[[[1.0]]],
        rewards=values[:, None, None],
        start=[1.0],
        discount=discount,
    )


def test_the_constant_is_tight_and_half_of_it_is_refuted():
    family = tight_family()
    policies = deterministic_policies([[0]] * 11, n_actions=1)
    model = model_smoothness(family)
    assert model.model == pytest.approx(2.0)
    assert performance_smoothness(family, policies) == pytest.approx(2.0)
    # Negative control: half the constant is below a slope.
    assert performance_smoothness(family, policies) > model.model / 2


def test_the_formula_of_the_paper():
    family = random_family(7, discount=0.9)
    model = model_smoothness(family)
    expected = model.reward / 0.1 + 0.9 * model.kernel * model.reward_max / 0.01
    assert model.model == pytest.approx(expected)


def test_failing_hypotheses_are_named():
    moving = random_family(0, fixed_start=False)
    with pytest.raises(InvalidInputError, match="start distribution must be the same"):
        model_smoothness(moving)
    certificate = smoothness_certificate(moving, random_policies(1))
    assert certificate.kind == "vacuous"
    assert not certificate.holds
    assert "start distribution" in certificate.why
    toy, _ = TOYS.directionality_toy()
    assert model_smoothness(toy).model == 8  # T = 1: L_r


def test_a_start_that_moves_can_exceed_the_formula():
    # Why the hypothesis is needed: p and r do not change at all, so L_model = 0.
    family = TabularFamily(
        values=[0.0, 1.0],
        transitions=np.eye(2)[:, None],
        rewards=[[1.0], [0.0]],
        start=[[1.0, 0.0], [0.0, 1.0]],
        discount=0.5,
    )
    policies = deterministic_policies([[0, 0]] * 2, n_actions=1)
    assert performance_smoothness(family, policies) == 2.0
    with pytest.raises(InvalidInputError, match="start distribution"):
        model_smoothness(family)


def test_a_family_that_does_not_change_needs_one_policy():
    family = TabularFamily(
        values=[0.0, 1.0, 2.0],
        transitions=[[[1.0]]],
        rewards=[[1.0]],
        start=[1.0],
        discount=0.9,
    )
    assert model_smoothness(family).model == 0
