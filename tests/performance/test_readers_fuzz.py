"""Seeded damage to matrix files: the same answer, or a sentence; nothing else.

An npz file has the checksums of zip, so it never gives another answer. The others have
none of ours, so a changed digit is a changed number; what is read is then a valid table
all the same.
"""

import time
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.performance.io import MATRIX_SUFFIXES

ASSETS = Path(__file__).parents[1] / "assets" / "matrices-1"
WITHOUT_CHECKSUM = (".csv", ".tsv", ".npy")
# Columns about standard errors, which are read of arrays alone.
LOADS = (0.0, 1 / 3)
NOT_READ = [
    *("provenance", "n_episodes"),
    *(f"standard_error:mass={m};load={x}" for m in (0.1, 1.0, 7.5) for x in LOADS),
]
MUTATIONS = (
    "flip a bit", "set a byte", "zero a stretch", "cut off", "cut out", "insert",
    "repeat", "swap", "grow a number",
)  # fmt: skip


def damaged(data: bytes, how: str, rng: np.random.Generator) -> bytes:
    """Bytes with one kind of damage at a random place."""
    if not data:
        return b"x"
    at = int(rng.integers(len(data)))
    end = min(len(data), at + int(rng.integers(1, 40)))
    some = rng.bytes(end - at)
    if how == "flip a bit":
        return (
            data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
        )
    if how == "set a byte":
        return data[:at] + rng.bytes(1) + data[at + 1 :]
    if how == "zero a stretch":
        return data[:at] + bytes(end - at) + data[end:]
    if how == "cut off":
        return data[:at]
    if how == "cut out":
        return data[:at] + data[end:]
    if how == "insert":
        return data[:at] + some + data[at:]
    if how == "repeat":
        return data[:end] + data[at:]
    if how == "swap":
        other = int(rng.integers(len(data)))
        first, then = sorted((at, other))
        middle = data[first + 1 : then]
        swapped = data[then : then + 1] + middle + data[first : first + 1]
        return data[:first] + swapped + data[then + 1 :]
    digits = [i for i, byte in enumerate(data) if 48 <= byte < 58]
    if not digits:
        return data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :]
    place = int(rng.choice(digits))
    return data[:place] + b"9" * int(rng.integers(1, 20)) + data[place:]


def is_same(table, expected) -> bool:
    return table.drop_attrs().equals(expected.drop_attrs()) and all(
        table.attrs.get(name) == expected.attrs.get(name)
        for name in ("provenance", "n_episodes", "best_known_kind", "notes")
    )


def is_valid(table) -> bool:
    cells = table["performance"].values
    return (
        cells.ndim == 3
        and not np.isnan(cells).any()
        and not (cells == np.inf).any()
        # NaN where no reference is known, as in a column that damage made a target.
        and not (table["best_known"].values < cells.max((0, 1))).any()
        and len(ts.loss(table, ts.Question("regret", epsilon=0.0))) == len(cells)
    )


def outcomes(tmp_path, suffix: str, n: int, seed: int) -> dict[str, int]:
    original = ASSETS / f"table{suffix}"
    options = {"ignore": NOT_READ} if suffix in (".csv", ".tsv") else {}
    expected = ts.performance.read_matrix(original, **options)
    path = tmp_path / f"damaged{suffix}"
    counts = {"same": 0, "refused": 0, "other": 0}
    for case in range(n):
        rng = np.random.default_rng([seed, case, len(suffix)])
        how = MUTATIONS[case % len(MUTATIONS)]
        path.write_bytes(damaged(original.read_bytes(), how, rng))
        start = time.perf_counter()
        where = f"{suffix}, seed {seed}, case {case}: {how}"
        try:
            table = ts.performance.read_matrix(path, **options)
        except ts.TaskspaceError:
            counts["refused"] += 1
        except BaseException as error:
            raise AssertionError(where) from error
        else:
            same = is_same(table, expected)
            counts["same" if same else "other"] += 1
            assert same or suffix in WITHOUT_CHECKSUM, where
            assert is_valid(table), where
        assert time.perf_counter() - start < 5, where
    return counts


@pytest.mark.filterwarnings("ignore")  # a damaged file may warn before it is refused
@pytest.mark.parametrize("suffix", MATRIX_SUFFIXES)
@pytest.mark.parametrize(
    ("seed", "n"), [(0, 80), pytest.param(1, 2000, marks=pytest.mark.slow)]
)
def test_damage_is_found_or_harmless(tmp_path, suffix, seed, n):
    counts = outcomes(tmp_path, suffix, n, seed)
    # The attack reaches something: most damage is found, or changes what is read.
    assert counts["refused"] + counts["other"] > 10, counts


def test_the_attack_finds_a_reader_that_looks_away(tmp_path, monkeypatch):
    """Negative control: without the checksums of zip some damage is read as numbers."""
    monkeypatch.setattr("zipfile.ZipExtFile._update_crc", lambda *_: None)
    with pytest.raises(AssertionError):
        outcomes(tmp_path, ".npz", 600, seed=0)
