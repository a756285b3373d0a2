"""Look-up tables for Simulink, Modelica, Octave, spreadsheets and python-control.

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

| in `schedule.mat` | meaning |
|---|---|
| `axes`, `units`, `interpolation` | names, units, and linear or log, of the axes |
| `low`, `high` | the range |
| `breakpoints_NAME` | breakpoints of an axis |
| `log_breakpoints_NAME` | of a log axis: logarithms, to look up that of the signal |
| `K_1_2`, `kp`, … | one table per number, one dim per axis |

For a schedule choose "Linear point-slope" and the extrapolation "Clip" in an n-D Lookup
Table of Simulink. Leave out an axis of one breakpoint.
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.io import savemat

from taskspace._util.arrays import Array
from taskspace.deploy.base import Library, Status
from taskspace.deploy.files import json_bytes, writable, write_new
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import GridRegions
from taskspace.deploy.schedules import ScheduleLibrary
from taskspace.errors import InvalidInputError
from taskspace.export.base import exporter, require_kind
from taskspace.policies import LinearController, LinearGain

Variables = dict[str, NDArray[Any]]


@exporter("tables")
def export_tables(
    library: PolicyLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write `library.mat`, `map.csv`, `policies.csv` and the contract.

    Args:
        library: the library.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.
    """
    require_kind(library, PolicyLibrary)
    tables = {"policies.csv": policy_table(library), "map.csv": map_table(library)}
    return _write(library, folder, "library.mat", _of_library(library), tables, command)


@exporter("tables", schedules=True)
def export_schedule_tables(
    library: ScheduleLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write `schedule.mat`, `schedule.csv` and the contract.

    Args:
        library: the schedule.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.
    """
    require_kind(library, ScheduleLibrary)
    schedule = library.schedule
    scales = list(schedule.interpolation.values())
    variables: Variables = {"interpolation": np.array(scales, object)}
    for axis, values in schedule.breakpoints.items():
        variables[f"breakpoints_{_word(axis)}"] = values
        if schedule.interpolation[axis] == "log":
            variables[f"log_breakpoints_{_word(axis)}"] = np.log(values)
    for i, number in enumerate(library.numbers):
        variables[_word(number).rstrip("_")] = schedule.gains[..., i]
    rows = np.hstack([library.vertices, schedule.gains.reshape(schedule.size, -1)])
    table = pd.DataFrame(rows, columns=[*library.names, *library.numbers])
    tables = {"schedule.csv": table}
    return _write(library, folder, "schedule.mat", variables, tables, command)


def _write(
    library: Library,
    folder: str | Path,
    mat_file: str,
    variables: Variables,
    tables: dict[str, pd.DataFrame],
    command: str | None,
) -> Path:
    """Write a `.mat` file, CSV files and the contract; the same library, same bytes."""
    axes: Variables = {
        "axes": np.array(library.names, object),
        "units": np.array(library.units, object),
        "low": library.low,
        "high": library.high,
    }
    raw = io.BytesIO()
    savemat(raw, axes | variables, oned_as="column", do_compression=True)
    # The first 116 bytes are free text, in which SciPy puts the time.
    head = b"MATLAB 5.0 MAT-file, a policy library written by taskspace".ljust(116)
    files = {mat_file: head + raw.getvalue()[116:]}
    for name, table in tables.items():
        text = table.map(_cell).to_csv(index=False, lineterminator="\n")
        files[name] = text.encode()
    files["contract.json"] = json_bytes(library.contract(command=command))
    return write_new(folder, files)


def _cell(value: Any) -> Any:
    """Put an apostrophe before a name that a spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(tuple("=+-@\t"))
    return f"'{value}" if is_formula else value


def _word(name: str) -> str:
    """Return a name that MATLAB takes: letters, digits and _, not too long."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:40]


# --- policy libraries ---------------------------------------------------------------


def policy_table(library: PolicyLibrary) -> pd.DataFrame:
    """Return the policies: source, context of the source, gains.

    Args:
        library: the library.
    """
    entries = library.entries
    table = pd.DataFrame(
        {
            "policy": np.arange(library.size),
            "name": [e.name for e in entries],
            "source": [e.source for e in entries],
            "member": [e.member for e in entries],
        }
    )
    contexts = pd.DataFrame([dict(e.context) for e in entries]).add_prefix("source_")
    return pd.concat([table, contexts, parameter_table(library)], axis=1)


def map_table(library: PolicyLibrary) -> pd.DataFrame:
    """Return the regions: context, policy, what is known, gains.

    Args:
        library: the library.
    """
    regions, policy = library.regions, library.regions.policy
    if library.targets:
        table = pd.DataFrame({"target": library.targets})
    elif isinstance(regions, GridRegions) or regions.nodes is not None:
        table = pd.DataFrame(regions.centres, columns=list(library.names))
    else:
        ends = np.stack([regions.box_low, regions.box_high], -1)
        names = [f"{name}_{end}" for name in library.names for end in ("low", "high")]
        table = pd.DataFrame(ends.reshape(len(ends), -1), columns=names)
    names = [entry.name for entry in library.entries]
    more = pd.DataFrame(
        {
            "policy": policy,
            "name": ["" if p < 0 else names[p] for p in policy],
            "served": regions.served.astype(int),
            "status": [Status(s).name.lower() for s in library.statuses()],
            "margin": regions.margin,
        }
    )
    gains = parameter_table(library).reindex(policy).reset_index(drop=True)
    return pd.concat([table, more, gains], axis=1)


def parameter_table(library: PolicyLibrary) -> pd.DataFrame:
    """Return the gains or parameters by name, one row per policy.

    Args:
        library: the library; networks and tables of actions have none.
    """
    stack = library.policies
    if isinstance(stack, LinearController):
        return pd.DataFrame(stack.parameters, columns=list(stack.names))
    if not isinstance(stack, LinearGain):
        return pd.DataFrame(index=range(library.size))
    places = np.ndindex(stack.gain.shape[1:])
    names = [f"K_{i + 1}_{j + 1}" for i, j in places]
    return pd.DataFrame(stack.gain.reshape(library.size, -1), columns=names)


def _of_library(library: PolicyLibrary) -> Variables:
    """Return what the `.mat` file holds, see this module's table."""
    regions, stack = library.regions, writable(library.policies)
    where, shape = "_at_nodes", regions.policy.shape
    variables: Variables = {}
    if isinstance(regions, GridRegions):
        shape = regions.shape
        parts = zip(library.names, regions.values, regions.borders, strict=True)
        for name, values, borders in parts:
            # A border belongs to the cell below, so the next begins at the next float.
            edges = np.append(values[0], np.nextafter(borders, np.inf))
            variables[f"nodes_{_word(name)}"] = values
            variables[f"edges_{_word(name)}"] = edges
    else:
        variables |= {"box_low": regions.box_low, "box_high": regions.box_high}
        if regions.nodes is None:
            where = ""  # what is known of a box is known of the whole of it
        else:
            variables["nodes"] = regions.nodes
    if isinstance(stack, LinearGain):
        variables["gain"] = stack.gain
    elif stack is not None:
        variables |= {f"policy_{k}": v for k, v in stack.arrays().items()}
    columns = parameter_table(library).reindex(regions.policy)
    columns["policy"] = regions.policy.astype(np.int32)
    columns[f"served{where}"] = regions.served.astype(np.uint8)
    columns[f"status{where}"] = library.statuses().astype(np.int32)
    named = {_word(name): columns[name].to_numpy() for name in columns}
    return variables | {name: x.reshape(shape) for name, x in named.items()}


# --- python-control -----------------------------------------------------------------


def schedule_arrays(library: PolicyLibrary) -> tuple[Array, Array]:
    """Return the gain at each node of a library's grid, and the nodes.

    They are what `control.create_statefbk_iosystem` takes:

        create_statefbk_iosystem(plant, schedule_arrays(library),
                                 gainsched_indices=[...], gainsched_method="nearest")

    Its "nearest" picks the library's node, borders apart, since borders of a grid lie
    halfway between neighbours. Outside the range it clamps, or raises where there is
    one axis. It can schedule by states, their set points and the inputs' set points;
    where the context is another signal, call `library.act` in a system of your own
    (examples/gain_schedule.py).

    Args:
        library: of linear gains, on a grid without logarithmic axes.

    Returns:
        Gains (u = −K x), shape `(node, n_inputs, n_states)`, and nodes
        `(node, axis)`.

    Examples:
        >>> import taskspace as ts
        >>> gains = LinearGain(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> points = ts.Points(["k"], [1.0, 3.0])
        >>> library = ts.PolicyLibrary.from_policies(gains, points)
        >>> schedule_arrays(library)[0].tolist()
        [[[1.0, 2.0]], [[3.0, 4.0]]]
    """
    require_kind(library, PolicyLibrary)
    policies, regions = library.policies, library.regions
    wrong = ""
    if not isinstance(policies, LinearGain):
        wrong = "names" if policies is None else policies.kind
    elif not isinstance(regions, GridRegions) or any(library.log_axes):
        wrong = "logarithmic axes" if any(library.log_axes) else regions.plural
    elif (regions.policy < 0).any():
        wrong = f"{int((regions.policy < 0).sum())} nodes without a policy"
    if wrong or not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "python-control schedules linear gains by the nearest node of a grid "
            f"without logarithmic axes, but this library has {wrong}. Call library.act "
            "in a system of your own instead."
        )
    return policies.gain[regions.policy], np.asarray(regions.centres)
