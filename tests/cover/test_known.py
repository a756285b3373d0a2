"""Public files with known optima, solved by parts of the engine.

`tests/test_headlines.py` has their proven minima.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from taskspace.cover import local_cover, lower_bounds, minimum_cover
from taskspace.sets import pack
from tests.cover.cover_problems import blobs
from tests.cover.known_covers import read_set_cover


@pytest.mark.parametrize(
    ("name", "best"),
    [("scpe1", 5), ("scpclr10", 25), ("scpclr11", 23), ("scpcyc06", 60),
     ("scpcyc07", 144), ("sts45", 30), ("sts81", 61), ("scp41", 38), ("scp46", 37),
     ("scp61", 21), ("scpb1", 22)],
)  # fmt: skip
def test_local_search_reaches_the_best_known_size(data_folder, name, best):
    sets, _ = read_set_cover(data_folder / f"{name}.txt")
    covers = (local_cover(sets, max_steps=50_000, seed=seed) for seed in range(20))
    cover = next((cover for cover in covers if cover.size <= best), None)
    assert cover is not None
    assert cover.lower_bound <= best == cover.size


@pytest.mark.parametrize(("name", "best"), [("sts15", 9), ("sts45", 30), ("scp41", 38)])
def test_bounds_are_valid_where_the_value_is_known(data_folder, name, best):
    sets, _ = read_set_cover(data_folder / f"{name}.txt")
    bounds = lower_bounds(sets, time_limit=0.3)
    assert all(0 <= bound.value <= best for bound in bounds)
    assert max(bound.value for bound in bounds) >= best / 2


def test_small_problems_with_float_costs_are_proven():
    sets = pack(blobs(9))
    costs = np.random.default_rng(0).uniform(1, 2, sets.n_sources)
    assert minimum_cover(sets, costs=costs, time_limit=30).optimal


SCRIPT = """
import sys
import numpy as np
from taskspace.cover import greedy_cover, local_cover, minimum_cover
from taskspace.sets import pack
rng = np.random.default_rng(0)
sets = pack(rng.random((60, 80)) < 0.08)
local = local_cover(sets, max_steps=500)
for cover in (greedy_cover(sets), local, minimum_cover(sets)):
    print(cover.sources.tolist(), cover.assignment.tolist(), cover.lower_bound)
"""


def test_results_are_equal_across_processes_and_threads():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"NUMBA_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 3
