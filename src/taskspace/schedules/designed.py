"""Gains at the breakpoints of a schedule that are designed, not taken from sources.

The interpolated gain at a target is a weighted mean of the gains at the vertices.
`taskspace.trainers.minimax` moves these to lower the worst loss over all targets.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import prod

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.designs import bound_all_gains
from taskspace.designs.problem import DesignProblem
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.schedules.search import Cells
from taskspace.schedules.table import Scale, Schedule
from taskspace.spaces import Grid, Points
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.trainers.minimax import design_gains

N_LINES = 9


def design_schedule(cells: Cells, made: Schedule, clock: Clock) -> Schedule:
    """Return the smallest schedule of designed gains that a descent finds.

    Shapes with fewer vertices than a schedule that serves are tried, the least first,
    with breakpoints that are some of its own or evenly spread, and the optimal gains
    there to begin with.

    Args:
        cells: what is known of the candidates.
        made: the schedule of candidates with the fewest vertices.
        clock: ends the search.
    """
    system, question, targets = cells.system, cells.question, cells.targets
    is_plain = not question.also and question.error is None
    if (
        not isinstance(system, LinearSystem)
        or not made.structure.is_gain
        or not is_plain
    ):
        raise InvalidInputError(
            "design=True designs state feedback gains of linear families, for one "
            "demand and contexts that are known exactly."
        )
    region = DesignProblem.of(system, targets, question).region_of(targets)
    low = bound_of_lines(system, question, targets, clock)
    best = replace(made, size_of_candidates=made.size)
    for at in _smaller_grids(made, targets):
        if clock.left <= 0:
            break
        shape = tuple(map(len, at.values()))
        points = Grid(**at).points
        start, _ = system.optimal_gain(system.contexts(Points(targets.names, points)))
        units = np.eye(prod(shape)).reshape(*shape, -1)
        weights = replace(made, breakpoints=at, gains=units).numbers_at(targets.points)
        found = design_gains(
            region,
            start,
            np.ones(start.shape[1:], bool),
            weights=weights,
            stop_at=0.99 * question.epsilon,
            should_stop=lambda: clock.left <= 0,
        )
        if found.worst <= question.epsilon:
            best = replace(best, breakpoints=at, gains=found.gains.reshape(*shape, -1))
            break
    return replace(
        best,
        lower_bound=low,
        optimal=low >= best.size,
        bound_of="any state feedback gains at any breakpoints",
    )


def _smaller_grids(made: Schedule, targets: Grid) -> Iterator[dict[str, Array]]:
    """Yield breakpoints of fewer vertices than a schedule has, the fewest first."""
    shapes = product(*(range(1, n + 1) for n in made.shape))
    fewer = [shape for shape in shapes if prod(shape) < made.size]
    for shape in sorted(fewer, key=lambda s: (prod(s), s)):
        choices = []
        for n, axis in zip(shape, targets.axes, strict=True):
            own, scale = made.breakpoints[axis.name], made.interpolation[axis.name]
            choices.append([np.array(some) for some in combinations(own, n)])
            if n < len(own):
                choices[-1].append(_evenly(axis.values, n, scale))
        for at in product(*choices):
            yield dict(zip(targets.names, at, strict=True))


def _evenly(values: Array, n: int, scale: Scale) -> Array:
    """Return n breakpoints evenly over a range."""
    ends = np.log(values[[0, -1]]) if scale == "log" else values[[0, -1]]
    shares = np.array([0.5]) if n == 1 else np.linspace(0, 1, n)
    at = ends[0] + shares * (ends[1] - ends[0])
    return np.exp(at) if scale == "log" else at


def bound_of_lines(
    system: System, question: Question, targets: Grid, clock: Clock
) -> int:
    """Return 2^m: no schedule of any state feedback gains has fewer vertices.

    m counts the axes along which some line of targets is served by no single gain: one
    breakpoint there would make the gain constant along that line.

    Args:
        system: the plant.
        question: what is asked.
        targets: where it must serve.
        clock: ends the search.
    """
    if not isinstance(system, LinearSystem) or question.also:
        return 1
    question, m = question.measured_with(None), 0
    values = [np.unique(axis.values) for axis in targets.axes]
    for a, own in enumerate(values):
        if len(own) < 2:
            continue
        others = [x[[0, len(x) // 2, -1]] for b, x in enumerate(values) if b != a]
        for fixed in list(product(*others))[:N_LINES]:
            rows = np.insert(np.tile(fixed, (len(own), 1)), a, own, axis=1)
            try:
                bound = bound_all_gains(
                    system,
                    Points(targets.names, rows),
                    question,
                    goal=2,
                    time_limit=max(0.2, clock.left / (2 * N_LINES)),
                )
            except InvalidInputError:  # a question without such a bound
                return 1
            if bound.value >= 2:
                m += 1
                break
    return 2**m
