"""Controllers of a given structure: minima by brute force, rates, rules, refusals."""

import control
import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid, rate_form
from taskspace.trainers import Structured

PLANT = LinearFamily(
    [ContextAxis("k", 1.0, low=0.0)],
    A=lambda k: [[0, 1, 0], [-k, -1, 1], [0, 0, -4]],
    B=lambda k: [[0], [0], [4.0]],
    Q=np.eye(3),
    R=[[1.0]],
    C=[[1.0, 0.0, 0.0]],
)
SERVO = rate_form(PLANT, output_weight=1.0, disturbance=[[0], [1], [0]])
CONTEXT = np.array([[1.3]])


def simulated(kp, ki, kd=0.0, tau=None) -> float:
    """∫ y² + u̇² after a step of the set point (weight 0), and of the disturbance."""
    A, B, _, _ = (x[0] for x in PLANT.matrices(CONTEXT))
    c = Pi(kp, ki, setpoint_weight=0.0)
    if tau is not None:
        c = Pid(kp, ki, kd, filter_time=tau, setpoint_weight=0.0)
    C = np.array([[1.0, 0, 0]])
    F = np.block([[A - B @ c.D @ C, -B @ c.C], [c.B @ C, c.A]])
    n, total = len(F), 0.0
    entries = [np.zeros((n, 1)), np.zeros((n, 1))]
    entries[0][3:] = c.B_r
    entries[1][1] = 1.0
    gain = np.hstack([c.D @ C, c.C])
    times = np.linspace(0, 150, 60_001)
    for i, entry in enumerate(entries):
        loop = control.ss(F, entry, np.eye(n), 0)
        states = control.step_response(loop, times).states[:, 0]
        error = states[0] - (1.0 if i == 0 else 0.0)
        rate = F @ states + entry
        cost = error**2 + (gain @ rate)[0] ** 2
        total += np.trapezoid(cost, times)
    return float(total)


@pytest.mark.parametrize("kd", [None, 0.5])
def test_a_cost_in_rates_is_that_of_simulated_steps(kd):
    if kd is None:
        stack, expected = Pi(0.6, 0.4), simulated(0.6, 0.4)
    else:
        stack = Pid(0.6, 0.4, kd, filter_time=0.2)
        expected = simulated(0.6, 0.4, kd, 0.2)
    cost = -SERVO.performance(stack, CONTEXT).item()
    assert cost == pytest.approx(expected, rel=1e-4)


def test_the_loop_in_rates_has_the_margins_of_the_plant():
    stack = Pi([0.6, 0.3], [0.4, 0.1])
    for name in ("disk_margin", "decay_rate"):
        one = SERVO.scores(name, stack, CONTEXT)
        np.testing.assert_allclose(one, PLANT.scores(name, stack, CONTEXT), rtol=1e-6)


def test_pi_is_the_minimum_of_a_fine_grid():
    trained = Structured("pi").train(SERVO, CONTEXT, seed=0)
    stack = trained.policies
    least = -SERVO.home_performance(stack, CONTEXT).item()
    kp, ki = stack.parameters[0, 0]
    assert kp > 0
    assert ki > 0
    grid = np.meshgrid(np.linspace(-0.5, 3, 60), np.linspace(0.01, 2, 60))
    costs = -SERVO.performance(Pi(*(g.reshape(-1) for g in grid)), CONTEXT)
    assert least <= costs.min() * (1 + 1e-9)
    factors = np.array([[1, 1], [1.01, 1], [0.99, 1], [1, 1.01], [1, 0.99]])
    near = Pi(kp * factors[:, 0], ki * factors[:, 1])
    around = -SERVO.performance(near, CONTEXT)[:, 0, 0]
    assert around.argmin() == 0
    assert least >= -SERVO.optimum(CONTEXT).item()
    # More freedom costs no more, and the same seed gives the same gains.
    pid = Structured("pid", filter_time=0.1).train(SERVO, CONTEXT, seed=0)
    assert -SERVO.home_performance(pid.policies, CONTEXT).item() <= least * (1 + 1e-6)
    again = Structured("pi").train(SERVO, np.repeat(CONTEXT, 2, 0), seed=0)
    assert (again.policies.parameters == stack.parameters[0, 0]).all()


def test_unstable_plants_in_discrete_time():
    A = np.array([[1.0, 0.1], [0.2, 0.9]])
    plant = LinearFamily(
        [ContextAxis("g", 1.0)],
        A=lambda g: A,
        B=lambda g: [[0], [0.1 * g]],
        Q=np.eye(2),
        R=[[0.1]],
        C=[[1.0, 0.4]],
        time="discrete",
    )
    space = ts.Grid(g=(0.5, 2.0, 3))
    study = ts.evaluate(plant, Structured("pi"), space, seed=0)
    assert np.isfinite(study.table["performance"].values[0, 0, 0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Structured("pd"), "structure"),
        (lambda: Structured("pid"), "filter_time"),
        (lambda: Structured("pi", n_starts=0), "n_starts"),
        (
            lambda: Structured("pi").train(
                ts.systems.MassSpringDamper(), np.ones((1, 3)), seed=0
            ),
            "one output",
        ),
        (lambda: rate_form(ts.systems.MassSpringDamper(), output_weight=1.0), "rate"),
        (lambda: rate_form(PLANT, output_weight=1.0, disturbance=[[1.0]]), "rows"),
    ],
    ids=["name", "filter", "starts", "outputs", "plant", "disturbance"],
)
def test_refusals(make, words):
    with pytest.raises((InvalidInputError, UnknownNameError), match=words):
        make()
