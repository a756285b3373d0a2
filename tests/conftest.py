"""Settings shared by all tests."""

import os
import platform
import signal

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
settings.register_profile("taskspace", deadline=None, max_examples=60)
settings.load_profile("taskspace")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
