"""Bounds over boxes for any linear family: dependence, closed forms, edges."""

import math

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import certified_cover, certify_cover
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    LinearEnclosure,
    MsdEnclosure,
    NoEnclosureError,
    enclosure_for,
    find_enclosure,
)
from taskspace.certificates.boxes.rigor.taylor import evaluate_tape, monomials
from taskspace.policies import LinearGain
from taskspace.systems import (
    ContextAxis,
    LinearFamily,
    MassSpringDamper,
    Quadrotor,
    ScalarLqr,
)
from taskspace.systems.linear.tracing.traced import (
    UntraceableError,
    check_trace,
    trace_matrices,
)


def axis(name: str, default: float = 1.0) -> ContextAxis:
    return ContextAxis(name, default, low=0.0, low_open=True)


def family(A, names=("k",), **options) -> LinearFamily:
    return LinearFamily(
        [axis(n) for n in names],
        A=A,
        B=options.pop("B", lambda **_: [[0], [1]]),
        Q=options.pop("Q", np.eye(2)),
        R=options.pop("R", [[1.0]]),
        **options,
    )


def enclosed(plant, gains, sources, criterion, judge="worst") -> LinearEnclosure:
    question = ts.Question(criterion, judge, epsilon=0.0)
    return LinearEnclosure(plant, gains, np.asarray(sources, float), question)


def helper(x, y):
    return math.sqrt(x) / y


def in_place(k, m):
    A = np.zeros((2, 2))
    A[0, 1] = 1.0
    A[1, 0] = -k / m
    A[1, 1] -= helper(k, m)
    return A


FOLLOWED = {
    "lists": lambda k, m: [[0, 1], [-k / m, -0.1]],
    "array": lambda k, m: np.array([[0, 1], [-k / m, -np.float64(0.1) * k**2]]),
    "in place, with a helper": in_place,
    "products of arrays": lambda k, m: np.eye(2) * k @ np.array([[0, 1], [m, 2.0]]),
    "powers": lambda k, m: [[k**-2, m**0.5], [k**m, 2**k]],
    "functions": lambda k, m: [[np.sin(k), np.exp(-m)], [np.log(k), np.tan(0.1 * m)]],
    "blocks": lambda k, m: np.block(
        [[np.diag([k]), np.ones((1, 1))], [np.zeros((1, 1)), m * np.eye(1)]]
    ),
    "kron": lambda k, m: np.kron(np.array([[k]]), np.array([[1, 2], [3, m]])),
    "stack": lambda k, m: np.stack([np.array([k, 1.0]), np.array([2.0, m])]),
    "local import": lambda k, m: __import__("numpy").array([[k, 0], [0, m]]),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_plant_code_is_followed(name):
    plant = family(FOLLOWED[name], ("k", "m"))
    trace = trace_matrices(plant)
    contexts = np.random.default_rng(0).uniform(0.3, 3.0, (20, 2))
    check_trace(trace, plant, contexts)
    # And on boxes: the Taylor model holds the matrices at contexts of the box.
    table = monomials(2, 3)
    tape = (trace.op, trace.left, trace.right, trace.value)
    for order in (1, 2):
        n_p = int(table.counts[order])
        c, r = np.empty((len(trace.op), n_p)), np.empty(len(trace.op))
        for centre in contexts[:5]:
            radius = 0.1 * centre
            fine = evaluate_tape(
                tape, centre, radius, table.first, table.product, order, c, r
            )  # fmt: skip
            assert fine
            for s in np.random.default_rng(1).uniform(-1, 1, (20, 2)):
                powers = np.array([1, *s, s[0] ** 2, s[0] * s[1], s[1] ** 2])[:n_p]
                true = plant.matrices((centre + radius * s)[None]).A[0]
                gap = np.abs(true - (c @ powers)[trace.A])
                assert (gap <= r[trace.A] + 1e-13 * np.abs(true)).all()
    if name in ("powers", "functions"):
        # Without its remainder the model is wrong.
        assert (np.abs(true - (c @ powers)[trace.A]) > 1e-9).any()


REFUSED = {
    "abs": (lambda k: [[0, 1], [-abs(k), 0]], "branch"),
    "max": (lambda k: [[0, 1], [-max(k, 1), 0]], "branch"),
    "if": (lambda k: [[0, 1], [k if k > 1 else 1, 0]], "branch"),
    "where": (lambda k: np.array([[0, 1], [np.where(k > 0, k, 1), 0]]), "branch"),
    "float": (lambda k: [[float(k), 0], [0, 1]], "plain number"),
    "table": (lambda k: [[np.interp(k, [0, 9], [0, 1]), 0], [0, 1]], "plain number"),
    "dict": (lambda k: [[{1.0: 2}.get(k, 2), 0], [0, 1]], "look-up"),
    "linalg": (lambda k: np.linalg.inv(np.array([[k, 1], [1, 3]])), "inv"),
    "index": (lambda k: [[[1, 2][int(k) % 2], 0], [0, 1]], "plain number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused(name):
    plant, word = family(REFUSED[name][0]), REFUSED[name][1]
    with pytest.raises(UntraceableError, match=word) as caught:
        check_trace(trace_matrices(plant), plant, np.array([[0.7], [1.3]]))
    assert "cannot be followed through" in str(caught.value)
    # certify falls back to what it can do without.
    question = ts.Question("regret", epsilon=0.0)
    given = (LinearGain(np.ones((1, 1, 1, 2))), np.ones((1, 1)), question)
    with pytest.raises(NoEnclosureError, match=word):
        enclosure_for(plant, *given)
    assert word in find_enclosure(plant, *given)[1]


def test_a_function_with_a_state_is_noticed():
    calls = []

    def A(k):
        calls.append(1)
        return [[0, 1], [-k - len(calls), -1]]

    plant = family(A)
    with pytest.raises(UntraceableError, match="keep a state"):
        enclosed(plant, LinearGain(np.ones((1, 1, 1, 2))), np.ones((1, 1)), "floor")


def test_python_control_plant():
    control = pytest.importorskip("control")
    from taskspace.systems import control_family

    plant = control_family(
        lambda k: control.ss([[0, 1], [-k, -1]], [[0], [1]], np.eye(2), 0),
        [axis("k")],
        Q=np.eye(2),
        R=[[1.0]],
    )
    direct = family(lambda k: [[0, 1], [-k, -1]])
    gains = LinearGain(plant.optimal_gain(np.ones((1, 1)))[0][:, None])
    boxes = Boxes(np.array([[0.5]]), np.array([[0.6]]))
    bounds = [
        enclosed(x, gains, np.ones((1, 1)), "ratio").bounds(boxes)
        for x in (plant, direct)
    ]
    np.testing.assert_array_equal(*bounds)


@pytest.mark.parametrize("criterion", ["regret", "ratio", "floor", "signed"])
def test_mass_spring_damper_has_two_enclosures(criterion):
    """The closed form and the inequalities: both hold the truth, so they meet."""
    system = MassSpringDamper()
    rng = np.random.default_rng(0)
    sources = rng.uniform([0.1, 0.1, 0.5], [8, 8, 2], (3, 3))
    gains = system.optimal_gain(sources)[0][:, None]
    gains = gains + 0.2 * rng.normal(size=(3, 2, 1, 2))
    policies = LinearGain(gains)
    low = rng.uniform([0.1, 0.1, 0.5], [7, 7, 1.8], (40, 3))
    width = rng.choice([0.0, 1e-3, 0.05], (40, 3))
    boxes = Boxes(low, low * (1 + width))
    for judge in ("worst", "best"):
        closed = MsdEnclosure(
            system, policies, sources, ts.Question(criterion, judge, epsilon=0.0)
        ).bounds(boxes)
        general = enclosed(system, policies, sources, criterion, judge).bounds(boxes)
        assert (closed[0] <= general[1]).all()
        assert (general[0] <= closed[1]).all()
        at = boxes.low + rng.uniform(size=low.shape) * (boxes.high - boxes.low)
        J = system.performance(policies, at)
        home = system.home_performance(policies, sources)
        best = system.optimum(at)
        loss = {
            "floor": -J,
            "signed": home[:, :, None] - J,
            "regret": best - J,
            "ratio": (best - J) / -best,
        }[criterion]
        loss = loss.max(1) if judge == "worst" else loss.min(1)
        slack = 1e-9 * np.abs(J).max(1)
        assert (general[0] <= loss + slack).all()
        assert (loss <= general[1] + slack).all()
        # Not vacuous: narrow boxes are bounded well.
        narrow = (width <= 1e-3).all(1)
        gap = (general[1] - general[0])[:, narrow]
        assert (gap <= 0.05 * np.abs(J).max(1)[:, narrow]).all()


def test_scalar_family_against_its_closed_form():
    system = ScalarLqr()
    for b in (0.15, 0.4, 0.9):
        k = float(system.optimal_gain(np.array([[b, 1.0]]))[0][0, 0, 0])
        for low, high in ((b, b * 1.05), (b, b), (b * 0.9, b)):
            bounds = enclosed(
                system, LinearGain(np.array([[[[k]]]])), np.array([[b, 1.0]]), "ratio"
            ).bounds(Boxes(np.array([[low, 1.0]]), np.array([[high, 1.0]])))
            for x in np.linspace(low, high, 11):
                best = (1 + np.sqrt(1 + x * x)) / x**2
                cost = (1 + k * k) / (2 * (x * k - 1)) if x * k > 1 else np.inf
                assert bounds[0][0, 0] <= cost / best - 1 + 1e-12
                assert cost / best - 1 <= bounds[1][0, 0] + 1e-12
            assert bounds[1][0, 0] - bounds[0][0, 0] < 0.2


def scalar_interval(k: float, alpha: float, ends: np.ndarray) -> tuple[float, float]:
    """The input gains b that u = −kx serves within alpha, from the closed form."""

    def ratio(b):
        with np.errstate(all="ignore"):
            best = (1 + np.sqrt(1 + b * b)) / b**2
            return np.where(b * k > 1, (1 + k * k) / (2 * (b * k - 1)) / best, np.inf)

    b = np.geomspace(ends[0], ends[1], 20001)
    inside = b[ratio(b) <= alpha]
    return (inside[0], inside[-1]) if len(inside) else (1.0, 0.0)


@pytest.mark.parametrize("alpha", [1.2, 1.05])
def test_scalar_cover_is_the_exact_one(alpha):
    """Intervals from the closed form: sweeping from the left gives the least number."""
    system, ends = ScalarLqr(), np.array([0.1, 1.0])
    space = ts.Grid(b=(*ends, 40, "log"))
    contexts = system.contexts(space)
    policies = LinearGain(system.optimal_gain(contexts)[0][:, None])
    spans = [scalar_interval(float(k), alpha, ends) for k in policies.gain.ravel()]
    reached, exact = ends[0], 0
    while reached < ends[1]:
        reached = max(high for low, high in spans if low <= reached)
        exact += 1
    enclosure = enclosure_for(
        system, policies, contexts, ts.Question("ratio", epsilon=0.0)
    )
    assert isinstance(enclosure, LinearEnclosure)
    enclosure.bounds(Boxes.points(contexts[:1]))
    cover = certified_cover(enclosure, system, space, alpha - 1, time_limit=300)
    assert cover.certificate.holds
    assert cover.size == cover.lower_bound == exact


def test_certify_proves_a_plant_of_ones_own():
    """The whole of `certify`, not only the search."""
    plant = family(lambda k: [[0, 1], [-k, -0.2]])
    space = ts.Grid(k=(0.5, 2.0, 7))
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.05)
    table = ts.evaluate(plant, trainer, space, seed=0).table
    policies = trainer.train(plant, plant.contexts(space), seed=0).policies
    for criterion, epsilon in (("regret", 0.1), ("signed", 0.2), ("floor", 9.0)):
        result = ts.certificates.certify(
            ts.Study.of(table, system=plant, policies=policies),
            ts.Question(criterion, epsilon=epsilon),
            time_limit=60,
        )
        last = result.certificates[-1]
        assert last.name == "continuum cover"
        assert last.kind == "proof"
        assert last.holds, last.why
        assert "Lyapunov and Riccati" in last.why


def test_unstabilisable_and_unstable_boxes():
    """Where no gain stabilises nothing is certified; what is unstable is told so."""
    plant = LinearFamily(
        [axis("b"), axis("a")],
        A=lambda b, a: [[0.5, 0], [0, -a]],
        B=lambda b, a: [[b - 1], [1]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    sources = np.array([[2.0, 1.0]])
    policies = LinearGain(plant.optimal_gain(sources)[0][:, None])
    boxes = Boxes(
        np.array([[1.0, 1.0], [0.9, 1.0], [0.5, 1.0], [1.9, 1.0]]),
        np.array([[1.0, 1.0], [1.1, 1.1], [0.55, 1.1], [2.1, 1.1]]),
    )
    for criterion in ("regret", "ratio", "floor", "signed"):
        low, high = enclosed(plant, policies, sources, criterion).bounds(boxes)
        assert (high[0, :3] == np.inf).all()
        assert low[0, 2] == np.inf  # certainly unstable on the whole box
        assert low[0, 0] == np.inf
        assert np.isfinite(high[0, 3])


def test_a_gain_that_fails_at_home():
    plant = family(lambda k: [[0, 1], [k, 0.3]])
    gains = np.array([[[[0.0, 0.0]]], [[[20.0, 5.0]]]])
    sources = np.ones((2, 1))
    boxes = Boxes(np.array([[1.0], [2.0]]), np.array([[1.0], [2.1]]))
    low, high = enclosed(plant, LinearGain(gains), sources, "signed").bounds(boxes)
    assert (low[0] == -np.inf).all()
    assert (high[0] == 0).all()
    assert abs(high[1, 0]) < 1e-9


def test_unobservable_states_cost_nothing_but_must_be_stable():
    """P is singular here: stability cannot come from the cost alone."""
    plant = LinearFamily(
        [axis("k")],
        A=lambda k: [[-k, 0], [0, -1]],
        B=lambda k: [[1], [0]],
        Q=np.diag([1.0, 0.0]),
        R=[[1.0]],
    )
    gains = LinearGain(np.array([[[[0.5, 0.0]]]]))
    low, high = enclosed(plant, gains, np.ones((1, 1)), "floor").bounds(
        Boxes(np.array([[1.0]]), np.array([[1.01]]))
    )
    true = 1.25 / (2 * 1.5)
    assert low[0, 0] <= true <= high[0, 0] <= 1.01 * true


def test_pairs_are_the_same_bounds():
    system = Quadrotor()
    sources = np.array([[0.3] * 4, [0.6] * 4])
    policies = LinearGain(system.optimal_gain(sources)[0][:, None])
    enclosure = enclosed(system, policies, sources, "ratio")
    low = np.array([[0.3, 0.3, 0.3, 0.3], [0.5, 0.5, 0.5, 0.6]])
    boxes = Boxes(low, low * 1.02)
    every = enclosure.bounds(boxes)
    which = np.array([1, 0, 1, 0])
    pairs = enclosure.pair_bounds(boxes[np.array([1, 0, 0, 1])], which)
    at = (which, np.array([1, 0, 0, 1]))
    np.testing.assert_array_equal(pairs[0], every[0][at])
    np.testing.assert_array_equal(pairs[1], every[1][at])
    part = enclosure.subset([1]).bounds(boxes)
    np.testing.assert_array_equal(part[1][0], every[1][1])
    truth = system.performance(policies, low)[:, 0] / system.optimum(low) - 1
    assert (truth <= every[1] + 1e-9).all()
    assert every[1][0, 0] < 0.01


def test_tries_are_the_same_bounds_until_one_serves():
    system, sources = ScalarLqr(), np.array([[0.5, 1.0], [1.0, 1.0], [0.7, 1.0]])
    policies = LinearGain(system.optimal_gain(sources)[0][:, None])
    enclosure = enclosed(system, policies, sources, "ratio")
    low = np.array([[0.5, 1.0], [1.0, 1.0], [0.7, 1.0]])
    boxes = Boxes(low, low * [1.02, 1.0])
    low, high = (x.T for x in enclosure.bounds(boxes, epsilon=0.01))
    tries = np.array([[2, 0, 1], [0, 1, -1], [-1, 0, -1]])
    found = enclosure.tried_bounds(boxes, tries, 0.01)
    for box, column in np.ndindex(3, 3):
        s, before = tries[box, column], tries[box, :column]
        served = any(t >= 0 and high[box, t] <= 0.01 for t in before)
        expected = (-np.inf, np.inf)
        if s >= 0 and not served:
            expected = (low[box, s], high[box, s])
        assert (found[0][box, column], found[1][box, column]) == expected
    assert found[1][0, 1] <= 0.01  # source 0 serves the first box, and ends it
    assert found[0][0, 2] == -np.inf
    # Without compiled tries all bounds are there, and the same.
    plain = super(LinearEnclosure, enclosure).tried_bounds(boxes, tries, 0.01)
    looked = np.isfinite(found[0])
    np.testing.assert_array_equal(plain[0][looked], found[0][looked])
    np.testing.assert_array_equal(plain[1][looked], found[1][looked])
    assert np.isfinite(plain[0][tries >= 0]).all()


def test_a_check_names_a_source_that_serves_whatever_the_order():
    """Every box of a check, against the bounds of all sources on that box."""
    system = ScalarLqr()
    sources = np.stack([np.geomspace(0.1, 1, 12), np.ones(12)], -1)
    policies = LinearGain(system.optimal_gain(sources)[0][:, None])
    enclosure = enclosed(system, policies, sources, "ratio")
    edges = [np.array([0.1, 1.0]), np.array([1.0])]
    every = np.random.default_rng(0).permutation(12)
    for chosen, holds in ((every, True), ([0, 11], False)):
        cover = certify_cover(enclosure, chosen, edges, 0.05, axes=("b", "a"))
        assert cover.certificate.holds == holds
        high = enclosure.bounds(cover.boxes)[1]
        served = np.flatnonzero(cover.status == 0)
        named = cover.assignment[served]
        assert np.isin(named, chosen).all()
        assert (high[named, served] <= 0.05).all()
        np.testing.assert_array_equal(high[named, served], cover.loss_bound[served])
        assert cover.boxes.share.sum() == pytest.approx(1)
        failed = cover.boxes[cover.status == 2].centre
        low = enclosure.bounds(Boxes.points(failed), chosen)[0]
        assert (low > 0.05).all()
        assert (len(failed) == 0) == holds


def test_units_change_no_bound():
    """Other units of state, input, time and context: the same ratio on a box."""
    scale = np.diag([1e3, 1e-5])

    def A(k):
        return np.array([[0, 1], [-k, -0.4]])

    plain = family(A)
    scaled = LinearFamily(
        [axis("k")],
        A=lambda k: 1e-3 * (np.linalg.inv(scale).tolist() @ A(1e4 * k) @ scale),
        B=lambda k: 1e-3 * (np.diag([1e-3, 1e5]) @ np.array([[0], [1]])) * 1e2,
        Q=scale @ scale,
        R=[[1e4]],
        x0_covariance=np.diag([1e-6, 1e10]),
    )
    gain = plain.optimal_gain(np.array([[1.3]]))[0]
    found = []
    for plant, unit, K in (
        (plain, 1.0, gain),
        (scaled, 1e-4, gain @ scale / 1e2),
    ):
        boxes = Boxes(unit * np.array([[1.0]]), unit * np.array([[1.1]]))
        found.append(
            enclosed(
                plant, LinearGain(K[None]), np.array([[1.3 * unit]]), "ratio"
            ).bounds(boxes)
        )
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-11)


def test_who_has_no_bounds_hears_why():
    gains, sources = LinearGain(np.ones((1, 1, 1, 1))), np.ones((1, 1))
    rest = (sources, ts.Question("floor", epsilon=0.0))
    scalar = ScalarLqr()
    toy = ts.systems.FunctionSystem(lambda x, policy: 0.0, [axis("x")])
    for system, policies, word in (
        (None, gains, "the system is missing"),
        (scalar, None, "policies is missing"),
        (toy, gains, "got FunctionSystem with LinearGain"),
    ):
        with pytest.raises(NoEnclosureError, match=word):
            enclosure_for(system, policies, *rest)


def test_a_division_by_zero_inside_a_box_decides_nothing():
    plant = family(lambda k: [[0, 1], [-1 / (k - 0.5), -1]])
    enclosure = enclosed(
        plant, LinearGain(np.ones((1, 1, 1, 2))), np.array([[2.0]]), "floor"
    )
    low, high = enclosure.bounds(Boxes(np.array([[0.4]]), np.array([[0.65]])))
    assert low[0, 0] == -np.inf
    assert high[0, 0] == np.inf


def test_a_cover_of_the_continuum_for_a_plant_of_ones_own():
    """Ten lines of plant code, and every context of the box is served, proven."""
    plant = LinearFamily(
        [axis("mass"), axis("stiffness")],
        A=lambda mass, stiffness: [[0, 1], [-stiffness / mass, -0.2 / mass]],
        B=lambda mass, stiffness: [[0], [1 / mass]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    space = ts.Grid(mass=(0.5, 2.0, 5), stiffness=(0.5, 3.0, 5))
    contexts = plant.contexts(space)
    policies = ts.trainers.Lqr(n_policies=1, noise=0.0)
    policies = policies.train(plant, contexts, seed=0).policies
    enclosure = enclosure_for(
        plant, policies, contexts, ts.Question("ratio", epsilon=0.0)
    )
    assert isinstance(enclosure, LinearEnclosure)
    enclosure.bounds(Boxes.points(contexts[:1]))  # compiled before the clock runs
    cover = certified_cover(enclosure, plant, space, 0.05, time_limit=300, n_cells=8)
    assert cover.certificate.holds
    assert cover.certificate.kind == "proof"
    assert 1 <= cover.lower_bound <= cover.size
    rng = np.random.default_rng(0)
    at = rng.uniform([0.5, 0.5], [2.0, 3.0], (2000, 2))
    chosen = cover.source_at(at)
    assert (chosen >= 0).all()
    cost = plant.performance(policies, at)[chosen, 0, np.arange(len(at))]
    assert (cost / plant.optimum(at) - 1 <= 0.05 + 1e-9).all()
