"""Same question, same answer: limits count processor seconds, phases counted work."""

import contextlib
import subprocess
import sys
import time

import numpy as np
import pytest

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.cover import complexity_profile, least_mean, minimum_cover
from taskspace.sets import pack
from tests.cover.conftest import DATA
from tests.cover.cover_problems import blobs
from tests.cover.known_covers import read_set_cover


@contextlib.contextmanager
def busy(n):
    """Some processes that use all the processor time they get."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def claims(cover):
    """All that a cover says, but how long it took."""
    return {k: v for k, v in cover.to_dict().items() if k != "seconds"}


def scores(n, m):
    return np.random.default_rng(0).random((n, m))


SEARCHES = {
    "steiner triples": lambda: claims(
        minimum_cover(read_set_cover(DATA / "sts27.txt")[0], time_limit=60)
    ),
    "a share": lambda: claims(minimum_cover(pack(blobs(16)), share=0.9, time_limit=60)),
    "a mean": lambda: claims(least_mean(scores(40, 80), 4, time_limit=60)),
    "a budget": lambda: claims(ts.smallest_epsilon(scores(30, 60), 6).cover),
    "a profile": lambda: complexity_profile(scores(12, 24), n_epsilons=5),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_closes_gives_the_same_answer_beside_other_work(name):
    search = SEARCHES[name]
    search()  # compiles
    clock = Clock()
    alone = search()
    assert clock.spent < 6  # a tenth of the limit
    with busy(2):
        beside = search()
    assert alone == beside
    if isinstance(alone, dict):
        assert alone["optimal"]


def test_a_limit_counts_processor_seconds():
    hard = pack(np.random.default_rng(0).random((300, 300)) < 0.05)
    minimum_cover(hard, time_limit=0.5)  # compiles
    with busy(3):
        clock = Clock()
        cover = minimum_cover(hard, time_limit=2)
    assert cover.stop_reason == "time limit"
    assert 1.9 < clock.spent < 3.5  # by the clock on the wall it would be less


def test_making_the_table_is_not_charged():
    """Measures may take longer than the limit of the search."""

    class Slow(ts.Question):
        def sets(self, study):
            end = time.process_time() + 1.0
            while time.process_time() < end:
                pass
            return super().sets(study)

    study = ts.study_from(scores(12, 20))
    cover = minimum_cover(study, Slow("regret", epsilon=0.3), time_limit=0.5)
    assert cover.optimal


def test_more_time_never_gives_a_weaker_answer():
    sets = pack(blobs(24, radius=0.12))
    minimum_cover(sets, time_limit=0.1)  # compiles
    covers = [minimum_cover(sets, time_limit=t) for t in (0, 0.1, 0.3, 1, 3)]
    sizes = [cover.size for cover in covers]
    bounds = [cover.lower_bound for cover in covers]
    assert sizes == sorted(sizes, reverse=True)
    assert bounds == sorted(bounds)
    for cover in covers:
        assert cover.stop_reason == (
            "proven optimal" if cover.optimal else "time limit"
        )


def test_a_solver_that_knows_the_wall_gets_at_most_five_times_what_is_left():
    clock = Clock(10.0)
    time.sleep(0.3)
    assert clock.left > 9.8  # sleeping costs nothing
    wall, left = clock.wall_left, clock.left
    assert 4 * left < wall <= 5 * left * (1 + 1e-3)


def test_a_clock_on_the_wall_counts_what_other_processes_do():
    clock = Clock(10.0, on_wall=True)
    time.sleep(0.2)
    assert clock.left < 9.9
