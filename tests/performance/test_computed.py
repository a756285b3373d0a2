"""A table that is computed as it is read has the sets of one that is kept."""

from fractions import Fraction

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError


def both(system, trainer, space, question, targets=None):
    options = {"targets": targets, "seed": 0}
    computed = ts.evaluate(system, trainer, space, computed=True, **options)
    kept = ts.evaluate(system, trainer, space, **options)
    return question.sets(computed), question.sets(kept)


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("criterion", ["regret", "ratio", "signed", "floor"])
@pytest.mark.parametrize("n_policies", [1, 3])
def test_computed_sets_are_those_of_the_table(
    epsilon, criterion, n_policies, monkeypatch
):
    monkeypatch.setattr("taskspace.performance.table.BLOCK_CELLS", 500)
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=n_policies, noise=0.1)
    space = ts.Grid(k=(0.1, 8.0, 9), c=(0.1, 8.0, 8))
    targets = ts.Grid(k=(0.05, 9.0, 13), c=(0.2, 7.0, 7), m=(0.5, 2.0, 3))
    epsilon += 12.0 * (criterion == "floor")
    question = ts.Question(criterion, epsilon=epsilon)
    computed, kept = both(system, trainer, space, question, targets)
    assert computed == kept
    assert 0 < kept.sizes.sum() < kept.n_sources * kept.n_targets


def test_covers_of_both_are_the_same():
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    space = ts.Grid(k=(0.1, 8.0, 15), c=(0.1, 8.0, 15))
    question = ts.Question("regret", epsilon=0.05)
    computed, kept = both(system, trainer, space, question)
    mine, theirs = ts.greedy_cover(computed), ts.greedy_cover(kept)
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


def test_a_system_must_know_its_optimum():
    space = ts.Grid(pole_length=(0.5, 1.0, 2))
    with pytest.raises(InvalidInputError, match="knows its optimum"):
        ts.evaluate(
            ts.systems.CartPole(), ts.trainers.Ppo(), space, seed=0, computed=True
        )


def test_a_computed_study_is_a_study(monkeypatch):
    """Its rows are those of the kept table, and nothing of them is held."""
    system, trainer = ts.systems.MassSpringDamper(), ts.trainers.Lqr(2, 0.1)
    space = ts.Grid(k=(0.5, 4.0, 5), c=(0.5, 4.0, 4))
    kept = ts.evaluate(system, trainer, space, seed=3)
    study = ts.evaluate(system, trainer, space, seed=3, computed=True)
    assert repr(study) == repr(kept)
    assert study.provenance == "exact"
    for criterion in ("regret", "ratio", "signed"):
        for judge in ("worst", "best"):
            question = ts.Question(criterion, judge, epsilon=0.0)
            got, expected = question.losses(study), question.losses(kept)
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)
    evaluated = []
    whole = type(system).reduce_family
    monkeypatch.setattr(
        type(system),
        "reduce_family",
        lambda self, policies, *rest: (
            evaluated.append(len(policies.gain)) or whole(self, policies, *rest)
        ),
    )
    assert study.table["worst"][7:9, 3:].values.shape == (2, 17)
    assert study.table["best"][4].values.shape == (20,)
    assert evaluated == [2, 1]
