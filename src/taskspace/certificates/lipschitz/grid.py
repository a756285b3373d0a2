r"""From covered nodes to a covered box: the margin rule.

$loss(node) \le \epsilon - \Lambda \delta$ ⇒ loss ≤ ε on the node's whole cell, with Λ
a two-point Lipschitz constant of the loss there and δ the reach of the cell.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from taskspace._util.arrays import Array
from taskspace.certificates.statements.claims import Certificate, CertificateKind
from taskspace.certificates.statements.words import margin_sentence
from taskspace.errors import InvalidInputError
from taskspace.spaces import Space

# Enlarges δ and Λδ by far more than rounding takes off them.
ENLARGE = 1 + 1e-12


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


def places(space: Space) -> tuple[tuple[Array, ...], tuple[NDArray[np.intp], ...]]:
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


def cell_radii(grid: Space) -> Array:
    """Return how far each node's cell reaches on each axis, shape `(node, axis)`.

    The cell of a node holds the contexts of the box that are nearer to it than to
    any other node of the axis: up to half way to its neighbours.

    Args:
        grid: all combinations of some values of each axis.
    """
    values, index = places(grid)
    reaches = []
    for v, place in zip(values, index, strict=True):
        half = np.diff(v) / 2
        before = np.concatenate([[0.0], half])
        after = np.concatenate([half, [0.0]])
        reaches.append((np.maximum(before, after) * ENLARGE)[place])
    return np.stack(reaches, -1)


@dataclass(frozen=True)
class MarginRule:
    """What the margin rule certifies.

    Args:
        certificate: holds iff every node's cell is certified.
        certified: which nodes' cells are.
        margin: Λδ of each node, for the source that serves its cell best.
    """

    certificate: Certificate
    certified: NDArray[np.bool_]
    margin: Array


def margin_rule(
    grid: Space,
    losses: ArrayLike,
    epsilon: float,
    rates: ArrayLike,
    *,
    kind: CertificateKind,
    basis: str,
) -> MarginRule:
    """Return which cells are covered because their node is, with a margin.

    Args:
        grid: of the targets.
        losses: of the selected sources at each node, shape `(source, node)`; one of
            them must keep the margin.
        epsilon: tolerance.
        rates: Λ, two-point Lipschitz constants of those losses: one number for the
            Euclidean norm, or one for each axis, which may differ from node to node
            (`(node, axis)`) and by source (`(source, node, axis)`). A rate of a node
            must hold on its whole cell.
        kind: `"proof"` if Λ is known to hold, `"estimate"` if it was estimated.
        basis: where Λ comes from.
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
    best = total.argmin(0)
    nodes = np.arange(grid.size)
    certified = total[best, nodes] <= epsilon
    margin = np.broadcast_to(margin, total.shape)[best, nodes]
    n_open = int((~certified).sum())
    values = {
        "epsilon": epsilon,
        "n_nodes": grid.size,
        "n_open": n_open,
        "largest_margin": float(margin.max()),
        "largest_loss": float(loss.min(0).max()),
    }
    holds = n_open == 0
    why = margin_sentence(n_open, basis, is_estimate=kind == "estimate")
    return MarginRule(
        Certificate(
            "margin rule", holds, kind, why, values, "every context of the box"
        ),
        certified,
        margin,
    )


def estimate_rates(grid: Space, losses: ArrayLike, *, safety: float = 1.5) -> Array:
    """Estimate Λ around each node: the largest step to or beside a neighbour.

    A sample can miss the steepest place, so what rests on it is an estimate.

    Args:
        grid: of the targets.
        losses: of some sources at the nodes, shape `(source, node)`.
        safety: factor on what was seen.

    Returns:
        Rates with dims `(source, node, axis)`; infinite next to a failure.
    """
    axes, index = places(grid)
    rows = np.atleast_2d(np.asarray(losses, np.float64))
    values = np.empty((len(rows), *map(len, axes)))
    values[:, *index] = rows
    rates = np.zeros((*values.shape, len(axes)))
    for i, axis in enumerate(axes):
        n = len(axis)
        if n == 1:
            continue
        shape = [1] * values.ndim
        shape[i + 1] = n - 1
        with np.errstate(invalid="ignore"):
            step = np.abs(np.diff(values, axis=i + 1))
        step = np.where(np.isnan(step), np.inf, step)
        quotient = step / np.diff(axis).reshape(shape)
        # Each node takes the steps on both sides, then the largest around it.
        ends = [(0, 0)] * values.ndim
        ends[i + 1] = (1, 1)
        padded = np.pad(quotient, ends)
        both = np.maximum(
            np.take(padded, np.arange(n), i + 1),
            np.take(padded, np.arange(1, n + 1), i + 1),
        )
        size = [1] + [3] * len(axes)
        rates[..., i] = safety * ndimage.maximum_filter(both, size, mode="nearest")
    return rates[:, *index]
