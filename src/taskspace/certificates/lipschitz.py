r"""What Lipschitz constants of the loss show between the nodes of a grid.

The margin rule: $loss(node) \le \epsilon - \Lambda \delta$ ⇒ loss ≤ ε on the node's
whole cell, with Λ a two-point Lipschitz constant of the loss there and δ the reach of
the cell. A constant that two known losses contradict proves nothing, so it is refused
with the two contexts. One that nothing contradicts is as good as the user's word.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.case import Case
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    claim,
    context_words,
)
from taskspace.certificates.table import EVALUATION_SLACK, losses_and_slack
from taskspace.errors import InvalidInputError
from taskspace.performance import row_blocks
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS

# Enlarges δ and Λδ by far more than rounding takes off them.
ENLARGE = 1 + 1e-12


class MarginRule(NamedTuple):
    """What the margin rule certifies.

    Args:
        certified: the nodes whose cells are served.
        margin: Λδ of each node, for the source that serves its cell best.
        largest_loss: the largest loss at a node.
    """

    certified: NDArray[np.bool_]
    margin: Array
    largest_loss: float


def margin_rule(
    grid: Space, losses: ArrayLike, epsilon: float, rates: ArrayLike
) -> MarginRule:
    """Return which cells are covered because their node is, with a margin.

    The cell of a node holds the contexts of the box up to half way to its neighbours.

    Args:
        grid: of the targets.
        losses: of the selected sources at each node, shape `(source, node)`; one of
            them must keep the margin.
        epsilon: tolerance.
        rates: Λ, two-point Lipschitz constants of those losses: one number for the
            Euclidean norm, or one for each axis, which may differ from node to node
            (`(node, axis)`) and by source (`(source, node, axis)`). A rate of a node
            must hold on its whole cell.
    """
    if np.isnan(epsilon):
        raise InvalidInputError("epsilon must be a number, but got NaN.")
    loss = np.atleast_2d(np.asarray(losses, np.float64))
    slope = np.asarray(rates, np.float64)
    if loss.shape[1:] != (grid.size,) or np.isnan(loss).any():
        raise InvalidInputError(
            f"losses must hold a number for each of {grid.size} nodes, but have "
            f"shape {loss.shape}."
        )
    if not (slope >= 0).all():
        raise InvalidInputError(f"rates >= 0 must hold, but got {slope.min()}.")
    reach = cell_radii(grid)
    if slope.ndim == 0:
        margin = np.linalg.norm(reach, axis=1) * slope * ENLARGE
    else:
        margin = (reach * slope).sum(-1) * ENLARGE
    with np.errstate(invalid="ignore"):
        total = np.where(np.isinf(margin), np.inf, loss + margin)
    best, nodes = total.argmin(0), np.arange(grid.size)
    margin = np.broadcast_to(margin, total.shape)[best, nodes]
    largest = float(loss.min(0).max())
    return MarginRule(total[best, nodes] <= epsilon, margin, largest)


def cell_radii(grid: Space) -> Array:
    """Return how far each node's cell reaches on each axis, shape `(node, axis)`.

    Args:
        grid: all combinations of some values of each axis.
    """
    values, index = _places(grid)
    reaches = []
    for v, place in zip(values, index, strict=True):
        half = np.concatenate([[0.0], np.diff(v) / 2, [0.0]])
        reaches.append((np.maximum(half[:-1], half[1:]) * ENLARGE)[place])
    return np.stack(reaches, -1)


def certify_margin(case: Case) -> Certificate:
    """Say which cells are served because their nodes are, with a margin.

    Args:
        case: what there is to certify with.
    """
    name, scope = "continuum cover", "every context of the box"
    grid, cover, missing = case.study.targets, case.cover, _missing(case)
    if grid is None or missing:
        why = f"{missing} {case.enclosure[1]}".strip()
        return Certificate(name, False, "vacuous", why)
    question, provenance = case.question, case.provenance
    losses = question.losses_of(case.table, cover.sources)
    rule = margin_rule(grid, losses, question.epsilon, _target_rates(case))
    n_open = int((~rule.certified).sum())
    parts = [
        f"{n_open} cells are open: their nodes keep no margin of Λδ."
        if n_open
        else "Every node keeps a margin of Λδ, so every context is within epsilon.",
        f"Λ as given, if it holds ({case.rate_check}).",
        PROVENANCE_WORDS[provenance].caution,
        case.enclosure[1],
    ]
    values = {
        **question.to_dict(),
        "n_nodes": grid.size,
        "n_open": n_open,
        "largest_margin": float(rule.margin.max()),
        "largest_loss": rule.largest_loss,
        "size": cover.size,
        "share_certified": float(rule.certified.mean()),
    }
    bounds = () if n_open else (Bound("upper", cover.size, "box", "table"),)
    if provenance != "exact":
        scope = f"{scope}, by {PROVENANCE_WORDS[provenance].table}"
    why = " ".join(part for part in parts if part)
    return Certificate(name, not n_open, claim(provenance), why, values, scope, bounds)


def _missing(case: Case) -> str:
    """Return what a statement about the space between targets lacks, or nothing."""
    grid = case.study.targets
    if case.question.error is not None:
        return (
            "A statement about contexts that are measured between the targets needs "
            "bounds over boxes, but there are none here. The cover of the targets "
            "holds for the targets within the error."
        )
    if grid is None:
        return (
            "A statement about the space between targets needs their contexts, but "
            "they have none. Give them with contexts=... (--read 'contexts=\"FILE\"')."
        )
    if not case.cover.size:
        return "No source serves any target, so nothing is covered."
    if case.rates is None:
        return (
            "Nothing is shown between the targets: that takes bounds over boxes or a "
            "Lipschitz constant that you know (rates=...). A share of all contexts can "
            "be shown by drawing some (distribution=..., --distribution uniform)."
        )
    if axis_values(grid) is None:
        return (
            "Targets must be a grid over a box for a statement about the space between "
            f"them, but these {grid.size} are not all combinations of values of "
            f"{', '.join(grid.names)}."
        )
    return ""


def check_given_rates(case: Case) -> None:
    """Refuse Lipschitz constants that two targets of one cell of the grid contradict.

    With one constant per axis, or on a line, these stand for all pairs: between any
    two nodes there is a way of steps along the axes that is as long as their distance.

    Args:
        case: gets a clause on how its constants were compared with the table.
    """
    targets = case.study.targets
    if case.rates is None or targets is None:
        return
    rates, points = _target_rates(case), targets.points
    if axis_values(targets) is None:
        case.rate_check = (
            "its targets are no grid, so it was not compared with the table"
        )
        return
    exact = case.question.measured_with(None)
    first, second = _neighbours(targets)
    steps = points[first] - points[second]
    if rates.ndim:
        margin = np.abs(steps) @ rates
    else:
        margin = np.linalg.norm(steps, axis=1) * rates
    for rows in row_blocks(case.table):
        sources = np.arange(case.study.n_sources)[rows]
        losses, slack = losses_and_slack(case.table, exact, sources)
        with np.errstate(invalid="ignore"):
            step = np.abs(losses[:, first] - losses[:, second])
        allowed = margin * (1 + EVALUATION_SLACK) + slack[:, first] + slack[:, second]
        for row, pair in np.argwhere(step > allowed)[:1].tolist():
            i, j = int(first[pair]), int(second[pair])
            at, to = (context_words(targets.context(x), targets.names) for x in (i, j))
            slope = step[row, pair] / float(np.linalg.norm(steps[pair]))
            raise InvalidInputError(
                "A Lipschitz constant must bound every slope of the loss, but "
                f"{rates.tolist()} does not: source {sources[row]} loses "
                f"{losses[row, i]:.6g} at {at} and {losses[row, j]:.6g} at {to}, a "
                f"slope of {slope:.6g}. Give one that holds for every source, or none."
            )
    case.rate_check = "no two targets of a cell of the grid contradict it"


def _target_rates(case: Case) -> Array:
    """Return the given constants, of the axes of the targets alone."""
    targets, system = case.study.targets, case.study.system
    assert targets is not None
    names = list(targets.names)
    if system is not None:
        names = [axis.name for axis in system.axes]
    rates = np.asarray(case.rates, np.float64)
    is_fine = np.isfinite(rates).all() and (rates >= 0).all()
    if rates.shape not in ((), (len(names),)) or not is_fine:
        raise InvalidInputError(
            "rates must be one number >= 0, or one for each axis "
            f"({', '.join(names)}), but got {case.rates}."
        )
    return rates[[names.index(n) for n in targets.names]] if rates.ndim else rates


def _neighbours(targets: Space) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all pairs of nodes of one cell, along the axes and across."""
    values, index = _places(targets)
    number = np.empty(tuple(map(len, values)), np.int64)
    number[index] = np.arange(targets.size)
    sides = {
        -1: (slice(1, None), slice(None, -1)),
        0: (slice(None), slice(None)),
        1: (slice(None, -1), slice(1, None)),
    }
    pairs = []
    for step in product((-1, 0, 1), repeat=number.ndim):
        if step > (0,) * number.ndim:  # one of each two opposite ways
            here, there = zip(*(sides[s] for s in step), strict=True)
            pairs.append((number[here].ravel(), number[there].ravel()))
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return first, second


def axis_values(space: Space) -> tuple[Array, ...] | None:
    """Return the values of each axis if the contexts are all combinations of them.

    Steps need not be even, and the contexts may be in any order. None for others.

    Args:
        space: contexts.
    """
    values = tuple(np.unique(column) for column in space.points.T)
    if np.prod([float(len(v)) for v in values]) != space.size:
        return None
    return values if len(np.unique(space.points, axis=0)) == space.size else None


def _places(space: Space) -> tuple[tuple[Array, ...], tuple[NDArray[np.intp], ...]]:
    """Return the values of the axes, and where on them each context is.

    Args:
        space: all combinations of some values of each axis.
    """
    values = axis_values(space)
    if values is None:
        raise InvalidInputError(
            "Contexts must be all combinations of some values of each axis for a "
            f"statement about the space between them, but these {space.size} are not."
        )
    columns = zip(values, space.points.T, strict=True)
    return values, tuple(np.searchsorted(v, column) for v, column in columns)
