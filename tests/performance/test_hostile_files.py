"""Files that want to fill the memory, run code or take hours: a sentence, at once."""

import io
import os
import time
import zipfile

import numpy as np
import pytest

import taskspace as ts
from taskspace._util import files as limits
from taskspace.errors import InvalidInputError, OutOfMemoryError
from tests.helpers import refused as command_refused

SECONDS = 10.0


class Payload:
    """An object that leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def refused(path, says: str, error: type[Exception] = InvalidInputError) -> None:
    start = time.perf_counter()
    with pytest.raises(error, match=says):
        ts.performance.read_matrix(path)
    assert time.perf_counter() - start < SECONDS


def npy(shape, body: bytes = b"", descr: str = "<f8") -> bytes:
    """An .npy file whose header says what it likes."""
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + body


def npz(path, members: dict[str, bytes]):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 4), (10**30, 1), (-1, 4)])
def test_headers_that_lie(tmp_path, shape):
    (tmp_path / "m.npy").write_bytes(npy(shape, bytes(64)))
    refused(tmp_path / "m.npy", "is not a whole")
    refused(npz(tmp_path / "m.npz", {"performance": npy(shape)}), "is not a whole")


@pytest.mark.parametrize("header", ["{'descr", "{'a' 'b': \x11 }", "((((("])
def test_headers_that_are_no_python(tmp_path, header):
    """NumPy hands a header to the parser of Python, which has errors of its own."""
    good = npy((1, 1), bytes(8))
    text = header.encode().ljust(len(good) - 8 - 11) + b"\n"
    bad = good[:10] + text + good[-8:]
    assert len(bad) == len(good)
    refused(npz(tmp_path / "m.npz", {"performance": bad}), "m.npz")


def test_names_that_take_terabytes(tmp_path):
    names = npy((10**6,), descr="<U1000000")
    cells = npy((1, 1), bytes(8))
    refused(npz(tmp_path / "m.npz", {"performance": cells, "source": names}), "whole")


def test_a_bomb_in_an_npz(tmp_path, monkeypatch):
    # 20 MB of zeros in 20 kB; the limit is set as on a smaller machine.
    path = npz(tmp_path / "m.npz", {"performance": npy((5000, 500), bytes(2 * 10**7))})
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(limits, "memory_limit", lambda: 10**7)
    refused(path, r"half of the memory \(10 MB\), but need 20 MB", OutOfMemoryError)


def test_small_cells_count_as_the_numbers_they_become(tmp_path, monkeypatch):
    (tmp_path / "m.npy").write_bytes(npy((1000, 1000), bytes(10**6), "|u1"))
    assert ts.performance.read_matrix(tmp_path / "m.npy").sizes["target"] == 1000
    monkeypatch.setattr(limits, "memory_limit", lambda: 4 * 10**6)
    refused(tmp_path / "m.npy", "but need 8 MB", OutOfMemoryError)


def test_pickles_are_not_opened(tmp_path):
    evidence = tmp_path / "was here"
    objects = np.array([[Payload(evidence)]], dtype=object)
    np.save(tmp_path / "m.npy", objects, allow_pickle=True)
    refused(tmp_path / "m.npy", "Python objects")
    np.savez(tmp_path / "m.npz", performance=objects)
    refused(tmp_path / "m.npz", "allow_pickle")
    assert not evidence.exists()
    # Negative control: the payload does what it says.
    np.load(tmp_path / "m.npy", allow_pickle=True)
    assert evidence.exists()


def test_a_sparse_file_of_a_terabyte(tmp_path):
    for suffix in (".csv", ".tsv", ".npy", ".npz"):
        path = tmp_path / f"m{suffix}"
        with path.open("wb") as file:
            file.truncate(10**12)
        refused(path, "half of the memory", OutOfMemoryError)


def test_no_file_and_no_pipe(tmp_path):
    for suffix in (".csv", ".npy", ".npz"):
        refused(tmp_path / f"none{suffix}", f"none{suffix}")
        os.mkfifo(tmp_path / f"pipe{suffix}")
        refused(tmp_path / f"pipe{suffix}", f"pipe{suffix}")
        (tmp_path / f"folder{suffix}").mkdir()
        refused(tmp_path / f"folder{suffix}", f"folder{suffix}")


def test_few_rows_cannot_ask_for_many_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 10**7)
    # One source with many policies makes every family as large.
    rows = [f"a,{i}" for i in range(3000)] + [f"b{i},0" for i in range(3000)]
    (tmp_path / "m.csv").write_text("\n".join(["source,t", *rows]))
    refused(tmp_path / "m.csv", "half of the memory", OutOfMemoryError)
    # Sources and targets that never meet.
    rows = [f"a{i},t{i},1" for i in range(3000)]
    (tmp_path / "m.csv").write_text("\n".join(["source,target,performance", *rows]))
    refused(tmp_path / "m.csv", "must have a cell for every target")
    with pytest.raises(OutOfMemoryError, match="half of the memory"):
        ts.performance.read_matrix(tmp_path / "m.csv", missing="not served")


def test_one_cell_of_a_million_letters(tmp_path):
    (tmp_path / "m.csv").write_text(f"source,t\na,{'x' * 10**6}\n")
    with pytest.raises(InvalidInputError) as error:
        ts.performance.read_matrix(tmp_path / "m.csv")
    assert len(str(error.value)) < 500


def wide_file(path, n):
    head = ",".join(["name", *(f"t{k}" for k in range(n))])
    rows = [",".join([name, *["1.5"] * n]) for name in ("a", "b")]
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_many_columns_are_read_in_a_time_that_grows_with_them(tmp_path):
    """Ten times the columns took more than fifty times as long."""
    seconds = []
    for n in (2_000, 20_000):
        file = wide_file(tmp_path / f"{n}.csv", n)
        began = time.process_time()
        assert ts.open(file).n_targets == n
        seconds.append(time.process_time() - began)
    assert seconds[1] < 20 * seconds[0] + 1.0


def test_a_million_columns_are_refused_at_once(tmp_path):
    file = wide_file(tmp_path / "million.csv", 1_000_000)
    began = time.process_time()
    with pytest.raises(InvalidInputError, match=r"at most 100,000 columns.*1,000,001"):
        ts.open(file)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", ["performance.npy", "performance", "note.txt"])
def test_a_member_of_an_npz_that_is_no_array(tmp_path, name):
    file = tmp_path / "m.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "hello")
    with pytest.raises(InvalidInputError, match="must hold arrays alone"):
        ts.open(file)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv"])
def test_a_link_to_an_endless_device(tmp_path, suffix):
    (tmp_path / f"m{suffix}").symlink_to("/dev/zero")
    with pytest.raises(InvalidInputError, match="there is no such file"):
        ts.open(tmp_path / f"m{suffix}")


def test_too_little_memory_is_called_so(tmp_path, monkeypatch):
    np.save(tmp_path / "m.npy", np.ones((3, 3)))

    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(np, "load", full)
    with pytest.raises(MemoryError):
        ts.open(tmp_path / "m.npy")
    said = command_refused("cover", tmp_path / "m.npy", "--ask", "regret <= 1")
    assert "not enough memory" in said
