"""Whole boxes of measured contexts, attacked with true ones in 50 digits."""

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize

import taskspace as ts
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import CERTIFIED, box_edges
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    MeasuredEnclosure,
    enclosure_for,
)
from taskspace.certificates.boxes.nodes import (
    serves_cells,
)
from taskspace.certificates.boxes.search import _fine_edges
from taskspace.cover.problem import CoverProblem
from taskspace.measured import ErrorBounds
from tests.certificates import exact
from tests.certificates.plants import PLANTS

SPRING, LOW, HIGH = PLANTS["spring"]
SYSTEM = ts.systems.MassSpringDamper()  # the same plant, with quicker bounds
AXES = ["k", "c"]
EPSILON = 1.0


@pytest.fixture(scope="module")
def study():
    space = ts.Grid(k=(0.1, 8.0, 5), c=(0.1, 8.0, 5))
    return ts.evaluate(SYSTEM, ts.trainers.Lqr(n_policies=1, noise=0.0), space, seed=0)


def full(rows) -> np.ndarray:
    """Context rows with every axis of the system."""
    return SYSTEM.contexts(ts.Points(AXES, rows))


def enclosure_of(study, error) -> MeasuredEnclosure:
    question = ts.Question("regret", epsilon=EPSILON)
    contexts = SYSTEM.contexts(study.sources)
    inner = enclosure_for(SYSTEM, study.policies, contexts, question)
    names = [axis.name for axis in SYSTEM.axes]
    ends = (full([LOW])[0], full([HIGH])[0])
    return MeasuredEnclosure(inner, error, names, ends, EPSILON, Clock())


def true_contexts(error, measured, share):
    """A true context of the range within the error of each measured one, in floats."""
    reach = np.zeros_like(measured)
    for column, axis in enumerate(error.columns(AXES)):
        if axis is not None:
            size = np.abs(measured[:, column])
            reach[:, column] = axis.amount / 100 * size if axis.is_relative else (
                axis.amount
            )  # fmt: skip
    return np.clip(measured + share * reach, LOW, HIGH)


def regret(study, source, context):
    gain = np.asarray(study.policies.gain[source, 0])
    return exact.loss(SPRING, "regret", gain, None, context)


def worst_near(study, source, error, measured):
    """The true context near one measured that loses most, by a search in floats."""
    gains = study.policies[source : source + 1]

    def gain_of(share):
        row = true_contexts(error, measured[None], np.clip(share, -1, 1)[None])
        return float(SPRING.performance(gains, row)[0, 0, 0] - SPRING.optimum(row)[0])

    starts = [np.array([x, y]) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]
    best = min(starts, key=gain_of)
    found = minimize(gain_of, best, method="Nelder-Mead", options={"maxiter": 30}).x
    return true_contexts(error, measured[None], np.clip(found, -1, 1)[None])[0]


def attack(study, cover, error, n: int) -> int:
    """Count contexts at which a certified box loses more than its bound."""
    rng = np.random.default_rng(1)
    certified = np.flatnonzero(cover.status == CERTIFIED)
    boxes = rng.choice(certified, n)
    low, high = cover.boxes.low[boxes, :2], cover.boxes.high[boxes, :2]
    # Corners of boxes and ends of the error, where losses are largest.
    place = rng.random((n, 2)).round(rng.integers(0, 2))
    share = rng.uniform(-1, 1, (n, 2)).round(rng.integers(0, 2))
    measured = low + place * (high - low)
    true = true_contexts(error, measured, share)
    wrong = 0
    for i, box in enumerate(boxes):
        source, bound = int(cover.assignment[box]), cover.loss_bound[box]
        row = true[i]
        if i % 10 == 0:
            row = worst_near(study, source, error, measured[i])
        wrong += regret(study, source, row) > mp.mpf(float(bound))
    return wrong


@pytest.mark.parametrize("amount", [0.2, "8%"])
def test_no_true_context_of_a_certified_box_loses_more_than_its_bound(study, amount):
    question = ts.Question("regret", epsilon=EPSILON, error=dict.fromkeys(AXES, amount))
    result = ts.certify(study, question, time_limit=30)
    cover = result.continuum
    assert cover is not None
    assert cover.certificate.holds
    assert cover.certificate.kind == "proof"
    assert question.error.words in cover.certificate.why
    assert cover.subject is not None
    assert cover.subject.question == question
    # No fewer than the measured nodes need, and no fewer than without an error.
    assert cover.size >= result.cover.lower_bound
    assert attack(study, cover, question.error, 30) == 0
    # The attack finds what it looks for: a larger error than the stated one.
    assert attack(study, cover, question.error.times(4), 30) > 0


@pytest.mark.parametrize("amount", [0.0, 0.3, "10%"])
def test_bounds_hold_the_largest_loss_within_the_error(study, amount):
    error = ErrorBounds.of({"k": amount, "c": 0.15})
    enclosure = enclosure_of(study, error)
    rng = np.random.default_rng(0)
    low = rng.uniform(LOW, HIGH, (12, 2))
    low[:2, 0], low[2:4, 1] = LOW[0], HIGH[1]
    high = np.minimum(low + rng.choice([0.0, 0.1, 0.5], (12, 1)), HIGH)
    sources = rng.integers(0, 25, 12)
    bounds = enclosure.pair_bounds(Boxes(full(low), full(high)), sources)
    share = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * 2), -1).reshape(-1, 2)
    for i in range(12):
        gains = study.policies[sources[i] : sources[i] + 1]
        for at in (low[i], high[i], (low[i] + high[i]) / 2):
            rows = true_contexts(error, np.repeat(at[None], len(share), 0), share)
            losses = SPRING.optimum(rows) - SPRING.performance(gains, rows)[0, 0]
            assert losses.max() <= bounds[1][i] * (1 + 1e-9)
            # A fine sample of true contexts misses little of the largest loss.
            assert bounds[0][i] <= losses.max() * 1.15 + 1e-9


def test_cells_and_nodes_by_erosion_agree_with_bounds(study):
    error = ErrorBounds.of({"k": 0.4, "c": "5%"})
    enclosure = enclosure_of(study, error)
    edges = box_edges(SYSTEM, study.targets, 24)
    cells = Boxes.from_edges(edges)
    served = np.concatenate(list(serves_cells(enclosure, edges, EPSILON)))
    assert served.any()
    low, _ = enclosure.bounds(cells)
    assert not (low[served] > EPSILON).any()
    mesh = np.stack([x.ravel() for x in np.meshgrid(*edges, indexing="ij")], -1)
    may = np.concatenate(list(serves_cells(enclosure, edges, EPSILON, nodes=True)))
    _, high = enclosure.bounds(Boxes.points(mesh))
    assert may[high <= EPSILON].all()
    assert not may.all()


@pytest.mark.parametrize("amount", [7.9 / 12, 0.4, 0.05, 0.001])
def test_an_error_of_whole_steps_costs_no_further_cell(study, amount):
    edges = np.linspace(0.1, 8.0, 13)
    error = ErrorBounds.of({"k": amount})
    fine = _fine_edges(edges, error.columns(["k"])[0], 3)
    assert fine[[0, -1]].tolist() == [0.1, 8.0]
    assert 36 / 1.6 <= len(fine) - 1 <= 36 * 1.6
    other = [np.array([x]) for x in full([LOW])[0][1:]]
    [(_, first, last)] = (
        enclosure_of(study, error).windows([fine, *other], nodes=False).axes
    )
    within = np.ceil(amount / np.diff(fine)[0] - 1e-9)
    assert (last - first).max() == 2 * within
    # Cells between the nodes would have one more on each side, for a hair.
    plain = np.linspace(0.1, 8.0, 37)
    [(_, first, last)] = (
        enclosure_of(study, error).windows([plain, *other], nodes=False).axes
    )
    if amount == 7.9 / 12:
        assert (last - first).max() == 2 * 3 + 2


def test_parts_of_the_bounds_are_those_of_the_whole(study):
    enclosure = enclosure_of(study, ErrorBounds.of({"k": 0.3}))
    boxes = Boxes(
        np.array([[1.0, 1.0], [3.0, 2.0]]), np.array([[1.2, 1.1], [3.0, 2.5]])
    )
    whole = enclosure.bounds(boxes)
    part = enclosure.subset([5, 20]).subset([1])
    for one, other in zip(part.bounds(boxes), whole, strict=True):
        assert np.array_equal(one[0], other[20])


def test_what_is_derived_for_exact_contexts_says_nothing_of_measured_ones(study):
    question = ts.Question("signed", epsilon=EPSILON, error={"k": 0.2})
    result = ts.certify(study, question, time_limit=4)
    assert result["loss rates"].kind == "vacuous"
    assert "measured" in result["grid cover"].why


@pytest.mark.parametrize("kind", ["grid", "points"])
def test_an_error_finer_than_the_targets_says_so(kind):
    """Steps of 20 %, an error of 5 %: the answer is that for exact contexts."""
    rows = np.geomspace(1.0, 1.2**5, 6)
    space = ts.Grid(k=rows) if kind == "grid" else ts.Points(["k"], rows)
    scores = -np.abs(np.subtract.outer(rows, rows))
    table = ts.performance.table_from_matrix(scores, targets=space)
    words = "No target has another within the error (k ± 5 %)"
    for error, is_said in (("5%", True), ("25%", False), (None, False)):
        asked = {} if error is None else {"error": {"k": error}}
        question = ts.Question("regret", epsilon=0.5, **asked)
        study = ts.Study.of(table)
        proofs = ts.certify(study, question, time_limit=2)
        assert (words in proofs["grid cover"].why) == is_said
        notes = " ".join(CoverProblem(study, question).notes)
        assert (words in notes) == is_said
        library = ts.library(study, ts.minimum_cover(study, question))
        assert (words in library.guarantee.statement) == is_said
