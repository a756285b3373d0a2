"""Libraries of controllers: folders and look-up tables of their parameters."""

import csv

import numpy as np
import pytest
from scipy.io import loadmat

import taskspace as ts
from taskspace.deploy.files import load_library
from taskspace.errors import InvalidInputError
from taskspace.export import export_c99, export_tables
from taskspace.policies import LinearController
from taskspace.systems import ContextAxis, LinearFamily, Pi

PLANT = LinearFamily(
    [ContextAxis("k", 1.0, low=0.0)],
    A=lambda k: [[0, 1], [-k, -1]],
    B=lambda k: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)


@pytest.fixture(scope="module")
def library():
    space = ts.Grid(k=(0.5, 3.0, 6))
    gain = 0.2 * space.points[:, 0]
    study = ts.evaluate_policies(PLANT, Pi(gain, 0.4 * gain), space, sources=space)
    question = ts.Question("ratio", epsilon=0.45)
    return ts.library(study, ts.minimum_cover(study, question))


def test_folder_and_tables_hold_the_parameters(library, tmp_path):
    library.save(tmp_path / "folder")
    again = load_library(tmp_path / "folder")
    assert isinstance(again.policies, LinearController)
    for name, array in library.policies.arrays().items():
        assert (again.policies.arrays()[name] == array).all()
    assert again.policies.names == ("kp", "ki")
    export_tables(library, tmp_path / "tables")
    found = loadmat(tmp_path / "tables" / "library.mat")
    with (tmp_path / "tables" / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    for i, row in enumerate(rows):
        number = int(row["policy"])
        kp, ki = library.policies.parameters[number]
        assert float(row["kp"]) == kp == found["kp"].ravel()[i]
        assert float(row["ki"]) == ki == found["ki"].ravel()[i]


def test_what_is_not_exported_is_said(library, tmp_path):
    with pytest.raises(InvalidInputError, match="linear-controller"):
        export_c99(library, tmp_path / "c")
