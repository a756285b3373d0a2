r"""Criteria: what a source loses at a target, and the tolerance sets that follow.

A criterion turns a performance table into one loss matrix `(source, target)`; a
source serves a target within ε iff `loss <= epsilon`.

| criterion | loss of policy π of source s at target t |
|---|---|
| `signed` | J(s, π) − J(t, π): the paper's divergence D, relative to π's own score |
| `regret` | best known J at t − J(t, π) |
| `ratio` | cost at t / best known cost at t − 1, for J = −cost < 0 |
| `floor` | −J(t, π): "at least this good" |

`family="all"` takes the worst policy of the source's family (the paper's sup),
`family="any"` the best one. See docs/theory.md, "Criteria".
"""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.table import REDUCTIONS, family_rows, row_blocks
from taskspace.sets import TargetSets, pack

__all__ = [
    "CRITERIA",
    "assigned_regret",
    "check_criterion",
    "check_epsilon",
    "loss",
    "loss_blocks",
    "loss_rows",
    "table_sets",
    "tolerance_sets",
]

CRITERIA = ("signed", "regret", "ratio", "floor")


def loss(table: xr.Dataset, criterion: str, family: str = "all") -> xr.DataArray:
    r"""Loss of every source at every target.

    For `signed` and `family="all"` this is the paper's signed divergence,
    $D(s; t) = \max_{\pi \in \Pi(s)} J(s, \pi) - J(t, \pi)$, zero on the diagonal.

    Args:
        table: a performance table.
        criterion: one of `CRITERIA`.
        family: `"all"` for the worst policy of a family, `"any"` for the best.

    Returns:
        Loss with dims `(source, target)`, +inf where a policy fails.
    """
    losses = np.empty((table.sizes["source"], table.sizes["target"]))
    for rows, block in loss_blocks(table, criterion, family):
        losses[rows] = block
    return xr.DataArray(
        losses,
        dims=("source", "target"),
        coords={n: c for n, c in table.coords.items() if c.dims != ("policy",)},
        name="loss",
        attrs={"criterion": criterion, "family": family},
    )


def loss_blocks(
    table: xr.Dataset, criterion: str, family: str = "all"
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """The rows of `loss`, a stretch of sources at a time.

    Args:
        table: a performance table, in memory or opened from a store.
        criterion: one of `CRITERIA`.
        family: `"all"` or `"any"`.

    Yields:
        The stretch, and its losses with dims `(source, target)`.
    """
    check_criterion(criterion, family)
    for rows in row_blocks(table):
        yield rows, loss_rows(table, criterion, family, rows)


def loss_rows(
    table: xr.Dataset, criterion: str, family: str, rows: slice
) -> NDArray[np.float64]:
    """Losses of one stretch of sources; arguments as in `loss`."""
    check_criterion(criterion, family)
    at_target, gap = REDUCTIONS[family]
    if criterion == "signed":
        return family_rows(table, gap, rows)
    performance = family_rows(table, at_target, rows)
    if criterion == "floor":
        return -performance
    reference = table["best_known"].values
    if criterion == "regret":
        with np.errstate(invalid="ignore"):
            return np.where(performance == -np.inf, np.inf, reference - performance)
    if not (reference < 0).all():
        raise InvalidInputError(
            "criterion='ratio' compares costs, so performance must be negative (J = "
            f"−cost) everywhere, but the best known is {reference.max():g} at target "
            f"{int(reference.argmax())}. Use criterion='regret'."
        )
    # (cost − best) / best: no cancellation for costs close to the best.
    with np.errstate(invalid="ignore"):
        ratio = (performance - reference) / reference
    return np.where(performance == -np.inf, np.inf, ratio)


def tolerance_sets(losses: xr.DataArray | NDArray, epsilon: float) -> TargetSets:
    r"""Targets that each source serves to within `epsilon`.

    $S_\epsilon(s) = \{t : \mathrm{loss}(s, t) \le \epsilon\}$.

    Args:
        losses: loss of one criterion, dims `(source, target)`.
        epsilon: tolerance in units of the loss, `>= 0` (any number for `floor`).

    Returns:
        The sets as packed bits.
    """
    criterion = getattr(losses, "attrs", {}).get("criterion")
    check_epsilon(epsilon, criterion)
    values = np.asarray(losses)
    if values.ndim != 2:
        raise InvalidInputError(
            f"losses must have dims (source, target), but have shape {values.shape}."
        )
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0].tolist()
        raise InvalidInputError(
            f"Losses must be numbers, but row {row}, column {column} is NaN."
        )
    return pack(values <= epsilon)


def table_sets(
    table: xr.Dataset, criterion: str, family: str, epsilon: float
) -> TargetSets:
    """`tolerance_sets` of a table, without ever holding the whole loss matrix.

    Args:
        table: a performance table, in memory or opened from a store.
        criterion: one of `CRITERIA`.
        family: `"all"` or `"any"`.
        epsilon: tolerance.
    """
    check_epsilon(epsilon, criterion)
    blocks = (block <= epsilon for _, block in loss_blocks(table, criterion, family))
    return pack(blocks, n_targets=table.sizes["target"])


def assigned_regret(
    table: xr.Dataset, family: str, assignment: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Regret that an assignment of targets to sources really leaves.

    A signed cover compares each policy with its own score at home; this compares
    it with the best known one at the target.

    Args:
        table: a performance table.
        family: `"all"` or `"any"`.
        assignment: source of each target, −1 for none.

    Returns:
        Regret of each target, +inf where none serves it.
    """
    regret = np.full(len(assignment), np.inf)
    for source in np.unique(assignment[assignment >= 0]):
        rows = slice(int(source), int(source) + 1)
        served = assignment == source
        regret[served] = loss_rows(table, "regret", family, rows)[0, served]
    return regret


def check_criterion(criterion: str, family: str) -> None:
    """Refuse an unknown criterion or family."""
    if criterion not in CRITERIA:
        raise UnknownNameError("criterion", criterion, CRITERIA)
    if family not in REDUCTIONS:
        raise UnknownNameError("family", family, REDUCTIONS)


def check_epsilon(epsilon: float, criterion: str | None = None) -> None:
    """Refuse a tolerance that is NaN, or negative where losses start at zero."""
    if np.isnan(epsilon) or (epsilon < 0 and criterion != "floor"):
        raise InvalidInputError(
            f"epsilon >= 0 must hold, but got epsilon={epsilon}. For a relative "
            "tolerance use criterion='ratio', for an absolute level of performance "
            "criterion='floor'."
        )
