"""Matrix files of released formats open in every later version.

`tests/assets/matrices-N` holds the same table in every format, as version N of the
format wrote it. Files there are never written anew; a new format adds a folder.
"""

from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.performance import source_space, target_space
from tests.performance.test_readers_fuzz import NOT_READ

ASSETS = Path(__file__).parents[1] / "assets"
GOLDEN = sorted(ASSETS.glob("matrices-*/table.*"))


def test_there_is_one_of_every_format():
    found = {path.suffix for path in GOLDEN}
    assert found == {".csv", ".tsv", ".npy", ".npz"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}{p.suffix}")
def test_old_matrices_open(path):
    is_text = path.suffix in (".csv", ".tsv")
    options = {"ignore": NOT_READ} if is_text else {}
    table = ts.performance.read_matrix(path, **options)
    # The numbers of the table, written out: J = −(source − target)² − 0.5 policy.
    masses, loads = np.array([0.1, 1.0, 7.5]), np.array([0.0, 1 / 3])
    sources = ts.Grid(mass=masses.tolist())
    targets = ts.Grid(mass=masses.tolist(), load=loads.tolist())
    base = -((masses[:, None] - targets.points[:, 0]) ** 2) - targets.points[:, 1]
    cells = np.stack([base, base - 0.5], axis=1)
    cells[2, 1, 0] = -np.inf
    np.testing.assert_array_equal(table["performance"], cells)
    if path.suffix == ".npy":
        assert table.attrs["provenance"] == "given"
        return
    assert source_space(table) == sources
    assert target_space(table) == targets
    medium = "'=medium" if is_text else "=medium"
    assert table["source"].values.tolist() == ["light", medium, "heavy"]
    np.testing.assert_array_equal(table["best_known"], -targets.points[:, 1])
    np.testing.assert_array_equal(table["home_performance"], [[0.0, -0.5]] * 3)
    if is_text:
        return
    assert table.attrs["provenance"] == "sampled"
    assert table.attrs["n_episodes"] == 16
    errors = np.where(np.isfinite(cells), np.abs(cells) / 8, np.nan)
    np.testing.assert_array_equal(table["standard_error"], errors)
    regret = -targets.points[:, 1] - cells.min(1)
    np.testing.assert_array_equal(
        ts.loss(table, ts.Question("regret", epsilon=0.0)), regret
    )
