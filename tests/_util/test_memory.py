"""The limit of memory: what sizes mean, and that it is kept."""

import subprocess
import sys

import numpy as np
import pytest

from taskspace._util import memory as _memory
from taskspace.errors import InvalidInputError, OutOfMemoryError
from taskspace.sets import RunSets, pack
from tests.helpers import refused


@pytest.fixture
def limited():
    yield _memory.limit
    _memory.limit(None)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("4G", 2**32),
        ("4GB", 2**32),
        ("4 GiB", 2**32),
        ("0.5g", 2**29),
        ("500M", 500 * 2**20),
        ("268435456", 2**28),
    ],
)
def test_sizes(text, n_bytes):
    assert _memory.size_in_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "4X", "-4G", "1M", "G", "nan", "1e9", "4G4"])
def test_sizes_that_are_none(text):
    with pytest.raises(InvalidInputError, match="such as 4G"):
        _memory.size_in_bytes(text)


def test_sets_give_way_to_runs_and_then_to_a_sentence(limited):
    blocks = [np.ones((64, 2**16), bool)] * 8  # 4 MB of bits
    limited(2**24)
    assert isinstance(pack(blocks), RunSets)
    limited(2**12)
    with pytest.raises(OutOfMemoryError, match="--memory"):
        pack([np.tile(np.array([True, False]), (4, 512))] * 4, encoding="runs")


def test_the_command_line_knows_sizes(tmp_path):
    (tmp_path / "m.csv").write_text("t,u\n1,2\n2,1\n")
    said = refused("profile", tmp_path / "m.csv", "--memory", "lots")
    assert "such as 4G" in said


@pytest.mark.slow
def test_a_profile_stays_near_its_memory(tmp_path):
    """6,000 × 6,000 losses (288 MB) and 20 tolerances."""
    x = np.random.default_rng(0).random((6000, 1))
    np.savez(tmp_path / "m.npz", performance=-np.abs(x - x.T))
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from taskspace.cli import main\n"
        f"sys.argv = ['taskspace', 'profile', {str(tmp_path / 'm.npz')!r},"
        " '--memory', '1500M', '--time-limit', '20', '--format', 'json']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(re.search(r'VmHWM:\\s*(\\d+) kB', status)[1], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(done.stderr.split()[-1]) < 1500 * 1024
