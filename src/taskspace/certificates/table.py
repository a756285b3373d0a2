r"""What a table says: of its own targets, and with a Lipschitz constant between them.

The margin rule: $loss(node) \le \epsilon - \Lambda \delta$ ⇒ loss ≤ ε on the node's
whole cell, with Λ a two-point Lipschitz constant of the loss there and δ the reach of
the cell. A constant that two known losses contradict proves nothing, so it is refused
with the two contexts. One that nothing contradicts is as good as the user's word.
"""

from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.case import Case
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    caution_sentence,
    claim,
    claim_on,
    context_words,
    count,
    on_table,
)
from taskspace.cover.cover import assigned_errors, no_reference_words
from taskspace.errors import InvalidInputError
from taskspace.measured import coarse_sentence
from taskspace.performance import row_blocks
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS

# Losses and evaluations of J err by this share of the scores, far above rounding.
EVALUATION_SLACK = 1e-9
# Enlarges δ and Λδ by far more than rounding takes off them.
ENLARGE = 1 + 1e-12


def losses_and_slack(
    table: xr.Dataset, question: Question, sources: NDArray[np.integer]
) -> tuple[Array, Array]:
    """Return losses of some sources, and what rounding may have done to them.

    Args:
        table: a performance table.
        question: which losses.
        sources: rows of the table.
    """
    losses = question.losses_of(table, sources)
    size, rule = np.abs(losses), question.rule
    if rule.is_relative:
        size = size + 2.0
    elif rule.compares_with_best:
        size = size + 2 * np.abs(table["best_known"].values)
    elif rule.compares_with_home:
        home = np.abs(table["home_performance"].values[sources])
        home = np.where(np.isfinite(home), home, 0.0).max(1)
        size = size + 2 * home[:, None]
    return losses, np.where(np.isfinite(size), EVALUATION_SLACK * size, 0.0)


def certify_grid(case: Case) -> list[Certificate]:
    """Say what a cover of the table's targets is worth.

    Args:
        case: what there is to certify with.
    """
    cover, question, where = case.cover, case.question, on_table(case.provenance)
    regret = question.as_regret().assigned_losses(case.table, cover.assignment)
    compared = ~np.isnan(case.table["best_known"].values)
    worst = float(regret[(cover.assignment >= 0) & compared].max(initial=0.0))
    n_lacking = len(question.without_reference(case.table))
    errors = assigned_errors(question, case.table, cover.assignment)
    n_served = int((cover.assignment >= 0).sum())
    n_left = cover.n_targets - n_served - len(cover.uncoverable)
    values = {
        **question.to_dict(),
        "size": cover.size,
        "lower_bound": cover.lower_bound,
        "optimal": cover.optimal,
        "sources": cover.sources,
        "coverage": cover.coverage,
        "n_sources": cover.n_sources,
        "n_targets": cover.n_targets,
        "n_uncoverable": len(cover.uncoverable),
        "n_without_reference": n_lacking,
        "worst_regret": worst,
    }
    if n_served == cover.n_targets:
        whom = f"every target{'' if where else ' of the table'}"
    else:
        only = "only " if n_left or not len(cover.uncoverable) else ""
        whom = f"{only}{n_served:,} of {count(cover.n_targets, 'target')}"
    if question.error is not None:
        whom += f" measured with {question.error.words} (of the targets within that)"
    few = "the fewest possible" if cover.optimal else f"at least {cover.lower_bound:g}"
    serve = "serves" if cover.size == 1 else "serve"
    parts = [f"{count(cover.size, 'source')} {serve} {whom}{where}, {few}."]
    if cover.stop_reason == "time limit":
        parts.append("The time limit ended the search for fewer.")
    if n_lacking:
        parts.append(no_reference_words(n_lacking))
    if n_missing := len(cover.uncoverable) - n_lacking:
        are = "is" if n_missing == 1 else "are"
        parts.append(f"{count(n_missing, 'target')} {are} served by no source.")
    if question.rule.compares_with_home and worst > question.epsilon:
        parts.append(
            f"They leave a regret of {worst:.4g}, more than epsilon: signed compares "
            "with the source's own score."
        )
    parts.append(caution_sentence(case.study.system, question))
    if errors is not None and not np.isnan(errors).all():
        error = values["standard_error"] = float(np.nanmax(errors))
        parts.append(f"Standard error of its scores: up to {error:.4g}.")
    parts.append(coarse_sentence(question.error, case.study.targets))
    bounds = (
        Bound("lower", cover.lower_bound, "nodes", "table"),
        Bound("upper", cover.size, "nodes", "table"),
    )
    certificate = Certificate(
        "grid cover",
        n_served == cover.n_targets,
        claim_on(case.table, question),
        " ".join(part for part in parts if part),
        values,
        PROVENANCE_WORDS[case.provenance].table,
        () if n_left else bounds,
    )
    return [certificate]


def margin_rule(
    grid: Space, losses: ArrayLike, epsilon: float, rates: ArrayLike
) -> NDArray[np.bool_]:
    """Return which cells are covered because their node is, with a margin.

    The cell of a node holds the contexts of the box up to half way to its neighbours.

    Args:
        grid: of the targets.
        losses: of the selected sources at each node, shape `(source, node)`; one of
            them must keep the margin.
        epsilon: tolerance.
        rates: Λ, two-point Lipschitz constants of those losses: one number for the
            Euclidean norm, or one for each axis.
    """
    if np.isnan(epsilon):
        raise InvalidInputError("epsilon must be a number, but got NaN.")
    loss = np.atleast_2d(np.asarray(losses, np.float64))
    if loss.shape[1:] != (grid.size,) or np.isnan(loss).any():
        raise InvalidInputError(
            f"losses must hold a number for each of {grid.size} nodes, but have "
            f"shape {loss.shape}."
        )
    margin = _margins(cell_radii(grid), np.asarray(rates, np.float64)) * ENLARGE
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(margin), False, loss.min(0) + margin <= epsilon)


def _margins(reach: Array, rates: Array) -> Array:
    """Return how much a loss may change over each row of steps along the axes."""
    if not (rates >= 0).all():
        raise InvalidInputError(f"rates >= 0 must hold, but got {rates.min()}.")
    return reach @ rates if rates.ndim else np.linalg.norm(reach, axis=1) * rates


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
    rates = _target_rates(case)
    certified = margin_rule(grid, losses, question.epsilon, rates)
    n_open = int((~certified).sum())
    parts = [
        f"{n_open} cells are open: their nodes keep no margin of Λδ."
        if n_open
        else "Every node keeps a margin of Λδ, so every context is within epsilon.",
        "Λ as given, if it holds (no two targets of a cell of the grid contradict it).",
        PROVENANCE_WORDS[provenance].caution,
        case.enclosure[1],
    ]
    values = {
        **question.to_dict(),
        "n_nodes": grid.size,
        "n_open": n_open,
        "largest_margin": float(_margins(cell_radii(grid), rates).max()) * ENLARGE,
        "largest_loss": float(losses.min(0).max()),
        "size": cover.size,
        "share_certified": float(certified.mean()),
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
        case: what there is to certify with.
    """
    targets = case.study.targets
    if case.rates is None or targets is None:
        return
    rates, points = _target_rates(case), targets.points
    if axis_values(targets) is None:
        return  # then nothing is shown with them
    exact = case.question.measured_with(None)
    first, second = _neighbours(targets)
    steps = points[first] - points[second]
    margin = _margins(np.abs(steps), rates)
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
