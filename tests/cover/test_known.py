"""Problems with known optima: generated families and public files."""

import os
import subprocess
import sys

import numpy as np
import pytest

from taskspace.cover import (
    local_cover,
    lower_bounds,
    minimum_cover,
    verify_cover,
)
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from tests.cover.cover_problems import blobs
from tests.cover.known_covers import (
    COLOURING_BEST,
    CYCLE_BEST,
    STEINER_MINIMUM,
    hypercube_cycles,
    read_set_cover,
    steiner_triples,
    two_colourings,
)

FAMILIES = (
    [(f"steiner {n}", steiner_triples, (n,), b) for n, b in STEINER_MINIMUM.items()]
    + [(f"cycles {d}", hypercube_cycles, (d,), b) for d, b in CYCLE_BEST.items()]
    + [(f"colourings {a}", two_colourings, a, b) for a, b in COLOURING_BEST.items()]
)
PROVEN_QUICKLY = {"steiner 7", "steiner 9", "steiner 15", "cycles 2", "cycles 3"} | {
    "cycles 4",
    "colourings (3, 2)",
    "colourings (7, 3)",
}
IDS = [family[0] for family in FAMILIES]


@pytest.mark.parametrize("n", STEINER_MINIMUM)
def test_every_pair_of_points_is_in_one_triple(n):
    member = steiner_triples(n).to_bool().astype(int)
    together = member @ member.T
    np.fill_diagonal(together, 1)
    assert (together == 1).all()


@pytest.mark.parametrize(("name", "make", "arguments", "best"), FAMILIES, ids=IDS)
def test_local_search_reaches_the_known_value(name, make, arguments, best):
    cover = local_cover(make(*arguments), time_limit=30, max_steps=300_000, seed=1)
    if best <= 30:
        assert cover.size == best
    else:  # larger ones: within a step budget that a busy machine makes in time
        assert best <= cover.size <= 1.03 * best


@pytest.mark.parametrize(
    ("name", "make", "arguments", "best"),
    [family for family in FAMILIES if family[3] <= 61],  # LPs of larger ones take long
)
def test_bounds_are_valid_where_the_value_is_known(name, make, arguments, best):
    for bound in lower_bounds(make(*arguments), time_limit=0.3):
        assert 0 <= bound.value <= best


@pytest.mark.parametrize(
    ("name", "make", "arguments", "best"),
    [family for family in FAMILIES if family[0] in PROVEN_QUICKLY],
)
def test_minimum_is_proven(name, make, arguments, best):
    cover = minimum_cover(make(*arguments), time_limit=30)
    assert (cover.size, cover.lower_bound, cover.optimal) == (best, best, True)
    assert cover.stop_reason == "proven optimal"


def test_families_refuse_what_they_cannot_make():
    with pytest.raises(InvalidInputError, match="one of"):
        steiner_triples(8)
    with pytest.raises(InvalidInputError, match="dimension >= 2"):
        hypercube_cycles(1)
    with pytest.raises(InvalidInputError, match="2 \\* size - 1"):
        two_colourings(4, 4)


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("scp41", 429),
        ("scp46", 560),
        ("scp51", 253),
        ("scp61", 138),
        ("scpb1", 69),
        ("sts9", 5),
        ("sts15", 9),
        ("sts27", 18),
    ],
)
def test_public_files_are_solved_and_proven(data_folder, name, best):
    sets, costs = read_set_cover(data_folder / f"{name}.txt")
    cover = minimum_cover(sets, costs=costs, time_limit=30)
    assert (cover.cost, cover.lower_bound) == (best, best)
    assert verify_cover(cover, sets, costs).holds


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("scpe1", 5),
        ("scpclr10", 25),
        ("scpclr11", 23),
        ("scpcyc06", 60),
        ("scpcyc07", 144),
        ("sts45", 30),
        ("sts81", 61),
    ],
)
def test_public_files_reach_the_best_known_value(data_folder, name, best):
    sets, _ = read_set_cover(data_folder / f"{name}.txt")
    covers = (local_cover(sets, max_steps=50_000, seed=seed) for seed in range(20))
    cover = next((cover for cover in covers if cover.size <= best), None)
    assert cover is not None
    assert cover.lower_bound <= best == cover.size


@pytest.mark.parametrize(
    ("name", "best"), [("scp41", 38), ("scp46", 37), ("scp61", 21), ("scpb1", 22)]
)
def test_unicost_files_reach_the_best_known_size(data_folder, name, best):
    sets, _ = read_set_cover(data_folder / f"{name}.txt")
    sizes = (local_cover(sets, max_steps=50_000, seed=seed).size for seed in range(20))
    assert next((size for size in sizes if size <= best), None) == best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "best", "seconds"),
    [("scpa1", 253, 30), ("scpe3", 5, 20), ("sts45", 30, 60), ("rail507", 174, 120)],
)
def test_slow_public_files(data_folder, name, best, seconds):
    sets, costs = read_set_cover(data_folder / f"{name}.txt")
    cover = minimum_cover(sets, costs=costs, time_limit=seconds)
    assert cover.cost == best
    assert cover.lower_bound <= best


def test_small_problems_with_float_costs_are_proven():
    sets = pack(blobs(9))
    assert minimum_cover(sets, time_limit=30).optimal
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
