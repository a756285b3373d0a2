from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.boxes import msd_bounds
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.msd import MsdEnclosure
from taskspace.certificates.boxes.msd_bounds import point
from taskspace.certificates.boxes.nodes import (
    serves_cells,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.systems import MassSpringDamper
from tests.certificates.worlds import MSD, msd_enclosure, msd_family, msd_loss

SPACE = ts.Grid(k=(0.1, 8.0, 5), c=(0.1, 8.0, 5))
KINDS = [
    (c, f) for c in ("regret", "ratio", "floor", "signed") for f in ("worst", "best")
]


def random_boxes(rng, n=300, width=0.6):
    low = np.array([0.0, 0.0, 0.5]) + rng.random((n, 3)) * [8.0, 8.0, 1.5]
    high = low + rng.random((n, 3)) * width
    high[: n // 4, 2] = low[: n // 4, 2]  # a mass that does not vary
    high[n // 4 : n // 3] = low[n // 4 : n // 3]  # points
    return Boxes(low, high)


def plant_at(context, weights):
    """The enclosed plant at one context."""
    k, c, m = (point(float(x)) for x in context)
    return msd_bounds.plant(k, c, m, weights)


@pytest.mark.parametrize(("criterion", "judge"), KINDS)
def test_bounds_hold_at_thousands_of_contexts(criterion, judge):
    rng = np.random.default_rng(1)
    policies = msd_family(SPACE, n_policies=3, noise=0.4)
    enclosure = MsdEnclosure(
        MSD, policies, MSD.contexts(SPACE), ts.Question(criterion, judge, epsilon=0.0)
    )
    boxes = random_boxes(rng)
    low, high = enclosure.bounds(boxes)
    largest = np.full(low.shape, -np.inf)
    for draw in range(40):
        share = rng.random((len(boxes), 3))
        share = np.round(share) if draw < 8 else share  # corners first
        contexts = boxes.low + share * (boxes.high - boxes.low)
        loss = msd_loss(SPACE, policies, contexts, criterion, judge)
        # The evaluation itself rounds; the bounds do not need the slack.
        finite = np.isfinite(loss)
        slack = 1e-12 * (1 + np.abs(loss))
        slack[~finite] = 0
        assert (loss <= high + slack).all()
        assert (loss >= low - slack).all()
        largest = np.maximum(largest, loss)
    # Not only sound: the bound is close to what was seen on small boxes.
    small = np.isfinite(high) & ((boxes.high - boxes.low).max(1) < 0.2)
    excess = high[small] - largest[small]
    assert np.median(excess) < 0.05 * np.median(np.abs(largest[small]))


def test_mean_value_form_errs_by_the_square_of_the_width():
    enclosure = msd_enclosure(SPACE)
    centre = np.array([[2.0, 3.0, 1.0]])
    rows = []
    for width in (0.4, 0.2, 0.1, 0.05):
        half = np.array([[width, width, 0.0]]) / 2
        _, high = enclosure.bounds(Boxes(centre - half, centre + half), [7])
        share = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * 2), -1).reshape(-1, 2)
        around = centre + np.c_[share, np.zeros(81)] * half
        exact = msd_loss(SPACE, msd_family(SPACE), around, "regret", "worst")[7].max()
        rows.append(high[0, 0] - exact)
    ratios = np.array(rows[:-1]) / np.array(rows[1:])
    assert (ratios > 3.3).all()  # 4 in the limit


def test_half_the_gradient_would_be_unsound():
    # Negative control: the soundness test above must be able to fail.
    rng = np.random.default_rng(2)
    enclosure = msd_enclosure(SPACE)
    policies = msd_family(SPACE)
    boxes = random_boxes(rng, width=0.1)
    centre = boxes.centre
    _, at_centre = enclosure.bounds(Boxes(centre, centre))
    slopes = enclosure.slope_bounds(boxes)
    spread = (slopes * boxes.radius).sum(-1)
    corner_loss = np.full(at_centre.shape, -np.inf)
    for signs in np.ndindex(2, 2, 2):
        corner = np.where(signs, boxes.high, boxes.low)
        loss = msd_loss(SPACE, policies, corner, "regret", "worst")
        corner_loss = np.maximum(corner_loss, loss)
    assert (corner_loss <= at_centre + spread + 1e-10).all()
    assert (corner_loss > at_centre + spread / 2 + 1e-10).any()


@pytest.mark.parametrize("kind", [msd_bounds.REGRET, msd_bounds.RATIO, msd_bounds.COST])
def test_gradient_agrees_with_automatic_differentiation(kind):
    weights = (10.0, 4.0, 1.3)

    def loss(context, gain):
        k, c, m = context
        q_x, q_v, r = weights
        a, b = k + gain[0], c + gain[1]
        s22 = (m + a) / (2 * b)
        s11 = (m * m / a + m) / (2 * b) + b / (2 * a)
        cost = (q_x + r * gain[0] ** 2) * s11 + (q_v + r * gain[1] ** 2) * s22
        cost = cost - r * gain[0] * gain[1]
        k1 = -k + jnp.sqrt(k * k + q_x / r)
        k2 = -c + jnp.sqrt(c * c + 2 * m * k1 + q_v / r)
        best = r * (c * k1 + (k + m + k1) * k2)
        return {
            msd_bounds.COST: cost,
            msd_bounds.REGRET: cost - best,
            msd_bounds.RATIO: cost / best - 1,
        }[kind]

    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(loss))
        for _ in range(50):
            context = rng.random(3) * [8, 8, 2] + [0.0, 0.0, 0.3]
            gain = rng.random(2) * 4
            expected = np.array(slope(jnp.asarray(context), jnp.asarray(gain)))
            box = plant_at(context, weights)
            pair = (float(gain[0]), float(gain[1]))
            loop = msd_bounds.closed_loop(pair, box)
            found = np.array(msd_bounds.gradient(kind, pair, box, loop, weights))
            slack = 1e-9 * (1 + abs(expected))
            assert (found[:, 0] <= expected + slack).all()
            assert (found[:, 1] >= expected - slack).all()
            assert np.ptp(found, axis=1).max() < 1e-9 * (1 + abs(expected).max())


def test_closed_form_of_the_optimum_is_that_of_the_riccati_equation():
    rng = np.random.default_rng(4)
    contexts = rng.random((100, 3)) * [8, 8, 3] + [0, 0, 0.2]
    system = MassSpringDamper(
        position_weight=3.0, velocity_weight=7.0, input_weight=2.0
    )
    expected = -system.optimum(contexts)
    for context, cost in zip(contexts, expected, strict=True):
        box = plant_at(context, (3.0, 7.0, 2.0))
        low, high = msd_bounds.best_cost(box, (3.0, 7.0, 2.0))
        assert low - 1e-10 * cost <= cost <= high + 1e-10 * cost
        assert high - low < 1e-10 * cost


def exact_losses(context, gain, weights):
    """Regret, ratio and cost with 60 digits."""
    with localcontext() as digits:
        digits.prec = 60
        k, c, m = (Decimal(float(x)) for x in context)
        k1, k2 = (Decimal(float(x)) for x in gain)
        q_x, q_v, r = (Decimal(w) for w in weights)

        def cost(k1, k2):
            a, b = k + k1, c + k2
            u2 = (q_x + r * k1 * k1) / (2 * a)
            u3 = (q_v + r * k2 * k2 + 2 * m * u2) / (2 * b)
            return b * u2 + (m + a) * u3 - r * k1 * k2

        s1 = -k + (k * k + q_x / r).sqrt()
        s2 = -c + (c * c + 2 * m * s1 + q_v / r).sqrt()
        best, own = cost(s1, s2), cost(k1, k2)
        return own - best, own / best - 1, own


def test_points_contain_the_value_of_sixty_digits():
    rng = np.random.default_rng(6)
    weights = (10.0, 4.0, 1.0)
    for trial in range(300):
        context = rng.random(3) * [8, 8, 2] + [0.0, 0.0, 0.3]
        plant = plant_at(context, weights)
        if trial % 3:
            gain = tuple(float(x) for x in rng.random(2) * 4)
        else:  # next to the optimum, where a difference of costs would cancel
            gain = plant[5][0] * (1 + 1e-9), plant[6][0] * (1 - 1e-9)
        exact = exact_losses(context, gain, weights)
        kinds = (msd_bounds.REGRET, msd_bounds.RATIO, msd_bounds.COST)
        for kind, value in zip(kinds, exact, strict=True):
            loop = msd_bounds.closed_loop(gain, plant)
            low, high = msd_bounds.value(kind, gain, plant, loop, weights)
            assert Decimal(low) <= value <= Decimal(high)
            assert high - low <= 1e-12 * float(exact[2])


def test_unstable_loops_are_never_certified():
    policies = LinearGain(np.array([[[[-2.0, 0.5]]]]))  # unstable for k <= 2
    contexts = np.array([[5.0, 1.0, 1.0]])
    low = np.array([[1.0, 1, 1], [1.9, 1, 1], [2.1, 1, 1], [2.0, 1, 1]])
    high = np.array([[1.5, 2, 1], [2.2, 2, 1], [3.0, 2, 1], [2.0, 1, 1]])
    for criterion in ("regret", "ratio", "floor", "signed"):
        enclosure = MsdEnclosure(
            MSD, policies, contexts, ts.Question(criterion, epsilon=0.0)
        )
        at_least, at_most = enclosure.bounds(Boxes(low, high))
        assert at_least[0, 0] == at_most[0, 0] == np.inf
        assert at_most[0, 1] == np.inf
        assert np.isfinite(at_most[0, 2])
        assert at_most[0, 3] == np.inf  # a = 0 exactly: not stable


def test_a_policy_that_fails_at_home_loses_nothing_under_signed():
    # As in the criterion: no gap to another failure, −inf to anything better.
    policies = LinearGain(np.array([[[[-2.0, 0.5]]]]))
    enclosure = MsdEnclosure(
        MSD, policies, np.array([[1.0, 1.0, 1.0]]), ts.Question("signed", epsilon=0.0)
    )
    _, high = enclosure.bounds(Boxes(np.array([[1.0, 1, 1]]), np.array([[4.0, 2, 1]])))
    assert high[0, 0] == 0


@pytest.mark.parametrize("judge", ["worst", "best"])
def test_search_from_large_boxes_agrees_with_cell_by_cell(judge):
    enclosure = msd_enclosure(SPACE, judge=judge, n_policies=2, noise=0.2)
    edges = (np.linspace(0.1, 8, 14), np.linspace(0.1, 8, 11), np.array([1.0]))
    cells = np.concatenate(list(serves_cells(enclosure, edges, 0.3)))
    direct = enclosure.bounds(Boxes.from_edges(edges), epsilon=0.3)[1] <= 0.3
    assert (cells >= direct).all()  # cuts inside a cell can only help
    assert cells.sum() > direct.sum() > 0
    nodes = np.concatenate(list(serves_cells(enclosure, edges, 0.3, nodes=True)))
    mesh = np.stack(np.meshgrid(*edges, indexing="ij"), -1).reshape(-1, 3)
    low, high = enclosure.bounds(Boxes(mesh, mesh))
    assert (nodes == (low <= 0.3)).all()
    assert (nodes >= (high <= 0.3)).all()


def test_inputs_that_could_overflow_are_refused():
    enclosure = msd_enclosure(SPACE)
    with pytest.raises(InvalidInputError, match="k <= 1e\\+15"):
        enclosure.bounds(Boxes(np.array([[1e16, 1, 1]]), np.array([[1e16, 1, 1]])))
    with pytest.raises(InvalidInputError, match="0 <= c"):
        enclosure.bounds(Boxes(np.array([[1, -1.0, 1]]), np.array([[1, 1.0, 1]])))
