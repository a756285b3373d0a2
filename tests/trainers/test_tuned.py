"""Gains by simulation: a valve that saturates, refusals, the same seed."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems import ContextAxis, FunctionSystem
from taskspace.trainers import Tuned

AXES = [ContextAxis("flow", 1.0, "l/s", low=0.0)]


def simulate(context, controller):
    """Minus ∫ |error| of a tank whose valve is open between 0 and 1."""
    pi, level, state, cost = controller.sampled(0.1), 0.0, np.zeros(1), 0.0
    for _ in range(150):
        u, after = pi.step(state, np.array([level]), np.array([1.0]))
        opening = min(max(u[0], 0.0), 1.0)
        if opening == u[0]:
            state = after
        level += 0.1 * (2.0 * opening - context["flow"] * level)
        cost += 0.1 * abs(1.0 - level)
    return -cost


SYSTEM = FunctionSystem(simulate, AXES)
TRAINER = Tuned(low=(0.05, 0.01), high=(20.0, 10.0), n_starts=6, n_steps=25)


def test_search_beats_its_starts_and_a_grid():
    contexts = np.array([[0.8]])
    trained = TRAINER.train(SYSTEM, contexts, seed=0)
    cost = -SYSTEM.performance(trained.policies, contexts).item()
    grid = np.exp(np.linspace(np.log(0.05), np.log(20.0), 6))
    others = [-simulate({"flow": 0.8}, ts.systems.Pi(kp, 0.5)) for kp in grid]
    assert cost <= min(others) * 1.02
    assert trained.log["simulations"].item() <= 32
    again = TRAINER.train(SYSTEM, np.repeat(contexts, 2, 0), seed=0)
    assert (again.policies.parameters == trained.policies.parameters[0, 0]).all()
    assert ((trained.policies.parameters >= (0.05, 0.01)).all()) & (
        (trained.policies.parameters <= (20.0, 10.0)).all()
    )


def test_twenty_lines_from_simulation_to_schedule(tmp_path):
    space = ts.Grid(flow=(0.4, 1.6, 4))
    study = ts.evaluate(SYSTEM, TRAINER, space, seed=0)
    cover = ts.minimum_cover(study, ts.Question("regret", epsilon=0.1))
    assert cover.coverage == 1.0
    library = ts.library(study, cover)
    ts.export.export_tables(library, tmp_path / "tables")
    assert "kp" in (tmp_path / "tables" / "map.csv").read_text()
    runner = ts.export.PidRunner(library, 0.1, low=0.0, high=1.0)
    assert 0.0 <= runner.step([1.0], 0.2, 1.0)[0] <= 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"low": (1.0,), "high": (2.0,)},
        {"low": (1.0, 1.0), "high": (0.5, 2.0)},
        {"low": (1.0, 1.0), "high": (2.0, 2.0), "structure": "pd"},
        {"low": (1.0, 1.0, 1.0), "high": (2.0, 2.0, 2.0), "structure": "pid"},
        {"low": (1.0, 1.0), "high": (2.0, 2.0), "n_starts": 0},
    ],
    ids=["one", "order", "structure", "filter", "starts"],
)
def test_refusals(options):
    with pytest.raises((InvalidInputError, UnknownNameError)):
        Tuned(**options)
