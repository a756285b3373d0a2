"""C99: static tables, no allocation, no library but math.h.

`NAME.h` and `NAME.c` hold the map, the policies and four functions: `select`, `act`,
`control` (both) and `select_held` (with hysteresis). `NAME_selftest.c` is a program
that checks them on the target against what Python gave.

The selection is exact: borders of the map are rounded in the direction in which a
comparison with a `float` (or `double`) context has the same outcome as Python's, and
distances to scattered points are computed in `double`. Gains in `double` are applied in
Python's order and give the same bits, if the compiler neither reassociates nor fuses
(`-std=c99` without `-ffast-math`). Gains that `float` rounds are other gains than those
that a proof is about, so with them nothing is GUARANTEED, only ESTIMATED.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.files import write_new
from taskspace.deploy.records import Status
from taskspace.deploy.regions.choose import NamedRegions
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export.base import contract_bytes
from taskspace.export.c99_policies import act_source, action_sizes, policy_tables
from taskspace.export.c99_regions import region_source
from taskspace.export.c99_selftest import selftest_source
from taskspace.export.c99_text import Real, comment, integers, reals

__all__ = ["Precision", "c99_files", "export_c99"]

Precision = Literal["double", "float"]


def export_c99(
    library: PolicyLibrary,
    folder: str | Path,
    *,
    name: str = "library",
    precision: Precision = "double",
    hysteresis: float = 0.02,
    command: str | None = None,
) -> Path:
    """Write a library as C99.

    Args:
        library: the library; without policies only the selection is written.
        folder: a folder that does not exist or is empty.
        name: prefix of all names in C.
        precision: `"double"` or `"float"`.
        hysteresis: of `select_held`, a share of the width of each axis.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    files = c99_files(
        library, name=name, precision=precision, hysteresis=hysteresis, command=command
    )
    return write_new(folder, files)


def c99_files(
    library: PolicyLibrary,
    *,
    name: str = "library",
    precision: Precision = "double",
    hysteresis: float = 0.02,
    command: str | None = None,
) -> dict[str, bytes]:
    """The files of `export_c99` by name.

    Args:
        library: the library.
        name: prefix of all names in C.
        precision: `"double"` or `"float"`.
        hysteresis: of `select_held`, a share of the width of each axis.
        command: what was typed to make it, kept in the contract.
    """
    if precision not in ("double", "float"):
        raise UnknownNameError("precision", precision, ["double", "float"])
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InvalidInputError(
            f"name must be a C identifier (letters, digits, _), but got {name!r}."
        )
    if isinstance(library.regions, NamedRegions):
        raise InvalidInputError(
            "C code selects by contexts with coordinates, but the targets of this "
            "library have names only. Its folder of JSON and CSV can be used instead."
        )
    if not 0 <= hysteresis < np.inf:
        raise InvalidInputError(
            f"hysteresis >= 0 must hold, but got hysteresis={hysteresis}."
        )
    library.check_actions()
    real = Real(precision)
    library = _as_rounded(library, real)
    notes = [
        f"Compile with -std=c99; not with -ffast-math. Hysteresis {hysteresis:g} of "
        "the width of each axis in select_held.",
        "A refused context gives the action zero: look at the status.",
    ]
    if precision == "float":
        notes.append("The selection is that of the float context, exactly.")
    text = contract_bytes(library, command, precision, notes)
    return {
        f"{name}.h": _header(library, name, real).encode(),
        f"{name}.c": _source(library, name, real, hysteresis).encode(),
        f"{name}_selftest.c": selftest_source(library, name, real).encode(),
        "contract.json": text,
    }


def _as_rounded(library: PolicyLibrary, real: Real) -> PolicyLibrary:
    """The library with what may be said of its policies as this precision has them.

    A proof is about the numbers of the policies. Where rounding changes them, what was
    proven becomes an estimate, in the status, the header and the contract alike.
    """
    guarantee, policies = library.guarantee, library.policies
    if policies is None or guarantee.status != Status.GUARANTEED:
        return library
    if all(real.holds(array) for array in policies.arrays().values()):
        return library
    statement = (
        f"{guarantee.statement} This is a {guarantee.kind} for the policies in double; "
        f"here they are rounded to {real.name}, so it is an estimate. For a "
        f"{guarantee.kind}, round the policies before they are judged, or export "
        "in double."
    )
    return replace(
        library, guarantee=replace(guarantee, kind="estimate", statement=statement)
    )


def _header(library: PolicyLibrary, name: str, real: Real) -> str:
    upper = name.upper()
    axes = "".join(
        f" *   context[{i}]: {comment(f'{axis} [{unit}]' if unit else axis)}, "
        f"from {low:.17g} to {high:.17g}\n"
        for i, (axis, unit, low, high) in enumerate(
            zip(library.names, library.units, library.low, library.high, strict=True)
        )
    )
    fixed = "".join(
        f" *   {comment(key)} is {value:.17g} throughout\n"
        for key, value in library.fixed.items()
    )
    objective = library.provenance.get("objective", {})
    said = objective.get("statement") or library.provenance.get("cost", "")
    cost = f" * {comment(said)}\n *\n" if said else ""
    if library.operation:
        cost += f" * {comment(library.operation)}\n *\n"
    n_seen, n_actions = action_sizes(library.policies)
    act = ""
    if library.policies is not None:
        act = f"""
#define {upper}_N_OBSERVATIONS {n_seen}
#define {upper}_N_ACTIONS {n_actions}

/* The action of a policy by its number; zeros for a number that there is not. */
void {name}_act(int policy, const {name}_real observation[{upper}_N_OBSERVATIONS],
                {name}_real action[{upper}_N_ACTIONS]);

/* Select and act. A refused context gives zeros: look at the status. */
{name}_selection {name}_control(const {name}_real context[{upper}_N_AXES],
                                const {name}_real observation[{upper}_N_OBSERVATIONS],
                                {name}_real action[{upper}_N_ACTIONS]);
"""
    outside = {"refuse": "is refused", "clamp": "uses the nearest policy inside"}
    guaranteed, estimated = "never here", "never here"
    if library.guarantee.status == Status.GUARANTEED:
        guaranteed = f"by {library.guarantee.kind}"
    elif library.guarantee.status == Status.ESTIMATED:
        estimated = "served by estimates, nothing guaranteed"
    return f"""/* A policy library written by taskspace; contract.json says more.
 *
 * {comment(library.guarantee.statement)}
 *
{cost}{axes}{fixed} *
 * A context outside the range {outside[library.outside]}; one that is not finite is
 * refused.
 */
#ifndef {upper}_H
#define {upper}_H

#ifdef __cplusplus
extern "C" {{
#endif

typedef {real.name} {name}_real;

#define {upper}_N_AXES {len(library.names)}
#define {upper}_N_POLICIES {library.size}

enum {{
    {upper}_GUARANTEED = {int(Status.GUARANTEED)}, /* {guaranteed} */
    {upper}_INSIDE = {int(Status.INSIDE)},     /* in the range, nothing known */
    {upper}_OUTSIDE = {int(Status.OUTSIDE)},    /* out of range, nearest policy used */
    {upper}_REFUSED = {int(Status.REFUSED)},    /* no policy */
    {upper}_ESTIMATED = {int(Status.ESTIMATED)}   /* {estimated} */
}};

typedef struct {{
    int policy; /* -1 where refused */
    int status;
}} {name}_selection;

/* Which policy to use in a context. */
{name}_selection {name}_select(const {name}_real context[{upper}_N_AXES]);
{act}
/* For a context that drifts: keeps a policy a little beyond its region. */
typedef struct {{
    int policy;
    {name}_real age; /* time since the last switch */
    {name}_real anchor[{upper}_N_AXES];
}} {name}_hold;

void {name}_hold_start({name}_hold *hold);
{name}_selection {name}_select_held({name}_hold *hold,
                                    const {name}_real context[{upper}_N_AXES]);

/* The same, with the time since the last call: no switch comes sooner after another
 * than the dwell time that stability was proven for ({library.dwell_time:g}). */
{name}_selection {name}_select_timed({name}_hold *hold,
                                     const {name}_real context[{upper}_N_AXES],
                                     {name}_real elapsed);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(library: PolicyLibrary, name: str, real: Real, hysteresis: float) -> str:
    upper, regions = name.upper(), library.regions
    first, last = library.measured_range
    low, high = real.up(first), real.down(last)
    band = real.nearest(hysteresis * (library.high - library.low))
    known = library.guarantee.status
    served = regions.served & library.guarantee.speaks
    tables = [
        reals(real, "RANGE_LOW", low),
        reals(real, "RANGE_HIGH", high),
        reals(real, "HOLD_BAND", band),
        reals(real, "DWELL_TIME", real.up(np.array([library.dwell_time]))),
        integers("REGION_POLICY", regions.policy),
        integers("REGION_SERVED", served.astype(np.int64)),
    ]
    located, more = region_source(regions, real)
    refused = {
        "refuse": "if (!inside) {\n        return found;\n    }",
        "clamp": "",
    }[library.outside]
    parts = [
        f'#include "{name}.h"\n\n#include <math.h>\n#include <stdint.h>\n',
        f"typedef {name}_real real;\n",
        "\n".join(tables + more + policy_tables(library.policies, real)),
        located,
        f"""
{name}_selection {name}_select(const real context[{upper}_N_AXES])
{{
    {name}_selection found = {{-1, {upper}_REFUSED}};
    int axis, inside = 1;
    int_fast32_t region;

    for (axis = 0; axis < {upper}_N_AXES; axis++) {{
        if (!isfinite(context[axis])) {{
            return found;
        }}
        if (context[axis] < RANGE_LOW[axis] || context[axis] > RANGE_HIGH[axis]) {{
            inside = 0;
        }}
    }}
    {refused}
    region = locate(context);
    found.policy = (int)REGION_POLICY[region];
    if (found.policy < 0) {{
        return found;
    }}
    found.status = inside ? {upper}_INSIDE : {upper}_OUTSIDE;
    if (inside && REGION_SERVED[region] && knows(context, region)) {{
        found.status = {upper}_{known.name};
    }}
    return found;
}}
""",
        act_source(library.policies, name, real),
        _held_source(name, real),
    ]
    return "\n".join(part for part in parts if part)


def _held_source(name: str, real: Real) -> str:
    upper = name.upper()
    return f"""
void {name}_hold_start({name}_hold *hold)
{{
    int axis;

    hold->policy = -1;
    hold->age = 0;
    for (axis = 0; axis < {upper}_N_AXES; axis++) {{
        hold->anchor[axis] = 0;
    }}
}}

{name}_selection {name}_select_held({name}_hold *hold,
                                    const real context[{upper}_N_AXES])
{{
    return {name}_select_timed(hold, context, DWELL_TIME[0]);
}}

{name}_selection {name}_select_timed({name}_hold *hold,
                                     const real context[{upper}_N_AXES],
                                     real elapsed)
{{
    {name}_selection found = {name}_select(context);
    int axis, near = hold->policy >= 0;

    hold->age += elapsed;
    if (found.policy >= 0 && found.policy != hold->policy) {{
        for (axis = 0; axis < {upper}_N_AXES; axis++) {{
            near = near
                && {real.call("fabs")}(context[axis] - hold->anchor[axis])
                    <= HOLD_BAND[axis];
        }}
        if (near || (hold->policy >= 0 && hold->age < DWELL_TIME[0])) {{
            found.policy = hold->policy;
            if (found.status == {upper}_GUARANTEED
                || found.status == {upper}_ESTIMATED) {{
                found.status = {upper}_INSIDE;
            }}
            return found;
        }}
    }}
    if (found.policy != hold->policy) {{
        hold->age = 0;
    }}
    hold->policy = found.policy;
    for (axis = 0; axis < {upper}_N_AXES; axis++) {{
        hold->anchor[axis] = context[axis];
    }}
    return found;
}}
"""
