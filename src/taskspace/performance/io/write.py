"""A performance table into an npz file that `read_matrix` reads back whole."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from taskspace.errors import InvalidInputError
from taskspace.performance.table import provenance_of

VARIABLES = ("performance", "home_performance", "best_known", "standard_error")


def write_matrix(table: xr.Dataset, path: str | Path) -> Path:
    """Write a performance table to an npz file that `read_matrix` reads back.

    Cells, contexts, names, scores at home, the reference of regret, standard errors
    and provenance are kept. Other formats are written by pandas and xarray, e.g.
    `table["performance"].isel(policy=0).to_pandas().to_csv(...)`.

    Args:
        table: a table that holds `performance` (not only its reductions).
        path: a name that ends in `.npz`; replaced if it exists.

    Returns:
        The path.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInputError(
            f"A table is written to a file that ends in .npz, but got {path.name}. "
            "pandas writes other formats: table['performance'].isel(policy=0)"
            ".to_pandas().to_csv(...)."
        )
    if "performance" not in table:
        raise InvalidInputError(
            "Only a table that holds J of every policy can be written as a matrix, but "
            f"this one holds {', '.join(map(str, table.data_vars))}."
        )
    names = [name for name in VARIABLES if name in table]
    names += [n for n in map(str, table.coords) if n.startswith(("source_", "target_"))]
    arrays: dict[str, Any] = {name: table[name].values for name in names}
    for dim in ("source", "target"):
        if dim in table.coords:
            arrays[dim] = np.array([str(name) for name in table[dim].values], str)
    arrays["best_known_kind"] = str(table.attrs.get("best_known_kind", "given"))
    arrays["provenance"] = provenance_of(table)
    if table.attrs.get("n_episodes"):
        arrays["n_episodes"] = int(table.attrs["n_episodes"])
    temporary = path.with_name(f".writing-{path.name}")
    try:
        np.savez(temporary, allow_pickle=False, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
