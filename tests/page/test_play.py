"""Trajectories are those that performance is made of."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.policies import LinearGain, Mlp
from taskspace.show.play import play
from taskspace.systems import CartPole, Pendulum


def balancing(n):
    """Policies that push towards where the pole leans, from poor to good."""
    weight = np.array([0.0, 0.1, 1.0, 0.4], np.float32)
    weights = np.stack(
        [np.stack([-weight, weight], 1) * (1 - 0.8 * (i == 0)) for i in range(n)]
    )
    weights[0] = np.stack([weight, -weight], 1)  # pushes the wrong way
    return Mlp((weights,), (np.zeros((n, 2), np.float32),))


def test_cartpole_returns_are_those_of_the_first_episode():
    system = CartPole(n_episodes=2)
    policies = balancing(3)
    contexts = system.contexts(ts.Points(["pole_length"], [0.5, 0.5, 2.0]))
    shown = play(system, policies, contexts)
    returns = system.returns(policies[:, None], contexts)[..., 0][:, 0]
    np.testing.assert_array_equal(shown.scores, np.diag(returns))
    assert shown.scene == "cart-pole"
    assert shown.scores[0] < 20 < shown.scores[1]
    every = -(-500 // 150)
    assert shown.ends[0] == -(-int(shown.scores[0]) // every)
    # After the end nothing moves.
    after = shown.states[0, shown.ends[0] :]
    assert (after == after[0]).all()


def test_pendulum_returns_are_those_of_the_first_episode():
    system = Pendulum(n_episodes=2)
    gains = LinearGain(np.array([[[0.0, 0.0, 0.0]], [[0.0, 8.0, 2.0]]]))
    contexts = system.contexts(ts.Points(["length"], [1.0, 0.8]))
    shown = play(system, gains, contexts)
    stack = LinearGain(gains.gain[:, None])
    returns = system.returns(stack, contexts)[..., 0][:, 0]
    np.testing.assert_allclose(shown.scores, np.diag(returns), rtol=1e-4)
    assert shown.scene == "pendulum"


def test_a_mass_on_a_spring_swings_as_its_equation_says():
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Points(["k", "c"], [[4.0, 0.0], [1.0, 2.0]]))
    shown = play(system, LinearGain(np.zeros((2, 1, 2))), contexts)
    t = np.arange(shown.states.shape[1]) * shown.seconds
    np.testing.assert_allclose(shown.states[0, :, 0], np.cos(2 * t), atol=1e-5)
    critical = (1 + t) * np.exp(-t)
    np.testing.assert_allclose(shown.states[1, :, 0], critical, atol=1e-5)
    assert shown.scene == "mass"


def test_an_unstable_loop_stays_a_number():
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Points(["k", "c"], [[0.1, 0.1]]))
    shown = play(system, LinearGain(np.array([[[-500.0, -500.0]]])), contexts)
    assert np.isfinite(shown.states).all()


@pytest.mark.parametrize("name", ["msd"])
def test_the_page_plays(browser, tmp_path, name):
    from taskspace.cli.inputs import load_table
    from taskspace.runs import load_experiment, run_experiment
    from taskspace.show.page import Reader, render

    experiment = load_experiment(
        name, ["space.n=5", "trainer.n_policies=2", "cover.n_repeats=3"]
    )
    path = tmp_path / "run"
    run_experiment(experiment, path)
    reader = Reader(
        path, lambda: load_table(path), options={"time_limit": 0.2, "n_steps": 6}
    )
    browser.show(render(reader.read()), tmp_path, "#c=regret.worst&e=0.2&p=7")
    browser.run("document.querySelector('.start-play').click()")
    browser.until("return document.querySelectorAll('canvas.stage').length === 2")
    image = "return document.querySelector('canvas.stage').toDataURL()"
    first = browser.run(image)
    browser.until(
        f"return document.querySelector('canvas.stage').toDataURL() !== {first!r}"
    )
    assert "at home" in browser.text(".stages")
    assert browser.errors() == []
