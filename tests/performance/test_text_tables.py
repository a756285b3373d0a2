"""Text tables: what pandas reads of them is what the rules of cells say."""

import csv
import tracemalloc

import numpy as np
import pytest

from taskspace.errors import InvalidInputError
from taskspace.performance.io import read_matrix
from taskspace.performance.io.cells import is_empty, number_of, numbers
from taskspace.performance.io.text import read_text

SPELLINGS = (
    "1", "-3", "+1", "007", "-0", ".5", "5.", "1e3", "1E-3", "1e-400", "1e400",
    "-1e999", "inf", "-inf", "+INF", "Infinity", "infin", "nan", "NaN", "NA", "", " ",
    "1_5", "0x10", "1d5", "１５", "True", "false", " 1.5 ", "1 2", "--1", "1.5.2",
    "'-1", "1e", "e5", ".", "9223372036854775808", "1" * 30, "9" * 310, "\xa03",
)  # fmt: skip


def refused(path, **options) -> str:
    """The sentence that a bad file gets."""
    with pytest.raises(InvalidInputError) as error:
        read_matrix(path, **options)
    return str(error.value)


def same(a: float, b: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("n_plain", [0, 3])
def test_a_number_is_what_the_rule_says(tmp_path, spelling, n_plain):
    """Alone in its column, and below numbers that pandas takes for such."""
    path = tmp_path / "m.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = [["p", "2.5", "1"]] * n_plain + [["q", spelling, "1"]]
        csv.writer(file).writerows([["name", "a", "b"], *rows])
    frame = read_text(path)
    expected = number_of(spelling)
    if np.isnan(expected) and not is_empty(spelling):
        with pytest.raises(InvalidInputError) as error:
            numbers(frame, [1], "m", may_be_empty=True)
        where = f"row {n_plain + 2}, column 2 ('a') holds {spelling!r:.60}"
        assert where in str(error.value)
    else:
        value = numbers(frame, [1], "m", may_be_empty=True)[-1, 0]
        assert same(value, expected)


def test_numbers_are_the_nearest_floats(tmp_path):
    """Of any float in 17 digits, and of more digits than a float has."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**64, 4000, dtype=np.uint64).view(np.float64)
    values = values[np.isfinite(values)]
    texts = [repr(v) for v in values.tolist()] + [f"{v:.30e}" for v in values.tolist()]
    path = tmp_path / "m.csv"
    path.write_text("name,a\n" + "".join(f"x,{text}\n" for text in texts))
    column = read_text(path)["a"]
    assert column.dtype == np.float64
    assert column.tolist() == [float(text) for text in texts]


def test_a_matrix_of_numbers_takes_the_memory_of_numbers(tmp_path):
    """Not one string per cell, with names of columns and without."""
    cells = np.random.default_rng(0).normal(size=(300, 300))
    rows = [",".join(map(repr, row)) for row in cells.tolist()]
    named = tmp_path / "named.csv"
    header = ",".join(["name", *(f"t{j}" for j in range(300))])
    named.write_text("\n".join([header, *(f"s{i},{r}" for i, r in enumerate(rows))]))
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(rows))
    for path in (named, bare):
        options = {"lower_is_better": False, "header": path == named}
        options["row_names"] = path == named
        read_matrix(path, **options)
        tracemalloc.start()
        table = read_matrix(path, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (table["performance"].values[:, 0] == cells).all()
        assert peak < 5 * path.stat().st_size


def test_names_stay_as_they_are_written(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("source,policy,seed,a\n007,1.0,01,1\n007,1.00,01,2\n7,1.0,1,3\n")
    frame = read_text(path)
    assert frame["source"].tolist() == ["007", "007", "7"]
    assert frame["policy"].tolist() == ["1.0", "1.00", "1.0"]
    assert read_matrix(path, ignore=["seed"])["source"].values.tolist() == ["007", "7"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blank_lines_move_no_cell_and_count_as_lines(tmp_path, end):
    """pandas loses the empty cell behind a blank line where lines end in `\\r`."""
    path = tmp_path / "m.csv"
    lines = ["", "name,a,b", " ", "p,1,2", "", ",,", ",3,4", "", "q,5,", "", ""]
    path.write_bytes(end.join(lines).encode())
    frame = read_text(path)
    assert frame.index.tolist() == [4, 7, 9]
    assert frame["name"].fillna("").tolist() == ["p", "", "q"]
    found = numbers(frame, [1, 2], "m", may_be_empty=True)
    np.testing.assert_array_equal(found, [[1, 2], [3, 4], [5, np.nan]])


@pytest.mark.parametrize(
    ("text", "row", "n"),
    [
        ("n,a,b\np,1,2\nq,1\n", 3, 2),
        ("n,a,b\np,1,2\nq,1,2,3\n", 3, 4),
        ("n,a,b\np,1\nq,1\n", 2, 2),
        ("n,a,b\np,1,2,3\nq,1,2,3\n", 2, 4),
        ('n,a,b\n"p\nr",1,2\n\nq,1\n', 5, 2),
        ("n,a,b\np,1,\nq,1\n", 3, 2),
    ],
)
def test_rows_of_another_width_are_told(tmp_path, text, row, n):
    path = tmp_path / "m.csv"
    path.write_text(text)
    message = refused(path, missing="not served")
    assert f"must have 3 cells, but row {row} has {n}" in message


def test_an_open_quote_is_told(tmp_path):
    """A file that was cut within a cell holds no whole table."""
    path = tmp_path / "m.csv"
    path.write_text('name,a,b\np,1,2\nq,3,"4')
    assert "quote" in refused(path)


def test_rows_behind_quoted_lines_keep_their_numbers(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text('name,a\n"p\nr",1\nq,x\n')
    assert "row 4, column 2 ('a') holds 'x'" in refused(path)


def test_a_word_above_numbers_is_told_where_no_row_holds_names(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("1,a\n2,3.5\n4,5.5\n")
    message = refused(path, header=False, row_names=False)
    assert "row 1, column 2 holds 'a'" in message
