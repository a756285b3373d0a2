"""Interpolated schedules: a look-up in C99, and tables for Simulink.

The C does in double what Python does, in the same order. With linear axes, and a
compiler that fuses no multiplications and additions (`-ffp-contract=off`, the default
of `-std=c99`), it gives the same bits. Otherwise both differ by no more than the
rounding that a proof allows for (`rounding_at`), if `log` is good to 1 unit in the
last place. PI and PID controllers get their numbers from the look-up; their step is
not part of it.

| in `schedule.mat` | meaning |
|---|---|
| `axes`, `units`, `interpolation` | names, units, and linear or log, of the axes |
| `low`, `high` | the range |
| `breakpoints_NAME` | breakpoints of an axis |
| `log_breakpoints_NAME` | of a log axis: logarithms, to look up that of the signal |
| `K_1_2`, `kp`, … | one table per number, one dim per axis |

In an n-D Lookup Table of Simulink choose "Linear point-slope" and the extrapolation
"Clip". Leave out an axis of one breakpoint.
"""

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.deploy.base import Status
from taskspace.deploy.files import csv_text, json_bytes, write_new
from taskspace.deploy.schedules import ScheduleLibrary
from taskspace.errors import InvalidInputError
from taskspace.export.base import exporter, require_kind
from taskspace.export.c99 import N_VECTORS, check_name
from taskspace.export.c99_text import Real, comment, fill, integers, reals
from taskspace.export.tables import mat_bytes, word
from taskspace.schedules.table import Schedule

MAX_AXES = 8
"""Axes of a look-up in C at most: it mixes 2^axes vertices."""
ROUNDING_WORDS = (
    "Double precision, without -ffast-math. Numbers are Python's bits where axes are "
    "linear and nothing is fused "
    "(-ffp-contract=off); else they differ by no more than the rounding that proofs of "
    "schedules allow for, 16 units of 2^-52 of the largest number at a cell's vertices "
    "per axis, on log axes times 1 + max |log| / difference of the logs, if log() is "
    "good to 1 unit in the last place."
)


@exporter("c", schedules=True)
def export_schedule_c99(
    library: ScheduleLibrary,
    folder: str | Path,
    *,
    name: str = "schedule",
    command: str | None = None,
) -> Path:
    """Write a schedule as C99: a look-up without allocation, with a self-test.

    Args:
        library: the schedule.
        folder: a folder that does not exist or is empty.
        name: prefix of all names in C.
        command: what was typed to make it, kept in the contract.
    """
    require_kind(library, ScheduleLibrary)
    check_name(name)
    if len(library.names) > MAX_AXES:
        raise InvalidInputError(
            f"A look-up in C has at most {MAX_AXES} axes, but this schedule has "
            f"{len(library.names)}."
        )
    said = library.contract(command=command, notes=[ROUNDING_WORDS])
    files = {
        f"{name}.h": _header(library, name, said).encode(),
        f"{name}.c": _source(library, name).encode(),
        f"{name}_selftest.c": _selftest(library, name).encode(),
        "contract.json": json_bytes(said),
    }
    return write_new(folder, files)


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
    variables: dict[str, NDArray[Any]] = {
        "axes": np.array(library.names, object),
        "units": np.array(library.units, object),
        "interpolation": np.array(list(schedule.interpolation.values()), object),
        "low": library.low,
        "high": library.high,
    }
    for axis, values in schedule.breakpoints.items():
        variables[f"breakpoints_{word(axis)}"] = values
        if schedule.interpolation[axis] == "log":
            variables[f"log_breakpoints_{word(axis)}"] = np.log(values)
    for i, number in enumerate(library.numbers):
        variables[word(number).rstrip("_")] = schedule.gains[..., i]
    files = {
        "schedule.mat": mat_bytes(variables),
        "schedule.csv": csv_text(*library.table()).encode(),
        "contract.json": json_bytes(library.contract(command=command)),
    }
    return write_new(folder, files)


def rounding_at(schedule: Schedule, rows: Array) -> Array:
    """Return the rounding of each number that a proof allows for.

    Args:
        schedule: numbers at breakpoints.
        rows: finite contexts, one column per axis.

    Returns:
        Shape `(context, number)`.
    """
    from taskspace.schedules.proof import Side  # compiled kernels

    units, ends = np.zeros(len(rows)), []
    for x, (name, at) in zip(rows.T, schedule.breakpoints.items(), strict=True):
        pairs = list(pairwise(at.tolist())) or [(float(at[0]), float(at[0]))]
        scale = schedule.interpolation[name]
        low = np.clip(np.searchsorted(at, x, "right") - 1, 0, len(pairs) - 1)
        units += np.array([Side(0, *pair, scale).roundings for pair in pairs])[low]
        ends.append((low, np.minimum(low + 1, len(at) - 1)))
    corners = [np.abs(schedule.gains[corner]) for corner in product(*ends)]
    return units[:, None] * np.max(corners, axis=0) * 2.0**-52


def _header(library: ScheduleLibrary, name: str, said: dict[str, Any]) -> str:
    """Return the header, which says what the contract says."""
    upper, axes = name.upper(), ""
    for i, axis in enumerate(said["inputs"]["context"]):
        title = f"{axis['name']} [{axis['unit']}]" if axis["unit"] else axis["name"]
        ends = f"from {axis['low']:.17g} to {axis['high']:.17g}"
        error = f", measured within {axis['error']}" if "error" in axis else ""
        scale = library.schedule.interpolation[axis["name"]]
        axes += f" *   context[{i}]: {comment(f'{title}, {ends}{error}, {scale}')}\n"
    fixed = "".join(
        f" *   {comment(key)} is {value:.17g} throughout\n"
        for key, value in library.fixed.items()
    )
    act = ""
    if library.signal_sizes is not None:
        n_seen, n_actions = library.signal_sizes
        sizes = {"n_seen": n_seen, "n_actions": n_actions}
        act = fill("schedule_act.h", name=name, upper=upper, **sizes)
    is_proven = library.guarantee.status == Status.GUARANTEED
    words = {key.upper(): value for key, value in said["outputs"]["status"].items()}
    return fill(
        "schedule.h",
        name=name,
        upper=upper,
        question=comment(str(library.question)),
        statement=comment(
            ("Proven: " if is_proven else "") + said["guarantee"]["statement"]
        ),
        drift=comment(said["drift"]),
        axes=axes,
        fixed=fixed,
        outside=comment(said["look_up"]["outside"]),
        not_finite=comment(said["look_up"]["not_finite"]),
        rounding=comment(ROUNDING_WORDS),
        n_axes=len(library.names),
        n_numbers=len(library.numbers),
        numbers=comment(", ".join(library.numbers)),
        guaranteed="by proof" if is_proven else "never here",
        act=act,
        **words,
    )


def _source(library: ScheduleLibrary, name: str) -> str:
    upper, real, schedule = name.upper(), Real("double"), library.schedule
    values = list(schedule.breakpoints.values())
    is_log = [schedule.interpolation[axis] == "log" for axis in library.names]
    scaled = [np.log(x) if log else x for x, log in zip(values, is_log, strict=True)]
    low, high = library.measured_range
    tables = [
        reals(real, "RANGE_LOW", low),
        reals(real, "RANGE_HIGH", high),
        integers("AXIS_SIZE", np.array(schedule.shape)),
        integers("AXIS_FIRST", np.cumsum([0, *schedule.shape[:-1]])),
        integers("AXIS_LOG", np.array(is_log)),
        reals(real, "BREAKPOINT", np.concatenate(values)),
        reals(real, "SCALED", np.concatenate(scaled)),
        reals(real, "TABLE", schedule.gains),
    ]
    act = ""
    if library.signal_sizes is not None:
        act = fill("schedule_act.c", name=name, upper=upper)
    refuse = (
        f"if (status == {upper}_OUTSIDE) {{\n        return {upper}_REFUSED;\n    }}"
    )
    return fill(
        "schedule.c",
        name=name,
        upper=upper,
        tables="\n".join(tables),
        n_corners=2 ** len(library.names),
        known=library.guarantee.status.name,
        refused=refuse if library.outside == "refuse" else "",
        act=act,
    )


def _selftest(library: ScheduleLibrary, name: str) -> str:
    """Return the program: contexts, and what Python gave."""
    real, rng = Real("double"), np.random.default_rng(0)
    low, high = library.measured_range
    drawn = low + rng.uniform(-0.05, 1.05, (N_VECTORS, len(low))) * (high - low)
    vertices = np.array(library.table()[1])[:, : len(low)]
    rows = np.concatenate([vertices[:: max(1, len(vertices) // 8)], drawn])
    found = library.select(rows)
    rounding = rounding_at(library.schedule, np.clip(rows, low, high))
    tables = [
        reals(real, "CONTEXT", rows),
        integers("STATUS", found.status),
        reals(real, "NUMBER", np.nan_to_num(found.numbers)),
        reals(real, "ROUNDING", rounding),
    ]
    return fill(
        "schedule_selftest.c",
        name=name,
        upper=name.upper(),
        tables="\n".join(tables),
        n=len(rows),
    )
