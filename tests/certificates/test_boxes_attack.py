"""Attacks on the bounds over boxes of linear families, judged with 50 digits.

A bound that any context of its box refutes is a false proof. So contexts are sought
that refute one: at random, in corners, and by climbing; what comes closest is evaluated
with 50 digits, and no tolerance. The attacks are also tried on bounds that are wrong.
"""

import mpmath as mp
import numpy as np
import pytest

from taskspace.certificates.boxes.enclosures import Boxes, LinearEnclosure
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.systems import LinearFamily
from tests.certificates.exact import cost, loss, optimal_cost
from tests.certificates.plants import PLANTS, axes

CRITERIA = ("regret", "ratio", "floor", "signed")
TRIES = 4
# The long attack, for each plant, criterion, order and width: boxes, random contexts
# in each, steps of climbing, and how many of the closest are judged with 50 digits.
WIDTHS = (1e-3, 0.03, 0.1, 0.3)
N_BOXES, N_CONTEXTS, N_CLIMBS, N_EXACT = 20, 400, 6, 10


def some_boxes(rng, low, high, n, width):
    """Boxes of about this relative width, some thin, some a single context."""
    low, high = np.array(low), np.array(high)
    centre = np.exp(rng.uniform(np.log(low), np.log(high), (n, len(low))))
    half = 0.5 * width * rng.uniform(0.1, 1, centre.shape) * centre
    half[rng.uniform(size=centre.shape) < 0.1] = 0.0
    return Boxes(np.maximum(centre - half, low), np.minimum(centre + half, high))


def float_loss(system, criterion, policies, sources, contexts):
    """Losses `(source, context)` in plain floating point, to find where to look."""
    with np.errstate(invalid="ignore"):
        here = -system.performance(policies, contexts)[:, 0]
        if criterion == "floor":
            return here
        if criterion == "signed":
            return here + system.home_performance(policies, sources)
        best = -system.optimum(contexts)
        regret = np.where(np.isinf(here), np.inf, here - best)
        return regret if criterion == "regret" else regret / best


def attack(
    system,
    criterion,
    low,
    high,
    policies,
    sources,
    boxes,
    rng,
    *,
    n,
    climbs,
    n_exact=None,
):
    """The pairs and contexts that refute the bounds, as 50-digit arithmetic says.

    Args:
        n: random contexts a box.
        climbs: steps of the search for the worst, from the best random one.
        n_exact: how many are judged with 50 digits: those that come closest to their
            bound, beside all that exceed it in floating point. By default all.
    """
    size = boxes.high - boxes.low
    contexts = boxes.low + rng.uniform(size=(n, *size.shape)) * size
    contexts[: n // 4] = np.where(
        rng.uniform(size=contexts[: n // 4].shape) < 0.5, boxes.low, boxes.high
    )
    contexts = np.clip(contexts, boxes.low, boxes.high)
    flat = contexts.reshape(-1, size.shape[1])
    losses = float_loss(system, criterion, policies, sources, flat)
    losses = losses.reshape(-1, *contexts.shape[:2])
    closest = {}
    for s in range(len(losses)):
        for b in range(len(boxes)):
            for side, sign in (("high", 1.0), ("low", -1.0)):
                at = int(np.nanargmax(sign * losses[s, :, b]))
                closest[s, b, side] = (sign * losses[s, at, b], contexts[at, b])
    for step in range(climbs):
        # A few steps from each of the worst, shorter and shorter.
        keys = [key for key in closest for _ in range(TRIES)]
        which = np.array([b for _, b, _ in keys])
        around = np.array([closest[key][1] for key in keys])
        moves = rng.normal(size=around.shape) * size[which] * 0.5 ** (step + 1)
        around = np.clip(around + moves, boxes.low[which], boxes.high[which])
        losses = float_loss(system, criterion, policies, sources, around)
        for i, (s, b, side) in enumerate(keys):
            found = losses[s, i] * (1.0 if side == "high" else -1.0)
            if found > closest[s, b, side][0]:
                closest[s, b, side] = (found, around[i])
    refuted = []
    gains = policies.gain[:, 0]
    room = {
        (s, b, side): high[s, b] - found if side == "high" else -found - low[s, b]
        for (s, b, side), (found, _) in closest.items()
        if np.isfinite((high if side == "high" else low)[s, b])
    }
    # Shares of what is bounded: the last digits of a large cost are no closer call.
    size = {
        key: abs(rest) / (abs(closest[key][0]) + abs(rest) + 1e-300)
        if np.isfinite(rest)
        else float(rest > 0)  # unstable all over the box, or beyond its bound
        for key, rest in room.items()
    }
    nearest = sorted(size, key=size.__getitem__)[:n_exact]
    exceeding = [key for key in room if not room[key] >= 0 and key not in nearest]
    for s, b, side in (*nearest, *exceeding):
        context = closest[s, b, side][1]
        true = loss(system, criterion, gains[s], sources[s], context)
        wrong = true > high[s, b] if side == "high" else true < low[s, b]
        if wrong:
            refuted.append((s, b, side, context, true))
    return refuted


def setting(name, rng, n_sources=2):
    system, low, high = PLANTS[name]
    sources = np.exp(rng.uniform(np.log(low), np.log(high), (n_sources, len(low))))
    gains, solved = system.optimal_gain(sources)
    assert solved.all()
    gains[1:] += 0.1 * rng.normal(size=gains[1:].shape)
    return system, low, high, LinearGain(gains[:, None]), sources


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_context_refutes_a_bound(name, criterion):
    rng = np.random.default_rng([len(name), CRITERIA.index(criterion)])
    system, low, high, policies, sources = setting(name, rng)
    for order, width in ((1, 0.05), (2, 0.2), (2, 1e-6)):
        enclosure = LinearEnclosure(
            system, policies, sources, Question(criterion, epsilon=0.0), order=order
        )
        boxes = some_boxes(rng, low, high, 3, width)
        bounds = enclosure.bounds(boxes)
        assert (bounds[0] <= bounds[1]).all()
        assert not attack(
            system, criterion, *bounds, policies, sources, boxes, rng, n=40, climbs=2
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_context_refutes_a_bound_long(name, criterion):
    rng = np.random.default_rng([7, len(name), CRITERIA.index(criterion)])
    for order in (1, 2):
        for width in WIDTHS:
            system, low, high, policies, sources = setting(name, rng, 3)
            enclosure = LinearEnclosure(
                system, policies, sources, Question(criterion, epsilon=0.0), order=order
            )
            boxes = some_boxes(rng, low, high, N_BOXES, width)
            bounds = enclosure.bounds(boxes)
            assert not attack(
                system,
                criterion,
                *bounds,
                policies,
                sources,
                boxes,
                rng,
                n=N_CONTEXTS,
                climbs=N_CLIMBS,
                n_exact=N_EXACT,
            )


def test_the_long_attack_is_as_long_as_is_said():
    runs = len(PLANTS) * len(CRITERIA) * 2 * len(WIDTHS)
    assert runs * N_BOXES * N_CONTEXTS >= 10**6
    assert runs * N_EXACT >= 10**3


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", ["spring", "discrete"])
def test_bounds_of_half_the_box_are_refuted(name, criterion):
    """Half of every sensitivity: the attack finds it in most boxes."""
    rng = np.random.default_rng(3)
    system, low, high, policies, sources = setting(name, rng)
    enclosure = LinearEnclosure(
        system, policies, sources, Question(criterion, epsilon=0.0)
    )
    boxes = some_boxes(rng, low, high, 6, 0.02)
    quarter = 0.25 * (boxes.high - boxes.low)
    half = Boxes(boxes.low + quarter, boxes.high - quarter)
    bounds = enclosure.bounds(half)
    refuted = attack(
        system, criterion, *bounds, policies, sources, boxes, rng, n=40, climbs=1
    )
    assert len({(s, b) for s, b, *_ in refuted}) >= 8


def test_a_plant_without_its_remainder_is_refuted():
    """1/v linearised at the centre: bounds that forget what is left over are wrong."""
    exact = LinearFamily(
        axes("v"),
        A=lambda v: [[-3 + 1 / v, 1], [0, -4 + 2 / v]],
        B=lambda v: [[0], [1]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    linear = LinearFamily(
        axes("v"),
        A=lambda v: [[-3 + (2 - v), 1], [0, -4 + 2 * (2 - v)]],
        B=lambda v: [[0], [1]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    sources = np.array([[1.0]])
    policies = LinearGain(exact.optimal_gain(sources)[0][:, None])
    boxes = Boxes(np.array([[0.97]]), np.array([[1.03]]))
    rng = np.random.default_rng(0)
    refuted = {}
    for name, family in (("exact", exact), ("linear", linear)):
        bounds = LinearEnclosure(
            family, policies, sources, Question("floor", epsilon=0.0)
        ).bounds(boxes)
        refuted[name] = attack(
            exact, "floor", *bounds, policies, sources, boxes, rng, n=20, climbs=0
        )
    assert refuted["linear"]
    assert not refuted["exact"]


def test_vertices_do_not_suffice():
    """The input gain peaks inside the box, where the least cost is least."""
    family = LinearFamily(
        axes("s"),
        A=lambda s: [[1]],
        B=lambda s: [[1 + 0.5 * (1 - (s - 2) * (s - 2) * (s - 2) * (s - 2))]],
        Q=[[1.0]],
        R=[[1.0]],
    )
    box = Boxes(np.array([[1.0]]), np.array([[3.0]]))
    vertices = min(optimal_cost(family, [s]) for s in (1.0, 3.0))
    inside = optimal_cost(family, [2.0])
    # The rule of the vertices claims a least cost that the centre refutes.
    assert inside < vertices
    zero = LinearGain(np.array([[[[4.0]]]]))
    for low, high in ((1.0, 3.0), (1.9, 2.1), (1.2, 1.5)):
        box = Boxes(np.array([[low]]), np.array([[high]]))
        enclosure = LinearEnclosure(
            family, zero, np.array([[2.0]]), Question("regret", epsilon=0.0)
        )
        bounds = enclosure.bounds(box)
        for s in np.linspace(low, high, 9):
            true = cost(family, np.array([[4.0]]), [s]) - optimal_cost(family, [s])
            assert bounds[0][0, 0] <= true <= bounds[1][0, 0]


def test_plain_floating_point_is_refuted():
    """Where loops are nearly unstable, rounding moves a cost by more than itself."""
    system, low, high = PLANTS["spring"]
    rng = np.random.default_rng(5)
    sources = np.exp(rng.uniform(np.log(low), np.log(high), (20, 2)))
    gains, _ = system.optimal_gain(sources)
    policies = LinearGain(gains[:, None])
    plain = -system.home_performance(policies, sources)[:, 0]
    enclosure = LinearEnclosure(
        system, policies, sources, Question("floor", epsilon=0.0)
    )
    boxes = Boxes.points(sources)
    low_bound, high_bound = (np.diagonal(x) for x in enclosure.bounds(boxes))
    true = [cost(system, gains[i], sources[i]) for i in range(20)]
    wrong = sum(mp.mpf(float(plain[i])) != true[i] for i in range(20))
    below = sum(mp.mpf(float(plain[i])) > true[i] for i in range(20))
    assert wrong >= 15  # used as a bound it would be false on one side or the other
    assert 2 <= below <= 18
    for i in range(20):
        assert low_bound[i] <= true[i] <= high_bound[i]
        assert high_bound[i] - low_bound[i] <= 1e-9 * high_bound[i]
