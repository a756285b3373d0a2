import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import Boxes
from taskspace.certificates.boxes.check import (
    CERTIFIED,
    OPEN,
    UNCOVERED,
    box_edges,
    certify_cover,
)
from taskspace.certificates.boxes.continuum import certified_cover
from taskspace.errors import InvalidInputError
from tests.certificates.worlds import (
    MSD,
    msd_enclosure,
    msd_family,
    msd_loss,
    random_contexts,
)

AXES = ("k", "c", "m")
SPACES = {
    "plane": ts.Grid(k=(0.1, 8.0, 8), c=(0.1, 8.0, 8)),
    "log": ts.Grid(k=(0.05, 20.0, 9, "log"), c=(0.1, 8.0, 6, "log")),
    "swapped": ts.Grid(c=(0.5, 4.0, 5), k=(1.0, 8.0, 7)),
    "one axis": ts.Grid(k=(0.5, 8.0, 9)),
    "one point on an axis": ts.Grid(k=(0.5, 8.0, 9), c=(2.0, 2.0, 1)),
    "with mass": ts.Grid(k=(1.0, 4.0, 4), c=(1.0, 4.0, 4), m=(0.8, 1.5, 3)),
    "points": ts.Points(["k", "c"], [[1.0, 1.0], [2.0, 3.0], [4.0, 1.5], [3.0, 3.0]]),
}
CASES = [
    ("plane", "regret", "worst", 0.4),
    ("plane", "ratio", "worst", 0.1),
    ("plane", "floor", "worst", 40.0),
    ("plane", "signed", "worst", 2.0),
    ("plane", "regret", "best", 0.3),
    ("plane", "signed", "best", 1.0),
    ("log", "regret", "worst", 2.0),
    ("swapped", "regret", "worst", 0.3),
    ("one axis", "ratio", "worst", 0.05),
    ("one point on an axis", "regret", "worst", 0.3),
    ("with mass", "regret", "worst", 0.3),
    ("points", "regret", "worst", 0.3),
]


@pytest.mark.parametrize(("name", "criterion", "judge", "epsilon"), CASES)
def test_certified_covers_hold_off_the_grid(name, criterion, judge, epsilon):
    space = SPACES[name]
    options = {"n_policies": 2, "noise": 0.05} if name == "plane" else {}
    policies = msd_family(space, **options)
    enclosure = msd_enclosure(space, criterion, judge, **options)
    n_cells = 8 if name == "with mass" else 24
    found = certified_cover(
        enclosure, MSD, space, epsilon, time_limit=2, n_cells=n_cells
    )
    assert found.certificate.holds, found.certificate.why
    assert found.certificate.kind == "proof"
    assert "not only the grid" in found.certificate.why
    assert found.lower_bound <= found.size
    json.dumps(found.certificate.to_dict(), allow_nan=False)

    rng = np.random.default_rng(0)
    edges = box_edges(MSD, space)
    inside = random_contexts(edges, 5000, rng)
    corners = np.concatenate([found.boxes.low, found.boxes.high])
    contexts = np.concatenate([inside, corners[:: max(1, len(corners) // 3000)]])
    loss = msd_loss(space, policies, contexts, criterion, judge)
    best = loss[found.sources].min(0)
    assert (best <= epsilon * (1 + 1e-12)).all()
    # And the source that the boxes name does it, not only the best one.
    few = rng.permutation(len(contexts))[:300]
    named = found.source_at(contexts[few])
    assert (named >= 0).all()
    assert (loss[named, few] <= epsilon * (1 + 1e-12)).all()
    bound = found.certificate.values["worst_loss_bound"]
    assert best.max() <= bound * (1 + 1e-12) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("name", SPACES)
def test_boxes_tile_the_whole_closed_box(name):
    space = SPACES[name]
    edges = box_edges(MSD, space, 4)
    contexts = MSD.contexts(space)
    for i, e in enumerate(edges):
        assert e[0] == contexts[:, i].min()
        assert e[-1] == contexts[:, i].max()
        assert (np.diff(e) > 0).all()
    boxes = Boxes.from_edges(edges)
    parts = boxes.split()[0].split()[0]
    rng = np.random.default_rng(1)
    for tiling in (boxes, parts):
        assert tiling.share.sum() == pytest.approx(1)
        for row in random_contexts(edges, 100, rng):
            assert ((tiling.low <= row) & (row <= tiling.high)).all(1).any()
    assert (parts.low >= boxes.low.min(0)).all()
    assert (parts.high <= boxes.high.max(0)).all()


def test_default_mass_is_part_of_the_statement():
    found = certified_cover(
        msd_enclosure(SPACES["one axis"]), MSD, SPACES["one axis"], 0.5, time_limit=1
    )
    assert found.certificate.values["box"]["m"] == [1.0, 1.0]
    assert found.certificate.values["box"]["c"] == [1.0, 1.0]
    assert found.certificate.why.startswith("Every k in the box")


def test_a_cover_of_the_nodes_alone_is_refuted_with_a_witness():
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 4))
    policies, epsilon = msd_family(space), 0.05
    enclosure = msd_enclosure(space)
    sources = np.arange(space.size)  # every node serves itself with regret 0
    found = certify_cover(
        enclosure, sources, box_edges(MSD, space, 12), epsilon, axes=AXES, max_depth=4
    )
    assert not found.certificate.holds
    assert found.share(UNCOVERED) > 0.2
    assert found.share(CERTIFIED) > 0.05
    for context in found.certificate.values["failing_contexts"]:
        row = np.array([[context[name] for name in AXES]])
        assert msd_loss(space, policies, row, "regret", "worst").min() > epsilon
    # Every status says what it says: no certified box holds a failing context.
    rng = np.random.default_rng(2)
    boxes = found.boxes[found.status == CERTIFIED]
    share = rng.random((len(boxes), 3))
    rows = boxes.low + share * (boxes.high - boxes.low)
    assert (msd_loss(space, policies, rows, "regret", "worst").min(0) <= epsilon).all()


def test_what_no_source_can_serve_is_named():
    space = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
    enclosure = msd_enclosure(space)
    found = certified_cover(enclosure, MSD, space, 0.01, time_limit=1, n_cells=10)
    assert not found.certificate.holds
    assert "No cover of the whole box exists" in found.certificate.why
    row = [[found.certificate.values["uncoverable_context"][n] for n in AXES]]
    assert (
        msd_loss(space, msd_family(space), np.array(row), "regret", "worst").min()
        > 0.01
    )
    assert not found.certificate.values["optimal"]


def test_budgets_leave_boxes_open_never_certified():
    space = SPACES["plane"]
    enclosure = msd_enclosure(space)
    edges = box_edges(MSD, space, 1)
    found = certify_cover(enclosure, [3, 20], edges, 0.3, axes=AXES, max_depth=0)
    assert not found.certificate.holds
    assert (found.status == OPEN).any()
    assert found.certificate.values["n_boxes"] == 49
    assert (found.assignment[found.status != CERTIFIED] == -1).all()
    none = certify_cover(enclosure, [], edges, 0.3, axes=AXES)
    assert (none.status == UNCOVERED).all()
    assert not none.certificate.holds


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5])
def test_the_minimum_for_the_continuum_is_that_of_a_dense_sample(epsilon):
    space = ts.Grid(k=(0.1, 8.0, 30))
    found = certified_cover(msd_enclosure(space), MSD, space, epsilon, time_limit=4)
    assert found.certificate.holds
    values = found.certificate.values
    assert values["optimal"] == (values["lower_bound"] >= found.size)
    rows = np.c_[np.linspace(0.1, 8.0, 4001), np.ones((4001, 2))]
    loss = msd_loss(space, msd_family(space), rows, "regret", "worst")
    dense = ts.minimum_cover(ts.tolerance_sets(loss, epsilon), time_limit=4)
    assert values["optimal"]
    assert dense.size == found.size


def test_no_sample_needs_more_sources_than_the_cover():
    space = ts.Grid(k=(0.1, 8.0, 12), c=(0.1, 8.0, 12))
    found = certified_cover(msd_enclosure(space), MSD, space, 0.5, time_limit=6)
    assert found.certificate.holds
    rng = np.random.default_rng(5)
    rows = np.c_[0.1 + rng.random((3000, 2)) * 7.9, np.ones(3000)]
    loss = msd_loss(space, msd_family(space), rows, "regret", "worst")
    sample = ts.minimum_cover(ts.tolerance_sets(loss, 0.5), time_limit=4)
    assert sample.lower_bound <= found.size


def test_candidates_and_suggestions():
    space = SPACES["plane"]
    enclosure = msd_enclosure(space)
    every = certified_cover(enclosure, MSD, space, 1.0, time_limit=2, n_cells=20)
    assert every.certificate.holds
    few = certified_cover(
        enclosure, MSD, space, 1.0, time_limit=2, n_cells=20, candidates=every.sources
    )
    assert few.certificate.holds
    assert set(few.sources) <= set(every.sources)
    assert few.certificate.values["n_candidates"] == every.size
    told = certified_cover(
        enclosure,
        MSD,
        space,
        1.0,
        time_limit=2,
        n_cells=20,
        candidates=[0],
        suggestions=[every.sources],
    )
    assert told.certificate.holds
    assert told.size <= every.size


def test_bad_tolerances_are_refused():
    space = SPACES["plane"]
    with pytest.raises(InvalidInputError, match="epsilon >= 0"):
        certified_cover(msd_enclosure(space), MSD, space, -0.1)
    with pytest.raises(InvalidInputError, match="epsilon >= 0"):
        certified_cover(msd_enclosure(space), MSD, space, np.nan)
