"""What does not fit into the memory is done in parts, or refused in a sentence."""

import subprocess
import sys

import numpy as np
import pytest

from taskspace._util import files
from taskspace.errors import OutOfMemoryError
from taskspace.sets import pack


def test_sets_that_do_not_fit_give_a_sentence(monkeypatch):
    monkeypatch.setattr(files, "available_memory", lambda: 2**12)
    with pytest.raises(OutOfMemoryError, match="half of the memory"):
        pack([np.tile(np.array([True, False]), (4, 512))] * 4)


@pytest.mark.slow
def test_a_profile_stays_near_its_memory(tmp_path):
    """6,000 × 6,000 losses (288 MB) and 20 tolerances."""
    x = np.random.default_rng(0).random((6000, 1))
    np.savez(tmp_path / "m.npz", performance=-np.abs(x - x.T))
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from taskspace._util import files\n"
        "from taskspace.cli import main\n"
        "files.available_memory = lambda: 1500 * 2**20\n"
        f"sys.argv = ['taskspace', 'profile', {str(tmp_path / 'm.npz')!r},"
        " '--time-limit', '20', '--format', 'json']\n"
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
