"""Same question, same answer: proofs and designs are cut by counted work."""

import pytest

import taskspace as ts
from taskspace._util.clock import Clock
from tests.certificates.worlds import MSD
from tests.cover.test_time import busy

STUDY = ts.evaluate(MSD, ts.trainers.Lqr(), ts.Grid(k=(0.1, 8.0, 12), c=(0.1, 8.0, 12)))
SCALAR = ts.Grid(b=(0.1, 1.0, 30))


def proof(question, **options):
    """All that a certificate says, and the boxes that it rests on."""
    result = ts.certify(STUDY, question, **options)
    cover = result.continuum
    said = [(c.name, c.holds, c.kind, c.why, c.bounds) for c in result]
    boxes = cover.boxes.low.tobytes(), cover.status.tobytes()
    return said, cover.sources.tolist(), boxes


def designed(**options):
    made = ts.design(ts.systems.ScalarLqr(), SCALAR, "ratio <= 50 %", **options)
    return made.statement, made.gains.tolist()


SEARCHES = {
    "a proof": lambda: proof("regret <= 0.3", time_limit=150),
    "measured contexts": lambda: proof("regret <= 0.5 with k=3 %", time_limit=150),
    "a design": lambda: designed(time_limit=150),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_closes_gives_the_same_answer_beside_other_work(name):
    search = SEARCHES[name]
    search()  # compiles
    clock = Clock()
    alone = search()
    assert clock.spent < 15  # a tenth of the limit
    with busy(2):
        assert search() == alone


def test_more_time_never_gives_a_weaker_answer():
    ranks, bounds = [], []
    for seconds in (0.0, 0.05, 0.2, 0.5, 2.0):
        result = ts.certify(STUDY, "regret <= 0.2", time_limit=seconds)
        cover = result.continuum
        ranks.append(cover.rank)
        bounds.append(cover.lower_bound)
        if not (cover.holds and cover.lower_bound >= cover.size):
            told = "time limit" in result["continuum cover"].why
            assert told == cover.is_time_up
    assert [holds for holds, _ in ranks] == sorted(holds for holds, _ in ranks)
    proven = [size for holds, size in ranks if holds]
    assert proven == sorted(proven)
    assert bounds == sorted(bounds)


def test_a_design_that_is_given_more_time_is_never_larger():
    space = ts.Grid(k=(0.1, 8.0, 6), c=(0.1, 8.0, 6))
    limits = (0.0, 0.1, 0.5, 5.0)
    made = [ts.design(MSD, space, "regret <= 0.5", time_limit=t) for t in limits]
    sizes = [one.size for one in made]
    assert sizes == sorted(sizes, reverse=True)
    bounds = [one.lower_bound_all for one in made]
    assert bounds == sorted(bounds)
