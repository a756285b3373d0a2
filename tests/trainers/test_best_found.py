"""Ratio against the best of the same structure: brute force, and what it may claim."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.systems import ContextAxis, LinearFamily, Pi
from taskspace.trainers import BestFound, Structured

PLANT = LinearFamily(
    [ContextAxis("k", 1.0, low=0.0)],
    A=lambda k: [[0, 1], [-k, -1]],
    B=lambda k: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)
SYSTEM = BestFound(PLANT, Structured("static", n_starts=1))
SPACE = ts.Grid(k=(0.5, 3.0, 4))
RATIO = ts.Question("ratio", epsilon=0.1)


def cost(gain: float, k: float) -> float:
    """Cost of u = −gain · position, by another Lyapunov solver."""
    loop = np.array([[0, 1], [-k - gain, -1.0]])
    weight = np.eye(2) + np.diag([gain**2, 0.0])
    return float(np.trace(scipy.linalg.solve_continuous_lyapunov(loop.T, -weight)))


@pytest.fixture(scope="module")
def study():
    trainer = Structured("static", n_starts=1)
    return ts.evaluate(SYSTEM, trainer, ts.Grid(k=(0.5, 3.0, 2)), targets=SPACE, seed=0)


def test_the_reference_is_the_least_cost_over_all_gains_of_the_structure(study):
    for k, best in zip(SPACE.points[:, 0], study.table["best_known"], strict=True):
        least: Any = scipy.optimize.minimize_scalar(cost, bounds=(-0.4, 4), args=(k,))
        assert -float(best) == pytest.approx(least.fun, rel=1e-6)
    # A controller of less information than the whole state costs more.
    own = PLANT.optimum(PLANT.contexts(SPACE))
    assert (study.table["best_known"].values < own - 1e-3).all()


def test_losses_are_against_it_and_the_statements_say_so(study):
    gain = study.policies.D.ravel()
    wanted = [[cost(g, k) for k in SPACE.points[:, 0]] for g in gain]
    wanted = np.array(wanted) / -study.table["best_known"].values - 1
    assert ts.loss(study, RATIO).values == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert study.reference.startswith("best found by structured (structure=static")
    proofs = ts.certify(study, RATIO, time_limit=2.0).certificates
    grid = next(c for c in proofs if c.name == "grid cover")
    assert grid.kind == "estimate"
    assert "best found by structured" in grid.why
    assert not [c for c in proofs if c.kind == "proof" and c.name.startswith("cont")]
    said = " ".join(c.why for c in proofs)
    assert "known at single contexts" in said
    # The true best is no worse than what was found: bounds from below stay proofs.
    assert next(c for c in proofs if c.name == "cover: size").kind == "proof"
    library = ts.library(
        study, ts.minimum_cover(study, ts.Question("ratio", epsilon=1))
    )
    assert library.guarantee.kind == "estimate"


def test_what_does_not_compare_is_proven_as_before(study):
    asked = ts.Question("floor", epsilon=20.0)
    proofs = ts.certify(study, asked, time_limit=5.0).certificates
    between = next(c for c in proofs if c.name == "continuum cover")
    assert between.kind == "proof"
    assert between.holds


def test_controllers_that_exist_are_compared_too():
    found = ts.evaluate_policies(SYSTEM, Pi([0.3, 0.6], [0.1, 0.2]), SPACE)
    plain = ts.evaluate_policies(PLANT, Pi([0.3, 0.6], [0.1, 0.2]), SPACE)
    assert (found.table["performance"] == plain.table["performance"]).all()
    assert (ts.loss(found, RATIO).values < ts.loss(plain, RATIO).values).all()


def test_only_linear_families_are_taken():
    with pytest.raises(InvalidInputError, match="best of the table"):
        BestFound(ts.systems.CartPole(), Structured())  # pyright: ignore
