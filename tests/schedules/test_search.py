# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""The fewest breakpoints, against all sets of breakpoints and SciPy's own costs."""

from functools import cache
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily
from tests.certificates.plants import PLANTS


@cache
def plant_at(system, context):
    """A, B, Q, R, X₀ and the least P of a context."""
    A, B, Q, R = (m[0] for m in system.matrices(np.array([context])))
    P = scipy.linalg.solve_continuous_are(A, B, Q, R)
    return A, B, Q, R, system.initial_covariance, P


def plain_regret(system, gain, context):
    """Cost of u = −Kx minus the least cost, by Kronecker products and SciPy."""
    A, B, Q, R, X0, P = plant_at(system, tuple(map(float, context)))
    F, eye = A - B @ gain, np.eye(len(A))
    if np.linalg.eigvals(F).real.max() >= 0:
        return np.inf
    W = Q + gain.T @ R @ gain
    X = np.linalg.solve(np.kron(F.T, eye) + np.kron(eye, F.T), -W.ravel())
    return float(np.trace((X.reshape(W.shape) - P) @ X0))


def spread(values, between=3):
    """Values with three more between neighbours."""
    inner = [np.linspace(a, b, between + 2)[:-1] for a, b in pairwise(values)]
    return np.concatenate([*inner, values[-1:]])


class BruteForce:
    """Every schedule of a study, judged target by target."""

    def __init__(self, study, is_log=False):
        self.system, self.is_log = study.system, is_log
        self.axes = [axis.values for axis in study.sources.axes]
        gain = study.policies.gain[:, 0]
        self.gains = gain.reshape(*study.sources.shape, *gain.shape[1:])
        scale = np.log if is_log else np.asarray
        back = np.exp if is_log else np.asarray
        self.targets = [back(spread(scale(x))) for x in self.axes]
        for target, values in zip(self.targets, self.axes, strict=True):
            near = np.isclose(target[:, None], values, rtol=1e-12)
            target[near.any(1)] = values[near.argmax(1)[near.any(1)]]
        self.known = {}

    def worst(self, chosen):
        """The largest regret, cell by cell as a person would look it up."""
        worst = -np.inf
        for context in product(*self.targets):
            corners = [
                self._corners(x[list(c)], list(c), value)
                for x, c, value in zip(self.axes, chosen, context, strict=True)
            ]
            key = (context, *map(tuple, corners))
            if key not in self.known:
                gain = sum(
                    np.prod([weight for _, weight in parts])
                    * self.gains[tuple(index for index, _ in parts)]
                    for parts in product(*corners)
                )
                self.known[key] = plain_regret(self.system, gain, context)
            worst = max(worst, self.known[key])
        return worst

    def _corners(self, values, numbers, x):
        """Numbers of the breakpoints around x, and their weights."""
        if x <= values[0]:
            return [(numbers[0], 1.0)]
        if x >= values[-1]:
            return [(numbers[-1], 1.0)]
        j = int(np.searchsorted(values, x))
        low, high = values[j - 1], values[j]
        if self.is_log:
            low, high, x = np.log(low), np.log(high), np.log(x)
        t = (x - low) / (high - low)
        return [(numbers[j - 1], 1 - t), (numbers[j], t)]

    def fewest(self, epsilon):
        sets = product(*(subsets(len(x)) for x in self.axes))
        for chosen in sorted(sets, key=lambda c: (np.prod([*map(len, c)]), c)):
            if self.worst(chosen) <= epsilon:
                return np.prod([*map(len, chosen)])
        return None


def subsets(n):
    return list(chain.from_iterable(combinations(range(n), k) for k in range(1, n + 1)))


def study_of(name, n, is_log=False):
    system, low, high = PLANTS[name]
    scale = ("log",) if is_log else ()
    axes = {
        axis.name: (lo, hi, n, *scale)
        for axis, lo, hi in zip(system.axes, low, high, strict=True)
    }
    return ts.evaluate(system, ts.trainers.Lqr(), ts.Grid(**axes))


@pytest.mark.parametrize(
    ("name", "is_log"), [("spring", False), ("unstable", False), ("unstable", True)]
)
def test_two_axes_need_as_many_vertices_as_brute_force_says(name, is_log):
    study = study_of(name, 4, is_log)
    brute = BruteForce(study, is_log)
    least = brute.worst(tuple(tuple(range(len(x))) for x in brute.axes))
    for factor in (1.001, 2, 10, 100):
        epsilon = least * factor
        question = ts.Question("regret", epsilon=epsilon)
        found = ts.schedule(study, question, constant_pieces=False)
        assert found.size == brute.fewest(epsilon)
        assert found.optimal
        assert found.lower_bound == found.size
        chosen = tuple(
            tuple(np.searchsorted(x, found.breakpoints[name]))
            for name, x in zip(found.names, brute.axes, strict=True)
        )
        assert found.worst == pytest.approx(brute.worst(chosen), rel=1e-6)
        assert found.worst <= epsilon


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_one_axis_needs_as_many_breakpoints_as_brute_force_says(seed):
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(0.3, 3, 3)
    system = LinearFamily(
        [ContextAxis("x", 1.0)],
        A=lambda x: [[0, 1], [a * x * x - 1, b * x - 1]],
        B=lambda x: [[0.1 * x], [c + x]],
        Q=np.diag([1.0, 0.3]),
        R=[[0.5]],
    )
    study = ts.evaluate(system, ts.trainers.Lqr(), ts.Grid(x=(0.2, 3.0, 6)))
    brute = BruteForce(study)
    least = brute.worst((tuple(range(6)),))
    epsilon = least * float(rng.choice([1.01, 3, 30, 300]))
    found = ts.schedule(
        study, ts.Question("regret", epsilon=epsilon), constant_pieces=False
    )
    assert found.size == brute.fewest(epsilon)


def test_three_axes_are_searched_with_a_bound_that_is_true():
    system = LinearFamily(
        [ContextAxis(n, 1.0) for n in "abc"],
        A=lambda a, b, c: [[0, 1], [-a * c, -b]],
        B=lambda a, b, c: [[0], [c]],
        Q=np.diag([4.0, 1.0]),
        R=[[1.0]],
    )
    space = ts.Grid(a=(0.2, 4, 3), b=(0.2, 3, 3), c=(0.5, 2, 3))
    study = ts.evaluate(system, ts.trainers.Lqr(), space)
    for epsilon in (0.1, 0.5, 2.0):
        found = ts.schedule(
            study, f"regret <= {epsilon}", between=1, constant_pieces=False
        )
        assert found.lower_bound <= found.size <= 27
        at = [spread(axis.values, 1) for axis in space.axes]
        rows = np.array(list(product(*at)))
        for row, numbers in zip(rows, found.numbers_at(rows), strict=True):
            assert plain_regret(system, numbers[None], row) <= epsilon * (1 + 1e-9)


def test_units_and_the_order_of_axes_do_not_change_the_answer():
    spring, low, high = PLANTS["spring"]
    other = LinearFamily(
        [ContextAxis("c", 1.0, low=0.0), ContextAxis("k", 1.0, low=0.0)],
        A=lambda c, k: [[0, 1], [-k / 1000, -c * 100]],
        B=lambda c, k: [[0], [1]],
        Q=np.diag([10.0, 4.0]),
        R=[[1.0]],
    )
    plain = ts.evaluate(
        spring,
        ts.trainers.Lqr(),
        ts.Grid(k=(low[0], high[0], 8), c=(low[1], high[1], 8)),
    )
    turned = ts.evaluate(
        other,
        ts.trainers.Lqr(),
        ts.Grid(
            c=(low[1] / 100, high[1] / 100, 8), k=(low[0] * 1000, high[0] * 1000, 8)
        ),
    )
    for epsilon in (0.1, 0.5):
        first = ts.schedule(plain, f"regret <= {epsilon}", constant_pieces=False)
        second = ts.schedule(turned, f"regret <= {epsilon}", constant_pieces=False)
        assert first.size == second.size
        assert first.lower_bound == second.lower_bound


def test_numbers_of_the_paper_s_plant():
    space = ts.Grid(k=(0.1, 8.0, 16), c=(0.1, 8.0, 16))
    study = ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
    epsilons = [1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03]
    profile = ts.schedules.schedule_profile(study, "regret", epsilons)
    assert profile.bound_of == "16 × 16 candidates on 61 × 61 targets"
    assert profile.epsilons == tuple(sorted(epsilons))
    assert profile.sizes == profile.lower_bounds == (9, 9, 6, 4, 4, 4, 2)
    assert profile.shapes[2:6] == ((2, 3), (2, 2), (2, 2), (2, 2))
    constant = [(point.lower, point.upper) for point in profile.constant]
    assert constant == [(None, None)] * 2 + [(16, 16), (8, 8), (6, 6), (4, 4), (2, 2)]
    found = ts.schedule(study, "regret <= 0.1")
    assert (found.size, found.optimal) == (6, True)
    assert found.constant_pieces == (16, 16)


def test_a_table_in_use_is_shortened():
    """Of 30 rows only those stay that the demand needs."""
    system = LinearFamily(
        [ContextAxis("v", 1.0)],
        A=lambda v: [[0, v], [0, -1]],
        B=lambda v: [[0], [v]],
        Q=np.diag([1.0, 0.1]),
        R=[[1.0]],
    )
    study = ts.evaluate(system, ts.trainers.Lqr(), ts.Grid(v=(1.0, 5.0, 9)))
    rows = np.linspace(1.0, 5.0, 30)
    gains, _ = system.optimal_gain(rows[:, None])
    table = ts.Schedule.of_gains({"v": rows}, gains)
    short = ts.schedule(study, "ratio <= 1 %", table=table, constant_pieces=False)
    assert short.size < 30
    assert short.optimal
    assert set(short.breakpoints["v"]) <= set(rows)
    kept = np.searchsorted(rows, short.breakpoints["v"])
    assert np.array_equal(short.gains, table.gains[kept])


def test_constant_pieces_are_those_of_a_cover_on_the_same_targets():
    study = study_of("spring", 8)
    found = ts.schedule(study, "regret <= 0.5")
    at = [spread(axis.values) for axis in study.sources.axes]
    targets = ts.Grid(k=at[0], c=at[1])
    table = ts.evaluate_policies(study.system, study.policies, targets)
    cover = ts.minimum_cover(table, "regret <= 0.5")
    assert found.constant_pieces == (cover.lower_bound, cover.size)
    assert found.size <= cover.size


def test_a_source_that_failed_is_no_candidate():
    study = study_of("spring", 4)
    gains = study.policies.gain.copy()
    gains[5] = -100.0  # unstable everywhere
    broken = ts.evaluate_policies(
        study.system, LinearGain(gains), study.targets, sources=study.sources
    )
    found = ts.schedule(broken, "regret <= 0.3", constant_pieces=False)
    assert found.worst <= 0.3
    rows = np.array(list(product(*(spread(a.values) for a in study.sources.axes))))
    for row, numbers in zip(rows, found.numbers_at(rows), strict=True):
        assert plain_regret(study.system, numbers[None], row) <= 0.3 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: ts.schedule(s, "signed <= 1"), "has no source"),
        (lambda s: ts.schedule(s, "regret"), "with a bound"),
        (lambda s: ts.schedule(s, "regret <= 1e-9"), "No schedule of"),
        (lambda s: ts.schedule(s, "regret <= 1", between=-1), "between >= 0"),
        (lambda s: ts.schedule(s, "regret <= 1", interpolation="cubic"), "'linear'"),
        (lambda s: ts.schedule(s, "regret <= 1 with q=3 %"), "q"),
        (lambda s: ts.schedule(ts.study_from(np.eye(3)), "regret <= 1"), "a system"),
    ],
)
def test_what_has_no_schedule_is_refused_in_a_sentence(make, words):
    with pytest.raises(TaskspaceError, match=words):
        make(study_of("spring", 3))


def test_families_and_points_are_refused():
    system, _, _ = PLANTS["spring"]
    space = ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 3))
    noisy = ts.evaluate(system, ts.trainers.Lqr(n_policies=3, noise=0.1), space)
    with pytest.raises(InvalidInputError, match="one policy per source"):
        ts.schedule(noisy, "regret <= 1")
    points = ts.Points(["k", "c"], space.points)
    with pytest.raises(InvalidInputError, match="grids"):
        ts.schedule(ts.evaluate(system, ts.trainers.Lqr(), points), "regret <= 1")


@pytest.mark.slow
def test_three_axes_that_need_many_breakpoints_are_found():
    """Few breakpoints do not do here; all of them do, and fewer than all."""
    system = LinearFamily(
        [ContextAxis(n, 0.5) for n in "abc"],
        A=lambda a, b, c: [[0, 1], [-a, -b]],
        B=lambda a, b, c: [[0], [c]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    space = ts.Grid(a=(0.1, 8, 4), b=(0.1, 4, 4), c=(0.3, 2, 4))
    study = ts.evaluate(system, ts.trainers.Lqr(), space)
    found = ts.schedule(study, "ratio <= 20 %", between=1, constant_pieces=False)
    assert 1 <= found.lower_bound <= found.size <= 64
    assert not found.optimal  # the search proves no size of three axes
    with pytest.raises(InvalidInputError, match="no schedule was found"):
        ts.schedule(study, "ratio <= 0.1 %", between=1, constant_pieces=False)
