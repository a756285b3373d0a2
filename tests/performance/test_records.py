"""Tables with one row per run; the files are made here."""

import numpy as np
import pandas as pd
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from tests.helpers import refused

RUNS = pd.DataFrame(
    {
        "algorithm": ["fast", "fast", "slow", "slow", "fast", "slow"],
        "instance_id": ["i1", "i2", "i1", "i2", "i1", "i2"],
        "runtime": [1.0, 9.0, 5.0, 2.0, 3.0, 4.0],
        "seed": [0, 0, 0, 0, 1, 1],
    }
)
LONG = ["algorithm", "instance_id", "runtime"]


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
    assert any("averaged" in note for note in study.notes)
    assert any("'seed'" in note for note in study.notes)
    again = ts.study_from(RUNS, long=LONG, lower_is_better=True)
    assert cells(again.table) == cells(study.table)
    shuffled = ts.study_from(RUNS.iloc[::-1], long=LONG, lower_is_better=True)
    assert cells(shuffled.table) == cells(study.table)


@pytest.mark.parametrize("suffix", [".json", ".arff", ".xlsx", ".parquet", ".nc"])
def test_files_that_pandas_reads_are_left_to_it(tmp_path, suffix):
    file = tmp_path / f"runs{suffix}"
    file.write_text("[]")
    with pytest.raises(InvalidInputError, match=r"with pandas .* ts\.study_from"):
        ts.open(file)
    assert "ts.study_from" in refused("cover", file, "--ask", "regret <= 1")


def test_roles_and_columns_that_do_not_exist_are_refused_in_words():
    with pytest.raises(InvalidInputError, match="source, target and value"):
        ts.study_from(RUNS, long=["algorithm", "instance_id"])
    with pytest.raises(UnknownNameError, match="runtime"):
        ts.study_from(RUNS, long=["algorithm", "instance_id", "runtme"])


def test_an_empty_run_empties_its_cell():
    runs = RUNS.astype({"runtime": float}).copy()
    runs.loc[4, "runtime"] = np.nan
    with pytest.raises(InvalidInputError, match="empty"):
        ts.study_from(runs, long=LONG, lower_is_better=True)
    study = ts.study_from(runs, long=LONG, lower_is_better=True, missing="not served")
    assert cells(study.table)["fast", "i1"] == -np.inf
