"""Studies of data that a program holds: frames, arrays and xarray objects."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance.io import table_from
from taskspace.performance.study import Study
from taskspace.performance.table import DIMS, table_from_matrix
from taskspace.policies import Policy
from taskspace.systems.base import System

__all__ = ["study_from"]


def study_from(
    data: Any,
    *,
    system: System | None = None,
    policies: Policy | None = None,
    **options: Any,
) -> Study:
    """Make a study of a transfer matrix that a program holds.

    Args:
        data: a wide or long pandas `DataFrame`; an xarray `DataArray` or `Dataset`; or
            an array of J, larger is better, of shape `(source, target)` or `(source,
            policy, target)`.
        system: the tasks, if they are known.
        policies: policies of the sources, leading dims `(source, policy)`.
        options: for an array `sources` and `targets` (contexts), `home`,
            `standard_error`, `provenance` and `n_episodes`, see `table_from_matrix`;
            else `contexts`, `lower_is_better`, `targets` (names), `ignore` and
            `missing`, see `table_from`.

    Examples:
        >>> study_from([[3.0, 1.0], [2.0, 4.0]])
        Study(2 sources, 1 policy each, 2 targets, given)
    """
    if isinstance(data, xr.Dataset) and not options and _is_table(data):
        table = data
    elif isinstance(data, pd.DataFrame | xr.DataArray | xr.Dataset):
        table = table_from(data, **options)
    else:
        try:
            numbers = np.asarray(data, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                "A study is made from a pandas DataFrame, an xarray object or an array "
                f"of numbers, but got {type(data).__name__}. For a file use ts.open."
            ) from error
        table = table_from_matrix(numbers, **options)
    return Study.of(table, system=system, policies=policies)


def _is_table(data: xr.Dataset) -> bool:
    """Whether a dataset is a performance table already, as this library makes them."""
    score = "performance" if "performance" in data else "worst"
    return "best_known_kind" in data.attrs and all(
        name in data and data[name].dims == DIMS[name] for name in (score, "best_known")
    )
