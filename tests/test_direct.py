"""Sets without a table are those of the table, and of exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.systems.linear import msd


def both(system, trainer, space, question, targets=None):
    direct = ts.direct_sets(system, trainer, space, question, targets=targets)
    table = ts.evaluate(system, trainer, space, targets=targets, seed=0).table
    return direct, question.sets(table)


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("criterion", ["regret", "ratio", "signed", "floor"])
@pytest.mark.parametrize("n_policies", [1, 3])
def test_direct_sets_are_those_of_the_table(
    epsilon, criterion, n_policies, monkeypatch
):
    monkeypatch.setattr("taskspace.direct.BLOCK_BYTES", 100)
    monkeypatch.setattr("taskspace.direct.BLOCK_CELLS", 500)
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=n_policies, noise=0.1)
    space = ts.Grid(k=(0.1, 8.0, 9), c=(0.1, 8.0, 8))
    targets = ts.Grid(k=(0.05, 9.0, 13), c=(0.2, 7.0, 7), m=(0.5, 2.0, 3))
    epsilon += 12.0 * (criterion == "floor")
    question = ts.Question(criterion, epsilon=epsilon)
    direct, table = both(system, trainer, space, question, targets)
    assert direct == table
    assert 0 < direct.sizes.sum() < direct.n_sources * direct.n_targets


def test_covers_of_both_are_the_same():
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    space = ts.Grid(k=(0.1, 8.0, 15), c=(0.1, 8.0, 15))
    question = ts.Question("regret", epsilon=0.05)
    direct, table = both(system, trainer, space, question)
    mine, theirs = ts.greedy_cover(direct), ts.greedy_cover(table)
    assert mine.sources.tolist() == theirs.sources.tolist()
    losses = question.losses(ts.evaluate(system, trainer, space, seed=0).table).values
    # By least loss, also without a table.
    least = losses[mine.sources].argmin(0)
    assert (
        mine.assignment.tolist()
        == np.sort(mine.sources)[losses[np.sort(mine.sources)].argmin(0)].tolist()
    )
    assert len(least) == space.size


@pytest.mark.parametrize("gain", [(1.0, 1.0), (-0.5, 2.0), (-3.0, -3.0), (0.0, -0.1)])
def test_unstable_loops_serve_nobody(gain):
    """The first look compares products, which do not know the signs of a and b."""
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Grid(k=(0.1, 8.0, 40), c=(0.1, 8.0, 40)))
    policies = ts.policies.LinearGain(np.array(gain).reshape(1, 1, 1, 2))
    reference = system.optimum(contexts)
    assert reference is not None
    for epsilon in (0.1, 1e3, 1e9):
        words = system.within_regret(policies, contexts, reference, epsilon)
        assert words is not None
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: len(contexts)]
        J = system.performance(policies, contexts)[0, 0]
        assert bits.tolist() == (reference - J <= epsilon).tolist()


def test_the_first_look_passes_over_nobody():
    """Thresholds at the very losses: every tie is served, in exact arithmetic too."""
    rng = np.random.default_rng(0)
    system = ts.systems.MassSpringDamper()
    contexts = rng.uniform(0.05, 9.0, (300, 3))
    gains, _ = system.optimal_gain(rng.uniform(0.05, 9.0, (40, 3)))
    policies = ts.policies.LinearGain(gains[:, None])
    J = system.performance(policies, contexts)[:, 0]
    reference = J.max(0)
    for source in range(40):
        regret = reference - J[source]
        epsilon = float(np.sort(regret)[150])
        words = system.within_regret(policies, contexts, reference, epsilon)
        assert words is not None
        bits = np.unpackbits(words[source].view(np.uint8), bitorder="little")[:300]
        assert bits.sum() >= 151
        exact = [
            Fraction(a) - Fraction(b) for a, b in zip(reference, J[source], strict=True)
        ]
        far = [abs(loss - Fraction(epsilon)) > Fraction(1e-12) for loss in exact]
        for bit, loss, clear in zip(bits, exact, far, strict=True):
            assert not clear or bool(bit) == (loss <= Fraction(epsilon))


def test_negative_control_less_slack_than_rounding():
    """Without the slack, and with less, the first look does lose targets."""
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Grid(k=(0.1, 8.0, 16), c=(0.1, 8.0, 16)))
    gains, _ = system.optimal_gain(contexts)
    weights = (10.0, 4.0, 1.0)
    columns = np.ascontiguousarray(contexts.T)
    reference = system.optimum(contexts)
    assert reference is not None
    at = slice(100, 101)
    for factor, found in ((msd.SLACK, True), (1 - 1e-9, False)):
        most = 2 * factor * -reference[at]
        k, c, m = (column[at] for column in columns)
        first, second = gains[100, 0]
        assert msd._may_serve(first, second, k, c, m, weights, most) == found


def test_a_system_must_know_its_optimum():
    space = ts.Grid(pole_length=(0.5, 1.0, 2))
    question = ts.Question("regret", epsilon=0.1)
    with pytest.raises(InvalidInputError, match="knows its optimum"):
        ts.direct_sets(ts.systems.CartPole(), ts.trainers.Ppo(), space, question)
