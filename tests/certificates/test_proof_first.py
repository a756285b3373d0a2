"""A proof first, then fewer sources; given sources; and how much of a box is what."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import (
    box_edges,
    certified_cover,
    certify,
    certify_cover,
    enclosure_for,
)
from taskspace.certificates.boxes import search as searching
from taskspace.certificates.boxes.check import CERTIFIED, OPEN, UNCOVERED
from taskspace.certificates.boxes.search import BoxSearch
from taskspace.cover import least_cover, minimum_cover, smallest_epsilon
from taskspace.errors import InvalidInputError
from taskspace.sets import pack

MSD = ts.systems.MassSpringDamper()
SPACE = ts.Grid(k=(0.1, 8.0, 8), c=(0.1, 8.0, 8))
CONTEXTS = MSD.contexts(SPACE)
LQR = ts.trainers.Lqr(n_policies=1, noise=0.0)
GAINS = LQR.train(MSD, CONTEXTS, seed=0).policies
AXES = tuple(axis.name for axis in MSD.axes)
QUESTION = ts.Question("ratio", epsilon=0.05)


@pytest.fixture(scope="module")
def table():
    return ts.evaluate(MSD, LQR, SPACE, seed=0).table


@pytest.fixture(scope="module")
def bounds():
    found = enclosure_for(MSD, GAINS, CONTEXTS, ts.Question("ratio", epsilon=0.0))
    assert found is not None
    return found


@pytest.fixture
def checks(monkeypatch):
    """What the search checked, in order."""
    made = []
    original = BoxSearch.check

    def check(self, sources, *, whole=False):
        checked = original(self, sources, whole=whole)
        made.append((len(sources), checked.certificate.holds))
        return checked

    monkeypatch.setattr(BoxSearch, "check", check)
    return made


def test_the_first_check_is_a_proof(bounds, checks):
    cover = certified_cover(bounds, MSD, SPACE, QUESTION.epsilon)
    assert checks[0][1]
    proven = [size for size, holds in checks if holds]
    assert cover.certificate.holds
    assert cover.size == min(proven) < checks[0][0]
    assert cover.certificate.values["optimal"]


def test_when_time_is_up_after_a_proof_it_stands(bounds, monkeypatch):
    original = BoxSearch.check

    def check(self, sources, *, whole=False):
        checked = original(self, sources, whole=whole)
        self.clock._limit = 0.0  # no time for anything else
        return checked

    monkeypatch.setattr(BoxSearch, "check", check)
    cover = certified_cover(bounds, MSD, SPACE, QUESTION.epsilon)
    assert cover.certificate.holds
    # Negative control: with the least slack alone there would be no proof.
    monkeypatch.setattr(searching, "SLACKS", (0.0,))
    assert not certified_cover(bounds, MSD, SPACE, QUESTION.epsilon).certificate.holds


def test_what_is_proven_is_never_given_up(bounds):
    edges = box_edges(MSD, SPACE)
    many = certify_cover(bounds, np.arange(64), edges, 0.05, axes=AXES)
    few = certify_cover(bounds, np.arange(5), edges, 0.05, axes=AXES)
    assert many.certificate.holds
    assert not few.certificate.holds
    # Nearly all of the volume, and yet not proven.
    status = np.zeros_like(few.status)
    status[few.boxes.share.argmin()] = OPEN
    nearly = replace(few, status=status)
    assert nearly.share(CERTIFIED) > 0.999
    for pair in itertools.permutations((many, nearly)):
        assert max(pair, key=lambda cover: cover.rank) is many


def test_given_sources_are_certified(table, bounds):
    edges = box_edges(MSD, SPACE)
    given = np.arange(0, 64, 3)
    study = ts.Study.of(table, system=MSD, policies=GAINS)
    result = certify(study, QUESTION, selection=given)
    alone = certify_cover(bounds, given, edges, QUESTION.epsilon, axes=AXES)
    assert result.continuum is not None
    assert result.continuum.certificate.holds == alone.certificate.holds
    np.testing.assert_array_equal(result.continuum.sources, given)
    for status in (CERTIFIED, OPEN, UNCOVERED):
        assert result.continuum.share(status) == alone.share(status)
    assert "grid cover, between nodes" not in [c.name for c in result.certificates]
    # What they serve on the nodes, each by the one that loses least.
    losses = QUESTION.losses(table).values[given]
    served = losses.min(0) <= QUESTION.epsilon
    assert result.cover.coverage == served.mean()
    np.testing.assert_array_equal(
        result.cover.assignment, np.where(served, given[losses.argmin(0)], -1)
    )
    for wrong in ([], [64], [-1], [0.5]):
        with pytest.raises(InvalidInputError, match="indices of sources, 0 to 63"):
            certify(study, QUESTION, selection=wrong)


@pytest.mark.parametrize("seed", range(12))
def test_among_covers_of_a_size_the_one_that_loses_least(seed):
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 30, (9, 12)) / 10.0
    epsilon = 1.5
    cover = minimum_cover(pack(losses <= epsilon))
    least = least_cover(cover, losses)
    served = cover.assignment >= 0
    np.testing.assert_array_equal(least.assignment >= 0, served)
    assert (least.size, least.lower_bound, least.optimal) == (
        cover.size, cover.lower_bound, cover.optimal,
    )  # fmt: skip
    inner = losses[:, served]
    best = min(
        inner[list(rows)].min(0).max()
        for rows in itertools.combinations(range(9), cover.size)
    )
    assert inner[least.sources].min(0).max() == best
    left = losses[least.assignment[served], np.flatnonzero(served)]
    assert left.max() == best


def test_certify_takes_the_grid_cover_of_least_worst_loss(table):
    losses = QUESTION.losses(table).values
    plain = minimum_cover(QUESTION.sets(table))
    cover = certify(table, QUESTION, time_limit=10).cover
    assert cover.size == plain.size
    assert cover.optimal
    worst = [losses[c.sources].min(0).max() for c in (plain, cover)]
    assert worst[1] <= worst[0]
    wanted = smallest_epsilon(losses, cover.size)
    assert wanted.optimal
    assert worst[1] == wanted.upper


@pytest.mark.parametrize("seconds", [0.0, None])
def test_three_shares_make_up_the_box(bounds, seconds):
    edges = box_edges(MSD, SPACE)
    cover = certify_cover(
        bounds, [0, 9, 30], edges, 0.05, axes=AXES, time_limit=seconds
    )
    shares = tuple(cover.share(code) for code in (CERTIFIED, UNCOVERED, OPEN))
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    values = cover.certificate.values
    assert shares == tuple(
        values[f"share_{name}"] for name in ("certified", "uncovered", "open")
    )
    why = cover.certificate.why
    if seconds == 0:
        assert shares[2] == 1
        assert "certainly serve 0 % of the box; 0 % is refuted" in why
        assert "100 % is open" in why
    else:
        assert min(shares[:2]) > 0
        for share in shares:
            assert f"{100 * share:.4g} %" in why or share < 1e-4
