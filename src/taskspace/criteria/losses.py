"""Losses of a whole table, and the tolerance sets that follow."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, judge_named
from taskspace.criteria.every_start import EveryStart
from taskspace.criteria.floor import Floor
from taskspace.criteria.ratio import Ratio
from taskspace.criteria.regret import Regret
from taskspace.criteria.signed import Signed
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    provenance_of,
    reduced_name,
    row_blocks,
)
from taskspace.sets import TargetSets, pack

__all__ = [
    "CRITERIA",
    "assigned_losses",
    "assigned_regret",
    "criterion_named",
    "loss",
    "loss_blocks",
    "loss_rows",
    "table_sets",
    "tolerance_sets",
    "without_reference",
]

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (Signed(), Regret(), Ratio(), Floor(), EveryStart())
}
"""All criteria by name; a new one is a file beside these and a name here."""


def criterion_named(name: str) -> Criterion:
    """The criterion of this name.

    Args:
        name: one of `CRITERIA`.
    """
    if name not in CRITERIA:
        raise UnknownNameError("criterion", name, CRITERIA)
    return CRITERIA[name]


def loss(table: xr.Dataset, criterion: str, judge: str = "worst") -> xr.DataArray:
    r"""Loss of every source at every target.

    For `signed` and `judge="worst"` this is the paper's signed divergence,
    $D(s; t) = \max_{\pi \in \Pi(s)} J(s, \pi) - J(t, \pi)$, zero on the diagonal.

    Args:
        table: a performance table.
        criterion: one of `CRITERIA`.
        judge: `"worst"` for the worst policy of a family, `"best"` for the best.

    Returns:
        Loss with dims `(source, target)`, +inf where a policy fails, and at targets
        without a reference (see `without_reference`).
    """
    judge = judge_named(judge)
    losses = np.empty((table.sizes["source"], table.sizes["target"]))
    for rows, block in loss_blocks(table, criterion, judge):
        losses[rows] = block
    return xr.DataArray(
        losses,
        dims=("source", "target"),
        coords={n: c for n, c in table.coords.items() if c.dims != ("policy",)},
        name="loss",
        attrs={
            "criterion": criterion,
            "judge": judge,
            "provenance": provenance_of(table),
        },
    )


def loss_blocks(
    table: xr.Dataset, criterion: str, judge: str = "worst"
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """The rows of `loss`, a stretch of sources at a time.

    Args:
        table: a performance table, in memory or opened from a store.
        criterion: one of `CRITERIA`.
        judge: `"worst"` or `"best"`.

    Yields:
        The stretch, and its losses with dims `(source, target)`.
    """
    criterion_named(criterion)
    judge = judge_named(judge)
    for rows in row_blocks(table):
        yield rows, loss_rows(table, criterion, judge, rows)


def loss_rows(
    table: xr.Dataset, criterion: str, judge: str, rows: slice
) -> NDArray[np.float64]:
    """Losses of one stretch of sources.

    Args:
        table: a performance table.
        criterion: one of `CRITERIA`.
        judge: `"worst"` or `"best"`.
        rows: the sources.
    """
    asked = criterion_named(criterion)
    _, gap = REDUCTIONS[judge_named(judge)]
    if asked.reference == "home":
        # The reduction over the family must know each policy's own score, so the
        # table keeps the gap itself, reduced: J(home) − J(target).
        return family_rows(table, gap, rows)
    at_target = reduced_name(asked.measure, judge_named(judge))
    performance = family_rows(table, at_target, rows)
    if asked.reference == "none":
        return asked.loss(performance, np.zeros(1))
    reference = table["best_known"].values
    asked.check_reference(reference)
    return asked.loss(performance, reference)


def without_reference(table: xr.Dataset, criterion: str) -> NDArray[np.int64]:
    """Numbers of the targets at which the loss of a criterion has no reference.

    No source counts as serving them: nobody knows what a policy trained there would
    reach, so nothing can be said about a regret or a ratio.

    Args:
        table: a performance table.
        criterion: one of `CRITERIA`.
    """
    if criterion_named(criterion).reference != "best known":
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isnan(table["best_known"].values))


def tolerance_sets(losses: xr.DataArray | NDArray, epsilon: float) -> TargetSets:
    r"""Targets that each source serves to within `epsilon`.

    $S_\epsilon(s) = \{t : \mathrm{loss}(s, t) \le \epsilon\}$.

    Args:
        losses: loss of one criterion, dims `(source, target)`.
        epsilon: tolerance in units of the loss, `>= 0` (any number for `floor`).

    Returns:
        The sets as packed bits.
    """
    criterion = getattr(losses, "attrs", {}).get("criterion", "regret")
    criterion_named(criterion).check_epsilon(epsilon)
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
    return pack(values <= epsilon, losses=lambda source: values[source])


def table_sets(
    table: xr.Dataset, criterion: str, judge: str, epsilon: float
) -> TargetSets:
    """`tolerance_sets` of a table, without ever holding the whole loss matrix.

    Args:
        table: a performance table, in memory or opened from a store.
        criterion: one of `CRITERIA`.
        judge: `"worst"` or `"best"`.
        epsilon: tolerance.
    """
    criterion_named(criterion).check_epsilon(epsilon)
    judge = judge_named(judge)
    blocks = (block <= epsilon for _, block in loss_blocks(table, criterion, judge))

    def losses(source: int) -> NDArray[np.float64]:
        return loss_rows(table, criterion, judge, slice(source, source + 1))[0]

    return pack(blocks, n_targets=table.sizes["target"], losses=losses)


def assigned_losses(
    table: xr.Dataset, criterion: str, judge: str, assignment: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Loss that an assignment of targets to sources leaves.

    Args:
        table: a performance table.
        criterion: one of `CRITERIA`.
        judge: `"worst"` or `"best"`.
        assignment: source of each target, −1 for none.

    Returns:
        Loss of each target, +inf where none serves it.
    """
    left = np.full(len(assignment), np.inf)
    for source in np.unique(assignment[assignment >= 0]):
        rows = slice(int(source), int(source) + 1)
        served = assignment == source
        left[served] = loss_rows(table, criterion, judge, rows)[0, served]
    return left


def assigned_regret(
    table: xr.Dataset, judge: str, assignment: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Regret that an assignment of targets to sources really leaves.

    A signed cover compares each policy with its own score at home; this compares
    it with the best known one at the target.

    Args:
        table: a performance table.
        judge: `"worst"` or `"best"`.
        assignment: source of each target, −1 for none.

    Returns:
        Regret of each target, +inf where none serves it.
    """
    return assigned_losses(table, "regret", judge, assignment)


def assigned_errors(
    table: xr.Dataset, judge: str, assignment: NDArray[np.integer]
) -> NDArray[np.float64] | None:
    """Standard error of the score that counts at each target of an assignment.

    Args:
        table: a performance table.
        judge: `"worst"` or `"best"`: whose score of the family counts.
        assignment: source of each target, −1 for none.

    Returns:
        One number a target, NaN where none serves it or it is not known; None for a
        table without standard errors.
    """
    if "standard_error" not in table or "performance" not in table:
        return None
    pick = np.argmin if judge_named(judge) == "worst" else np.argmax
    errors = np.full(len(assignment), np.nan)
    for source in np.unique(assignment[assignment >= 0]):
        served = np.flatnonzero(assignment == source)
        policy = pick(table["performance"][int(source)].values[:, served], axis=0)
        errors[served] = table["standard_error"][int(source)].values[policy, served]
    return errors
