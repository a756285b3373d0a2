# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Proofs of schedules on boxes, against 50 digits and SciPy, with planted failures."""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg

import taskspace as ts
from taskspace.certificates.boxes.enclosures import NoEnclosureError
from taskspace.questions import as_question
from taskspace.schedules.parameters import structure_of
from taskspace.schedules.proof import prove_schedule
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid
from tests.certificates import exact
from tests.certificates.plants import PLANTS


def table_of(name, n, scale="linear"):
    """LQR gains at n × n breakpoints of a plant, and the plant's range."""
    system, low, high = PLANTS[name]
    make = np.linspace if scale == "linear" else np.geomspace
    axes = {
        axis.name: make(lo, hi, n)
        for axis, lo, hi in zip(system.axes, low, high, strict=True)
    }
    mesh = np.stack(np.meshgrid(*axes.values(), indexing="ij"), -1)
    gains, _ = system.optimal_gain(mesh.reshape(-1, len(axes)))
    shape = (*mesh.shape[:-1], *gains.shape[1:])
    table = ts.Schedule.of_gains(axes, gains.reshape(shape), scale)
    return system, table, np.array(low), np.array(high)


def exact_gain(table, context):
    """The interpolated gain with 50 digits, cell by cell."""
    corners = [((), mp.mpf(1))]
    for (name, values), at in zip(table.breakpoints.items(), context, strict=True):
        x = mp.mpf(float(np.clip(at, values[0], values[-1])))
        j = int(np.clip(np.searchsorted(values, float(x)), 1, len(values) - 1))
        low, high = mp.mpf(float(values[j - 1])), mp.mpf(float(values[j]))
        if table.interpolation[name] == "log":
            t = (mp.log(x) - mp.log(low)) / (mp.log(high) - mp.log(low))
        else:
            t = (x - low) / (high - low)
        corners = [
            ((*index, i), weight * part)
            for index, weight in corners
            for i, part in ((j - 1, 1 - t), (j, t))
        ]
    total = mp.zeros(*table.structure.shape)
    for index, weight in corners:
        rows = table.gains[index].reshape(table.structure.shape).tolist()
        total += weight * mp.matrix(rows)
    return total


def exact_ratio(system, table, context):
    cost = exact.cost(system, exact_gain(table, context), context)
    return cost / exact.optimal_cost(system, context) - 1


@pytest.mark.parametrize(
    ("name", "n", "scale"),
    [
        ("spring", 2, "linear"),
        ("rational, R and Q of the context", 3, "linear"),
        ("unstable", 3, "log"),
        ("discrete", 2, "linear"),
    ],
)
def test_what_is_proven_holds_with_50_digits_and_no_less_is_proven(name, n, scale):
    system, table, low, high = table_of(name, n, scale)
    rng = np.random.default_rng(3)
    rows = rng.uniform(low, high, (40, len(low)))
    rows = np.concatenate([rows, [low, high, (low + high) / 2]])
    ratios = [float(exact_ratio(system, table, row)) for row in rows]
    worst = max(ratios)
    proof = prove_schedule(
        system, table, as_question(f"ratio <= {200 * worst} %"), low, high
    )
    assert proof.holds
    refuted = prove_schedule(
        system, table, as_question(f"ratio <= {95 * worst} %"), low, high
    )
    assert refuted.holds is False
    place = [refuted.context[axis.name] for axis in system.axes]
    assert exact_ratio(system, table, place) > 0.95 * worst
    assert exact_ratio(system, table, place) >= refuted.loss * (1 - 1e-12)


def test_an_unstable_cell_between_good_vertices_is_found():
    """Both gains stabilise the plant; the mean of the two does not."""
    system = LinearFamily(
        [ContextAxis("x", 0.5)],
        A=lambda x: [[0, 0 * x], [0, 0]],
        B=lambda x: [[1, 0], [0, 1]],
        Q=np.eye(2),
        R=np.eye(2),
    )
    first, last = np.array([[1.0, -10], [0, 1]]), np.array([[1.0, 0], [-10, 1]])
    table = ts.Schedule.of_gains({"x": [0.0, 1.0]}, np.stack([first, last]))
    for x, stable in ((0.0, True), (1.0, True), (0.5, False)):
        loop = -table(x=x).gain
        assert (np.linalg.eigvals(loop).real.max() < 0) == stable
    question = as_question("cost <= 1000000")
    proof = prove_schedule(system, table, question, np.zeros(1), np.ones(1))
    assert proof.holds is False
    assert 0.1 < proof.context["x"] < 0.9
    # The search does not take such a cell either, however large the tolerance.
    policies = ts.policies.LinearGain(np.stack([first, np.eye(2), last])[:, None])
    space = ts.Grid(x=(0.0, 1.0, 3))
    study = ts.evaluate_policies(system, policies, space, sources=space)
    found = ts.schedule(study, question, constant_pieces=False)
    chosen = found.breakpoints["x"].tolist()
    assert chosen != [0.0, 1.0]
    whole = prove_schedule(system, found, question, np.zeros(1), np.ones(1))
    assert whole.holds


def test_an_error_of_the_measured_context_counts():
    """The gain is that of the measured context, the plant that of the true one."""
    system, table, low, high = table_of("unstable", 4)
    rng = np.random.default_rng(5)

    def regret(true, seen):
        A, B, Q, R = (m[0] for m in system.matrices(true[None]))
        gain = table.numbers_at(seen[None])[0].reshape(table.structure.shape)
        P = scipy.linalg.solve_continuous_are(A, B, Q, R)
        F = A - B @ gain
        if np.linalg.eigvals(F).real.max() >= 0:
            return np.inf
        X = scipy.linalg.solve_continuous_lyapunov(F.T, -(Q + gain.T @ R @ gain))
        return np.trace(X - P)

    def drawn(share, n=400):
        seen = rng.uniform(low / (1 + share), high / (1 - share), (n, 2))
        edges = rng.random((n, 2)) < 0.5
        factor = np.where(
            edges, rng.choice([-1, 1], (n, 2)), rng.uniform(-1, 1, (n, 2))
        )
        true = np.clip(seen * (1 + share * factor), low, high)
        kept = (np.abs(true - seen) <= share * np.abs(seen) * (1 - 1e-12)).all(1)
        return [regret(t, s) for t, s in zip(true[kept], seen[kept], strict=True)]

    exactly, with_error = max(drawn(0.0)), max(drawn(0.05))
    assert with_error > 1.5 * exactly
    limit = 1.4 * with_error
    asked = as_question(f"regret <= {limit} with k=5 %, c=5 %")
    proof = prove_schedule(system, table, asked, low, high, time_limit=120)
    assert proof.holds
    assert max(drawn(0.05, 2000)) <= limit
    short = as_question(f"regret <= {1.2 * exactly} with k=5 %, c=5 %")
    assert prove_schedule(system, table, short, low, high).holds is False


@pytest.mark.parametrize("kind", ["pi", "pid", "pid with another filter"])
def test_schedules_of_controllers_are_proven_by_their_parameters(kind):
    plant = LinearFamily(
        [ContextAxis("g", 1.0, low=0.0, low_open=True)],
        A=lambda g: [[-1, 1], [0, -g]],
        B=lambda g: [[0], [g]],
        Q=np.diag([1.0, 0.1]),
        R=[[0.1]],
        C=[[1.0, 0.0]],
    )
    at = np.array([0.5, 1.0, 3.0])
    kp, ki, kd = np.array([2.0, 1.5, 1.0]), np.array([1.0, 0.8, 0.4]), 0.2 / at
    tau = np.array([0.1, 0.1, 0.1]) if kind == "pid" else np.array([0.2, 0.1, 0.05])
    made = Pi(kp, ki) if kind == "pi" else Pid(kp, ki, kd, filter_time=tau)
    space = ts.Grid(g=at)
    study = ts.evaluate_policies(plant, made[:, None], space, sources=space)
    structure, numbers = structure_of(plant, study.policies)
    found = ts.Schedule({"g": at}, numbers, structure, {"g": "linear"})
    assert np.array_equal(found(g=1.0).D, made[1].D)

    def cost(g):
        p = [np.interp(g, at, x) for x in (kp, ki, kd, tau)]
        one = Pi(*p[:2]) if kind == "pi" else Pid(*p[:3], filter_time=p[3])
        A, B, Q, R = (m[0] for m in plant.matrices(np.array([[g]])))
        C = np.array([[1.0, 0.0]])
        F = np.block([[A - B @ one.D @ C, -B @ one.C], [one.B @ C, one.A]])
        assert np.linalg.eigvals(F).real.max() < 0
        K = np.hstack([one.D @ C, one.C])
        W = scipy.linalg.block_diag(Q, np.zeros_like(one.A)) + K.T @ R @ K
        X = scipy.linalg.solve_continuous_lyapunov(F.T, -W)
        return np.trace(X[:2, :2])

    worst = max(cost(g) for g in np.linspace(0.5, 3.0, 501))
    low, high = np.array([0.5]), np.array([3.0])
    proof = prove_schedule(
        plant, found, as_question(f"cost <= {1.02 * worst}"), low, high
    )
    assert proof.holds
    fails = as_question(f"cost <= {0.99 * worst}")
    assert prove_schedule(plant, found, fails, low, high).holds is False


def test_several_demands_at_once_with_measures():
    system, table, low, high = table_of("spring", 2)
    rng = np.random.default_rng(0)
    rates, norms = [], []
    for row in rng.uniform(low, high, (200, 2)):
        A, B, _, _ = (m[0] for m in system.matrices(row[None]))
        F = A - B @ table.numbers_at(row[None])[0].reshape(1, 2)
        rates.append(-np.linalg.eigvals(F).real.max())
        K = table.numbers_at(row[None])[0].reshape(1, 2)
        w = np.logspace(-3, 3, 400)
        S = [
            1 / (1 + (K @ np.linalg.solve(1j * x * np.eye(2) - A, B))[0, 0]) for x in w
        ]
        norms.append(np.abs(2 * np.array(S) - 1).max())
    margin = 2 / max(norms)
    asked = f"ratio <= 30 % and decay_rate >= {0.7 * min(rates):.3f}"
    asked += f" and disk_margin >= {0.9 * margin:.3f}"
    proof = prove_schedule(system, table, as_question(asked), low, high)
    assert proof.holds
    rate = f"decay_rate >= {1.05 * min(rates)}"
    assert prove_schedule(system, table, as_question(rate), low, high).holds is False
    wide = f"disk_margin >= {1.05 * margin}"
    assert not prove_schedule(
        system, table, as_question(wide), low, high, time_limit=5
    ).holds


def test_what_cannot_be_proven_is_said():
    system, table, low, high = table_of("spring", 2)
    with pytest.raises(NoEnclosureError):
        prove_schedule(system, table, as_question("ratio(floor=1) <= 10 %"), low, high)
    with pytest.raises(NoEnclosureError, match="linear families"):
        prove_schedule(
            ts.systems.Pendulum(), table, as_question("score >= 1"), low, high
        )


def test_a_failure_names_every_axis_that_varies():
    """The schedule varies with k alone, and fails or not by c as well."""
    system, low, high = PLANTS["spring"]
    gain, _ = system.optimal_gain(np.array([[1.0, 4.0]]))
    table = ts.Schedule.of_gains({"k": [1.0]}, gain)
    space = ts.Grid(k=(low[0], high[0], 3), c=(low[1], high[1], 3))
    study = ts.evaluate(system, ts.trainers.Lqr(), space)
    said = ts.certify(study, "regret <= 0.5", schedule=table)["schedule"]
    assert said.holds is False
    assert set(said.values["context"]) == {"k", "c"}
    assert "c = " in said.why
