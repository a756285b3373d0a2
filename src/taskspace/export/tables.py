"""Look-up tables for Simulink, Modelica, Octave and spreadsheets: CSV and `.mat`.

| in `library.mat` | meaning |
|---|---|
| `axes`, `units`, `low`, `high` | names, units and range of the context axes |
| `nodes_NAME` | values of a grid axis: where the table is known |
| `edges_NAME` | where each value's cell begins (n-D Lookup Table, "Flat" and "Clip") |
| `policy` | number of the policy from 0, one per axis dim; −1 for none |
| `served_at_nodes` | 1 where the policy serves the node (of boxes `served`: the box) |
| `status_at_nodes` | what may be relied on there, by the numbers of the contract |
| `K_1_2` | entry of the gain assigned to each node, shaped as `policy` |
| `box_low`, `box_high` | corners of the boxes of a certified library |
| `kp`, `ki`, … | parameters of the controller assigned to each node, likewise |
| `gain` | gain of each policy, `(policy, n_inputs, n_states)` |
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import savemat

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.files import (
    contract_bytes,
    parameter_table,
    table_files,
    writable,
    write_new,
)
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.export.base import exporter, require_kind
from taskspace.policies import LinearGain


@exporter("tables")
def export_tables(
    library: PolicyLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write `library.mat`, `map.csv`, `policies.csv` and the contract.

    Args:
        library: the library.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    require_kind(library, PolicyLibrary)
    return write_new(
        folder,
        {
            "library.mat": mat_bytes(mat_variables(library)),
            "contract.json": contract_bytes(library, command),
            **table_files(library),
        },
    )


def mat_bytes(variables: dict[str, NDArray[Any]]) -> bytes:
    """Return a `.mat` file, the same bytes for the same arrays.

    Args:
        variables: arrays by name.
    """
    raw = io.BytesIO()
    savemat(raw, variables, oned_as="column", do_compression=True)
    # The first 116 bytes are free text, in which SciPy puts the time.
    head = b"MATLAB 5.0 MAT-file, a policy library written by taskspace".ljust(116)
    return head + raw.getvalue()[116:]


def mat_variables(library: PolicyLibrary) -> dict[str, NDArray[Any]]:
    """Return what the `.mat` file holds, see this module's table.

    Args:
        library: the library.
    """
    regions = library.regions
    shape: tuple[int, ...] = (len(regions.policy),)
    variables: dict[str, NDArray[Any]] = {
        "axes": np.array(library.names, object),
        "units": np.array(library.units, object),
        "low": library.low,
        "high": library.high,
    }
    if isinstance(regions, GridRegions):
        shape = regions.shape
        for name, values, borders in zip(
            library.names, regions.values, regions.borders, strict=True
        ):
            # A border belongs to the cell below, so the next begins at the next float.
            edges = np.append(values[0], np.nextafter(borders, np.inf))
            variables[f"nodes_{word(name)}"] = values
            variables[f"edges_{word(name)}"] = edges
    else:
        assert isinstance(regions, BoxRegions)
        variables |= {"box_low": regions.box_low, "box_high": regions.box_high}
        if regions.nodes is not None:
            variables["nodes"] = regions.nodes
    variables["policy"] = regions.policy.reshape(shape).astype(np.int32)
    # Of a node this is the node itself, not the cell around it.
    is_whole = isinstance(regions, BoxRegions) and regions.nodes is None
    where = "" if is_whole else "_at_nodes"
    variables[f"served{where}"] = regions.served.reshape(shape).astype(np.uint8)
    statuses = library.statuses().reshape(shape).astype(np.int32)
    variables[f"status{where}"] = statuses
    stack = writable(library.policies)
    if isinstance(stack, LinearGain):
        variables["gain"] = stack.gain
    elif stack is not None:
        variables |= {f"policy_{k}": v for k, v in stack.arrays().items()}
    names, numbers = parameter_table(library)
    used = np.where(regions.policy[:, None] >= 0, numbers[regions.policy], np.nan)
    for name, column in zip(names, used.T, strict=True):
        variables[word(name)] = column.reshape(shape)
    return variables


def word(name: str) -> str:
    """Return a name that MATLAB takes: letters, digits and _, not too long.

    Args:
        name: any name, e.g. `"set point"`.
    """
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:40]
