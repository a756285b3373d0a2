"""Look-up tables and the agent."""

import csv
import json

import numpy as np
import pytest
from scipy.io import loadmat

from taskspace.export.tables import export_tables
from taskspace.policies import LinearGain
from tests.deploy.helpers import (
    MAKERS,
    box_library,
    gains,
    grid_library,
    networks,
    tables,
)


def test_mat_file_of_a_grid_is_a_lookup_table(tmp_path):
    library = grid_library(gains(4, 2, 3))
    export_tables(library, tmp_path / "t")
    found = loadmat(tmp_path / "t" / "library.mat")
    x, y = found["nodes_x"].ravel(), found["nodes_y"].ravel()
    assert found["policy"].shape == (5, 7)
    for i, j in np.ndindex(5, 7):
        chosen = library.select([x[i], y[j]])
        assert found["policy"][i, j] == chosen.policy
        assert found["served_at_nodes"][i, j] == chosen.guaranteed
        assert found["status_at_nodes"][i, j] == chosen.status
        assert isinstance(library.policies, LinearGain)
        for a, b in np.ndindex(2, 3):
            gain = library.policies.gain[chosen.policy, a, b]
            assert found[f"K_{a + 1}_{b + 1}"][i, j] == gain
    assert [str(n[0]) for n in found["axes"].ravel()] == ["x", "y"]
    again = export_tables(library, tmp_path / "again")
    for file in again.iterdir():
        assert file.read_bytes() == (tmp_path / "t" / file.name).read_bytes()


def test_flat_look_up_is_the_library_s_selection(tmp_path):
    """On a logarithmic axis too, where the nearest node is not the library's."""
    library = grid_library(gains(4), outside="clamp")
    found = loadmat(export_tables(library, tmp_path / "t") / "library.mat")
    rng = np.random.default_rng(0)
    rows = rng.uniform(library.low, library.high, (20_000, 2))
    edges = [found[f"edges_{name}"].ravel() for name in library.names]
    for k, own in enumerate(edges):  # and on every border, and beside it
        beside = [own, np.nextafter(own, -np.inf), np.nextafter(own, np.inf)]
        extra = np.tile(rows[0], (3 * len(own), 1))
        extra[:, k] = np.concatenate(beside)
        rows = np.concatenate([rows, extra])
    # "Flat" with "Clip": the last breakpoint that is not above the input.
    place = [
        np.maximum(np.searchsorted(own, x, side="right") - 1, 0)
        for own, x in zip(edges, rows.T, strict=True)
    ]
    expected = library.select(rows).policy
    assert (found["policy"][tuple(place)] == expected).all()
    contract = json.loads((tmp_path / "t" / "contract.json").read_text())
    borders = contract["selection"]["borders"]
    for own, name in zip(edges, library.names, strict=True):
        assert np.nextafter(borders[name], np.inf).tolist() == own[1:].tolist()
    # Negative control: by the nearest node a good part is selected otherwise.
    nodes = [found[f"nodes_{name}"].ravel() for name in library.names]
    near = [
        np.abs(own[None] - x[:, None]).argmin(1)
        for own, x in zip(nodes, rows.T, strict=True)
    ]
    assert (found["policy"][tuple(near)] != expected).mean() > 0.05


def test_mat_file_of_boxes(tmp_path):
    library = box_library()
    export_tables(library, tmp_path / "t")
    found = loadmat(tmp_path / "t" / "library.mat")
    np.testing.assert_array_equal(found["box_low"], library.regions.arrays()["box_low"])
    assert (found["policy"].ravel() == library.regions.policy).all()
    with (tmp_path / "t" / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    middle = [
        [(float(r[f"{n}_low"]) + float(r[f"{n}_high"])) / 2 for n in "xy"] for r in rows
    ]
    assert [int(r["policy"]) for r in rows] == library.select(middle).policy.tolist()


@pytest.mark.parametrize("policies", [networks(4), tables(4)])
def test_every_kind_has_tables(policies, tmp_path):
    for kind, make in MAKERS.items():
        export_tables(make(policies), tmp_path / kind)
        assert "policy" in loadmat(tmp_path / kind / "library.mat")
