"""Attacks on certificates: what is called established must survive other arithmetic.

Every attack comes with a negative control: a planted error that it finds.
"""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import (
    Bound,
    Boxes,
    Certificate,
    Enclosure,
    MsdEnclosure,
    certify,
    check_consistent,
)
from taskspace.certificates.boxes.nodes import (
    serves_cells,
)
from taskspace.certificates.statements import ContradictionError
from taskspace.criteria import CRITERIA as EVERY_CRITERION
from taskspace.criteria import JUDGES
from taskspace.errors import InvalidInputError
from tests.certificates.worlds import MSD, msd_family

PROVENANCES = ("exact", "sampled", "given")

CRITERIA = [c for c, rule in EVERY_CRITERION.items() if rule.measure == "performance"]


def random_table(seed, *, n=7, n_policies=2, provenance="exact", failures=True):
    """A table of small integers: ties, duplicates and failures among them."""
    rng = np.random.default_rng(seed)
    matrix = -rng.integers(1, 9, (n, n_policies, n)).astype(float)
    if failures:
        matrix[rng.random(matrix.shape) < 0.08] = -np.inf
    home = np.diagonal(matrix, axis1=0, axis2=2).T
    points = rng.permutation(20)[:n].astype(float)
    space = ts.Points(["x"], points)
    if seed % 2:
        space = ts.Points(["x", "y"], np.c_[points, rng.integers(0, 3, n)])
    return ts.performance.table_from_matrix(
        matrix, sources=space, targets=space, home=home, provenance=provenance
    )


def ask(table, criterion, judge, epsilon=2.0, **options):
    question = ts.Question(criterion, judge, epsilon=epsilon)
    return certify(table, question, time_limit=0.5, **options)


def minimum(loss, epsilon):
    """The smallest cover of the coverable columns, by trying all subsets."""
    served = loss <= epsilon
    served = served[:, served.any(0)]
    for size in range(len(loss) + 1):
        for chosen in itertools.combinations(range(len(loss)), size):
            if served[list(chosen)].any(0).all():
                return size
    raise AssertionError


def statements(result):
    """Everything discrete that a result says."""
    return [
        (c.name, c.holds, c.kind, c.values.get("size"), c.values.get("n_open"))
        for c in result.certificates
    ]


# --- brute force and the gate -------------------------------------------------------


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_bound_agrees_with_brute_force(criterion, judge):
    for seed in range(12):
        table = random_table(seed)
        if criterion == "ratio" and not (table["best_known"] < 0).all():
            continue
        if not np.isfinite(table["best_known"]).all():
            continue
        result = ask(table, criterion, judge)
        truth = minimum(
            ts.loss(table, ts.Question(criterion, judge, epsilon=0.0)).values, 2.0
        )
        for certificate in result.certificates:
            if certificate.kind == "vacuous":
                continue
            for bound in certificate.bounds:
                if bound.targets == "nodes" and bound.side == "lower":
                    assert bound.value <= truth, (seed, certificate)
                if bound.targets == "nodes" and bound.side == "upper":
                    assert bound.value >= truth, (seed, certificate)
        check_consistent(result.certificates)


@pytest.mark.parametrize("low", [("nodes", "table"), ("box", "candidates")])
def test_the_gate_finds_a_planted_contradiction(low):
    def statement(name, *bounds, kind="proof"):
        return Certificate(name, True, kind, "", {}, "", bounds)

    lower = statement("a", Bound("lower", 4, *low))
    for value in (4, 3):
        upper = statement("b", Bound("upper", value, "box", "candidates"))
        if value < 4:
            with pytest.raises(ContradictionError, match="'a' says that at least 4"):
                check_consistent([upper, lower])
        else:
            check_consistent([upper, lower])
    # More sources, or fewer targets, may well do with fewer.
    check_consistent([lower, statement("b", Bound("upper", 1, "box", "any"))])
    if low[0] == "box":
        check_consistent([lower, statement("b", Bound("upper", 1, "nodes", "table"))])
    vacuous = statement("b", Bound("upper", 1, "box", "candidates"), kind="vacuous")
    check_consistent([lower, vacuous])


def test_the_gate_is_run_by_certify(monkeypatch):
    from taskspace.certificates import paper as geometry

    table = random_table(2, failures=False)
    wrong = Certificate(
        "x", True, "proof", "", {}, "", (Bound("upper", 0, "nodes", "table"),)
    )
    monkeypatch.setattr(geometry, "volume_bounds", lambda *a, **k: [wrong])
    with pytest.raises(ContradictionError, match="'x' that 0 suffice"):
        ask(table, "signed", "worst")


@pytest.mark.parametrize("provenance", ["sampled", "given"])
def test_nothing_sampled_or_given_is_a_proof(provenance):
    for seed, (criterion, judge) in enumerate(itertools.product(CRITERIA, JUDGES)):
        table = random_table(seed, provenance=provenance, failures=False)
        for rates in (None, 100.0):
            result = ask(table, criterion, judge, rates=rates)
            assert "proof" not in {c.kind for c in result.certificates}
            assert "table" in result["grid cover"].scope
            assert result["grid cover"].scope != "the table"


# --- units and order ----------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("power", [-40, -3, 20])
def test_a_change_of_units_changes_no_discrete_answer(criterion, power):
    scale = 2.0**power
    for seed in range(4):
        table = random_table(seed, failures=False)
        space = ts.performance.source_space(table)
        matrix = table["performance"].values
        home = table["home_performance"].values
        plain = ask(table, criterion, "worst", rates=64.0)

        def scaled(contexts, performance, space=space, matrix=matrix, home=home):
            points = ts.Points(space.names, contexts * np.asarray(space.points))
            return ts.performance.table_from_matrix(
                performance * matrix,
                sources=points,
                targets=points,
                home=performance * home,
                provenance="exact",
            )

        wider = ask(scaled(scale, 1.0), criterion, "worst", rates=64.0 / scale)
        assert statements(wider) == statements(plain)
        if EVERY_CRITERION[criterion].is_relative:
            louder = ask(scaled(1.0, scale), criterion, "worst", rates=64.0)
        else:
            louder = ask(
                scaled(1.0, scale), criterion, "worst", 2.0 * scale, rates=64.0 * scale
            )
        assert statements(louder) == statements(plain)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_order_of_contexts_changes_no_discrete_answer(criterion):
    for seed in range(6):
        table = random_table(seed, failures=False)
        rng = np.random.default_rng(seed)
        order = rng.permutation(table.sizes["source"])
        turned = table.isel(source=order, target=rng.permutation(len(order)))
        for rates in (None, 64.0):
            plain = ask(table, criterion, "worst", rates=rates)
            other = ask(turned, criterion, "worst", rates=rates)
            # An estimated constant is that of the chosen sources, of which there may
            # be several smallest sets.
            keep = slice(None) if rates else slice(None, -1)
            assert statements(plain)[keep] == statements(other)[keep]


# --- given constants ----------------------------------------------------------------


def test_every_false_rate_that_is_planted_in_a_cell_is_found():
    found = {"euclid": 0, "axes": 0}
    places = np.array(list(itertools.product(range(3), repeat=2)))
    in_cell = np.abs(places[:, None] - places[None]).max(-1) == 1
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points = ts.Grid(a=(0, 1, 3), b=(0, 2, 3)).points
        matrix = -rng.random((4, 9))
        space = ts.Points(["a", "b"], points)
        table = ts.performance.table_from_matrix(
            matrix, targets=space, provenance="exact"
        )
        table = table.assign_coords(
            source_a=("source", points[:4, 0]), source_b=("source", points[:4, 1])
        )
        loss = ts.loss(table, ts.Question("floor", epsilon=0.0)).values
        step = np.abs(loss[:, :, None] - loss[:, None, :])
        apart = np.abs(points[:, None] - points[None])
        for name, distance in (
            ("euclid", np.linalg.norm(apart, axis=-1)),
            ("axes", apart @ [1.0, 3.0]),
        ):
            with np.errstate(invalid="ignore", divide="ignore"):
                steepest = np.nanmax(np.where(in_cell, step / distance, 0.0))
            shape = np.array(1.0) if name == "euclid" else np.array([1.0, 3.0])
            result = ask(
                table, "floor", "worst", 0.5, rates=steepest * shape * (1 + 1e-6)
            )
            assert result["continuum cover"].kind in ("proof", "vacuous")
            with pytest.raises(InvalidInputError, match=r"at a = .* and .* at a = "):
                ask(table, "floor", "worst", 0.5, rates=steepest * shape * (1 - 1e-6))
            found[name] += 1
    assert found == {"euclid": 30, "axes": 30}


def test_a_failure_beside_a_score_refutes_every_constant():
    table = ts.performance.table_from_matrix(
        [[0.0, -np.inf], [-1.0, 0.0]],
        sources=ts.Points(["x"], [0.0, 1.0]),
        targets=ts.Points(["x"], [0.0, 1.0]),
        provenance="exact",
    )
    with pytest.raises(InvalidInputError, match="a slope of inf"):
        ask(table, "regret", "worst", rates=1e300)


# --- enclosures against other arithmetic --------------------------------------------


def exact_losses(system, gain, context, home):
    """Regret, ratio, cost and gap of one gain in mpmath, from the Riccati equation."""
    mp = mpmath.mp
    k, c, m = (mp.mpf(float(x)) for x in context)
    q_x, q_v, r = system.position_weight, system.velocity_weight, system.input_weight

    def cost(k, c, m):
        a, b = k + mp.mpf(gain[0]), c + mp.mpf(gain[1])
        if a <= 0 or b <= 0:
            return mp.inf
        # The Lyapunov equation of (position, velocity), solved by hand.
        q11 = q_x + r * mp.mpf(gain[0]) ** 2
        q12 = r * mp.mpf(gain[0]) * mp.mpf(gain[1])
        q22 = q_v + r * mp.mpf(gain[1]) ** 2
        # A = [[0, 1], [−a/m, −b/m]]: A'P + PA + Q = 0
        system_matrix = mp.matrix(
            [
                [0, -2 * a / m, 0],
                [1, -b / m, -a / m],
                [0, 2, -2 * b / m],
            ]
        )
        p = mp.lu_solve(system_matrix, mp.matrix([-q11, -q12, -q22]))
        return p[0] + p[2]

    # The Riccati equation of the second-order plant, by its two scalar parts.
    p12 = m * r * (mp.sqrt(k**2 + mp.mpf(q_x) / r) - k)
    k1 = p12 / (m * r)
    p22 = m * r * (mp.sqrt(c**2 + (q_v + 2 * p12) / mp.mpf(r)) - c)
    k2 = p22 / (m * r)
    p11 = (k * p22 + c * p12) / m + k1 * k2 * r
    best = p11 + p22
    here = cost(k, c, m)
    at_home = cost(*(mp.mpf(float(x)) for x in home))
    return {
        "regret": here - best,
        "ratio": here / best - 1,
        "floor": here,
        "signed": here - at_home,
    }


def attack_enclosures(n_boxes, seed):
    """How often mpmath finds a context outside the bounds of its box."""
    rng = np.random.default_rng(seed)
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 4))
    policies = msd_family(space, n_policies=1, noise=0.0)
    contexts = MSD.contexts(space)
    low = np.array([0.0, 0.0, 0.4]) + rng.random((n_boxes, 3)) * [8.0, 8.0, 2.0]
    width = rng.random((n_boxes, 3)) * 10.0 ** rng.uniform(-9, 0, (n_boxes, 1))
    boxes = Boxes(low, low + width)
    outside, n = 0, 0
    with mpmath.workdps(50):
        bounds = {
            name: MsdEnclosure(
                MSD, policies, contexts, ts.Question(name, epsilon=0.0)
            ).bounds(boxes)
            for name in (*CRITERIA, "floor")
            if name == "floor" or EVERY_CRITERION[name].has_box_bounds
        }
        for i in range(n_boxes):
            source = int(rng.integers(len(contexts)))
            gain = policies.gain[source, 0, 0].tolist()
            for corner in (rng.integers(0, 2, 3), rng.random(3)):
                row = boxes.low[i] + corner * (boxes.high[i] - boxes.low[i])
                row = np.clip(row, boxes.low[i], boxes.high[i])
                exact = exact_losses(MSD, gain, row, contexts[source])
                for name, value in exact.items():
                    at_least, at_most = (b[source, i] for b in bounds[name])
                    n += 1
                    outside += not (
                        mpmath.mpf(at_least) <= value <= mpmath.mpf(at_most)
                    )
    return outside, n


def test_enclosures_hold_in_50_digits(monkeypatch):
    outside, n = attack_enclosures(60, 0)
    assert outside == 0
    assert n == 480


def test_the_attack_finds_bounds_without_outward_rounding():
    # The control: floating point alone leaves the exact value outside now and then.
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(200):
        x, y = rng.random(2)
        missed += Fraction(x) * Fraction(y) != Fraction(x * y)
    assert missed > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_enclosures_hold_in_50_digits_on_many_boxes(seed):
    outside, _ = attack_enclosures(3000, 1 + seed)
    assert outside == 0


class Distance(Enclosure):
    """An enclosure in any number of axes: the distance to a source's centre."""

    kind, basis, question = "proof", "distance", ts.Question("floor", epsilon=0.0)

    def __init__(self, centres):
        self.centres = centres

    @property
    def n_sources(self):
        return len(self.centres)

    @property
    def n_policies(self):
        return 1

    def subset(self, sources):
        return Distance(self.centres[np.asarray(sources)])

    def bounds(self, boxes, sources=None, *, epsilon=np.nan):
        rows = np.arange(self.n_sources) if sources is None else np.asarray(sources)
        both = [self.pair_bounds(boxes, np.full(len(boxes), s)) for s in rows]
        return np.stack([b[0] for b in both]), np.stack([b[1] for b in both])

    def pair_bounds(self, boxes, sources, *, epsilon=np.nan):
        centres = self.centres[np.asarray(sources)]
        near = np.clip(centres, boxes.low, boxes.high) - centres
        far = np.maximum(centres - boxes.low, boxes.high - centres)
        return (
            np.linalg.norm(near, axis=1) * (1 - 1e-12),
            np.linalg.norm(far, axis=1) * (1 + 1e-12),
        )


@pytest.mark.parametrize("n_axes", [1, 2, 3, 4, 5])
def test_the_search_is_right_in_any_number_of_axes(n_axes):
    rng = np.random.default_rng(n_axes)
    enclosure = Distance(rng.random((6, n_axes)))
    edges = [np.linspace(0, 1, 5 if n_axes < 4 else 3) for _ in range(n_axes)]
    edges[0] = np.array([0.25])  # an axis that does not vary
    epsilon = 0.5 * np.sqrt(n_axes) * 0.7
    cells = np.concatenate(list(serves_cells(enclosure, edges, epsilon)))
    direct = enclosure.bounds(Boxes.from_edges(edges), epsilon=epsilon)[1] <= epsilon
    assert (cells == direct).all()  # the far corner decides, cuts change nothing
    nodes = np.concatenate(list(serves_cells(enclosure, edges, epsilon, nodes=True)))
    mesh = np.stack(np.meshgrid(*edges, indexing="ij"), -1).reshape(-1, n_axes)
    apart = np.linalg.norm(mesh[None] - enclosure.centres[:, None], axis=-1)
    assert (nodes == (apart <= epsilon)).all()
    assert 0 < nodes.sum() < nodes.size or n_axes == 1
