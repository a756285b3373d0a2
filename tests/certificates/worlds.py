"""Small worlds with known answers, for the tests of certificates."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import taskspace as ts
from taskspace.certificates import MsdEnclosure
from taskspace.policies import LinearGain, Policy
from taskspace.systems import ContextAxis, MassSpringDamper, System
from taskspace.systems.base import reduce_family

MSD = MassSpringDamper()


def line_table(points, performance: Callable):
    """A table on a line: one policy a source, J(t, π_s) = performance(s, t)."""
    points = np.asarray(points, float)
    space = ts.Points(["x"], points)
    sources, targets = np.meshgrid(points, points, indexing="ij")
    matrix = np.asarray(performance(sources, targets), float)
    return ts.performance.table_from_matrix(
        matrix, sources=space, targets=space, provenance="exact"
    )


def msd_family(space, *, n_policies=1, noise=0.0, seed=0):
    """Gains of every source of a space."""
    trainer = ts.trainers.Lqr(n_policies=n_policies, noise=noise)
    return trainer.train(MSD, MSD.contexts(space), seed=seed).policies


def msd_enclosure(space, criterion="regret", judge="worst", **options):
    policies = msd_family(space, **options)
    contexts = MSD.contexts(space)
    return MsdEnclosure(
        MSD, policies, contexts, ts.Question(criterion, judge, epsilon=0.0)
    )


def msd_loss(space, policies, contexts, criterion, judge):
    """Losses by the system itself, in floating point, dims (source, context)."""
    home = MSD.home_performance(policies, MSD.contexts(space))
    reduced = reduce_family(MSD.performance(policies, contexts), home)
    if criterion == "signed":
        return reduced[f"gap_{judge}"]
    at_target = reduced[judge]
    if criterion == "floor":
        return -at_target
    optimum = MSD.optimum(contexts)
    regret = np.where(at_target == -np.inf, np.inf, optimum - at_target)
    return regret if criterion == "regret" else regret / -optimum


def random_contexts(edges, n, rng):
    """Random full context rows in the box of some edges, corners among them."""
    low = np.array([e[0] for e in edges])
    high = np.array([e[-1] for e in edges])
    share = rng.random((n, len(edges)))
    share[: n // 4] = np.round(share[: n // 4])
    return np.clip(low + share * (high - low), low, high)


@dataclass(frozen=True)
class Sawtooth(System):
    """J(θ, gain) = −slope |θ − gain|: exactly Lipschitz, tight everywhere."""

    slope: float = 2.0
    id = "sawtooth"
    provenance = "exact"

    @property
    def axes(self):
        return (ContextAxis("x", 0.0),)

    def performance(self, policies: Policy, contexts):
        assert isinstance(policies, LinearGain)
        return -self.slope * np.abs(policies.gain[..., 0] - contexts[:, 0])

    def optimum(self, contexts):
        return np.zeros(len(contexts))

    @staticmethod
    def policies(centres):
        return LinearGain(np.asarray(centres, float).reshape(-1, 1, 1, 1))


def policy_table(system, policies, space):
    """A table of given policies, each at home in the context of its row."""
    return ts.evaluate_policies(system, policies, space, sources=space).table


def _paper_toys():
    file = Path(__file__).parents[2] / "examples" / "paper_toys.py"
    spec = importlib.util.spec_from_file_location("paper_toys", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOYS = _paper_toys()
"""The example with the toys of the paper."""
