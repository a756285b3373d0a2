"""Settings shared by all tests."""

import os

from hypothesis import settings

# One thread a worker: the tests run side by side.
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
settings.register_profile("taskspace", deadline=None, max_examples=60)
settings.load_profile("taskspace")
