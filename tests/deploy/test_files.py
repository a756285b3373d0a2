"""A library as a folder: bit for bit, readable by others, and not to be changed."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import PolicyLibrary
from taskspace.deploy.files import digest
from taskspace.errors import InvalidInputError
from taskspace.export.tables import export_tables
from taskspace.policies import Mlp
from taskspace.systems import PythonPolicies

from .helpers import MAKERS, gains, grid_library, msd, networks, tables, tricky_contexts

ASSETS = Path(__file__).parents[1] / "assets"
STACKS = {
    "gains": gains(4),
    "networks": networks(4, "clip", action_low=-2.0),
    "squash": networks(4, "squash", "relu", action_low=-2.0, action_high=2.0),
    "tables": tables(4),
}


def same(a: PolicyLibrary, b: PolicyLibrary) -> None:
    assert a.entries == b.entries
    assert (a.names, a.units, a.outside) == (b.names, b.units, b.outside)
    assert a.guarantee == b.guarantee
    assert dict(a.fixed) == dict(b.fixed)
    assert dict(a.provenance) == dict(b.provenance)
    pairs = [(a.regions, b.regions)]
    if a.policies is not None and b.policies is not None:
        assert a.policies.settings() == b.policies.settings()
        pairs.append((a.policies, b.policies))
    for one, other in pairs:
        assert one.kind == other.kind
        mine, theirs = one.arrays(), other.arrays()
        assert list(mine) == sorted(theirs, key=list(mine).index)
        for name, array in mine.items():
            assert array.dtype == theirs[name].dtype
            assert array.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("kind", MAKERS)
def test_round_trip_bit_for_bit(kind, stack, tmp_path):
    library = MAKERS[kind](STACKS[stack])
    library.save(tmp_path / "a", command="taskspace export …")
    loaded = PolicyLibrary.load(tmp_path / "a")
    same(library, loaded)
    loaded.save(tmp_path / "b", command="taskspace export …")
    for file in (tmp_path / "a").rglob("*.*"):
        other = tmp_path / "b" / file.relative_to(tmp_path / "a")
        assert file.read_bytes() == other.read_bytes(), file.name
    rows = tricky_contexts(library)
    assert (library.select(rows).policy == loaded.select(rows).policy).all()


def test_names_and_python_objects(tmp_path):
    table = ts.performance.table_from_matrix([[1.0, 0.0], [0.0, 1.0]])
    question = ts.Question("regret", epsilon=0.5)
    named = ts.library(table, [0, 1], question)
    named.save(tmp_path / "names")
    same(named, PolicyLibrary.load(tmp_path / "names"))
    space = ts.Points(["x"], [0.0, 1.0])
    table = ts.performance.table_from_matrix([[1.0, 0.0], [0.0, 1.0]], targets=space)
    policies = PythonPolicies([len, len])
    objects = ts.library(ts.Study.of(table, policies=policies), [0, 1], question)
    for write in (objects.save, lambda to: export_tables(objects, to)):
        with pytest.raises(InvalidInputError, match=r"policies=None\)"):
            write(tmp_path / "objects")
    assert not (tmp_path / "objects").exists()
    replace(objects, policies=None).save(tmp_path / "objects")
    assert PolicyLibrary.load(tmp_path / "objects").policies is None
    export_tables(replace(objects, policies=None), tmp_path / "tables")


def test_every_changed_byte_is_noticed(tmp_path):
    library = grid_library()
    folder = library.save(tmp_path / "lib")
    files = [f for f in folder.rglob("*") if f.is_file()]
    assert len(files) == 3
    rng = np.random.default_rng(0)
    for file in files:
        good = file.read_bytes()
        for _ in range(12):
            bad = bytearray(good)
            bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(0, 7))
            if file.name == "library.json" and _same_json(good, bytes(bad)):
                continue
            file.write_bytes(bytes(bad))
            with pytest.raises(InvalidInputError):
                PolicyLibrary.load(folder)
        file.write_bytes(good[: len(good) // 2])
        with pytest.raises(InvalidInputError):
            PolicyLibrary.load(folder)
        file.unlink()
        with pytest.raises(InvalidInputError, match=r"is missing|has no library.json"):
            PolicyLibrary.load(folder)
        file.write_bytes(good)
    same(library, PolicyLibrary.load(folder))


def _same_json(a: bytes, b: bytes) -> bool:
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


def test_a_better_promise_is_not_believed(tmp_path):
    folder = grid_library().save(tmp_path / "lib")
    file = folder / "library.json"
    record = json.loads(file.read_text())
    record["guarantee"]["question"]["ask"] = "regret <= 0.000000001"
    file.write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match=r"checksum .* of itself"):
        PolicyLibrary.load(folder)
    record["version"] = 99
    file.write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match="has taskspace-library 99"):
        PolicyLibrary.load(folder)


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InvalidInputError, match="must be a new or empty folder"):
        grid_library().save(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="new or empty folder"):
        grid_library().save(tmp_path / "file")
    with pytest.raises(InvalidInputError, match="can be written"):
        grid_library().save(tmp_path / "file" / "below")
    with pytest.raises(InvalidInputError, match="has no library"):
        PolicyLibrary.load(tmp_path)


def test_readable_without_taskspace(tmp_path):
    """Only csv, json and numpy: the gain of each node as the spreadsheet has it."""
    study, question = msd(), ts.Question("ratio", epsilon=0.1)
    library, space = ts.library(study, ts.greedy_cover(study, question)), study.targets
    folder = library.save(tmp_path / "lib", command="by a test")
    tables = export_tables(library, tmp_path / "tables")
    with (tables / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == space.size
    gain = np.load(folder / "arrays.npz")["policy_gain"]
    for row, point in zip(rows, space.points, strict=True):
        assert [float(row["k"]), float(row["c"])] == point.tolist()
        chosen = library.select(point)
        assert int(row["policy"]) == chosen.policy
        assert float(row["margin"]) == chosen.margin
        assert [float(row["K_1_1"]), float(row["K_1_2"])] == gain[
            chosen.policy, 0
        ].tolist()
    with (tables / "policies.csv").open() as file:
        sources = [int(row["source"]) for row in csv.DictReader(file)]
    assert sources == [e.source for e in library.entries]
    contract = json.loads((folder / "contract.json").read_text())
    assert contract["inputs"]["context"][0] == {
        "name": "k", "unit": "N/m", "low": 0.1, "high": 8.0,
    }  # fmt: skip
    assert contract["inputs"]["fixed"] == {"m": 1.0}
    assert contract["outputs"]["action"]["size"] == 1
    assert contract["guarantee"]["question"] == question.to_dict()
    assert contract["guarantee"]["scope"] == "nodes"
    assert contract["made"]["command"] == "by a test"
    assert contract["made"]["version"] == ts.__version__


def test_golden_folders():
    """Every library that was ever released still opens and selects the same."""
    folders = sorted(ASSETS.glob("library-*"))
    assert len(folders) >= 3  # one per kind of regions, and one of estimates
    for folder in folders:
        library = PolicyLibrary.load(folder / "library")
        expected = json.loads((folder / "expected.json").read_text())
        chosen = library.select(np.array(expected["contexts"], float))
        assert chosen.policy.tolist() == expected["policy"]
        assert chosen.status.tolist() == expected["status"]
        seen = np.array(expected["observations"])
        acted = library.act_as(np.maximum(chosen.policy, 0), seen)
        tolerance = 1e-5 if isinstance(library.policies, Mlp) else 0.0
        np.testing.assert_allclose(acted, expected["actions"], rtol=tolerance)


def test_forged_boxes_and_names_of_files_are_refused(tmp_path):
    """A folder with right checksums and wrong content gets a sentence."""
    library = MAKERS["boxes"]()
    arrays = library.regions.arrays()
    for forged in (
        arrays | {"policy": arrays["policy"][:-1]},
        arrays | {"box_low": arrays["box_low"][:, :1]},
        arrays | {"box_high": arrays["box_high"] + np.nan},
        arrays | {"nodes": arrays["box_low"][1:]},
    ):
        with pytest.raises(InvalidInputError, match="do not fit"):
            type(library.regions).from_arrays(forged)
    folder = library.save(tmp_path / "lib")
    file = folder / "library.json"
    record = json.loads(file.read_text())
    record["files"]["../outside.npy"] = "0"
    del record["checksum"]
    record["checksum"] = digest(record)
    file.write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match=r"but names .*\.\./outside\.npy"):
        PolicyLibrary.load(folder)
