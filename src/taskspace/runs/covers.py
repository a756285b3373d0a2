"""Covers of a performance table, as the records that programs read."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from taskspace.cover import COVER_METHODS, Cover, Progress
from taskspace.criteria import assigned_regret
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance import source_space
from taskspace.sets import TargetSets

__all__ = ["cover_record", "find_cover", "json_number"]


def find_cover(
    sets: TargetSets,
    method: str,
    *,
    shape: Sequence[int] | None = None,
    costs: ArrayLike | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Cover:
    """A cover by a method's name.

    Args:
        sets: the targets that each source serves.
        method: one of `COVER_METHODS`.
        shape: points on each axis of the source grid, for `uniform`.
        costs: cost of each source, for `greedy`, `local` and `minimum`.
        time_limit: seconds for `local` and `minimum`.
        seed: for `local`, `minimum` and `random`.
        progress: called now and then by `local` and `minimum`.
    """
    if method not in COVER_METHODS:
        raise UnknownNameError("cover method", method, COVER_METHODS)
    find = COVER_METHODS[method]
    if method == "uniform":
        if shape is None:
            raise InvalidInputError(
                "method='uniform' needs sources on a grid, but these are a plain list. "
                "Use greedy, local, minimum or random."
            )
        return find(sets, shape)
    if method == "random":
        return find(sets, seed)
    if method == "greedy":
        return find(sets, costs=costs)
    return find(sets, costs=costs, time_limit=time_limit, seed=seed, progress=progress)


def cover_record(
    cover: Cover,
    *,
    table: xr.Dataset | None = None,
    criterion: str | None = None,
    family: str | None = None,
    epsilon: float | None = None,
) -> dict[str, Any]:
    """A cover as one flat JSON record; see DESIGN, "Names".

    Args:
        cover: the cover.
        table: the performance table it came from, for regret and contexts.
        criterion: criterion of the tolerance sets.
        family: family of the tolerance sets.
        epsilon: tolerance.

    Returns:
        Plain values. `worst_regret` is the largest regret over the targets that are
        served; it is None where it is not finite or there is no table.
    """
    record: dict[str, Any] = {
        "n_sources": cover.n_sources,
        "n_targets": cover.n_targets,
        "criterion": criterion,
        "family": family,
        "epsilon": epsilon,
        "method": cover.method,
        "size": cover.size,
        "cost": json_number(cover.cost),
        "sources": cover.sources.tolist(),
        "coverage": cover.coverage,
        "uncoverable": cover.uncoverable.tolist(),
        "lower_bound": json_number(cover.lower_bound),
        "lower_bound_kind": cover.lower_bound_kind,
        "optimal": cover.optimal,
        "stop_reason": cover.stop_reason,
        "worst_regret": None,
        "seconds": cover.seconds,
    }
    if table is not None:
        regret = assigned_regret(table, family or "all", cover.assignment)
        served = cover.assignment >= 0
        worst = float(regret[served].max()) if served.any() else math.nan
        record["worst_regret"] = json_number(worst)
        space = source_space(table)
        if space is not None:
            record["contexts"] = [space.context(int(s)) for s in cover.sources]
    return record


def json_number(value: float) -> float | int | None:
    """A number as JSON knows it: whole ones as integers, infinite ones as None."""
    if not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)
