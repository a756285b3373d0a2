"""Certificate files, checked by a program that imports nothing of taskspace."""

import ast
import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.written import write_certificate
from taskspace.errors import InvalidInputError
from taskspace.systems import ContextAxis, LinearFamily

CHECKER = Path(__file__).parents[2] / "tools" / "check_certificate.py"
spec = importlib.util.spec_from_file_location("check_certificate", CHECKER)
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)

pendulum = LinearFamily(
    [ContextAxis("length", 1.0, "m", low=0.0, low_open=True), ContextAxis("lean", 0.1)],
    A=lambda length, lean: [[0, 1], [9.81 * np.cos(lean) / length, -0.1]],
    B=lambda length, lean: [[0], [np.exp(-length / 4) / np.sqrt(length)]],
    Q=np.eye(2),
    R=[[1.0]],
)
sampled = LinearFamily(
    [ContextAxis("a", 0.95)],
    A=lambda a: [[1.0, 0.1], [0.0, a]],
    B=[[0.0], [0.1]],
    Q=np.eye(2),
    R=[[1.0]],
    time="discrete",
)
CASES = {
    "spring": (
        ts.systems.MassSpringDamper(),
        [[4.0, 4.0, 1.0]],
        {"k": (3.7, 4.3), "c": (3.7, 4.3)},
        "regret <= 0.2",
    ),
    "scalar": (
        ts.systems.ScalarLqr(),
        [[0.9, 1.0], [0.7, 1.0]],
        {"b": (0.65, 1.0)},
        "ratio <= 5 %",
    ),
    "pendulum": (
        pendulum,
        [[1.0, 0.1]],
        {"length": (0.9, 1.1), "lean": (0.0, 0.3)},
        "ratio <= 20 %",
    ),
    "sampled": (sampled, [[0.95]], {"a": (0.9, 1.0)}, "ratio <= 10 %"),
}


@pytest.fixture(scope="module", params=CASES)
def file(request, tmp_path_factory):
    system, contexts, ranges, question = CASES[request.param]
    gains, _ = system.optimal_gain(np.array(contexts))
    path = tmp_path_factory.mktemp("written") / "certificate.json"
    write_certificate(path, system, gains, ranges, question)
    return json.loads(path.read_text())


def test_the_checker_imports_nothing_of_taskspace():
    tree = ast.parse(CHECKER.read_text())
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names == {"ast", "json", "sys", "fractions", "flint", "numpy"}
    assert len(CHECKER.read_text().splitlines()) <= 300


def test_written_certificates_are_proven(file):
    assert checker.check(file) == []


def _smaller_tolerance(file):
    file["epsilon"] = repr(float(file["epsilon"]) / 100)


def _other_plant(file):
    file["A"][-1][-1] = f"({file['A'][-1][-1]}) + 0.3"


def _other_gain(file):
    file["gains"] = (3.0 * np.array(file["gains"])).tolist()


def _missing_box(file):
    del file["boxes"][len(file["boxes"]) // 2]


def _wider_range(file):
    file["high"][-1] = float(np.nextafter(file["high"][-1], np.inf))


def _wider_box(file):
    box = file["boxes"][0]
    box["high"][0] += 0.5 * (box["high"][0] - box["low"][0]) + 0.2


def _less_cost(file):
    box = file["boxes"][0]
    box["P"][0] = (0.97 * np.array(box["P"][0])).tolist()


def _better_optimum(file):
    box = file["boxes"][0]
    box["S"][0] = (1.05 * np.array(box["S"][0])).tolist()


def _lopsided(file):
    for box in file["boxes"]:
        box["P"][0][0][-1] += 1e-9 if len(box["P"][0]) > 1 else np.nan


def _negative_start(file):
    file["x0_covariance"][0][0] = -1.0


PLANTED = [
    _smaller_tolerance, _other_plant, _other_gain, _missing_box, _wider_range,
    _wider_box, _less_cost, _better_optimum, _negative_start,
]  # fmt: skip


@pytest.mark.parametrize("plant_error", PLANTED)
def test_planted_errors_are_found(file, plant_error):
    changed = copy.deepcopy(file)
    plant_error(changed)
    assert changed != file
    assert checker.check(changed)


def test_a_lopsided_candidate_is_refused(file):
    if len(file["boxes"][0]["P"][0]) == 1:
        pytest.skip("one state")
    changed = copy.deepcopy(file)
    _lopsided(changed)
    assert checker.check(changed)


def test_bounds_contain_the_costs_of_another_solver(file):
    """P and S of every box, at its corners, against SciPy."""
    from scipy.linalg import solve_continuous_are, solve_discrete_are

    names = {f: getattr(np, f) for f in ("sqrt", "exp", "log", "sin", "cos")}
    for box in file["boxes"][:20]:
        corner, centre = np.array(box["low"]), np.add(box["low"], box["high"]) / 2
        values = dict(zip(file["axes"], corner, strict=True))
        A, B, Q, R = (
            np.array([[eval(text, names, values) for text in row] for row in file[m]])
            for m in "ABQR"
        )
        is_continuous = file["time"] == "continuous"
        solve = solve_continuous_are if is_continuous else solve_discrete_are
        best = np.trace(solve(A, B, Q, R) @ np.array(file["x0_covariance"]))
        steps = corner - centre
        upper, lower = (
            np.trace(Z[0] + np.tensordot(steps, Z[1:], 1))
            for Z in (np.array(box["P"]), np.array(box["S"]))
        )
        assert lower <= best <= upper


def test_the_command_says_what_is_proven(tmp_path):
    system, contexts, ranges, question = CASES["sampled"]
    gains, _ = system.optimal_gain(np.array(contexts))
    path = tmp_path / "certificate.json"
    write_certificate(path, system, gains, ranges, question)
    command = [sys.executable, str(CHECKER), str(path)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 0
    assert run.stdout.startswith("Proven: for every context with a in [0.9, 1.0]")


def test_a_range_that_is_not_served_is_refused(tmp_path):
    system, contexts, _, question = CASES["scalar"]
    gains, _ = system.optimal_gain(np.array(contexts[:1]))
    with pytest.raises(InvalidInputError, match="not shown to serve"):
        write_certificate(
            tmp_path / "c.json",
            system,
            gains,
            {"b": (0.1, 1.0)},
            question,
            max_boxes=50,
        )
