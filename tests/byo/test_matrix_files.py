"""Transfer matrices: every format, every shape of table, every mistake."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.performance import source_space, target_space
from taskspace.performance.files import (
    MATRIX_SUFFIXES,
    read_matrix,
    table_from,
    write_matrix,
)
from tests.byo.helpers import taskspace

WHOLE = [suffix for suffix in MATRIX_SUFFIXES if suffix != ".npy"]


@st.composite
def tables(draw) -> xr.Dataset:
    """Any valid table: families, failures, contexts and names or none of them."""
    n, p, t = (draw(st.integers(1, size)) for size in (5, 3, 5))
    cell = st.one_of(st.just(-np.inf), st.floats(-1e6, 1e6, width=64))
    cells = draw(st.lists(cell, min_size=n * p * t, max_size=n * p * t))
    matrix = np.array(cells).reshape(n, p, t)
    spaces = {}
    if draw(st.booleans()):
        for side, size in (("sources", n), ("targets", t)):
            unique = st.lists(
                st.tuples(st.floats(-9, 9), st.sampled_from([0.1, 0.2])),
                min_size=size,
                max_size=size,
                unique_by=lambda row: (row[0] + 0.0, row[1]),
            )
            spaces[side] = ts.Points(["k", "c"], np.array(draw(unique)) + 0.0)
    home = draw(st.sampled_from([None, matrix.max(2)]))
    table = ts.table_from_matrix(matrix, home=home, **spaces)
    if "targets" in spaces:  # otherwise names would say whose home is whose
        return table
    return table.assign_coords(
        source=[f"policy {i}" for i in range(n)], target=[f"task {i}" for i in range(t)]
    )


@settings(max_examples=12)
@given(table=tables(), epsilon=st.floats(0, 1e6))
def test_the_same_cover_in_every_format(table, epsilon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    expected = ts.greedy_cover(ts.table_sets(table, "regret", "worst", epsilon))
    for suffix in MATRIX_SUFFIXES:
        again = read_matrix(write_matrix(table, folder / f"table{suffix}"))
        for judge in ("worst", "best"):
            np.testing.assert_array_equal(
                ts.loss(again, "regret", judge), ts.loss(table, "regret", judge)
            )
        cover = ts.greedy_cover(ts.table_sets(again, "regret", "worst", epsilon))
        assert cover.sources.tolist() == expected.sources.tolist(), suffix
        assert cover.size == expected.size
        if suffix == ".npy":
            continue
        np.testing.assert_array_equal(again["performance"], table["performance"])
        assert source_space(again) == source_space(table)
        assert target_space(again) == target_space(table)
        if "home_performance" in table:
            home = table["home_performance"]
            np.testing.assert_array_equal(again["home_performance"], home)
        if "target" in table.coords:
            assert again["target"].values.tolist() == table["target"].values.tolist()
            assert again["source"].values.tolist() == table["source"].values.tolist()


@pytest.mark.parametrize("suffix", WHOLE)
def test_a_table_with_optima_comes_back_whole(tmp_path, suffix):
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 3))
    trainer = ts.trainers.Lqr(n_policies=3, noise=0.3)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)
    again = read_matrix(write_matrix(table, tmp_path / f"msd{suffix}"))
    for name in ("performance", "home_performance", "best_known"):
        np.testing.assert_array_equal(again[name], table[name])
    for criterion in ("signed", "regret", "ratio", "floor"):
        np.testing.assert_array_equal(
            ts.loss(again, criterion), ts.loss(table, criterion)
        )
    assert source_space(again) == source_space(table)


def test_several_rows_of_a_source_are_a_family(tmp_path):
    (tmp_path / "m.csv").write_text(
        "source,seed_quality,hard\na,9,1\nb,5,8\na,7,3\n".replace(
            "seed_quality", "easy"
        )
    )
    table = read_matrix(tmp_path / "m.csv")
    assert table.sizes == {"source": 2, "policy": 2, "target": 2}
    assert ts.loss(table, "regret", "worst").values.tolist() == [[2, 7], [4, 0]]
    assert ts.loss(table, "regret", "best").values.tolist() == [[0, 5], [4, 0]]


def test_context_columns_make_families_and_geometry(tmp_path):
    (tmp_path / "m.csv").write_text(
        "source_mass,mass=1.0,mass=2.0\n1.0,9,2\n2.0,3,8\n1.0,8,4\n"
    )
    table = read_matrix(tmp_path / "m.csv")
    assert source_space(table) == ts.Points(["mass"], [1.0, 2.0])
    assert target_space(table) == ts.Points(["mass"], [1.0, 2.0])
    assert table["home_performance"].values.tolist() == [[9, 8], [8, 8]]


def test_home_is_found_by_context_not_by_place(tmp_path):
    (tmp_path / "m.csv").write_text("source_m,m=2,m=1\n1,5,9\n2,7,3\n")
    table = read_matrix(tmp_path / "m.csv")
    assert table["home_performance"].values.tolist() == [[9], [7]]
    # A square matrix whose sources are no targets has no scores at home.
    (tmp_path / "m.csv").write_text("source_m,m=2,m=3\n1,5,9\n2,7,3\n")
    with pytest.raises(InvalidInputError, match="signed criterion"):
        ts.loss(read_matrix(tmp_path / "m.csv"), "signed")


def test_contexts_in_a_second_file(tmp_path):
    (tmp_path / "m.csv").write_text("source,near,far\nnear,9,2\nfar,3,8\n")
    (tmp_path / "c.csv").write_text("name,x,y\nfar,5,1\nnear,0,0.5\n")
    table = read_matrix(tmp_path / "m.csv", contexts=tmp_path / "c.csv")
    assert target_space(table) == ts.Points(["x", "y"], [[0, 0.5], [5, 1]])
    assert source_space(table) == target_space(table)
    np.save(tmp_path / "m.npy", [[9.0, 2.0], [3.0, 8.0]])
    (tmp_path / "plain.csv").write_text("x,y\n0,0.5\n5,1\n")
    plain = read_matrix(tmp_path / "m.npy", contexts=tmp_path / "plain.csv")
    assert target_space(plain) == target_space(table)
    done = taskspace(
        "cover", tmp_path / "m.csv", "--contexts", tmp_path / "c.csv",
        "--epsilon", 1, "--format", "json",
    )  # fmt: skip
    record = json.loads(done.stdout)
    assert record["contexts"] == [{"x": 0.0, "y": 0.5}, {"x": 5.0, "y": 1.0}]
    assert record["names"] == ["near", "far"]


def test_long_tables(tmp_path):
    wide = pd.DataFrame(
        {"source": ["a", "a", "b"], "policy": ["p", "q", "p"], "t": [1, 2, 3.0]}
    ).assign(u=[4.0, 5, 6])
    long = wide.melt(["source", "policy"], var_name="target", value_name="performance")
    shuffled = long.iloc[[3, 0, 5, 1, 4, 2]].reset_index(drop=True)
    for frame in (long, shuffled):
        table = table_from(frame)
        order = [table["target"].values.tolist().index(name) for name in ("t", "u")]
        loss = ts.loss(table, "floor").values[:, order]
        assert sorted(loss.tolist()) == [[-3, -6], [-1, -4]]
    long.to_csv(tmp_path / "long.csv", index=False)
    assert read_matrix(tmp_path / "long.csv").sizes["policy"] == 2


def test_pandas_and_xarray_objects():
    matrix = np.array([[9.0, 1.0], [4.0, 8.0]])
    frame = pd.DataFrame(matrix, index=["a", "b"], columns=["easy", "hard"])
    array = xr.DataArray(matrix.T, dims=("target", "source"))
    labelled = xr.DataArray(matrix, {"who": ["a", "b"], "where": ["x", "y"]})
    for data in (frame, array, labelled, array.to_dataset(name="performance")):
        table = table_from(data)
        assert table["performance"].values[:, 0].tolist() == matrix.tolist()
    assert table_from(labelled)["source"].values.tolist() == ["a", "b"]
    costs = table_from(frame, lower_is_better=True)
    assert costs["best_known"].values.tolist() == [-4, -1]
    with pytest.raises(InvalidInputError, match="but got list"):
        table_from([[1]])  # type: ignore[arg-type]


def test_spreadsheets_with_decimal_commas(tmp_path):
    (tmp_path / "m.csv").write_text("name;t;u\na;1,5;2\nb;3;-inf\n")
    table = read_matrix(tmp_path / "m.csv")
    assert table["performance"].values[:, 0].tolist() == [[1.5, 2], [3, -np.inf]]


def test_netcdf_4(tmp_path):
    pytest.importorskip("h5netcdf", reason="needs the extra 'files'")
    dataset = xr.Dataset({"performance": (("source", "target"), [[1.0, 2.0]])})
    dataset.to_netcdf(tmp_path / "m.nc", engine="h5netcdf")
    assert read_matrix(tmp_path / "m.nc")["best_known"].values.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,t,u\na,1,2\nb,3,x\n", "row 3, column 3 ('u') holds 'x'"),
        ("name,t,u\n\na,1,2\nb,3,\n", "row 4, column 3 ('u') is empty"),
        ("name,t,t\na,1,2\n", "columns 2 and 3 are both 't'"),
        ("name,t\na,1\na,2\n", "Row 3 of {} repeats the name 'a' of row 2"),
        ("source,policy,t\na,p,1\na,p,2\n", "repeats the name 'p' of row 2"),
        ("source,t\na,1\n,2\n", "row 3 has none"),
        ("source,source_k,t\na,1,1\na,2,2\n", "{'k': 1.0} and {'k': 2.0}"),
        ("source_k,t\ninf,1\n", "column 1 ('source_k') of {} holds inf"),
        ("source,t\nbest_known,1\n", "has no row of a policy"),
        ("source,t\na,2\nbest_known,1\n", "best_known 1 and a performance of 2"),
        ("policy,source\na,b\n", "no column of a target"),
        ("source,target,performance\na,t,1\na,t,2\n", "Row 2 and row 3 of {}"),
        (
            "source,target,performance\na,t,1\nb,t,2\nb,u,2\n",
            "the policy of row 2 has none for the target of row 4",
        ),
        ("source,target,performance,seed\na,t,1,1\n", "Column 4 ('seed')"),
        ("target,performance\nt,1\n", "must name the source"),
        ("a,t\n", "no rows"),
    ],
)
def test_mistakes_are_named(tmp_path, text, says):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as error:
        read_matrix(path)
    assert says.replace("{}", str(path)) in str(error.value)


def test_mistakes_in_frames_are_named_by_the_index():
    frame = pd.DataFrame({"t": [1.0, None], "u": ["1", "two"]}, index=["p", "q"])
    with pytest.raises(InvalidInputError, match=r"row 'q', column 2 \('t'\) is empty"):
        table_from(frame[["t"]])
    with pytest.raises(
        InvalidInputError, match=r"row 'q', column 2 \('u'\) holds 'two'"
    ):
        table_from(frame[["u"]])


@pytest.mark.parametrize(
    ("contexts", "says"),
    [
        ("x\n1\n", "2 targets and 1 rows"),
        ("name,x\nt,1\nv,2\n", "target 'u' is not in it"),
        ("name,x\nt,1\nt,2\n", "names 't' more than once"),
        ("name\nt\nu\n", "a column a context axis"),
    ],
)
def test_mistakes_in_contexts(tmp_path, contexts, says):
    (tmp_path / "m.csv").write_text("name,t,u\na,1,2\n")
    (tmp_path / "c.csv").write_text(contexts)
    with pytest.raises(InvalidInputError, match=says):
        read_matrix(tmp_path / "m.csv", contexts=tmp_path / "c.csv")


@pytest.mark.parametrize("suffix", [*MATRIX_SUFFIXES, ".xlsx"])
def test_rubbish_is_one_sentence(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(b"\x00rubbish")
    with pytest.raises(InvalidInputError, match=r"m\."):
        read_matrix(path)


def test_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ts.TaskspaceError, match=r"taskspace\[files\]"):
        write_matrix(ts.table_from_matrix([[1.0]]), tmp_path / "m.parquet")
    assert list(tmp_path.iterdir()) == []
