"""C99: static tables, no allocation, no library but math.h.

`NAME.h` and `NAME.c` hold the map, the policies and four functions: `select`, `act`,
`control` (both) and `select_held` (with hysteresis). `NAME_selftest.c` is a program
that checks them on the target against what Python gave.

The selection is exact: borders of the map are rounded in the direction in which a
comparison with a `float` (or `double`) context has the same outcome as Python's.
Gains in `double` are applied in Python's order and give the same bits, if the compiler
neither reassociates nor fuses (`-std=c99` without `-ffast-math`). Gains that `float`
rounds are other gains than those that a proof is about, so with them nothing is
GUARANTEED, only ESTIMATED.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace._util.words import round_to_side
from taskspace.deploy.base import (
    PolicyLibrary,
    Status,
    check_actions,
    require_coordinates,
    signal_sizes,
)
from taskspace.deploy.files import contract, contract_bytes, write_new
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export.base import as_estimate, exporter, memoryless, require_kind
from taskspace.export.c99_parts import act_source, policy_tables, region_source
from taskspace.export.c99_text import Real, comment, fill, integers, reals
from taskspace.policies import TabularPolicy

N_VECTORS = 48
"""Random contexts of the self-test."""


@exporter("c")
def export_c99(
    library: PolicyLibrary,
    folder: str | Path,
    *,
    name: str = "library",
    precision: str = "double",
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
    precision: str = "double",
    hysteresis: float = 0.02,
    command: str | None = None,
) -> dict[str, bytes]:
    """Return the files of `export_c99` by name.

    Args:
        library: the library.
        name: prefix of all names in C.
        precision: `"double"` or `"float"`.
        hysteresis: of `select_held`, a share of the width of each axis.
        command: what was typed to make it, kept in the contract.
    """
    require_kind(library, PolicyLibrary)
    if precision not in ("double", "float"):
        raise UnknownNameError("precision", precision, ["double", "float"])
    check_name(name)
    require_coordinates(library, "C code selects by contexts with coordinates")
    library.guarantee.check_hysteresis(hysteresis)
    check_actions(library)
    library = memoryless(library, "The C function of a policy")
    if library.policies is not None and signal_sizes(library.policies) is None:
        raise InvalidInputError(
            "C code can be written for policies of kind linear-gain, mlp and tabular, "
            f"but these are of kind {library.policies.kind!r}."
        )
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
        f"{name}_selftest.c": _selftest(library, name, real).encode(),
        "contract.json": text,
    }


def check_name(name: str) -> None:
    """Refuse a prefix that is no C identifier.

    Args:
        name: prefix of all names in C.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InvalidInputError(
            f"name must be a C identifier (letters, digits, _), but got {name!r}."
        )


def _as_rounded(library: PolicyLibrary, real: Real) -> PolicyLibrary:
    """Return the library, with what may be said of its policies in this precision.

    A proof is about the numbers of the policies. Where rounding changes them, what was
    proven becomes an estimate, in the status, the header and the contract alike.
    """
    policies = library.policies
    if policies is None or all(map(real.holds, policies.arrays().values())):
        return library
    return as_estimate(
        library,
        f"the policies in double; here they are rounded to {real.name}",
        advice=" For a {kind}, round the policies before they are judged, or export in "
        "double.",
    )


def _header(library: PolicyLibrary, name: str, real: Real) -> str:
    """Return the header, which says what the contract says."""
    upper, said = name.upper(), contract(library)
    axes = ""
    for i, axis in enumerate(said["inputs"]["context"]):
        title = f"{axis['name']} [{axis['unit']}]" if axis["unit"] else axis["name"]
        ends = f"from {axis['low']:.17g} to {axis['high']:.17g}"
        axes += f" *   context[{i}]: {comment(title)}, {ends}\n"
    fixed = "".join(
        f" *   {comment(key)} is {value:.17g} throughout\n"
        for key, value in said["inputs"]["fixed"].items()
    )
    texts = said["objective"].get("statement", ""), library.guarantee.operation
    cost = "".join(f" * {comment(text)}\n *\n" for text in texts if text)
    n_seen, n_actions = signal_sizes(library.policies) or (0, 0)
    act = ""
    if library.policies is not None:
        act = fill("act.h", name=name, upper=upper, n_seen=n_seen, n_actions=n_actions)
    is_timed = library.guarantee.dwell_time > 0
    timed = ""
    if is_timed:
        dwell = round_to_side(library.guarantee.dwell_time, up=True)
        timed = fill("timed.h", name=name, upper=upper, dwell_time=dwell)
    guaranteed, estimated = "never here", "never here"
    if library.guarantee.status == Status.GUARANTEED:
        guaranteed = f"by {library.guarantee.kind}"
    elif library.guarantee.status == Status.ESTIMATED:
        estimated = "served by estimates, nothing guaranteed"
    return fill(
        "library.h",
        name=name,
        upper=upper,
        real=real.name,
        statement=comment(said["guarantee"]["statement"]),
        cost=cost,
        axes=axes,
        fixed=fixed,
        outside=comment(said["selection"]["outside"]),
        not_finite=comment(said["selection"]["not_finite"]),
        n_axes=len(library.names),
        n_policies=library.size,
        **{key.upper(): value for key, value in said["outputs"]["status"].items()},
        guaranteed=guaranteed,
        estimated=estimated,
        act=act,
        age=f"\n    {name}_real age; /* time since the last switch */" * is_timed,
        timed=timed,
    )


def _source(library: PolicyLibrary, name: str, real: Real, hysteresis: float) -> str:
    upper, regions = name.upper(), library.regions
    first, last = library.measured_range
    low, high = real.up(first), real.down(last)
    band = real.nearest(hysteresis * (library.high - library.low))
    tables = [
        reals(real, "RANGE_LOW", low),
        reals(real, "RANGE_HIGH", high),
        reals(real, "HOLD_BAND", band),
        integers("REGION_POLICY", regions.policy),
        integers("REGION_STATUS", library.statuses()),
    ]
    is_timed = library.guarantee.dwell_time > 0
    if is_timed:
        dwell_time = real.up(np.array([library.guarantee.dwell_time]))
        tables.append(reals(real, "DWELL_TIME", dwell_time))
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
        fill(
            "select.c",
            name=name,
            upper=upper,
            refused=refused,
        ),
        act_source(library.policies, name, real),
        fill(
            "held.c",
            name=name,
            upper=upper,
            fabs=real.call("fabs"),
            start="\n    hold->age = 0;" * is_timed,
            switched="\n        hold->age = 0;" * is_timed,
        ),
        fill("timed.c", name=name, upper=upper) if is_timed else "",
    ]
    return "\n".join(part for part in parts if part)


def _selftest(library: PolicyLibrary, name: str, real: Real) -> str:
    """Return the program: contexts, observations, and what Python gave.

    Args:
        library: the library.
        name: prefix of names.
        real: precision of the numbers.
    """
    upper, rng = name.upper(), np.random.default_rng(0)
    width = library.high - library.low
    drawn = rng.uniform(-0.05, 1.05, (N_VECTORS, len(width))) * width + library.low
    nodes = library.regions.centres
    nodes = nodes[:: max(1, len(nodes) // 8)][:8]
    contexts = real.nearest(np.concatenate([nodes, drawn]))
    chosen = library.select(contexts.astype(np.float64))
    policy, status = np.asarray(chosen.policy), np.asarray(chosen.status)
    tables = [
        reals(real, "CONTEXT", contexts),
        integers("POLICY", policy),
        integers("STATUS", status),
    ]
    act = action = ""
    if library.policies is not None:
        seen, expected = _actions(library, real, policy, rng)
        exact = real.name == "double" and library.policies.kind != "mlp"
        share = 0.0 if exact else 1e-5
        tolerance = share * (1.0 + float(np.abs(expected).max(initial=0.0)))
        tables += [
            reals(real, "OBSERVATION", seen),
            reals(real, "ACTION", real.nearest(expected)),
        ]
        action = f"    real action[{upper}_N_ACTIONS];\n    int j;\n"
        act = fill(
            "selftest_act.c",
            name=name,
            upper=upper,
            n_seen=seen.shape[1],
            n_actions=expected.shape[1],
            tolerance=real.literal(tolerance),
        )
    return fill(
        "selftest.c",
        name=name,
        upper=upper,
        tables="\n".join(tables),
        action=action,
        n=len(contexts),
        act=act,
    )


def _actions(
    library: PolicyLibrary, real: Real, policy: Numbers, rng: np.random.Generator
) -> tuple[NDArray[Any], Array]:
    """Return an observation per context, and the action that Python gives."""
    n_seen, n_actions = signal_sizes(library.policies) or (0, 0)
    seen = real.nearest(rng.standard_normal((len(policy), n_seen)))
    is_tabular = isinstance(library.policies, TabularPolicy)
    if isinstance(library.policies, TabularPolicy):
        n_states = library.policies.probabilities.shape[-2]
        seen = real.nearest(rng.integers(0, n_states, (len(policy), 1)))
    actions = np.zeros((len(policy), n_actions))
    for i in np.flatnonzero(policy >= 0):
        one = seen[i].astype(np.float64)
        actions[i] = library.act_as(int(policy[i]), one[0] if is_tabular else one)
    return seen, actions
