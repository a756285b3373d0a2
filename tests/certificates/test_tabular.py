import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, TabularPolicy
from taskspace.systems.tabular import (
    TabularFamily,
    deterministic_policies,
)
from tests.certificates.worlds import TOYS, policy_table


def random_family(seed, *, n=4, n_states=3, n_actions=2, fixed_start=True, **time):
    rng = np.random.default_rng(seed)
    start = rng.dirichlet(np.ones(n_states), size=None if fixed_start else n)
    return TabularFamily(
        values=np.sort(rng.random(n)) + np.arange(n) * 0.1,
        transitions=rng.dirichlet(np.ones(n_states), size=(n, n_states, n_actions)),
        rewards=rng.normal(size=(n, n_states, n_actions)),
        start=start,
        **(time or {"discount": 0.8}),
    )


def random_policies(seed, n=4, n_policies=3, n_states=3, n_actions=2):
    rng = np.random.default_rng(seed)
    size = (n, n_policies, n_states)
    return TabularPolicy(rng.dirichlet(np.ones(n_actions), size=size))


def contexts(family):
    return np.asarray(family.values)[:, None]


@pytest.mark.parametrize("time", [{"discount": 0.7}, {"horizon": 4}])
def test_performance_is_the_expected_return(time):
    family, policies = random_family(0, **time), random_policies(1)
    found = family.performance(policies, contexts(family))
    discount = family.discount or 1.0
    for s, p, t in [(0, 0, 0), (1, 2, 3), (3, 1, 2)]:
        action = policies.probabilities[s, p]
        state, total = np.asarray(family.start)[t], 0.0
        for step in range(family.horizon or 400):
            total += discount**step * np.einsum(
                "x,xa,xa->", state, action, np.asarray(family.rewards)[t]
            )
            state = np.einsum(
                "x,xa,xay->y", state, action, np.asarray(family.transitions)[t]
            )
        assert found[s, p, t] == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("time", [{"discount": 0.7}, {"horizon": 3}])
def test_the_optimum_beats_every_deterministic_policy(time):
    family = random_family(3, **time)
    actions = np.array(list(np.ndindex(2, 2, 2)))
    everyone = deterministic_policies(actions, n_actions=2)
    scores = family.performance(everyone, contexts(family))[:, 0].max(0)
    optimum = family.optimum(contexts(family))
    assert (optimum >= scores - 1e-12).all()
    if "discount" in time:  # stationary policies are optimal
        assert optimum == pytest.approx(scores)


@given(st.integers(0, 2**32), st.floats(0.0, 0.99))
def test_divergence_properties_on_random_families(seed, discount):
    family = random_family(seed, discount=discount)
    policies = random_policies(seed + 1)
    space = ts.Points(["theta"], family.values)
    table = policy_table(family, policies, space)
    d = ts.loss(table, ts.Question("signed", epsilon=0.0)).values
    scale = 1 + abs(table["performance"].values).max()
    assert abs(np.diag(d)).max() <= 1e-12 * scale  # D(θ; θ) = 0
    fewer = policy_table(family, policies[:, :1], space)
    assert (
        ts.loss(fewer, ts.Question("signed", epsilon=0.0)).values <= d + 1e-12 * scale
    ).all()  # monotone
    assert (
        ts.loss(table, ts.Question("signed", "best", epsilon=0.0)).values
        <= d + 1e-12 * scale
    ).all()
    # A family that is common to all sources obeys the triangle inequality.
    common = TabularPolicy(np.repeat(policies.probabilities[:1], 4, axis=0))
    d = ts.loss(
        policy_table(family, common, space), ts.Question("signed", epsilon=0.0)
    ).values
    assert (d <= (d[:, :, None] + d[None]).min(1) + 1e-10 * scale).all()
    # D is at least minus its reverse: sup f >= inf f.
    assert (d + d.T >= -1e-10 * scale).all()
    # Relabelling the contexts relabels D.
    turned = ts.Points(["theta"], np.asarray(family.values)[::-1])
    flipped = ts.loss(
        policy_table(family, policies[::-1], turned), ts.Question("signed", epsilon=0.0)
    ).values
    assert flipped[::-1, ::-1] == pytest.approx(
        ts.loss(table, ts.Question("signed", epsilon=0.0)).values, abs=1e-10 * scale
    )
    # Regret against the optimum is never negative.
    assert (
        ts.loss(table, ts.Question("regret", epsilon=0.0)).values >= -1e-10 * scale
    ).all()


def test_the_unreachable_state_has_far_models_and_no_divergence():
    family, policies = TOYS.unreachable_state()
    kernels = np.asarray(family.transitions)
    assert abs(kernels[0] - kernels[1]).sum(-1).max() == 2
    table = policy_table(family, policies, ts.Points(["theta"], [1.0, 2.0]))
    assert (table["performance"] == 1).all()
    assert (ts.loss(table, ts.Question("signed", epsilon=0.0)) == 0).all()
    assert (
        ts.greedy_cover(ts.Question("signed", "worst", epsilon=0.0).sets(table)).size
        == 1
    )


def test_the_directionality_toy_has_its_numbers():
    family, policies = TOYS.directionality_toy()
    table = policy_table(family, policies, ts.Points(["theta"], [1.0, 2.0]))
    assert ts.loss(table, ts.Question("signed", epsilon=0.0)).values.tolist() == [
        [0, 5],
        [8, 0],
    ]
    assert table["best_known"].values.tolist() == [10, 8]


def test_a_family_is_rebuilt_from_its_settings():
    family = random_family(5)
    again = TabularFamily(**family.settings())
    assert np.array_equal(again.transitions, family.transitions)


def test_contexts_can_change_any_part_of_the_model():
    base = {
        "values": [0.0, 1.0],
        "transitions": np.eye(2)[:, None].repeat(1, 1),
        "rewards": [[1.0], [0.0]],
        "start": [1.0, 0.0],
        "horizon": 1,
    }
    policies = deterministic_policies([[0, 0]], n_actions=1)
    rows = np.array([[0.0], [1.0]])
    same = TabularFamily(**base).performance(policies, rows)[0, 0]
    assert same.tolist() == [1, 1]
    moved = TabularFamily(**base | {"start": [[1.0, 0.0], [0.0, 1.0]]})
    assert moved.performance(policies, rows)[0, 0].tolist() == [1, 0]
    paid = TabularFamily(**base | {"rewards": [[[1.0], [0.0]], [[5.0], [0.0]]]})
    assert paid.performance(policies, rows)[0, 0].tolist() == [1, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [0.0, 0.0]}, "different numbers"),
        ({"transitions": np.ones((3, 2, 3))}, "sum to 1"),
        ({"transitions": np.ones((2, 2, 2))}, "must have shape"),
        ({"start": [0.5, 0.4, 0.0]}, "sum to 1"),
        ({"rewards": [[np.nan, 0.0]] * 3}, "rewards must be finite"),
        ({"discount": 1.0}, "0 <= discount < 1"),
        ({"discount": None}, "Exactly one"),
        ({"discount": None, "horizon": 0}, "horizon must be"),
        ({"horizon": 3}, "Exactly one"),
    ],
)
def test_bad_families_are_refused(change, message):
    family = random_family(0, n=2)
    with pytest.raises(InvalidInputError, match=message):
        TabularFamily(**family.settings() | change)


def test_bad_questions_are_refused():
    family = random_family(0)
    with pytest.raises(InvalidInputError, match="one of the 4 values"):
        family.performance(random_policies(0), np.array([[0.123]]))
    with pytest.raises(InvalidInputError, match="TabularPolicy"):
        family.performance(LinearGain(np.zeros((1, 1, 1, 1))), contexts(family))
    with pytest.raises(InvalidInputError, match="3 states and 2 actions"):
        family.performance(random_policies(0, n_states=5), contexts(family))
    with pytest.raises(InvalidInputError, match="whole numbers from 0 to 1"):
        deterministic_policies([[0, 2]], n_actions=2)
    with pytest.raises(InvalidInputError, match="one source per policy"):
        policy_table(
            family, random_policies(0, n=3), ts.Points(["theta"], family.values)
        )
