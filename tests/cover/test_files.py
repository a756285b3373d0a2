"""Set-cover files: recognised by content, refused when damaged."""

import numpy as np
import pytest

from taskspace.cover import read_set_cover_file
from taskspace.errors import InvalidInputError
from tests.cover.known_covers import steiner_triples

# Three targets, four sources: {0, 1}, {1, 2}, {2}, {0}.
MATRIX = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 0]], bool)
SCP = "3 4\n 5 6 2 3\n 2\n 1 4\n 2\n 1 2\n 2\n 2 3\n"
RAIL = "3 4\n5 2 1 2\n6 2 2 3\n2 1 3\n3 1 1\n"
STS = "3 1\n1 2 3\n"


def write(tmp_path, text):
    path = tmp_path / "problem"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "name"), [(SCP, "scp"), (RAIL, "rail")])
def test_or_library_formats(tmp_path, text, name):
    problem = read_set_cover_file(write(tmp_path, text))
    assert problem.format == name
    np.testing.assert_array_equal(problem.sets.to_bool(), MATRIX)
    assert problem.costs is not None
    assert problem.costs.tolist() == [5, 6, 2, 3]


def test_costs_of_one_are_no_costs(tmp_path):
    path = write(tmp_path, SCP.replace("5 6 2 3", "1 1 1 1"))
    assert read_set_cover_file(path).costs is None


def test_steiner_triples(tmp_path):
    problem = read_set_cover_file(write(tmp_path, STS))
    assert problem.format == "sts"
    assert problem.sets.to_bool().all()
    sets = steiner_triples(9)
    triples = [np.flatnonzero(column) + 1 for column in sets.to_bool().T]
    text = f"9 {len(triples)}\n" + "\n".join(" ".join(map(str, t)) for t in triples)
    assert read_set_cover_file(write(tmp_path, text)).sets == sets


def test_matrices(tmp_path):
    path = write(
        tmp_path, "\n".join(",".join(map(str, row)) for row in MATRIX.astype(int))
    )
    problem = read_set_cover_file(path)
    assert problem.format == "csv"
    np.testing.assert_array_equal(problem.sets.to_bool(), MATRIX)
    for matrix in (MATRIX, MATRIX.astype(np.uint8)):
        np.savez(tmp_path / "m.npz", sets=matrix, costs=[1.0, 2, 3, 4])
        problem = read_set_cover_file(tmp_path / "m.npz")
        assert problem.format == "npz"
        np.testing.assert_array_equal(problem.sets.to_bool(), MATRIX)
        assert problem.costs is not None
        assert problem.costs.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fewer than two numbers"),
        ("3", "fewer than two numbers"),
        ("hello world", "no integer"),
        ("99999999999999999999 1", "no integer"),
        (SCP[:-3], "fits none"),
        (RAIL[:-4], "fits none"),
        (SCP + " 7", "left over"),
        (SCP.replace("1 4", "1 5"), "outside 1 to 4"),
        (SCP.replace("5 6", "0 6"), "not positive"),
        ("0 4 1 1 1 1", "not positive"),
        ("2000000000 2000000000 1", "exceed"),
        ("3 2\n1 2 3\n1 2", "not 2 triples"),
        ("0,1\n1", "columns"),
        ("0,1\n1,0.5", "not 0 or 1"),
    ],
)
def test_damaged_text_is_refused(tmp_path, text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_set_cover_file(write(tmp_path, text))


def test_every_cut_of_a_file_is_refused(tmp_path):
    tokens = SCP.split()
    for n in range(len(tokens)):
        with pytest.raises(InvalidInputError):
            read_set_cover_file(write(tmp_path, " ".join(tokens[:n])))


def test_damaged_archives_are_refused(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, a=MATRIX, b=MATRIX)
    with pytest.raises(InvalidInputError, match="2 arrays"):
        read_set_cover_file(path)
    np.savez(path, a=np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match="float64"):
        read_set_cover_file(path)
    np.savez(path, a=MATRIX, costs=[1.0])
    with pytest.raises(InvalidInputError, match="1 costs"):
        read_set_cover_file(path)
    np.savez(path, a=MATRIX)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_set_cover_file(path)
    path.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(InvalidInputError, match="not text"):
        read_set_cover_file(path)
    with pytest.raises(InvalidInputError, match="readable file"):
        read_set_cover_file(tmp_path / "nowhere")


def test_public_files_have_the_sizes_of_their_table(data_folder):
    for name, n_rows, n_columns in [
        ("scp41", 200, 1000),
        ("scpcyc06", 240, 192),
        ("sts27", 117, 27),
        ("rail507", 507, 63009),
    ]:
        problem = read_set_cover_file(data_folder / f"{name}.txt")
        assert problem.format == name[:3].replace("rai", "rail")
        assert (problem.sets.n_targets, problem.sets.n_sources) == (n_rows, n_columns)
