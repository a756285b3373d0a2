"""What a matrix file holds names in, and whether it holds costs or scores."""

import json

import numpy as np
import pandas as pd
import pytest

from taskspace.errors import InvalidInputError
from taskspace.performance.io import read_matrix
from tests.helpers import refused, taskspace


def names_of(table) -> list[str]:
    return table["target"].values.tolist()


TRUTH = np.array([[0.9, 0.2, 0.4], [0.3, 0.8, 0.1], [0.5, 0.6, 0.7]])
"""Three sources, three targets: each source is best at one target."""


def written(path, header, rows=("ppo", "sac", "td3"), index="algorithm"):
    """TRUTH as CSV with these names, None for no row or column of names."""
    lines = [[repr(float(x)) for x in row] for row in TRUTH]
    if rows is not None:
        lines = [[str(name), *line] for name, line in zip(rows, lines, strict=True)]
    if header is not None:
        lines.insert(0, [*([] if rows is None else [index]), *map(str, header)])
    path.write_text("\n".join(",".join(line) for line in lines) + "\n")
    return path


@pytest.mark.parametrize(
    "names",
    [
        [2019, 2020, 2021], [12, 7, 93], [0.5, 1, 2], ["1e3", "1e4", "1e5"], [0, 1, 2],
        ["12_2_10", "12_3_10", "7_1_4"], [-1, 0, 1], [0.25, 0.1, 0.5], [5, "x", 7],
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    ("rows", "index"),
    [
        (("ppo", "sac", "td3"), "algorithm"),
        (("ppo", "sac", "td3"), ""),
        (("ppo", "sac", "td3"), "Data Set"),
        ((0, 1, 2), ""),
        ((0.1, 0.2, 0.3), "mass"),
        ((101, 205, 333), "id"),
    ],
    ids=str,
)
def test_names_that_look_like_numbers_are_no_source(tmp_path, names, rows, index):
    path = written(tmp_path / "m.csv", names, rows, index)
    options = {}
    if index == "mass" and ("x" in names or "12_2_10" in names):
        with pytest.raises(InvalidInputError, match="--read row_names"):
            read_matrix(path)  # a target mass beside other targets that are words
        options = {"row_names": True}
    table = read_matrix(path, **options)
    assert table["performance"].values[:, 0].tolist() == TRUTH.tolist()
    assert names_of(table) == list(map(str, names))
    assert table["source"].values.tolist() == list(map(str, rows))
    # The same table from pandas, as people write it.
    frame = pd.DataFrame(TRUTH, pd.Index(rows, name=index or None), list(names))
    frame.to_csv(path)
    again = read_matrix(path, **options)
    assert again["performance"].values[:, 0].tolist() == TRUTH.tolist()
    assert names_of(again) == list(map(str, frame.columns))


@pytest.mark.parametrize(
    ("header", "rows", "index"),
    [
        ([2019, 2020, 2021], None, None),
        ([0, 1, 2], None, None),
        ([0.5, 1, 2], None, None),
        ([12, 7, 93], None, None),
        ([2, 1, 3], ("ppo", "sac", "td3"), "first"),
    ],
    ids=str,
)
def test_a_first_row_of_numbers_alone_is_asked_about(tmp_path, header, rows, index):
    path = written(tmp_path / "m.csv", header, rows, index)
    with pytest.raises(InvalidInputError, match="--read header or"):
        read_matrix(path)
    table = read_matrix(path, header=True)
    assert table["performance"].values[:, 0].tolist() == TRUTH.tolist()
    assert names_of(table) == list(map(str, header))
    numbers = read_matrix(path, header=False)
    assert numbers["performance"].values[0, 0].tolist() == header
    assert numbers.sizes["source"] == 4


def test_one_more_source_would_change_what_is_proven(tmp_path):
    """Years are larger than any score: as a source they would serve every target."""
    path = written(tmp_path / "m.csv", [2019, 2020, 2021])
    record = json.loads(
        taskspace(
            "cover",
            path,
            "--ask",
            "regret <= 0.1",
            "--method",
            "minimum",
            "--format",
            "json",
        ).stdout
    )
    assert (record["size"], record["n_sources"], record["optimal"]) == (3, 3, True)
    said = "3 sources named by column 'algorithm', 3 targets named '2019', '2020', "
    assert said in record["notes"][0]
    written(path, [2019, 2020, 2021], rows=None)
    assert "--read header or" in refused("cover", path, "--ask", "regret <= 0.1")
    said = taskspace("cover", path, "--ask", "regret <= 0.1", "--read", "header")
    assert "3 of 3 sources" in said.stdout
    assert "true or false" in refused(
        "cover", path, "--ask", "regret <= 1", "--read", 'header="ye"'
    )
    # The same words in a saved cover, and in the next command to try.
    saved = tmp_path / "cover.json"
    taskspace(
        "cover", path, "--ask", "regret <= 0.1", "--read", "header", "--save", saved
    )
    assert "holds" in taskspace("verify", saved, path).stdout


@pytest.mark.parametrize(
    "text",
    [
        "ppo,1,1\nsac,3,4\n",  # two columns cannot both be called 1
        "1.000000000000000000e+00,2.000000000000000000e+00\n" * 2,
    ],
    ids=["twice", "savetxt"],
)
def test_numbers_without_a_header_stay_numbers(tmp_path, text):
    (tmp_path / "m.csv").write_text(text)
    table = read_matrix(tmp_path / "m.csv")
    assert table.sizes["source"] == 2
    assert "2 targets without names" in table.attrs["read_as"]


@pytest.mark.parametrize(
    "text",
    [
        "0.9,0.2,0.7\n0.3,0.8,0.1\n",  # in no order, and as long as the others
        "0.25,0.1,0.5\n0.9,0.2,0.4\n0.3,0.8,0.1\n",  # was misread: numbers
        "agent 1,5,2\nagent 2,3,4\n",  # one of the agents, no heading
    ],
    ids=["decimals", "short", "sibling"],
)
def test_a_first_row_that_may_be_names_is_asked_about(tmp_path, text):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match="--read header or"):
        read_matrix(path)
    n_rows = text.count("\n")
    options = {"row_names": "agent" in text}
    assert read_matrix(path, header=False, **options).sizes["source"] == n_rows
    assert read_matrix(path, header=True, **options).sizes["source"] == n_rows - 1


def test_a_first_column_of_numbers_is_asked_about(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("fall,easy,hard\n1,0.5,0.2\n2,0.25,0.3\n3,0.75,0.1\n")
    with pytest.raises(InvalidInputError, match="--read row_names or"):
        read_matrix(path)
    assert names_of(read_matrix(path, row_names=True)) == ["easy", "hard"]
    assert names_of(read_matrix(path, row_names=False)) == ["fall", "easy", "hard"]
    assert names_of(read_matrix(path, targets=["easy", "hard"])) == ["easy", "hard"]
    frame = pd.read_csv(path)
    with pytest.raises(InvalidInputError, match="row_names=True"):
        read_matrix(frame)
    assert names_of(read_matrix(frame, row_names=True)) == ["easy", "hard"]
    # Whole numbers in no order, two of them, and ids of families may be names too.
    for text in (
        "fall,easy\n7,2\n4,3\n9,1\n",
        "year,easy\n2020,0.5\n2019,0.3\n",
        "level,easy\n1,0.5\n1,0.3\n2,0.4\n",
    ):
        path.write_text(text)
        with pytest.raises(InvalidInputError, match="--read row_names or"):
            read_matrix(path)
    # A heading that says names: rows with the same name are told.
    path.write_text("algorithm,2,24\n0.7,8.7,7.2\n0.7,5.2,2.4\n")
    with pytest.raises(InvalidInputError, match=r"repeats the name '0\.7' of"):
        read_matrix(path)
    # Fractions in no order, and a name like the others', are no names.
    path.write_text("fall,easy\n0.7,2\n0.4,3\n0.9,1\n")
    assert names_of(read_matrix(path)) == ["fall", "easy"]
    path.write_text("t0,t1\n0,5\n1,3\n2,4\n")
    assert names_of(read_matrix(path)) == ["t0", "t1"]
    np.save(tmp_path / "m.npy", TRUTH)
    with pytest.raises(InvalidInputError, match="tables of columns"):
        read_matrix(tmp_path / "m.npy", header=True)


@pytest.mark.parametrize(
    "cell", ["1_5", "１５", "0x10", "1d5", "1e400", "1,5", "−1", "١", "1.2.3", "+-1"]
)
def test_what_is_no_number_in_a_file(tmp_path, cell):
    path = tmp_path / "m.csv"
    path.write_text(f'source,t,u\na,1,"{cell}"\n')
    with pytest.raises(InvalidInputError, match=r"row 2, column 3 \('u'\) holds"):
        read_matrix(path)
    (tmp_path / "costs.csv").write_text(f'"{cell}"\n')
    path.write_text("source,t\na,1\n")
    said = refused(
        "cover", path, "--ask", "regret <= 1", "--costs", tmp_path / "costs.csv"
    )
    assert ("decimal comma" if cell == "1,5" else "finite numbers") in said


def test_what_is_a_number_in_a_file(tmp_path):
    cells = {
        " 1.5 ": 1.5, "+2": 2, "-.5": -0.5, "3.": 3, "1e3": 1000, "1E-2": 0.01,
        "-inf": -np.inf, "-Infinity": -np.inf,
    }  # fmt: skip
    names = ",".join(f"t{i}" for i in range(len(cells)))
    (tmp_path / "m.csv").write_text(f"source,{names}\na,{','.join(cells)}\n")
    table = read_matrix(tmp_path / "m.csv")
    assert table["performance"].values.ravel().tolist() == list(cells.values())


COSTS = "source,a,b,c\nx,1,9,8\ny,7,2,6\nz,5,4,3\n"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("runtimes.csv", {}),
        ("PPO-loss.csv", {}),
        ("trainingCosts.csv", {}),
        ("m.csv", {"a,b,c": "error a,error b,c"}),
        ("m.csv", {"\nx": "\na", "\ny": "\nb", "\nz": "\nc"}),  # least at home
    ],
    ids=["runtimes", "loss", "camel", "targets", "home"],
)
def test_costs_are_not_solved_upside_down(tmp_path, file, change):
    text = COSTS
    for old, new in change.items():
        text = text.replace(old, new)
    path = tmp_path / file
    path.write_text(text)
    with pytest.raises(InvalidInputError, match="look like costs"):
        read_matrix(path)
    options = ("--ask", "regret <= 0", "--format", "json")
    assert "--read lower_is_better" in refused("cover", path, *options)
    down = json.loads(
        taskspace("cover", path, "--read", "lower_is_better", *options).stdout
    )
    up = json.loads(
        taskspace("cover", path, "--read", "lower_is_better=false", *options).stdout
    )
    assert (down["size"], up["size"]) == (3, 2)
    assert "costs, smaller is better" in down["notes"][0]
    assert "larger is better" in up["notes"][0]
    # Negative numbers are costs turned round already.
    head, _, rows = text.partition("\n")
    path.write_text(f"{head}\n{rows.replace(',', ',-')}")
    assert read_matrix(path)["best_known"].values.tolist() == [-1, -2, -3]


@pytest.mark.parametrize(
    "file", ["scores.csv", "survival-time.csv", "m.csv", "closses.csv", "standard.csv"]
)
def test_positive_scores_are_scores(tmp_path, file):
    (tmp_path / file).write_text(COSTS)
    assert read_matrix(tmp_path / file)["best_known"].values.tolist() == [7, 9, 8]
    (tmp_path / file).write_text(COSTS.replace("b", "lap time"))
    (note,) = read_matrix(tmp_path / file).attrs["notes"]
    assert "'lap time' sounds like a cost" in note


def test_an_endless_score_is_a_cost(tmp_path):
    (tmp_path / "m.csv").write_text("source,a,b\nx,1,inf\n")
    with pytest.raises(InvalidInputError, match="lower_is_better=True"):
        read_matrix(tmp_path / "m.csv")
    table = read_matrix(tmp_path / "m.csv", lower_is_better=True)
    assert table["performance"].values.ravel().tolist() == [-1, -np.inf]


def test_a_missing_corner_is_asked_about_where_cells_may_be_missing(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(",0.2,0.3\n0.4,0.5,0.6\n0.7,0.8,0.9\n")
    assert names_of(read_matrix(path)) == ["0.2", "0.3"]
    with pytest.raises(InvalidInputError, match="--read header"):
        read_matrix(path, missing="not served")


def test_ratio_says_what_to_do(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("source,a,b\nx,0,9\ny,7,2\n")
    options = ("--ask", "ratio <= 1")
    said = refused("cover", path, *options, "--read", "lower_is_better")
    assert "0 at target 0" in said
    assert "ignore=[" in said
    done = taskspace("cover", path, *options, "--read", 'lower_is_better, ignore=["a"]')
    assert done.returncode == 0
    assert "--read lower_is_better" in refused("cover", path, *options)
