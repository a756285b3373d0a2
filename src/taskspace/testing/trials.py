"""A system on trial: what the checks need of it, made once."""

import math
import time
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import System
from taskspace.systems.baselines import network_sizes
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import TabularFamily
from taskspace.testing.liveness import Outcomes, environment_outcomes, system_outcomes
from taskspace.trainers import Trainer
from taskspace.trainers.base import shortened

TRIAL_STEPS = 20_000
"""Environment steps of a training that only serves to try things out; a fourth in
Gymnasium, which is slower."""

GYMNASIUM_EPISODES = 3
"""Episodes of a trial in Gymnasium."""


class SystemTrial:
    """One system on trial; expensive pieces are made once.

    Args:
        system: the system.
        trainer: a trainer for it, if there is one.
        row: full context row to start from.
        seed: seed of everything random here.
    """

    def __init__(
        self,
        system: System,
        trainer: Trainer | None,
        row: NDArray[np.float64],
        seed: int,
    ):
        self.system, self.row, self.seed = _quick(system), row, seed
        self.trainer = _short(trainer, system)

    @cached_property
    def random(self) -> Policy:
        """Policies that know nothing of the task."""
        policies = random_policies(self.system, 6, self.seed)
        if policies is None:
            raise TaskspaceError(
                f"It is not known how to make policies for {self.system.id}; give "
                "examples (FunctionSystem) or a trainer."
            )
        return policies

    @cached_property
    def trained(self) -> tuple[Policy, float]:
        """Policies of one source, and the seconds that they took."""
        return self._train()

    @cached_property
    def trained_again(self) -> tuple[Policy, float]:
        """The same once more; what is compiled is compiled by now."""
        _ = self.trained
        return self._train()

    def _train(self) -> tuple[Policy, float]:
        assert self.trainer is not None
        began = time.perf_counter()
        trained = self.trainer.train(self.system, self.row[None], seed=self.seed)
        return trained.policies, time.perf_counter() - began

    def policies(self) -> Policy:
        """Something to evaluate: random policies, else trained ones."""
        try:
            return self.random
        except TaskspaceError:
            if self.trainer is None:
                raise
            return self.trained[0]

    def contexts(self) -> NDArray[np.float64]:
        """Return the default, and each axis moved by a quarter within its bounds."""
        if isinstance(self.system, TabularFamily):
            return np.asarray(self.system.values)[:, None]
        rows = [self.row]
        for i, axis in enumerate(self.system.axes):
            for part in (-0.25, 0.25):
                moved = self.row.copy()
                moved[i] += part * (abs(moved[i]) or 1.0)
                if axis.allows(moved[i : i + 1])[0]:
                    rows.append(moved)
        return np.stack(rows)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """J of `policies` at `contexts`."""
        return self.system.performance(self.policies(), self.contexts())

    def outcomes(self) -> list[Outcomes]:
        """Return what happens in a context, the cheapest first: steps, scores."""
        system, policies = self.system, self.policies()

        def scores(row: NDArray[np.float64]) -> NDArray[np.float64]:
            return system.performance(policies, row[None])

        if isinstance(system, GymnasiumSystem):
            return [environment_outcomes(system.environment, n_steps=100), scores]
        if isinstance(system, SimulatedSystem):
            return [system_outcomes(system)]
        return [scores]


def _quick(system: System) -> System:
    """Return the system with few episodes, where playing is slow."""
    if not isinstance(system, GymnasiumSystem):
        return system
    return replace(system, n_episodes=min(system.n_episodes, GYMNASIUM_EPISODES))


def _short(trainer: Trainer | None, system: System) -> Trainer | None:
    """Return the trainer with a trial's budget."""
    slow = isinstance(system, GymnasiumSystem)
    most = {"total_steps": TRIAL_STEPS // 4 if slow else TRIAL_STEPS, "n_policies": 1}
    if slow:
        most["n_evaluation_episodes"] = 5
    return None if trainer is None else shortened(trainer, most)


def random_policies(system: System, n: int, seed: int = 0) -> Policy | None:
    """Policies that know nothing of the task, one per source; None if unknown how.

    Args:
        system: the system.
        n: how many.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    if isinstance(system, FunctionSystem):
        n_examples = len(system.examples)  # they may be an array
        return PythonPolicies(list(system.examples)) if n_examples else None
    if isinstance(system, LinearSystem):
        gain, _ = system.optimal_gain(np.array([[a.default for a in system.axes]]))
        noise = rng.standard_normal((n, 1, *gain.shape[1:]))
        # From as large as the gain to a hundredth of it: of a plant with many states
        # hardly any large one is stable.
        scale = np.maximum(abs(gain).max(), 0.1) * np.geomspace(1, 0.01, n)
        return LinearGain(gain + scale[:, None, None, None] * noise)
    if isinstance(system, TabularFamily):
        actions = rng.integers(system.n_actions, size=(n, 1, system.n_states))
        return TabularPolicy(np.eye(system.n_actions)[actions])
    if (shape := network_sizes(system)) is None:
        return None
    n_in, n_out, head = shape
    sizes = ((n_in, 16), (16, n_out))
    weights = [rng.standard_normal((n, 1, *s)) / math.sqrt(s[0]) for s in sizes]
    return Mlp(
        weights=tuple(w.astype(np.float32) for w in weights),
        biases=tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=head,
    )
