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
from taskspace.performance.io import (
    MATRIX_SUFFIXES,
    read_matrix,
    write_matrix,
)
from tests.helpers import refused, taskspace

PLAIN = (".csv", ".tsv")


def saved(table: xr.Dataset, path):
    """A table as pandas, NumPy, xarray and we write it."""
    cells = table["performance"]
    if path.suffix == ".npz":
        return write_matrix(table, path)
    if path.suffix == ".npy":
        np.save(path, cells.values)
    else:
        n, p, _ = cells.shape
        space, goals = source_space(table), target_space(table)
        columns = {"source": [f"s{i}" for i in range(n)]}
        if "source" in table.coords:
            columns["source"] = table["source"].values.tolist()
        if space is not None:
            columns |= {
                f"source_{a}": x
                for a, x in zip(space.names, space.points.T, strict=True)
            }
        frame = pd.DataFrame(columns).loc[np.repeat(np.arange(n), p)]
        if "home_performance" in table:
            frame["home"] = table["home_performance"].values.reshape(-1)
        names = [f"t{i}" for i in range(cells.shape[2])]
        if goals is not None:
            contexts = map(goals.context, range(goals.size))
            names = [";".join(f"{k}={v!r}" for k, v in c.items()) for c in contexts]
        elif "target" in table.coords:
            names = table["target"].values.tolist()
        frame[names] = cells.values.reshape(n * p, -1)
        sep = "," if path.suffix == ".csv" else "\t"
        frame.to_csv(path, index=False, sep=sep)
    return path


FORMATS = (*PLAIN, ".npy", ".npz")


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
    table = ts.performance.table_from_matrix(matrix, home=home, **spaces)
    if "targets" in spaces:  # otherwise names would say whose home is whose
        return table
    return table.assign_coords(
        source=[f"policy {i}" for i in range(n)], target=[f"task {i}" for i in range(t)]
    )


@settings(max_examples=12)
@given(table=tables(), epsilon=st.floats(0, 1e6))
def test_the_same_cover_in_every_format(table, epsilon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    expected = ts.greedy_cover(
        ts.Question("regret", "worst", epsilon=epsilon).sets(table)
    )
    for suffix in FORMATS:
        again = read_matrix(saved(table, folder / f"table{suffix}"))
        for judge in ("worst", "best"):
            np.testing.assert_array_equal(
                ts.loss(again, ts.Question("regret", judge, epsilon=0.0)),
                ts.loss(table, ts.Question("regret", judge, epsilon=0.0)),
            )
        cover = ts.greedy_cover(
            ts.Question("regret", "worst", epsilon=epsilon).sets(again)
        )
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


def test_a_table_with_optima_comes_back_whole(tmp_path):
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 3))
    trainer = ts.trainers.Lqr(n_policies=3, noise=0.3)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table
    again = read_matrix(write_matrix(table, tmp_path / "msd.npz"))
    for name in ("performance", "home_performance", "best_known"):
        np.testing.assert_array_equal(again[name], table[name])
    for criterion in ("signed", "regret", "ratio", "floor"):
        np.testing.assert_array_equal(
            ts.loss(again, ts.Question(criterion, epsilon=0.0)),
            ts.loss(table, ts.Question(criterion, epsilon=0.0)),
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
    assert ts.loss(
        table, ts.Question("regret", "worst", epsilon=0.0)
    ).values.tolist() == [[2, 7], [4, 0]]
    assert ts.loss(
        table, ts.Question("regret", "best", epsilon=0.0)
    ).values.tolist() == [[0, 5], [4, 0]]


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
        ts.loss(read_matrix(tmp_path / "m.csv"), ts.Question("signed", epsilon=0.0))


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
        "cover", tmp_path / "m.csv", "--read", f'contexts="{tmp_path}/c.csv"',
        "--ask", "regret <= 1", "--format", "json",
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
        table = read_matrix(frame)
        order = [table["target"].values.tolist().index(name) for name in ("t", "u")]
        loss = ts.loss(table, ts.Question("floor", epsilon=0.0)).values[:, order]
        assert sorted(loss.tolist()) == [[-3, -6], [-1, -4]]
    long.to_csv(tmp_path / "long.csv", index=False)
    assert read_matrix(tmp_path / "long.csv").sizes["policy"] == 2


def test_pandas_and_xarray_objects():
    matrix = np.array([[9.0, 1.0], [4.0, 8.0]])
    frame = pd.DataFrame(matrix, index=["a", "b"], columns=["easy", "hard"])
    array = xr.DataArray(matrix.T, dims=("target", "source"))
    labelled = xr.DataArray(matrix, {"who": ["a", "b"], "where": ["x", "y"]})
    for data in (frame, array, labelled, array.to_dataset(name="performance")):
        table = read_matrix(data)
        assert table["performance"].values[:, 0].tolist() == matrix.tolist()
    assert read_matrix(labelled)["source"].values.tolist() == ["a", "b"]
    costs = read_matrix(frame, lower_is_better=True)
    assert costs["best_known"].values.tolist() == [-4, -1]
    with pytest.raises(InvalidInputError, match="but got list"):
        read_matrix([[1]])  # type: ignore[arg-type]


def test_other_spellings_are_left_to_pandas(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("name;t;u\na;1,5;2\nb;3;-inf\n")
    with pytest.raises(InvalidInputError, match=r"pd\.read_csv\(FILE, sep=';'"):
        read_matrix(path)
    frame = pd.read_csv(path, sep=";", decimal=",", index_col="name")
    cells = read_matrix(frame)["performance"].values[:, 0]
    assert cells.tolist() == [[1.5, 2], [3, -np.inf]]


@pytest.mark.parametrize(
    "text",
    [
        "0,9\t2\t2\n0,3\t8\t8\n",  # three columns of numbers, not two with names
        "0,9\t0,2\n0,3\t0,8\n",
        '"0,9",2,2\n"0,3",8,8\n',
        "mass\t0,5\t1,5\n0,1\t2\t3\n",
    ],
)
def test_decimal_commas_are_not_taken_for_names(tmp_path, text):
    path = tmp_path / ("m.tsv" if "\t" in text else "m.csv")
    path.write_text(text)
    with pytest.raises(InvalidInputError, match="decimal=','"):
        read_matrix(path)


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
        ("source,t\na,2\nbest_known,1\n", "best_known 1.0 and a performance of 2.0"),
        ("policy,source\na,b\n", "no column of a target"),
        ("source,target,performance\na,t,1\na,t,2\n", "Row 2 and row 3 of {}"),
        (
            "source,target,performance\na,t,1\nb,t,2\nb,u,2\n",
            "the policy of row 2 has none for the target of row 4",
        ),
        ("source,target,performance,algo\na,t,1,x\n", "Column 4 ('algo')"),
        ("source,target,performance\na,t,\n", "is empty. --read 'missing="),
        ("source,algo,t\na,ppo,1\n", "holds 'ppo'. --read 'ignore="),
        ("source_k,t\nnan,1\n", "column 1 ('source_k') holds 'nan'"),
        ("source,k=nan\na,1\n", "has a target 'k=nan'"),
        ("target,performance\nt,1\n", "must name the source"),
        ("a,t\n", "no rows"),
    ],
)
def test_mistakes_are_named(tmp_path, text, says):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(ts.TaskspaceError) as error:
        read_matrix(path)
    assert says.replace("{}", str(path)) in str(error.value)


def test_mistakes_in_frames_are_named_by_the_index():
    frame = pd.DataFrame({"t": [1.0, None], "u": ["1", "two"]}, index=["p", "q"])
    with pytest.raises(InvalidInputError, match=r"row 'q', column 2 \('t'\) is empty"):
        read_matrix(frame[["t"]])
    with pytest.raises(
        InvalidInputError, match=r"row 'q', column 2 \('u'\) holds 'two'"
    ):
        read_matrix(frame[["u"]])


def names_of(table) -> list[str]:
    return table["target"].values.tolist()


@pytest.mark.parametrize(
    "name",
    [
        "seed", "Seed", "run", "step", "steps", "timesteps", "total_steps", "n_seeds",
        "episode", "episodes", "iteration", "Total Timesteps", "time-steps", "id",
        "n_episodes", "provenance", "standard_error:t",
    ],
)  # fmt: skip
def test_notes_on_the_training_are_asked_about(tmp_path, name):
    path = tmp_path / "m.csv"
    path.write_text(f"source,{name},t,u\na,0,1,2\na,1,3,4\nb,0,5,6\n")
    with pytest.raises(InvalidInputError, match=f"'ignore=.\"{name}\".'.*'targets=."):
        read_matrix(path)
    table = read_matrix(path, ignore=[name])
    assert names_of(table) == ["t", "u"]
    assert table.sizes["policy"] == 2
    assert names_of(read_matrix(path, targets=["t", name])) == [name, "t"]


def test_ignore_and_targets(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("source,algo,t,u\na,ppo,1,2\nb,sac,3,4\n")
    assert names_of(read_matrix(path, ignore=["algo"])) == ["t", "u"]
    assert names_of(read_matrix(path, targets=["u"])) == ["u"]
    with pytest.raises(ts.TaskspaceError, match="Did you mean 'algo'"):
        read_matrix(path, ignore=["alog"])
    with pytest.raises(InvalidInputError, match="both targets and ignore"):
        read_matrix(path, ignore=["u"], targets=["u"])
    with pytest.raises(InvalidInputError, match="list of names"):
        read_matrix(path, ignore="algo")
    # The same for one row a cell, and for arrays with names.
    long = tmp_path / "long.csv"
    long.write_text(
        "source,algo,target,performance\na,x,t,1\na,x,u,2\nb,y,t,3\nb,y,u,4\n"
    )
    assert names_of(read_matrix(long, ignore=["algo"])) == ["t", "u"]
    assert names_of(read_matrix(long, ignore=["algo", "t"])) == ["u"]
    named = write_matrix(read_matrix(path, ignore=["algo"]), tmp_path / "m.npz")
    assert names_of(read_matrix(named, targets=["u"])) == ["u"]
    assert read_matrix(named, ignore=["t"])["performance"].values.ravel().tolist() == [
        2,
        4,
    ]
    with pytest.raises(InvalidInputError, match="No target"):
        read_matrix(named, ignore=["t", "u"])
    np.save(tmp_path / "m.npy", [[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="only by name"):
        read_matrix(tmp_path / "m.npy", ignore=["t"])


def test_an_index_is_no_target(tmp_path):
    frame = pd.DataFrame({"t": [1.0, 2, 3], "u": [4.0, 5, 6]})
    levels = [("a", 0), ("a", 1), ("b", 0)]
    frame.index = pd.MultiIndex.from_tuples(levels, names=["source", "seed"])
    table = read_matrix(frame, ignore=["seed"])
    assert names_of(table) == ["t", "u"]
    assert table["source"].values.tolist() == ["a", "b"]
    assert table.sizes["policy"] == 2
    frame.index = pd.MultiIndex.from_tuples(levels)
    with pytest.raises(InvalidInputError, match="reset_index"):
        read_matrix(frame)
    # What is left of a frame after filtering keeps the numbers of its rows.
    frame.index = pd.Index([7, 2, 5])
    assert names_of(read_matrix(frame)) == ["t", "u"]
    with_source = frame.assign(source=["x", "y", "x"])
    assert read_matrix(with_source)["source"].values.tolist() == ["x", "y"]
    long = with_source.melt("source", var_name="target", value_name="performance")
    long = long.assign(seed=[0, 0, 1] * 2).iloc[[3, 0, 5, 1, 4, 2]]
    with pytest.raises(InvalidInputError, match=r"Column 5 .'seed'.*'long=."):
        read_matrix(long)
    roles = ["source", "target", "performance", "seed"]
    apart = read_matrix(long, long=roles)
    assert apart.sizes == {"source": 2, "policy": 2, "target": 2}
    # The same through a file, where the index is a column without a name.
    frame.to_csv(tmp_path / "m.csv")
    assert names_of(read_matrix(tmp_path / "m.csv")) == ["t", "u"]
    pd.DataFrame([[1.5, 2], [3, 4]]).to_csv(tmp_path / "m.csv")
    plain = read_matrix(tmp_path / "m.csv")
    assert plain["performance"].values[:, 0].tolist() == [[1.5, 2], [3, 4]]


@pytest.mark.parametrize("empty", ["", "NaN", "NA", " "])
def test_missing_cells_are_not_served(tmp_path, empty):
    path = tmp_path / "m.csv"
    path.write_text(f"source,t,u\na,1,{empty}\nb,3,4\nc,,2\n")
    with pytest.raises(InvalidInputError, match=r"row 4, column 2 \('t'\) is empty"):
        read_matrix(path)
    table = read_matrix(path, missing="not served")
    assert table["performance"].values[:, 0].tolist() == [
        [1, -np.inf],
        [3, 4],
        [-np.inf, 2],
    ]
    assert any("2 empty cells are" in note for note in table.attrs["notes"])
    costs = read_matrix(path, missing="not served", lower_is_better=True)
    assert costs["performance"].values[0, 0].tolist() == [-1, -np.inf]
    path.write_text("source,t,u\na,1,x\n")
    with pytest.raises(InvalidInputError, match="holds 'x'"):
        read_matrix(path, missing="not served")
    with pytest.raises(ts.TaskspaceError, match="Unknown missing"):
        read_matrix(path, missing="ignore")


def test_missing_cells_in_long_tables_and_arrays(tmp_path):
    frame = pd.DataFrame(
        {
            "source": ["a", "b", "b"],
            "target": ["t", "t", "u"],
            "performance": [1.0, 2, 3],
        }
    )
    expected = [[1, -np.inf], [2, 3]]
    table = read_matrix(frame, missing="not served")
    assert table["performance"].values[:, 0].tolist() == expected
    np.save(tmp_path / "m.npy", [[1.0, np.nan], [2.0, 3.0]])
    table = read_matrix(tmp_path / "m.npy", missing="not served")
    assert table["performance"].values[:, 0].tolist() == expected
    with pytest.raises(InvalidInputError, match="row 0, policy 0, column 1 holds nan"):
        read_matrix(tmp_path / "m.npy")


def test_a_missing_score_at_home_serves_nothing_by_signed(tmp_path):
    # −inf at home would make every other score a gain.
    (tmp_path / "m.csv").write_text("source,a,b\na,,5\nb,3,4\n")
    table = read_matrix(tmp_path / "m.csv", missing="not served")
    assert any("signed" in note for note in table.attrs["notes"])
    with pytest.raises(InvalidInputError, match="signed criterion"):
        ts.loss(table, ts.Question("signed", epsilon=0.0))


def test_provenance_and_standard_errors_are_kept(tmp_path):
    cells = np.array([[[1.0, 2.0], [3.0, -np.inf]]])
    errors = np.array([[[0.5, 0.1], [0.0, np.nan]]])
    for options in (
        {"provenance": "exact"},
        {},
        {"standard_error": errors, "n_episodes": 32},
        {"provenance": "sampled", "n_episodes": 4},
    ):
        table = ts.performance.table_from_matrix(cells, **options)
        again = read_matrix(write_matrix(table, tmp_path / "m.npz"))
        for name in ("provenance", "n_episodes"):
            assert again.attrs.get(name) == table.attrs.get(name), name
        assert ("standard_error" in again) == ("standard_error" in table)
        if "standard_error" in table:
            np.testing.assert_array_equal(again["standard_error"], errors)


def test_a_file_is_exact_only_if_it_says_so(tmp_path):
    (tmp_path / "m.csv").write_text("source,t\na,1\n")
    assert read_matrix(tmp_path / "m.csv").attrs["provenance"] == "given"
    np.save(tmp_path / "m.npy", [[1.0]])
    assert read_matrix(tmp_path / "m.npy").attrs["provenance"] == "given"
    # Datasets of others may have a text of this name.
    dataset = xr.Dataset({"performance": (("source", "target"), [[1.0]])})
    dataset.attrs["provenance"] = "made by a script"
    assert read_matrix(dataset).attrs["provenance"] == "given"


def test_users_bring_their_own_standard_errors(tmp_path):
    np.savez(tmp_path / "m.npz", performance=[[1.0, 2.0]], standard_error=[[0.1, 0.2]])
    assert read_matrix(tmp_path / "m.npz").attrs["provenance"] == "sampled"
    turned = xr.Dataset(
        {
            "performance": (("target", "source"), [[1.0, 2.0], [3.0, 4.0]]),
            "standard_error": (("target", "source"), [[0.1, 0.2], [0.3, 0.4]]),
        }
    )
    assert read_matrix(turned)["standard_error"].values[0, 0].tolist() == [0.1, 0.3]


@pytest.mark.parametrize(
    "names",
    [
        ["seed", "run"], ["source", "policy"], ["home", "performance"], ["1", "2"],
        ["k=1", "k=2"], ["standard_error:x", "x"], ["target", "target_k"],
        ["=cmd|'/C calc'!A0", "+1"], ["-3", "@sum(A1)"], ["'=x", "''-y"],
        ["a,b", 'say "hi"'], ["provenance", "n_episodes"], ["ppo[bold]", ":smile:"],
        ["naïve θ", "a;b"], ["none", "nan"],
    ],
    ids=lambda names: names[0],
)  # fmt: skip
def test_any_names_come_back(tmp_path, names):
    table = ts.performance.table_from_matrix([[1.0, 2.0], [3.0, 4.0]], home=[1.0, 4.0])
    table = table.assign_coords(source=names, target=names)
    again = read_matrix(write_matrix(table, tmp_path / "m.npz"))
    assert again["source"].values.tolist() == names
    assert names_of(again) == names
    assert again["performance"].values[:, 0].tolist() == [[1, 2], [3, 4]]
    assert target_space(again) is None
    assert again.attrs["notes"] == []


@pytest.mark.parametrize("names", [["x", "x"], ["best_known", "x"]])
def test_a_table_is_written_as_npz(tmp_path, names):
    table = ts.performance.table_from_matrix([[1.0], [2.0]])
    with pytest.raises(InvalidInputError, match=r"\.npz, but got m\.csv"):
        write_matrix(table, tmp_path / "m.csv")
    named = table.assign_coords(source=names)
    again = read_matrix(write_matrix(named, tmp_path / "m.npz"))
    assert again["source"].values.tolist() == names
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"]
)
def test_encodings(tmp_path, encoding):
    path = tmp_path / "m.csv"
    path.write_bytes("source,é,u\nnaïve,1.5,2\nb,3,4\n".encode(encoding))
    if not encoding.startswith("utf-8"):
        with pytest.raises(InvalidInputError, match="encoding="):
            read_matrix(path)
        return
    table = read_matrix(path)
    assert table["performance"].values[:, 0].tolist() == [[1.5, 2], [3, 4]]
    assert names_of(table) == ["é", "u"]
    assert table["source"].values.tolist() == ["naïve", "b"]


def test_what_describes_text_is_refused_of_other_files(tmp_path):
    np.save(tmp_path / "m.npy", [[1.0]])
    for option in ({"header": True}, {"row_names": True}, {"long": "abc"}):
        with pytest.raises(
            InvalidInputError, match=r"about tables of columns, but .*m\.npy"
        ):
            read_matrix(tmp_path / "m.npy", **option)


def test_tabs_separate_cells_of_a_tsv(tmp_path):
    (tmp_path / "M.TSV").write_text("source\ta,b\tc\nx, y\t1.5\t2\n")
    table = read_matrix(tmp_path / "M.TSV")
    assert names_of(table) == ["a,b", "c"]
    assert table["source"].values.tolist() == ["x, y"]


def test_a_matrix_on_a_grid_has_a_uniform_cover(tmp_path):
    space = ts.Grid(k=[0.1, 1.0, 7.0], c=(0.0, 1.0, 2))
    cells = -np.abs(space.points[:, :1] - space.points[:, 0])
    table = ts.performance.table_from_matrix(cells, sources=space, targets=space)
    for suffix in (*PLAIN, ".npz"):
        path = saved(table, tmp_path / f"m{suffix}")
        assert source_space(read_matrix(path)) == space
        assert isinstance(source_space(read_matrix(path)), ts.Grid)
    options = ("--ask", "regret <= 1", "--method", "uniform", "--format", "json")
    done = taskspace("cover", tmp_path / "m.csv", *options)
    assert json.loads(done.stdout)["coverage"] == 1.0


def test_choices_on_the_command_line(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("source,algo,seed,t[bold],u\na,ppo,0,1,\nb,sac,0,3,4\n")
    options = ("--ask", "regret <= 0", "--read", 'ignore=["algo", "seed"]')
    assert "row 2, column 5 ('u') is empty" in refused("cover", path, *options)
    options = (*options[:-1], 'ignore=["algo", "seed"], missing="not served"')
    saved = tmp_path / "cover.json"
    done = taskspace("cover", path, *options, "--save", saved)
    text = " ".join(done.stdout.split())
    assert "left out 'algo', 'seed'" in text
    assert "1 empty cell is" in text
    assert "t[bold]" in text
    assert "holds" in taskspace("verify", saved, path).stdout
    record = json.loads(taskspace("cover", path, *options, "--format", "json").stdout)
    assert record["names"] == ["b"]
    options = ("--ask", "regret <= 0", "--read", 'targets=["seed"]', "--format", "json")
    assert json.loads(taskspace("cover", path, *options).stdout)["n_targets"] == 1
    profile = taskspace(
        "profile", path, "--read", 'targets=["t[bold]"]', "--format", "json"
    )
    assert json.loads(profile.stdout)[0]["upper"] == 1
    assert "Did you mean 'not served'" in refused(
        "cover", path, "--ask", "regret <= 0", "--read", 'missing="notserved"'
    )
    assert "Did you mean 'seed'" in refused(
        "cover", path, "--ask", "regret <= 0", "--read", 'ignore=["sed"]'
    )


@pytest.mark.parametrize(
    ("contexts", "says"),
    [
        ("x\n1\n", "2 targets and 1 rows"),
        ("name,x\nt,1\nv,2\n", "target 'u' is not in it"),
        ("name,x\nt,1\nt,2\n", "names 't' more than once"),
        ("name\nt\nu\n", "a column per context axis"),
        ("name,x\nt,1\nu,nan\n", "row 3, column 2 .'x'. holds 'nan'"),
        ("name,x\nt,1\nu,inf\n", "must be finite"),
    ],
)
def test_mistakes_in_contexts(tmp_path, contexts, says):
    (tmp_path / "m.csv").write_text("name,t,u\na,1,2\n")
    (tmp_path / "c.csv").write_text(contexts)
    with pytest.raises(InvalidInputError, match=says):
        read_matrix(tmp_path / "m.csv", contexts=tmp_path / "c.csv")


@pytest.mark.parametrize("suffix", [*MATRIX_SUFFIXES, ".xlsx", ".nc"])
def test_rubbish_is_one_sentence(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(b"\x00rubbish")
    with pytest.raises(InvalidInputError, match=r"m\."):
        read_matrix(path)
