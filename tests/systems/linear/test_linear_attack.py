"""Random closed loops of all magnitudes against mpmath and SciPy."""

import warnings

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg

from taskspace.policies import LinearGain
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear import LinearFamily
from taskspace.systems.linear.kernels.lyapunov import (
    LinearMatrices,
    closed_loop_cost,
    gramian,
)
from taskspace.systems.linear.kernels.riccati import riccati_gain
from taskspace.systems.linear.msd import MassSpringDamper

DIGITS = 100  # units may differ by 2^60 between states
ACCURATE = 1e-10  # what closed_loop_cost promises; certificates allow for 1e-9


def cost(F, W, X0, continuous) -> float:
    n = len(F)
    plant = LinearMatrices(F[None], np.zeros((1, n, 1)), W[None], np.ones((1, 1, 1)))
    gain = np.zeros((1, 1, n))
    return closed_loop_cost(gain, plant, X0, continuous)[0, 0]


def exact_cost(F, W, X0, continuous):
    """Cost by a direct solution of the Lyapunov equation in many digits."""
    f, W, X0 = (
        m if isinstance(m, mp.matrix) else mp.matrix(m.tolist()) for m in (F, W, X0)
    )
    n = f.rows
    roots = [f[0, 0]] if n == 1 else mp.eig(f, left=False, right=False)
    edge = max(mp.re(z) if continuous else abs(z) - 1 for z in roots)
    if edge >= 0:
        return mp.inf
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    place = {pair: row for row, pair in enumerate(pairs)}
    place |= {(j, i): row for (i, j), row in place.items()}
    left, right = mp.zeros(len(pairs)), mp.zeros(len(pairs), 1)
    for row, (i, j) in enumerate(pairs):
        right[row] = -X0[i, j]
        for k in range(n):
            if continuous:
                left[row, place[k, j]] += f[i, k]
                left[row, place[i, k]] += f[j, k]
            else:
                for h in range(n):
                    left[row, place[k, h]] += f[i, k] * f[j, h]
        if not continuous:
            left[row, row] -= 1
    x = mp.lu_solve(left, right)
    return mp.fsum(W[i, j] * x[place[i, j]] for i in range(n) for j in range(n))


def scipy_cost(F, W, X0, continuous) -> float:
    roots = np.linalg.eigvals(F)
    edge = roots.real.max() if continuous else abs(roots).max() - 1
    if edge >= 0:
        return np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if continuous:
            X = scipy.linalg.solve_continuous_lyapunov(F, -X0)
        else:
            X = scipy.linalg.solve_discrete_lyapunov(F, X0)
    return float(np.sum(W * X))


def stiff(rng, n):
    return np.diag(-(10.0 ** rng.uniform(-9, 9, n)))


def mixed(rng, n):
    T = rng.normal(size=(n, n))
    return T @ np.diag(-(10.0 ** rng.uniform(-3, 3, n))) @ np.linalg.inv(T)


def graded(rng, n):
    d = 10.0 ** rng.uniform(-4, 4, n)
    return np.outer(d, 1 / d) * rng.normal(size=(n, n)) - 10.0 * np.diag(d)


def bad_units(rng, n):
    F = rng.normal(size=(n, n)) - 1.5 * np.sqrt(n) * np.eye(n)
    d = 2.0 ** rng.integers(-30, 30, n)
    return F * np.outer(d, 1 / d)


def sheared(rng, n):
    F = np.triu(rng.normal(size=(n, n)) * 10.0 ** rng.uniform(0, 4))
    F[np.diag_indices(n)] = -(10.0 ** rng.uniform(-3, 3, n))
    return F


def ringing(rng, n):
    F = rng.normal(size=(n, n))
    return F - F.T - 10.0 ** rng.uniform(-12, 0) * np.eye(n)


def anything(rng, n):
    F = rng.normal(size=(n, n)) - rng.uniform(0, 2) * np.eye(n)
    return F * 10.0 ** rng.uniform(-6, 6)


KINDS = [stiff, mixed, graded, bad_units, sheared, ringing, anything]


def loop(kind, rng, continuous):
    n = int(rng.integers(1, 5))
    F = kind(rng, n)
    if not continuous:
        size = 1.25 * abs(F).sum(1).max()
        eye = np.eye(n)
        F = np.linalg.solve(size * eye - F, size * eye + F)  # slow modes next to 1
        F = -F if rng.random() < 0.3 else F
    root = rng.normal(size=(n, n))
    W = root @ root.T if rng.random() < 0.7 else np.diag(1.0 * (rng.random(n) < 0.5))
    root = rng.normal(size=(n, n))
    X0 = [np.eye(n), root @ root.T, np.diag(1.0 * (rng.random(n) < 0.5))][
        rng.integers(3)
    ]
    return F, (W + W.T) / 2, (X0 + X0.T) / 2


def attack(kind, continuous, seeds) -> list[str]:
    """What is wrong with the costs of some random loops."""
    found = []
    n_finite = 0
    with mp.workdps(DIGITS):
        for seed in seeds:
            rng = np.random.default_rng([seed, KINDS.index(kind), continuous])
            F, W, X0 = loop(kind, rng, continuous)
            ours, exact = cost(F, W, X0, continuous), exact_cost(F, W, X0, continuous)
            if mp.isinf(exact) or np.isinf(ours):
                if mp.isinf(exact) != np.isinf(ours):
                    found.append(f"{seed}: cost {ours}, exact {mp.nstr(exact, 8)}")
                continue
            n_finite += 1
            theirs = scipy_cost(F, W, X0, continuous)
            wrong, wrong_theirs = (abs(mp.mpf(c) - exact) for c in (ours, theirs))
            if not wrong <= max(ACCURATE * exact, wrong_theirs):
                found.append(f"{seed}: relative error {mp.nstr(wrong / exact, 3)}")
    assert n_finite > 0
    return found


@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_costs_are_right(kind, continuous):
    assert attack(kind, continuous, range(12)) == []


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_many_costs_are_right(kind, continuous):
    assert attack(kind, continuous, range(1000, 1400)) == []


def test_rotations_next_to_the_circle_are_accurate():
    """Eight digits of some were wrong: rounding had hidden their residual."""
    assert attack(ringing, False, [1076, 1191, 1204, 1308]) == []


def test_slow_modes_next_to_one_in_any_units_are_stable():
    """Four of these once counted as unstable: the ones of F hid what decides."""
    assert attack(bad_units, False, range(1000, 1040)) == []


def former_cost(F, W, X0):
    """The doubling as it once was: Φ itself, an absolute stop, no check."""
    n = len(F)
    shift = 1.5 * abs(F).sum(1).max()
    M = np.linalg.inv(shift * np.eye(n) - F)
    X, phi = 2 * shift * M @ X0 @ M.T, 2 * shift * M - np.eye(n)
    for _ in range(64):
        if abs(phi).max() > 1e60:
            break
        X, phi = X + phi @ X @ phi.T, phi @ phi
        if abs(phi).max() < 1e-9:
            return np.sum(W * X)
    return np.inf


def test_the_attack_finds_a_planted_error(monkeypatch):
    monkeypatch.setitem(
        globals(), "cost", lambda F, W, X0, _continuous: former_cost(F, W, X0)
    )
    assert attack(stiff, True, range(12))
    assert attack(bad_units, True, range(12))


@pytest.mark.parametrize("slow", [1e-6, 1e-9, 1e-10, 1e-15])
def test_a_slow_mode_beside_a_fast_one(slow):
    found = cost(np.diag([-1e6, -slow]), np.eye(2), np.eye(2), True)
    assert found == pytest.approx(0.5e-6 + 0.5 / slow, rel=1e-14)


def test_small_costs_are_not_cut_off():
    chain = np.array([[0.0, 1e-12], [0.0, 0.0]])
    W, X0 = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    assert cost(chain, W, X0, False) == pytest.approx(1e-24, rel=1e-14)


@pytest.mark.parametrize(
    ("F", "continuous"),
    [
        ([[0.0]], True),
        ([[0.0, 1.0], [-1.0, 0.0]], True),
        ([[-1.0, 0.0], [0.0, 0.0]], True),
        ([[1.0]], False),
        ([[-1.0]], False),
        ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], False),
    ],
)
def test_a_loop_on_the_boundary_has_no_finite_cost(F, continuous):
    F = np.array(F)
    assert cost(F, np.eye(len(F)), np.eye(len(F)), continuous) == np.inf


@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("seed", range(30))
def test_powers_of_two_as_units_change_nothing(continuous, seed):
    rng = np.random.default_rng([seed, continuous])
    n = int(rng.integers(1, 6))
    F = rng.normal(size=(n, n)) - rng.uniform(0, 2) * np.sqrt(n) * np.eye(n)
    if not continuous:
        F *= rng.uniform(0.3, 1.1) / abs(np.linalg.eigvals(F)).max()
    root = rng.normal(size=(n, n))
    W, X0 = root @ root.T, np.eye(n)
    d, time = 2.0 ** rng.integers(-20, 20, n), 2.0 ** rng.integers(-40, 40)
    before = cost(F, W, X0, continuous)
    after = cost(
        F * np.outer(d, 1 / d) * (time if continuous else 1),
        W / np.outer(d, d),
        X0 * np.outer(d, d),
        continuous,
    ) * (time if continuous else 1)
    assert np.isinf(before) == np.isinf(after)
    assert after == pytest.approx(before, rel=1e-11)


def test_neighbours_and_tiles_change_no_bit():
    rng = np.random.default_rng(0)
    loops = [loop(KINDS[i % 7], rng, True)[0] for i in range(400)]
    A = np.stack([F for F in loops if len(F) == 3])
    n = len(A)
    K, B, R = np.zeros((1, 1, 3)), np.zeros((n, 3, 1)), np.ones((n, 1, 1))
    plant = LinearMatrices(A, B, np.tile(np.eye(3), (n, 1, 1)), R)
    whole = closed_loop_cost(K, plant, np.eye(3), True)[0]
    assert np.isinf(whole).any()
    assert np.isfinite(whole).any()
    for order in (np.arange(n)[::-1], rng.permutation(n)):
        again = closed_loop_cost(K, plant.rows(order), np.eye(3), True)[0]
        np.testing.assert_array_equal(again, whole[order])
    for i in range(0, n, 7):
        np.testing.assert_array_equal(cost(A[i], np.eye(3), np.eye(3), True), whole[i])


@pytest.mark.parametrize("seed", range(25))
def test_mass_spring_damper_at_extremes(seed):
    rng = np.random.default_rng(seed)
    system = MassSpringDamper()
    context = 10.0 ** rng.uniform(-9, 9, (1, 3))
    with mp.workdps(80):
        k, c, m = (mp.mpf(v) for v in context[0])
        first = mp.sqrt(k * k + 10) - k
        second = mp.sqrt(c * c + 2 * m * first + 4) - c
        gain, solved = system.optimal_gain(context)
        assert solved.all()
        assert abs(gain[0, 0, 0] / first - 1) < 1e-14
        assert abs(gain[0, 0, 1] / second - 1) < 1e-14
        other = rng.uniform(-0.5, 2.0, (1, 2)) * 10.0 ** rng.uniform(-9, 9, (1, 2))
        for K in (gain[0], other):
            g0, g1 = (mp.mpf(v) for v in K[0])
            a, b = k + g0, c + g1
            J = -system.performance(LinearGain(K), context)[0, 0, 0]
            if a <= 0 or b <= 0:
                assert J == np.inf
                continue
            q11, q12, q22 = 10 + g0**2, g0 * g1, 4 + g1**2
            u2 = q11 / (2 * a)
            u3 = (q22 + 2 * m * u2) / (2 * b)
            exact = b * u2 + (m + a) * u3 - q12
            # a and b are sums of floats; nothing else may cancel.
            sums = abs(g0) / a + k / a + abs(g1) / b + c / b
            assert abs(J / exact - 1) < 1e-15 * (10 + 4 * sums)


def exact_riccati(A, B, Q, R, continuous, K):
    """tr P by Newton's method in many digits, from a stabilising gain."""
    n = len(A)
    a, b, q, r, K = (mp.matrix(M.tolist()) for M in (A, B, Q, R, K))
    P = mp.zeros(n)
    for _ in range(8):
        F, W = a - b * K, q + K.T * r * K
        left, right = mp.zeros(n * n), mp.zeros(n * n, 1)
        for i in range(n):
            for j in range(n):
                right[i * n + j] = -W[i, j]
                for k in range(n):
                    if continuous:
                        left[i * n + j, k * n + j] += F[k, i]
                        left[i * n + j, i * n + k] += F[k, j]
                    else:
                        for h in range(n):
                            left[i * n + j, k * n + h] += F[k, i] * F[h, j]
                if not continuous:
                    left[i * n + j, i * n + j] -= 1
        p = mp.lu_solve(left, right)
        for i in range(n):
            for j in range(n):
                P[i, j] = p[i * n + j]
        if continuous:
            K = mp.inverse(r) * (b.T * P)
        else:
            K = mp.inverse(r + b.T * P * b) * (b.T * P * a)
    return mp.fsum(P[i, i] for i in range(n))


def family(A, B, Q, R, continuous) -> LinearFamily:
    return LinearFamily(
        context_axes=[ContextAxis("nothing", 0.0)],
        A=lambda nothing: A,
        B=lambda nothing: B,
        Q=Q,
        R=R,
        time="continuous" if continuous else "discrete",
    )


HERE = np.zeros((1, 1))


@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("seed", range(12))
def test_an_optimum_is_one_or_is_not_claimed(continuous, seed):
    # An unstable mode that the input hardly reaches.
    rng = np.random.default_rng([seed, continuous])
    n = int(rng.integers(2, 4))
    A, B = np.triu(rng.normal(size=(n, n))), rng.normal(size=(n, 1))
    B[-1] *= 10.0 ** rng.uniform(-6, 0)
    A[-1, -1] = 1 + abs(A[-1, -1])
    T = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A, B = T @ A @ T.T, T @ B
    system = family(A, B, np.eye(n), np.eye(1), continuous)
    gains, solved = system.optimal_gain(HERE)
    best = system.optimum(HERE)[0]
    assert np.isnan(best) == (not solved[0])
    with mp.workdps(60):
        exact = exact_riccati(A, B, np.eye(n), np.eye(1), continuous, gains[0])
        if solved[0]:
            assert abs(-best / exact - 1) < 1e-6
    others = gains * (1 + rng.normal(0, 1e-3, (200, 1, n)))
    J = system.performance(LinearGain(others), HERE)
    assert not (J > best * (1 - 1e-7)).any()


@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_riccati_residuals(n, continuous):
    rng = np.random.default_rng(n)
    m = max(1, n // 2)
    scale = 10.0 ** rng.uniform(-3, 3 if continuous else 0, (20, 1, 1))
    A, B = scale * rng.normal(size=(20, n, n)), rng.normal(size=(20, n, m))
    Q = np.tile(np.eye(n), (20, 1, 1))
    R = np.tile(np.eye(m), (20, 1, 1))
    K, solved = riccati_gain(A, B, Q, R, continuous=continuous)
    assert solved.mean() > 0.8
    A, B, Q, R, K = (M[solved] for M in (A, B, Q, R, K))
    Kt, At = np.swapaxes(K, 1, 2), np.swapaxes(A, 1, 2)
    P = gramian(np.swapaxes(A - B @ K, 1, 2), Q + Kt @ R @ K, continuous=continuous)
    BP = np.swapaxes(B, 1, 2) @ P
    if continuous:
        terms = At @ P, P @ A, -np.swapaxes(BP, 1, 2) @ BP, Q
    else:
        middle = np.linalg.solve(R + BP @ B, BP @ A)
        terms = At @ P @ A, -P, -At @ np.swapaxes(BP, 1, 2) @ middle, Q
    size = np.sum([abs(term).max((1, 2)) for term in terms], axis=0)
    residual = abs(np.sum(terms, axis=0)).max((1, 2)) / size
    assert (residual < 1e-8).all()
