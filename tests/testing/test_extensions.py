"""Selectors, trainers and policies: ours pass their checks, wrong ones fail."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.policies import (
    POLICY_KINDS,
    LinearController,
    LinearGain,
    Mlp,
    Policy,
    TabularPolicy,
)
from taskspace.selection import SELECTORS, Selector, selector
from taskspace.selection.baselines import Farthest, Random
from taskspace.systems import MassSpringDamper, PythonPolicies
from taskspace.testing import check_policy, check_selector, check_trainer
from taskspace.trainers import Lqr, Trained

SPACE = ts.Grid(k=(1.0, 4.0, 3), c=(1.0, 2.0, 2))


# --- selectors --------------------------------------------------------------------


@pytest.mark.parametrize("name", SELECTORS)
def test_our_selectors_keep_their_promises(name):
    check_selector(SELECTORS[name])


class Outside(Farthest):
    def propose(self, ledger, question, n):
        return super().propose(ledger, question, n) + 0.25


class TooMany(Random):
    def propose(self, ledger, question, n):
        return super().propose(ledger, question, n + 1)


class GivesUp(Farthest):
    def propose(self, ledger, question, n):
        rows = super().propose(ledger, question, n)
        return rows[:0] if ledger.n_sources else rows


@pytest.mark.parametrize(
    ("cls", "check", "says"),
    [
        (Outside, "candidates", "no candidate"),
        (TooMany, "candidates", "at most"),
        (GivesUp, "covers", "targets left"),
    ],
)
def test_wrong_selectors_fail_for_the_right_reason(cls, check, says):
    with pytest.raises(AssertionError, match=f"^{check}: .*{says}"):
        check_selector(cls)


def test_a_selector_with_a_memory_fails():
    class Forgets(Random):
        asked: ClassVar[int] = 0

        def rng(self, seen):
            type(self).asked += 1
            return np.random.default_rng(self.asked)

    with pytest.raises(AssertionError, match=r"^pure: "):
        check_selector(Forgets)


def test_a_selector_of_ones_own_is_registered_by_a_decorator():
    with pytest.raises(InvalidInputError, match="is that of Random"):
        selector("random")(Farthest)
    try:

        @selector("last")
        class Last(Selector):
            def propose(self, ledger, question, n):
                seen = self.look(ledger, question)
                left = self.candidates.left(seen.planned)
                return self.candidates.points[left][::-1][:n]

        assert Last.name == "last"
        check_selector(Last)
        result = ts.select(
            MassSpringDamper(), Lqr(), SPACE, "regret <= 0.5", selector="last"
        )
        assert result.stop_reason == "covered"
        assert result.selector == "last"
    finally:
        SELECTORS.pop("last", None)


# --- trainers ---------------------------------------------------------------------

TRAINERS = [
    Lqr(),
    Lqr(n_policies=3, noise=0.1),
]


@pytest.mark.parametrize("trainer", TRAINERS, ids=str)
def test_our_trainers_keep_their_promises(trainer):
    check_trainer(trainer, MassSpringDamper(), SPACE)


@dataclass(frozen=True)
class Counts(Lqr):
    """The policy of a source depends on its place, or on the calls before."""

    how: str = "place"
    calls: ClassVar[list[int]] = []

    def train(self, system, contexts, *, seed, progress=None):
        self.calls.append(1)
        trained = super().train(system, contexts, seed=seed)
        factor: Any = 1 + 0.01 * np.arange(len(contexts)).reshape(-1, 1, 1, 1)
        if self.how == "calls":
            factor = 1 + 0.01 * len(self.calls)
        if self.how == "dims":
            return replace(trained, policies=trained.policies[:1])
        gain = LinearGain(trained.policies.gain * factor)
        return Trained(gain, trained.environment_steps)


@pytest.mark.parametrize(
    ("how", "promise"),
    [("place", "alone"), ("calls", "repeatable"), ("dims", "sizes")],
)
def test_wrong_trainers_fail_for_the_right_reason(how, promise):
    with pytest.raises(AssertionError, match=f"^{promise}: "):
        check_trainer(Counts(how=how), MassSpringDamper(), SPACE)


# --- policies ---------------------------------------------------------------------

RNG = np.random.default_rng(0)
STACKS = {
    "linear-gain": (LinearGain(RNG.normal(size=(3, 2, 1, 2))), np.ones(2)),
    "linear-controller": (
        LinearController(
            A=RNG.normal(size=(3, 2, 1, 1)),
            B=RNG.normal(size=(3, 2, 1, 1)),
            C=RNG.normal(size=(3, 2, 1, 1)),
            D=RNG.normal(size=(3, 2, 1, 1)),
        ),
        None,
    ),
    "mlp": (
        Mlp(
            (RNG.normal(size=(3, 2, 2, 4)), RNG.normal(size=(3, 2, 4, 1))),
            (RNG.normal(size=(3, 2, 4)), RNG.normal(size=(3, 2, 1))),
            head="clip",
        ),
        np.ones(2),
    ),
    "tabular": (TabularPolicy(np.full((3, 2, 4, 2), 0.5)), None),
}


@pytest.mark.parametrize("kind", POLICY_KINDS)
def test_our_policies_keep_their_promises(kind):
    check_policy(*STACKS[kind])


class Rounds(Policy):
    """It does not come back as it was."""

    kind = "rounds"

    def __init__(self, gain):
        self.gain = gain

    def arrays(self):  # pyright: ignore
        return {"gain": self.gain}

    @classmethod
    def from_arrays(cls, arrays, settings):
        return cls(arrays["gain"].round(1))

    def act(self, observation):
        return self.gain @ observation


def test_wrong_policies_fail_for_the_right_reason(monkeypatch):
    gain = np.ones((2, 1, 1, 2))

    def fails(policies, says):
        with pytest.raises(AssertionError, match=says):
            check_policy(policies, np.ones(2))

    fails(Rounds(gain), "^storable: .*register_policy")
    fails(PythonPolicies([1, 2]), "^storable: .*cannot be stored")
    monkeypatch.setitem(POLICY_KINDS, "rounds", Rounds)
    check_policy(Rounds(gain), np.ones(2))
    fails(Rounds(1.23 * gain), "^stored: The array gain changed")
    fails(LinearGain(gain.astype(object)), "^dims: .*must hold numbers")
