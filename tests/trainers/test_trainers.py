"""The LQR trainer: seeded, pure, and independent of how a grid is cut."""

import subprocess
import sys

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.systems.cartpole import CartPole

SYSTEM = ts.systems.MassSpringDamper()
CONTEXTS = SYSTEM.contexts(ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 5)))


def test_the_default_is_the_optimal_gain_alone():
    trained = ts.trainers.Lqr().train(SYSTEM, CONTEXTS, seed=0)
    assert trained.policies.gain.shape[:2] == (len(CONTEXTS), 1)
    np.testing.assert_array_equal(
        trained.policies.gain[:, 0], SYSTEM.optimal_gain(CONTEXTS)[0]
    )


def test_noise_has_the_stated_law():
    trainer = ts.trainers.Lqr(n_policies=500, noise=0.25)
    gains = trainer.train(SYSTEM, CONTEXTS, seed=1).policies.gain
    noise = gains - SYSTEM.optimal_gain(CONTEXTS)[0][:, None]
    # 20,000 draws: mean and deviation within five standard errors.
    assert abs(noise.mean()) < 5 * 0.25 / np.sqrt(noise.size)
    assert noise.std() == pytest.approx(0.25, abs=5 * 0.25 / np.sqrt(2 * noise.size))


def test_a_source_does_not_depend_on_its_neighbours():
    trainer = ts.trainers.Lqr(n_policies=10, noise=0.1)
    whole = trainer.train(SYSTEM, CONTEXTS, seed=7).policies.gain
    for rows in (slice(0, 1), slice(3, 9), slice(19, 20)):
        part = trainer.train(SYSTEM, CONTEXTS[rows], seed=7).policies.gain
        np.testing.assert_array_equal(part, whole[rows])
    other = trainer.train(SYSTEM, CONTEXTS, seed=8).policies.gain
    assert (other != whole).all()


def test_same_seed_same_bytes_in_another_process():
    code = (
        "import hashlib, taskspace as ts;"
        "s = ts.systems.MassSpringDamper();"
        "c = s.contexts(ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 5)));"
        "lqr = ts.trainers.Lqr(n_policies=10, noise=0.1);"
        "g = lqr.train(s, c, seed=7).policies.gain;"
        "print(hashlib.sha256(g.tobytes()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_lqr_needs_a_linear_system():
    with pytest.raises(InvalidInputError, match="needs a linear system"):
        ts.trainers.Lqr().train(CartPole(), np.zeros((1, 6)), seed=0)


@pytest.mark.parametrize("options", [{"n_policies": 0}, {"noise": -1.0}])
def test_bad_settings_are_refused(options):
    with pytest.raises(InvalidInputError, match="must hold"):
        ts.trainers.Lqr(**options)
