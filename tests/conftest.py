"""Settings shared by all tests."""

import hashlib
import os
import platform
import signal
from datetime import date

# Kernels of OpenBLAS round differently on different processors, and a selector then
# decides near ties differently. The recorded numbers are those of the Haswell kernels.
if platform.machine() == "x86_64":
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

import numpy as np
import pytest
from hypothesis import settings

# Started in the background, a process ignores Ctrl-C, and so would those of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The tests run side by side.
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
# Slow tests that every run of the suite has too, drawn by the day; workers take the day
# of the process that started them.
N_DRAWN = 2
DAY = os.environ.setdefault("TASKSPACE_TEST_DAY", date.today().isoformat())
settings.register_profile("taskspace", deadline=None, max_examples=60)
settings.load_profile("taskspace")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Draw some slow tests by the day, so that none fails unseen for long."""
    asks_for_all = not config.args or config.args == config.getini("testpaths")
    if config.option.markexpr != "not slow" or not asks_for_all:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    slow.sort(key=lambda item: hashlib.sha256(f"{DAY} {item.nodeid}".encode()).digest())
    for item in slow[:N_DRAWN]:
        item.own_markers = [m for m in item.own_markers if m.name != "slow"]
