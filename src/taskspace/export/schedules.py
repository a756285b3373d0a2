"""Interpolated schedules as a look-up in C99.

The C does in double what Python does, in the same order. With linear axes, and a
compiler that fuses no multiplications and additions (`-ffp-contract=off`, the default
of `-std=c99`), it gives the same bits. Otherwise both differ by no more than the
rounding that a proof allows for (`rounding_at`), if `log` is good to 1 unit in the
last place. PI and PID controllers get their numbers from the look-up; their step is
not part of it.
"""

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.deploy.base import Status
from taskspace.deploy.files import json_bytes, write_new
from taskspace.deploy.schedules import ScheduleLibrary
from taskspace.export.base import exporter, require_kind
from taskspace.export.c99 import (
    N_VECTORS,
    Real,
    check_name,
    comment,
    contexts_comment,
    fill,
    integers,
    reals,
)
from taskspace.schedules.table import Schedule

ROUNDING_WORDS = (
    "Double precision, without -ffast-math. Numbers are Python's bits where axes are "
    "linear and nothing is fused (-ffp-contract=off); else they differ by no more than "
    "the rounding that proofs of schedules allow for, if log() is good to 1 unit in "
    "the last place."
)
REAL = Real("double")


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
    said = library.contract(command=command, notes=[ROUNDING_WORDS])
    names = {"name": name, "upper": name.upper()}
    files = {
        f"{name}.h": _header(library, names, said).encode(),
        f"{name}.c": _source(library, names).encode(),
        f"{name}_selftest.c": _selftest(library, names).encode(),
        "contract.json": json_bytes(said),
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
    from taskspace.schedules.proof import roundings  # compiled kernels

    units, ends = np.zeros(len(rows)), []
    for x, (name, at) in zip(rows.T, schedule.breakpoints.items(), strict=True):
        pairs = list(pairwise(at.tolist())) or [(float(at[0]), float(at[0]))]
        scale = schedule.interpolation[name]
        low = np.clip(np.searchsorted(at, x, "right") - 1, 0, len(pairs) - 1)
        units += np.array([roundings(*pair, scale) for pair in pairs])[low]
        ends.append((low, np.minimum(low + 1, len(at) - 1)))
    corners = [np.abs(schedule.gains[corner]) for corner in product(*ends)]
    return units[:, None] * np.max(corners, axis=0) * 2.0**-52


def _header(
    library: ScheduleLibrary, names: dict[str, str], said: dict[str, Any]
) -> str:
    """Return the header, which says what the contract says."""
    act = ""
    if library.signal_sizes is not None:
        n_seen, n_actions = library.signal_sizes
        act = fill("schedule_act.h", n_seen=n_seen, n_actions=n_actions, **names)
    is_proven = library.guarantee.status == Status.GUARANTEED
    return fill(
        "schedule.h",
        question=comment(str(library.question)),
        statement=comment("Proven: " * is_proven + library.guarantee.statement),
        drift=comment(said["drift"]),
        contexts=contexts_comment(said),
        outside=comment(said["selection"]["outside"]),
        not_finite=comment(said["selection"]["not_finite"]),
        rounding=comment(ROUNDING_WORDS),
        n_axes=len(library.names),
        n_numbers=len(library.numbers),
        numbers=comment(", ".join(library.numbers)),
        guaranteed="by proof" if is_proven else "never here",
        act=act,
        **names,
        **{key.upper(): value for key, value in said["outputs"]["status"].items()},
    )


def _source(library: ScheduleLibrary, names: dict[str, str]) -> str:
    upper, schedule = names["upper"], library.schedule
    values = list(schedule.breakpoints.values())
    is_log = [schedule.interpolation[axis] == "log" for axis in library.names]
    scaled = [np.log(x) if log else x for x, log in zip(values, is_log, strict=True)]
    low, high = library.measured_range
    tables = [
        reals(REAL, "RANGE_LOW", low),
        reals(REAL, "RANGE_HIGH", high),
        integers("AXIS_SIZE", schedule.shape),
        integers("AXIS_FIRST", np.cumsum([0, *schedule.shape[:-1]])),
        integers("AXIS_LOG", is_log),
        reals(REAL, "BREAKPOINT", np.concatenate(values)),
        reals(REAL, "SCALED", np.concatenate(scaled)),
        reals(REAL, "TABLE", schedule.gains),
    ]
    refuse = (
        f"if (status == {upper}_OUTSIDE) {{\n        return {upper}_REFUSED;\n    }}"
    )
    return fill(
        "schedule.c",
        tables="\n".join(tables),
        n_corners=2 ** len(library.names),
        known=library.guarantee.status.name,
        refused=refuse * (library.outside == "refuse"),
        act=fill("schedule_act.c", **names) if library.signal_sizes else "",
        **names,
    )


def _selftest(library: ScheduleLibrary, names: dict[str, str]) -> str:
    """Return the program: contexts, and what Python gave."""
    rng, (low, high) = np.random.default_rng(0), library.measured_range
    drawn = low + rng.uniform(-0.05, 1.05, (N_VECTORS, len(low))) * (high - low)
    vertices = library.vertices
    rows = np.concatenate([vertices[:: max(1, len(vertices) // 8)], drawn])
    found = library.select(rows)
    rounding = rounding_at(library.schedule, np.clip(rows, low, high))
    tables = [
        reals(REAL, "CONTEXT", rows),
        integers("STATUS", found.status),
        reals(REAL, "NUMBER", np.nan_to_num(found.numbers)),
        reals(REAL, "ROUNDING", rounding),
    ]
    text = "\n".join(tables)
    return fill("schedule_selftest.c", tables=text, n=len(rows), **names)
