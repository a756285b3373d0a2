"""Plants known at operating points: the same numbers as by formula, nothing between."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat

import taskspace as ts
from taskspace.certificates.boxes.enclosures import Boxes, enclosure_for
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems import (
    ContextAxis,
    LinearFamily,
    Pi,
    interpolated_family,
    points_family,
    read_lin,
    read_mat,
)

FORMULA = LinearFamily(
    [ContextAxis("k", 1.0), ContextAxis("c", 1.0)],
    A=lambda k, c: [[0, 1], [-k, -c]],
    B=lambda k, c: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)
POINTS = ts.Points(("k", "c"), [[0.5, 1.0], [1.0, 2.0], [2.0, 0.7], [3.0, 1.5]])


def test_numbers_of_a_mat_file_are_those_of_the_formula(tmp_path):
    A, B, _, _ = FORMULA.matrices(POINTS.points)
    savemat(tmp_path / "plant.mat", {"A": A, "B": B})
    read = loadmat(tmp_path / "plant.mat")
    options = {"Q": np.eye(2), "R": [[1.0]], "C": [[1.0, 0.0]]}
    listed = points_family(POINTS, read["A"], read["B"], **options)
    gains = np.array([0.2, 0.4, 0.6, 0.8])
    one, other = (
        ts.evaluate_policies(system, Pi(gains, 0.3 * gains), POINTS, sources=POINTS)
        for system in (FORMULA, listed)
    )
    for name in ("performance", "best_known", "home_performance"):
        assert (one.table[name].values == other.table[name].values).all()
    question = ts.Question(
        "ratio",
        epsilon=0.5,
        also=(ts.Question("floor", measure="disk_margin", epsilon=-0.5),),
    )
    assert (ts.loss(one, question).values == ts.loss(other, question).values).all()
    # Between the points nothing is claimed.
    result = ts.certify(other, ts.Question("ratio", epsilon=0.5), time_limit=5)
    statement = next(c for c in result.certificates if c.name == "continuum cover")
    assert statement.kind == "vacuous"
    assert "look-up" in statement.why or "plain number" in statement.why


def test_other_contexts_and_wrong_shapes_are_refused():
    A, B, Q, R = (x for x in FORMULA.matrices(POINTS.points))
    plant = points_family(POINTS, A, B, Q=Q[0], R=R[0])
    with pytest.raises(InvalidInputError, match="4 operating points"):
        plant.matrices(np.array([[1.1, 1.0]]))
    with pytest.raises(InvalidInputError, match="one matrix per point"):
        points_family(POINTS, A[:3], B, Q=Q[0], R=R[0])
    twice = ts.Points(("k",), [[1.0], [1.0]])
    with pytest.raises(InvalidInputError):
        points_family(twice, A[:2], B[:2], Q=Q[0], R=R[0])


def lin_text(k: float, A, B, C, D, rotating: str = "F") -> str:
    """A file as OpenFAST writes it, with Jacobians left out."""

    def matrix(name, rows):
        rows = np.atleast_2d(rows)
        body = "\n".join("  ".join(f"{x:.9E}" for x in row) for row in rows)
        return f"{name}: {rows.shape[0]} x {rows.shape[1]} \n{body}\n"

    return f"""
Linearized model: Predictions were generated on 17-Nov-2026 at 12:00:00 using OpenFAST
linked with NWTC Library

Description from the FAST input file: a test

Simulation information:
      Simulation time:              50.0000 s
      Rotor Speed:                   1.2671 rad/s
      Azimuth:                       0.1000 rad
      Wind Speed:                   {k:.4f} m/s
      Number of continuous states:        2
      Number of inputs:                   2
      Number of outputs:                  2
      Jacobians included in this file?    No

Order of continuous states:
      Row/Column Operating Point       Rotating Frame? Derivative Order Description
      ---------- ---------------       --------------- ---------------- -----------
          1       1.200E-02             {rotating}   2   ED tower fore-aft, m
          2      -3.400E-03             F   2   ED First time derivative of tower, m/s

Order of continuous state derivatives:
      Row/Column Operating Point       Rotating Frame? Derivative Order Description
      ---------- ---------------       --------------- ---------------- -----------
          1       0.000E+00             F   2   ED First time derivative of x, m/s
          2       0.000E+00             F   2   ED First time derivative of y, m/s^2

Order of inputs:
      Row/Column Operating Point       Rotating Frame? Description
      ---------- ---------------       --------------- -----------
          1   {k:.3E}   F  IfW Extended input: horizontal wind speed, m/s
          2   1.000E-01   F  ED Extended input: collective blade-pitch, rad

Order of outputs:
      Row/Column Operating Point       Rotating Frame? Description
      ---------- ---------------       --------------- -----------
          1       1.000E+00             F    ED TTDspFA, (m)
          2       2.000E+00             F    ED GenSpeed, (rpm)

Linearized state matrices:

{matrix("A", A)}
{matrix("B", B)}
{matrix("C", C)}
{matrix("D", D)}
"""


CHOICE = {"inputs": ["blade-pitch"], "outputs": ["TTDspFA"]}


def written(folder, rotating="F", direct=0.0):
    """Files of a plant whose second input and first output are the chosen ones."""
    files = []
    for i, k in enumerate([1.0, 2.0, 4.0]):
        A, B = [[0, 1], [-k, -1 - 0.1 * k]], [[9.0, 0.0], [7.0, 1.0]]
        C, D = [[1.0, 0.0], [5.0, 6.0]], [[3.0, direct], [1.0, 1.0]]
        files.append(folder / f"plant.{i + 1}.lin")
        files[-1].write_text(lin_text(k, A, B, C, D, rotating))
    return files


def test_lin_files_of_openfast_are_read(tmp_path):
    read = read_lin(written(tmp_path), **CHOICE)
    assert read.points.names == ("wind_speed",)
    assert read.points.points.ravel().tolist() == [1.0, 2.0, 4.0]
    np.testing.assert_allclose(read.A[:, 1], [[-k, -1 - 0.1 * k] for k in (1, 2, 4)])
    assert read.B[2].tolist() == [[0.0], [1.0]]
    assert read.C[0].tolist() == [[1.0, 0.0]]
    assert read.inputs == ("ED Extended input: collective blade-pitch, rad",)
    plant = read.family(Q=np.eye(2), R=[[1.0]])
    study = ts.evaluate_policies(plant, Pi(0.5, 0.2), read.points)
    assert np.isfinite(study.table["performance"]).all()
    between = read.interpolated(degree=1, error=0.01, Q=np.eye(2), R=[[1.0]])
    row = between.matrices(np.array([[3.0]])).A[0, 1]
    np.testing.assert_allclose(row, [-3.0, -1.3], rtol=1e-8)
    one = read_lin(written(tmp_path), states=["First time derivative of"], **CHOICE)
    assert one.A.shape == (3, 1, 1)


def test_lin_files_that_do_not_fit_are_refused(tmp_path):
    files = written(tmp_path)
    with pytest.raises(InvalidInputError, match="rotating"):
        read_lin(written(tmp_path, rotating="T"), **CHOICE)
    direct = read_lin(written(tmp_path, direct=0.5), **CHOICE)
    assert (
        direct.family(Q=np.eye(2), R=[[1.0]])
        .direct_matrix(direct.points.points)
        .tolist()
        == [[[0.5]]] * 3
    )
    with pytest.raises(InvalidInputError, match="direct part"):
        direct.interpolated(degree=1, error=0.1, Q=np.eye(2), R=[[1.0]])
    files = written(tmp_path)
    with pytest.raises(UnknownNameError, match="yaw"):
        read_lin(files, inputs=["yaw"], outputs=["TTDspFA"])
    with pytest.raises(InvalidInputError, match="must name one input"):
        read_lin(files, inputs=["Extended input"], outputs=["TTDspFA"])
    with pytest.raises(InvalidInputError, match="Pitch"):
        read_lin(files, context="Pitch", **CHOICE)
    files[1].write_text(files[1].read_text().replace("A: 2 x 2", "A: 2 x 3"))
    with pytest.raises(InvalidInputError, match="must be 2 x 3 numbers"):
        read_lin(files, **CHOICE)


def test_mat_files_number_points_as_matlab_does(tmp_path):
    A, B, _, _ = FORMULA.matrices(POINTS.points)
    k, c = POINTS.points.T
    path = tmp_path / "plant.mat"
    savemat(
        path, {"A": np.moveaxis(A, 0, -1), "B": B[0], "C": [[1.0, 0]], "k": k, "c": c}
    )
    read = read_mat(path, contexts=["k", "c"])
    assert (read.points.points == POINTS.points).all()
    assert (read.A == A).all()
    assert read.C.shape == (4, 1, 2)
    savemat(path, {"A": A, "B": B, "k": k, "c": c})
    again = read_mat(path, contexts=["k", "c"], order="first")
    assert (again.A == A).all()
    assert (again.C == np.eye(2)).all()
    with pytest.raises(InvalidInputError, match="must hold 4 matrices"):
        read_mat(path, contexts=["k", "c"])
    with pytest.raises(UnknownNameError, match="speed"):
        read_mat(path, contexts=["speed"])


KNOTS = ts.Grid(k=(0.5, 3.0, 6))


def interpolated(error, degree=2):
    """A plant with 0.02 k³ in it, fitted by a polynomial of degree two."""
    rows = KNOTS.points[:, 0]
    A = [[[0.0, 1.0], [-k - 0.02 * k**3, -1.0]] for k in rows]
    return interpolated_family(
        KNOTS, A, [[0.0], [1.0]], degree=degree, error=error,
        Q=np.eye(2), R=[[1.0]], C=[[1.0, 0.0]],
    )  # fmt: skip


def test_a_stated_error_is_held_against_the_points_and_said_in_the_proof():
    with pytest.raises(InvalidInputError, match="larger error or a higher degree"):
        interpolated(1e-4)
    assert interpolated(0.0, degree=3).matrices(KNOTS.points).A[0, 1, 0] == (
        pytest.approx(-0.5 - 0.02 * 0.5**3)
    )
    with pytest.raises(InvalidInputError, match="lower degree"):
        interpolated(1.0, degree=6)
    plant = interpolated({"A": [[0.0, 0.0], [0.03, 0.0]]})
    one = ts.Points(("k",), [[1.5]])
    study = ts.evaluate_policies(plant, Pi([0.4], [0.2]), KNOTS, sources=one)
    proofs = ts.certify(study, ts.Question("floor", epsilon=15.0), time_limit=20.0)
    proof = next(c for c in proofs.certificates if c.name == "continuum cover")
    assert (proof.holds, proof.kind) == (True, "proof")
    assert "if the stated bounds of error of A[1, 0] hold" in proof.why


def test_bounds_hold_for_every_plant_within_the_error():
    """Bounds over a box against costs of plants at both ends of the error."""
    reach = 0.03
    plant = interpolated({"A": [[0.0, 0.0], [reach, 0.0]]})
    stack = plant.stacked(Pi([0.4], [0.2]))
    question = ts.Question("floor", epsilon=0.0)
    bounds = enclosure_for(plant, stack, np.array([[1.0]]), question)
    low, high = bounds.bounds(Boxes(np.array([[1.4]]), np.array([[1.5]])))
    costs = []
    for k in np.linspace(1.4, 1.5, 11):
        for error in (-reach, 0.0, reach):
            A, B, Q, R = (x[0].copy() for x in plant.matrices(np.array([[k]])))
            A[1, 0] += error
            one = LinearFamily(
                [ContextAxis("k", 1.0)], A=lambda k, A=A: A, B=lambda k, B=B: B,
                Q=Q, R=R, C=[[1.0, 0.0]],
            )  # fmt: skip
            costs.append(-one.performance(stack, np.array([[1.0]])).item())
    assert low.item() <= min(costs)
    assert max(costs) <= high.item()
    assert high.item() < 1.2 * low.item()
    # A planted error: without it, some plants are outside.
    exact = enclosure_for(
        interpolated({"A": 0.0}, degree=3), stack, np.array([[1.0]]), question
    )
    narrow = exact.bounds(Boxes(np.array([[1.45]]), np.array([[1.45]])))
    assert max(costs) > narrow[1].item()
