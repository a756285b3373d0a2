"""The doctor finds what is planted, and nothing where all is well."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import taskspace as ts
from taskspace.systems import (
    SYSTEMS,
    ContextAxis,
    FunctionSystem,
    GymnasiumSystem,
    PythonPolicies,
)
from taskspace.testing import check_system, system_checks
from taskspace.trainers import Lqr, Trained, Trainer
from tests.helpers import refused, taskspace
from tests.systems import own

CHECKS = ["shapes", "axes alive", "deterministic", "larger is better", "trainer"]


def failures(system, trainer=None) -> dict[str, str]:
    checks = system_checks(system, trainer)
    assert [check.check for check in checks] == CHECKS
    return {check.check: check.detail for check in checks if check.ok is False}


@pytest.mark.parametrize("name", SYSTEMS)
def test_built_in_systems_are_well(name):
    assert failures(SYSTEMS[name]()) == {}


def test_systems_of_ones_own_are_well():
    check_system(own.good)
    check_system(own.pendulum)
    check_system(own.fresh_cartpole())


def test_a_failed_check_is_an_assertion_error():
    with pytest.raises(AssertionError, match="axes alive: Moving colour"):
        check_system(own.dead)


class CostNotPerformance(ts.systems.LinearFamily):
    """A linear family that gives its cost as it is."""

    provenance = "given"

    def performance(self, policies, contexts):
        return -super().performance(policies, contexts)


@dataclass(frozen=True, eq=False)
class WrongShape(ts.systems.FunctionSystem):
    """Gives targets before policies."""

    provenance = "given"

    def performance(self, policies, contexts):
        return super().performance(policies, contexts).swapaxes(1, 2)


class Stateful:
    """A Gymnasium CartPole that ignores its seed after the first reset."""

    def __new__(cls):
        import gymnasium

        class Careless(gymnasium.Wrapper):
            def reset(self, *, seed=None, options=None):
                del seed
                return self.env.reset(seed=None, options=options)

        return Careless(gymnasium.make("CartPole-v1"))


@dataclass(frozen=True)
class Careless(Lqr):
    """A trainer with randomness of its own."""

    def train(self, system, contexts, *, seed, progress=None):
        del seed
        seed = int(np.random.default_rng().integers(2**31))
        return super().train(system, contexts, seed=seed, progress=progress)


class Crowded(FunctionSystem):
    """J depends a little, in a small unit, on what is evaluated with it."""

    provenance = "given"

    def performance(self, policies, contexts):
        values = super().performance(policies, contexts)
        return 1e-12 * (values + 0.1 * len(values))


class Neighbours(GymnasiumSystem):
    """Returns depend on the number of episodes."""

    def returns(self, policies, contexts, *, episodes=None):
        found = super().returns(policies, contexts, episodes=episodes)
        return found + found.shape[-1]


ONE = {"Q": [[1.0]], "R": [[1.0]], "B": [[1.0]], "A": lambda k: [[-k]]}
HIT = (own.hit, [own.AXIS_X])
TAU = [ContextAxis("tau", 0.02, low=0.0)]
PLANTED = {
    "dead axis of a function": (
        lambda: own.dead, "axes alive", "Moving colour changes nothing",
    ),
    "dead axis of CARL": (
        own.stale_cartpole, "axes alive", "Moving masscart changes nothing",
    ),
    "noise without a seed": (lambda: own.random, "deterministic", "differ by up to"),
    "not a number": (lambda: own.not_a_number, "shapes", "it gave nan"),
    "flipped sign of a function": (lambda: own.flipped, "larger is better", "flipped"),
    "flipped sign of a family": (
        lambda: CostNotPerformance([ContextAxis("k", 1.0)], **ONE),
        "larger is better", "flipped",
    ),
    "wrong shape": (
        lambda: WrongShape(*HIT, examples=[0.0, 1.0]), "shapes", "shape (2, 1, 3)",
    ),
    "seed that is ignored": (
        lambda: GymnasiumSystem(Stateful, TAU, horizon=50, n_episodes=2),
        "deterministic", "differ",
    ),
    "crowded": (lambda: Crowded(*HIT, examples=[0.0, 1.0]), "deterministic", "alone"),
    "neighbours": (
        lambda: Neighbours("CartPole-v1", horizon=20, n_episodes=3),
        "deterministic", "played alone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_mistakes_are_found(name):
    make, check, says = PLANTED[name]
    found = failures(make())
    assert says in found[check]
    if check == "axes alive":
        assert list(found) == [check]


def test_trainer_without_a_seed():
    found = failures(own.pendulum, Careless(n_policies=2, noise=0.1))
    assert list(found) == ["trainer"]


def test_what_is_not_checked_is_skipped_and_counted():
    checks = system_checks(ts.systems.CartPole())
    skipped = [check for check in checks if check.ok is None]
    assert [check.check for check in skipped] == ["larger is better", "trainer"]
    assert all(check.detail.startswith("Skipped: ") for check in skipped)
    done = taskspace("doctor", "tests.systems.own:unjudged")
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if "skipped" in line]
    assert len(rows) == 3  # two checks and the last line
    assert "5 checks: 3 ok, 2 skipped." in done.stdout
    assert "well" not in done.stdout.splitlines()[-1]
    done = taskspace("doctor", "tests.systems.own:dead")
    assert done.returncode == 1
    assert "5 checks: 3 ok, 1 failed, 1 skipped." in done.stdout


@pytest.mark.slow
def test_learned_policy_is_compared_with_chance():
    trainer = ts.trainers.Ppo(total_steps=2**18, n_policies=1)
    checks = {c.check: c for c in system_checks(ts.systems.CartPole(), trainer)}
    assert checks["larger is better"].ok
    assert "A trained policy has" in checks["larger is better"].detail


def test_command():
    done = taskspace("doctor", "msd-v1", "--format", "json")
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)
    assert [set(record) for record in records] == [{"check", "ok", "detail"}] * 5
    assert all(record["ok"] for record in records)
    done = taskspace("doctor", "tests.systems.own:stale_cartpole")
    assert done.returncode == 1
    assert "masscart" in done.stdout
    assert taskspace("doctor", "msd").returncode == 0


def test_command_with_bad_input():
    assert "Did you mean 'msd-v1'?" in refused("doctor", "msd-v2")
    assert "cannot be imported" in refused("doctor", "nothing_here:x")
    assert "Did you mean 'pendulum'?" in refused("doctor", "tests.systems.own:pendlum")
    assert "must be a system" in refused("doctor", "tests.systems.own:CART_AXES")
    assert "must make a System" in refused("doctor", "builtins:dict")
    assert "Unknown trainer" in refused("doctor", "msd-v1", "--trainer", "lqg")


@pytest.mark.parametrize(
    "examples",
    [
        np.array([[0.1, 0.2], [0.3, 0.3], [0.5, 0.4]]),
        [np.array([0.1, 0.2]), np.array([0.3, 0.3])],
        [np.array(0.1), np.array(0.3)],
    ],
    ids=["one array", "a list of arrays", "arrays without dims"],
)
def test_policies_that_are_arrays(examples):
    def score(context, gain):
        return -float(np.sum((np.asarray(gain) - context["x"]) ** 2))

    axes = [ContextAxis("x", 0.5)]
    assert failures(FunctionSystem(score, axes, examples=examples)) == {}
    # One policy of a stack is that array, not a stack of its numbers.
    stack = PythonPolicies(list(examples))
    for i, example in enumerate(examples):
        assert np.array_equal(stack[i, 0].objects.item(), example)
        assert np.array_equal(stack[i].objects[0], example)
    assert stack[:1].objects.shape == (1, 1)
    assert stack[[0, 1], [0, 0]].objects.shape == (2,)


class Closures(Trainer):
    """Functions as policies: two of the same training are never one object."""

    id, n_policies = "closures", 1

    def __init__(self, draw):
        self.draw = draw

    def train(self, system, contexts, *, seed, progress=None):
        gains = [self.draw(seed) * row[0] for row in contexts]
        made = [lambda x, gain=gain: gain * x for gain in gains]
        return Trained(PythonPolicies(made), np.zeros((len(made), 1), np.int64))


def score(context, policy):
    return -((policy(1.0) - context["k"]) ** 2)


@pytest.mark.parametrize(
    ("draw", "ok"),
    [
        (lambda seed: np.random.default_rng(seed).random(), True),
        (lambda seed: np.random.default_rng().random(), False),
    ],
    ids=["seeded", "not seeded"],
)
def test_policies_are_compared_by_what_they_do(draw, ok):
    system = FunctionSystem(score, [ContextAxis("k", 1.0)])
    checks = {c.check: c for c in system_checks(system, Closures(draw))}
    assert checks["trainer"].ok is ok, checks["trainer"].detail
    if not ok:
        assert "score differently" in checks["trainer"].detail
