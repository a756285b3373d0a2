"""Tables with one row per run, in the public formats; the files are made here."""

import json

import numpy as np
import pandas as pd
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError

RUNS = pd.DataFrame(
    {
        "algorithm": ["fast", "fast", "slow", "slow", "fast", "slow"],
        "instance_id": ["i1", "i2", "i1", "i2", "i1", "i2"],
        "runtime": [1.0, 9.0, 5.0, 2.0, 3.0, 4.0],
        "seed": [0, 0, 0, 0, 1, 1],
    }
)
LONG = {"source": "algorithm", "target": "instance_id", "value": "runtime"}
ARFF = """% made by a test
@RELATION ALGORITHM_RUNS
@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok, timeout, memout}

@DATA
'a b.cnf',1,minisat,0.5,ok
'a b.cnf',1,'kissat 3',2.5,ok
c.cnf,1,minisat,5000,timeout
c.cnf,1,'kissat 3',12.25,ok
"""


def cells(table):
    scores = table["performance"].values[:, 0]
    return {
        (str(s), str(t)): scores[i, j]
        for i, s in enumerate(table["source"].values)
        for j, t in enumerate(table["target"].values)
    }


def test_columns_of_any_name_are_read_and_runs_averaged(tmp_path):
    file = tmp_path / "runs.csv"
    RUNS.to_csv(file, index=False)
    study = ts.open(file, long=LONG, lower_is_better=True)
    expected = {("fast", "i1"): -2.0, ("fast", "i2"): -9.0}
    expected |= {("slow", "i1"): -5.0, ("slow", "i2"): -3.0}
    assert cells(study.table) == expected
    error = study.table["standard_error"].values[:, 0]
    assert error[0, 0] == pytest.approx(np.std([1.0, 3.0], ddof=1) / np.sqrt(2))
    assert np.isnan(error[0, 1])
    assert any("mean of 1 to 2 rows" in note for note in study.notes)
    assert any("'seed'" in note for note in study.notes)
    again = ts.study_from(RUNS, long=LONG, lower_is_better=True)
    assert cells(again.table) == cells(study.table)
    shuffled = ts.study_from(RUNS.iloc[::-1], long=LONG, lower_is_better=True)
    assert cells(shuffled.table) == cells(study.table)


def test_aslib_runs_that_were_not_finished_are_failures(tmp_path):
    file = tmp_path / "algorithm_runs.arff"
    file.write_text(ARFF)
    table = ts.open(file, lower_is_better=True).table
    assert cells(table) == {
        ("minisat", "a b.cnf"): -0.5,
        ("minisat", "c.cnf"): -np.inf,
        ("kissat 3", "a b.cnf"): -2.5,
        ("kissat 3", "c.cnf"): -12.25,
    }
    assert table.attrs["quantity"] == "cost"


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_records(tmp_path, suffix):
    file = tmp_path / f"runs{suffix}"
    rows = RUNS.to_dict("records")
    lines = "\n".join(map(json.dumps, rows))
    file.write_text(json.dumps(rows) if suffix == ".json" else lines)
    table = ts.open(file, long=LONG, lower_is_better=True).table
    assert cells(table) == cells(
        ts.study_from(RUNS, long=LONG, lower_is_better=True).table
    )


@pytest.mark.parametrize(
    ("suffix", "text", "words"),
    [
        (".json", '{"a": 1}', "list of objects"),
        (".json", "[1, 2]", "list of objects"),
        (".json", "[{", "must be JSON"),
        (".arff", "a,b\n1,2\n", "@attribute"),
        (".arff", ARFF.replace("@DATA", "@DATA\n{0 1}"), "sparse"),
        (".arff", ARFF + "x,1,minisat\n" * 0 + "'q',1,m,2,ok,9,9\n", "arff"),
    ],
)
def test_what_is_no_such_file_is_refused_in_words(tmp_path, suffix, text, words):
    file = tmp_path / f"broken{suffix}"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        ts.open(file, lower_is_better=True)


def test_roles_and_columns_that_do_not_exist_are_refused_in_words():
    with pytest.raises(InvalidInputError, match="no value"):
        ts.study_from(RUNS, long={"source": "algorithm", "target": "instance_id"})
    with pytest.raises(UnknownNameError, match="runtime"):
        ts.study_from(RUNS, long=LONG | {"value": "runtme"})
    with pytest.raises(UnknownNameError, match="role"):
        ts.study_from(RUNS, long=LONG | {"colour": "seed"})


def test_an_empty_run_empties_its_cell():
    runs = RUNS.astype({"runtime": float}).copy()
    runs.loc[4, "runtime"] = np.nan
    with pytest.raises(InvalidInputError, match="empty"):
        ts.study_from(runs, long=LONG, lower_is_better=True)
    study = ts.study_from(runs, long=LONG, lower_is_better=True, missing="not served")
    assert cells(study.table)["fast", "i1"] == -np.inf
