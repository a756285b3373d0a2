"""Gains at the breakpoints of a schedule that are designed, not taken from sources.

The interpolated gain at a target is a weighted mean of the gains at the vertices, so
the slope of a target's loss in them is that of its own gain times the weights. The
worst loss over all targets is softened as in `trainers.minimax` and lowered by BFGS.
"""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import scipy.optimize

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.designs import bound_all_gains
from taskspace.designs.case import DesignCase
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.schedules.table import Scale, interpolate, place
from taskspace.spaces import Grid, Points
from taskspace.systems.linear import LinearSystem
from taskspace.trainers.minimax import GainRegion

TEMPERATURES = (0.1, 0.03, 0.01, 0.003, 0.001)
STEPS = 60
N_LINES = 9


def vertex_weights(
    breakpoints: Sequence[Array], scales: Sequence[Scale], rows: Array
) -> Array:
    """Return the weight of each vertex at each context, `(context, vertex)`.

    Args:
        breakpoints: of each axis.
        scales: of each axis.
        rows: contexts, one column per axis.
    """
    shape = tuple(map(len, breakpoints))
    units = np.eye(int(np.prod(shape))).reshape(*shape, -1)
    places = [
        place(rows[:, a], values, scale)
        for a, (values, scale) in enumerate(zip(breakpoints, scales, strict=True))
    ]
    return interpolate(units, places)


def lower_worst(
    region: GainRegion, weights: Array, gains: Array, *, stop_at: float, clock: Clock
) -> tuple[Array, float]:
    """Return gains at the vertices with a smaller worst loss, and that loss.

    Args:
        region: the targets and their losses.
        weights: of the vertices at the targets.
        gains: to begin with, shape `(vertex, n_inputs, n_states)`.
        stop_at: a worst loss that is good enough.
        clock: ends the descent.
    """
    size = np.abs(gains).max(0)
    size = np.where(size > 0, size, max(1.0, float(size.max())))
    best = [gains, np.inf]

    def losses(x: Array) -> tuple[Array, Array, Array]:
        own = x.reshape(gains.shape) * size
        each = np.tensordot(weights, own, 1)
        loss, X = region.pair_losses(each)
        worst = float(loss.max())
        if worst < best[1]:
            best[:] = own, worst
        return loss, X, each

    def soft(x: Array, temperature: float) -> tuple[float, Array]:
        loss, X, each = losses(x)
        if not np.isfinite(loss).all():
            return 1e300, np.zeros(x.shape)
        part = np.exp((loss - loss.max()) / temperature)
        slope = region.slopes(each, X) * (part / part.sum())[:, None, None]
        total = np.tensordot(weights.T, slope, 1) * size
        value = float(loss.max() + temperature * np.log(part.sum()))
        return value, np.asarray(total.ravel(), np.float64)

    first = losses((gains / size).ravel())[0]
    if not np.isfinite(first).all():
        return gains, np.inf
    spread = max(float(np.ptp(first)), 1e-9 * abs(float(first.max())))
    for temperature in TEMPERATURES:
        if best[1] <= stop_at or clock.left <= 0 or spread == 0:
            break
        scipy.optimize.minimize(
            soft,
            (best[0] / size).ravel(),
            (temperature * spread,),
            jac=True,
            method="BFGS",
            options={"maxiter": STEPS},
        )
    return best[0], best[1]


def design_schedule(
    system: LinearSystem,
    question: Question,
    targets: Grid,
    breakpoints: Sequence[Array],
    gains: Array,
    scales: Sequence[Scale],
    clock: Clock,
) -> tuple[list[Array], Array]:
    """Return breakpoints and gains of the smallest schedule that a descent finds.

    Shapes with fewer vertices than a schedule that serves are tried, the least first,
    with breakpoints that are some of its own or evenly spread, and the optimal gains
    there to begin with.

    Args:
        system: the plant.
        question: what is asked.
        targets: where it must serve.
        breakpoints: of a schedule that serves.
        gains: of it, shape `(*shape, n_inputs, n_states)`.
        scales: of each axis.
        clock: ends the search.
    """
    region = DesignCase.of(system, targets, question, None).region_of(targets)
    shape = tuple(map(len, breakpoints))
    shapes = product(*(range(1, n + 1) for n in shape))
    fewer = [s for s in shapes if np.prod(s) < np.prod(shape)]
    for counts in sorted(fewer, key=lambda s: (np.prod(s), s)):
        if clock.left <= 0:
            break
        choices = [
            [*map(np.array, combinations(own, n)), *_spread(axis.values, own, n, scale)]
            for n, own, axis, scale in zip(
                counts, breakpoints, targets.axes, scales, strict=True
            )
        ]
        for at in product(*choices):
            mesh = np.stack(np.meshgrid(*at, indexing="ij"), -1).reshape(-1, len(at))
            start, _ = system.optimal_gain(system.contexts(Points(targets.names, mesh)))
            weights = vertex_weights(at, scales, targets.points)
            found, worst = lower_worst(
                region, weights, start, stop_at=0.99 * question.epsilon, clock=clock
            )
            if worst <= question.epsilon:
                return list(at), found.reshape(*counts, *found.shape[1:])
            if clock.left <= 0:
                break
    return list(breakpoints), gains


def _spread(values: Array, own: Array, n: int, scale: Scale) -> list[Array]:
    """Return n breakpoints evenly over a range, none where the schedule has n."""
    if n == len(own):
        return []
    ends = np.log(values[[0, -1]]) if scale == "log" else values[[0, -1]]
    shares = np.array([0.5]) if n == 1 else np.linspace(0, 1, n)
    at = ends[0] + shares * (ends[1] - ends[0])
    return [np.exp(at) if scale == "log" else at]


def bound_of_lines(
    system: LinearSystem,
    question: Question,
    names: Sequence[str],
    values: Sequence[Array],
    clock: Clock,
) -> int:
    """Return 2^m: no schedule of any state feedback gains has fewer vertices.

    m counts the axes along which some line of targets is served by no single gain: one
    breakpoint there would make the gain constant along that line.

    Args:
        system: the plant.
        question: what is asked.
        names: of the axes.
        values: targets on each axis.
        clock: ends the search.
    """
    m = 0
    for a, own in enumerate(values):
        if len(own) < 2:
            continue
        others = [x[[0, len(x) // 2, -1]] for b, x in enumerate(values) if b != a]
        for fixed in list(product(*others))[:N_LINES]:
            rows = np.empty((len(own), len(names)))
            rows[:, a] = own
            rows[:, [b for b in range(len(names)) if b != a]] = fixed
            line = Points(list(names), rows)
            limit = max(0.2, clock.left / (2 * N_LINES))
            try:
                bound = bound_all_gains(
                    system, line, question, goal=2, time_limit=limit
                )
            except InvalidInputError:  # a question without such a bound
                return 1
            if bound.value >= 2:
                m += 1
                break
    return 2**m
