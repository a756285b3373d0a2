"""Trajectories are those that performance is made of."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.policies import LinearGain, Mlp
from taskspace.show.page import build_page, collect
from taskspace.show.page.html import render
from taskspace.show.page.play import play, play_part, play_record
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


def test_the_page_plays(browser, small_run, tmp_path):
    page = build_page(ts.open(small_run), time_limit=0.2, n_steps=6)
    browser.show(page, tmp_path, "#c=regret.worst&e=0.2&p=7")
    browser.run("document.querySelector('.start-play').click()")
    browser.until("return document.querySelectorAll('canvas.stage').length === 2")
    image = "return document.querySelector('canvas.stage').toDataURL()"
    first = browser.run(image)
    browser.until(
        f"return document.querySelector('canvas.stage').toDataURL() !== {first!r}"
    )
    assert "at home" in browser.text(".stages")
    assert browser.errors() == []


def test_a_context_that_is_not_served_shows_the_pole_fall(browser, tmp_path):
    system, policies = CartPole(n_episodes=2), balancing(2)
    space = ts.Points(["pole_length"], [0.5, 1.5])
    stack = Mlp(
        tuple(w[:, None] for w in policies.weights),
        tuple(b[:, None] for b in policies.biases),
    )
    scores = system.performance(stack, system.contexts(space))[:, 0]
    table = ts.performance.table_from_matrix(scores, sources=space, targets=space)
    # Only the poor policy may be chosen, against what the good one reaches.
    poor = table.isel(source=[0]).assign(best_known=table["best_known"])
    asked = [ts.Question(epsilon=5.0)]
    page = collect(poor, asked, time_limit=0.1, n_steps=4)
    assert page.layers[0].steps[page.layers[0].start].best.size == 0
    known = ts.Study.of(poor, system=system, policies=stack[:1])
    assert play_part(known, page) == {}  # no source is selected
    known = ts.Study.of(table, system=system, policies=stack)
    both = collect(known, asked, time_limit=0.1, n_steps=4)
    record = both.header["play"]
    assert record["targets"] == [0, 1]
    browser.show(render(both.header, both.blobs), tmp_path, "#p=1&m=hand&s=0")
    assert "loses least here" in browser.text(".detail")
    assert browser.run("return !!document.querySelector('.start-play')")
    assert browser.errors() == []


@pytest.mark.parametrize("judge", ["worst", "best"])
def test_the_policy_that_counts_is_played(small_run, judge):
    study = ts.open(small_run)
    table = study.table
    sources, targets = np.array([3, 3, 17]), np.array([20, 4, 0])
    record = play_record(study, table, judge, sources, targets)
    scores = table["performance"].values[sources, :, targets]
    best = scores.argmin(1) if judge == "worst" else scores.argmax(1)
    assert record["members"] == best.tolist()
    assert judge in record["which"]
    # Where only reductions are kept, J of a linear system is computed again.
    kept = table[["best_known", "home_performance"]]
    again = play_record(study, kept, judge, sources, targets)
    assert again["members"] == best.tolist()


def test_reductions_of_episodes_play_the_first_policy_and_say_so():
    space = ts.Points(["pole_length"], [0.5, 1.5])
    policies = balancing(4)
    stack = Mlp(
        tuple(w.reshape(2, 2, *w.shape[1:]) for w in policies.weights),
        tuple(b.reshape(2, 2, *b.shape[1:]) for b in policies.biases),
    )
    table = ts.performance.table_from_matrix(np.eye(2), sources=space, targets=space)
    study = ts.Study.of(table, system=CartPole(n_episodes=2), policies=stack)
    kept = table.drop_vars("performance")
    record = play_record(study, kept, "worst", np.array([1]), np.array([0]))
    assert record["members"] == [0]
    assert "only reductions" in record["which"]


def test_a_page_of_controllers_says_that_they_are_not_played():
    system = ts.systems.LinearFamily(
        [ts.systems.ContextAxis("x", 1.0)],
        A=lambda x: [[-x]],
        B=lambda x: [[1.0]],
        C=lambda x: [[1.0]],
        Q=np.eye(1),
        R=np.eye(1),
    )
    space = ts.Grid(x=(0.5, 2.0, 4))
    controllers = ts.systems.Pi(np.ones((4, 1)), np.ones((4, 1)))
    study = ts.evaluate_policies(system, controllers, space, sources=space)
    page = collect(study, [ts.Question("cost <= 5")], time_limit=0.3, n_steps=4)
    assert "controllers" in page.header["no_play"]
    assert "play" not in page.header
