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
import textwrap
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.decimals import round_to_side
from taskspace.deploy.base import Status
from taskspace.deploy.files import json_bytes, write_new
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import GridRegions, Regions
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.export.base import as_estimate, exporter, memoryless, require_kind
from taskspace.policies import LinearGain, Mlp, Policy

PER_LINE = 6
WRAPPER = textwrap.TextWrapper(81, break_long_words=False, break_on_hyphens=False)
N_VECTORS = 48
"""Random contexts of a self-test."""


# --- numbers, tables and comments as C, without a digit or a unit lost --------------


def fill(template: str, **values: object) -> str:
    """Return C code from a file in `templates/`, `${name}` replaced by its value.

    Args:
        template: name of the file.
        **values: the value of each name.
    """
    folder = resources.files("taskspace.export") / "templates"
    return Template((folder / template).read_text("utf-8")).substitute(values)


def check_name(name: str) -> None:
    """Refuse a prefix that is no C identifier.

    Args:
        name: prefix of all names in C.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InvalidInputError(
            f"name must be a C identifier (letters, digits, _), but got {name!r}."
        )


class Real:
    """A floating-point type of C, and rounding to it.

    Args:
        name: `"double"` or `"float"`.
    """

    def __init__(self, name: str):
        self.name = name
        self.dtype = np.dtype(np.float64 if name == "double" else np.float32)

    def nearest(self, values: ArrayLike) -> NDArray[Any]:
        """Return the nearest numbers of the type.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        with np.errstate(over="ignore"):
            near = exact.astype(self.dtype)
        if (too_large := np.isinf(near) & np.isfinite(exact)).any():
            raise InvalidInputError(
                f"Every number must fit a C {self.name}, but "
                f"{exact[too_large].flat[0]:g} does not. Use "
                "precision='double', or other units."
            )
        return near

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether the type has all of these numbers exactly.

        Args:
            values: numbers.
        """
        exact = np.asarray(values, np.float64)
        return bool((self.nearest(exact).astype(np.float64) == exact).all())

    def down(self, values: ArrayLike) -> NDArray[Any]:
        """Return the largest numbers of the type that are not above.

        Args:
            values: numbers in double.
        """
        exact = np.asarray(values, np.float64)
        near = self.nearest(exact)
        lower = np.nextafter(near, self.dtype.type(-np.inf))
        return np.where(near.astype(np.float64) > exact, lower, near)

    def up(self, values: ArrayLike) -> NDArray[Any]:
        """Return the smallest numbers of the type that are not below.

        Args:
            values: numbers in double.
        """
        return -self.down(-np.asarray(values, np.float64))

    def call(self, function: str) -> str:
        """Return the function of math.h for the type.

        Args:
            function: its name for double.
        """
        return function if self.name == "double" else f"{function}f"

    def literal(self, value: float) -> str:
        """Return a number as a hexadecimal constant, which no compiler rounds.

        Args:
            value: a number of the type, not NaN.
        """
        if np.isinf(value):
            return f"{'-' * (value < 0)}({self.name})INFINITY"
        suffix = "" if self.name == "double" else "F"
        return f"{float(self.nearest(value)).hex()}{suffix}"


def reals(real: Real, name: str, values: ArrayLike) -> str:
    """Return a static table of numbers, with decimals beside a short one.

    Args:
        real: their type.
        name: name of the table.
        values: the numbers, any shape, written flat.
    """
    flat = np.asarray(values).reshape(-1).tolist()
    note = ""
    if len(flat) <= PER_LINE:
        note = f" /* {', '.join(f'{x:.9g}' for x in flat)} */"
    return _table(real.name, name, [real.literal(x) for x in flat], note)


def integers(name: str, values: ArrayLike) -> str:
    """Return a static table of integers, of the smallest type that holds them.

    Args:
        name: name of the table.
        values: the integers.
    """
    flat = np.asarray(values, np.int64).reshape(-1)
    largest = max(int(flat.max()), -int(flat.min()) - 1)
    bits = next(n for n in (8, 16, 32, 64) if largest < 2 ** (n - 1))
    return _table(f"int{bits}_t", name, [str(x) for x in flat.tolist()], "")


def _table(kind: str, name: str, items: list[str], note: str) -> str:
    rows = (items[i : i + PER_LINE] for i in range(0, len(items), PER_LINE))
    body = ",\n".join("    " + ", ".join(row) for row in rows)
    return f"static const {kind} {name}[{len(items)}] = {{{note}\n{body}\n}};\n"


def comment(text: str) -> str:
    """Return text that cannot end the comment it is written in, in short lines.

    Args:
        text: any text; what cannot be printed becomes a blank.
    """
    text = "".join(c if c.isprintable() else " " for c in text)
    text = text.replace("??", "? ?")  # no trigraphs
    text = text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
    return "\n * ".join(WRAPPER.wrap(" ".join(text.split())))


def contexts_comment(contract: Mapping[str, Any]) -> str:
    """Return what a contract says of contexts, as lines of the comment of a header.

    Args:
        contract: of the library.
    """
    scales = contract["selection"].get("interpolation", {})
    lines = []
    for i, axis in enumerate(contract["inputs"]["context"]):
        title = f"{axis['name']} [{axis['unit']}]" if axis["unit"] else axis["name"]
        words = f"{title}, from {axis['low']:.17g} to {axis['high']:.17g}"
        words += f", measured within {axis['error']}" if "error" in axis else ""
        words += f", {scales[axis['name']]}" if scales else ""
        lines.append(f" *   context[{i}]: {comment(words)}\n")
    for name, value in contract["inputs"]["fixed"].items():
        lines.append(f" *   {comment(name)} is {value:.17g} throughout\n")
    return "".join(lines)


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
    return write_new(folder, c99_files(library, name, precision, hysteresis, command))


def c99_files(
    library: PolicyLibrary,
    name: str = "library",
    precision: str = "double",
    hysteresis: float = 0.02,
    command: str | None = None,
) -> dict[str, bytes]:
    """Return the files of `export_c99` by name.

    Args:
        library: as in `export_c99`, like all that follow.
        name: prefix of all names in C.
        precision: `"double"` or `"float"`.
        hysteresis: of `select_held`.
        command: what was typed to make it.
    """
    require_kind(library, PolicyLibrary)
    if precision not in ("double", "float"):
        raise UnknownNameError("precision", precision, ["double", "float"])
    check_name(name)
    library.require_coordinates("C code selects by contexts with coordinates")
    library.guarantee.check_hysteresis(hysteresis)
    library = memoryless(library, "The C function of a policy")
    real = Real(precision)
    arrays = [] if library.policies is None else library.policies.arrays().values()
    if not all(map(real.holds, arrays)):
        # A proof is about the numbers of the policies, and these are others.
        library = as_estimate(
            library,
            f"the policies in double; here they are rounded to {real.name}",
            " To keep it, round the policies before they are judged, or export in "
            "double.",
        )
    notes = [
        f"Compile with -std=c99; not with -ffast-math. Hysteresis {hysteresis:g} of "
        "the width of each axis in select_held.",
        "A refused context gives the action zero: look at the status.",
    ]
    if precision == "float":
        notes.append("The selection is that of the float context, exactly.")
    said = library.contract(command=command, arithmetic=precision, notes=notes)
    return {
        f"{name}.h": _header(library, name, real, said).encode(),
        f"{name}.c": _source(library, name, real, hysteresis).encode(),
        f"{name}_selftest.c": _selftest(library, name, real).encode(),
        "contract.json": json_bytes(said),
    }


def _header(library: PolicyLibrary, name: str, real: Real, said: dict[str, Any]) -> str:
    """Return the header, which says what the contract says."""
    names, guarantee = {"name": name, "upper": name.upper()}, library.guarantee
    texts = said["objective"].get("statement", ""), guarantee.operation
    act = timed = ""
    if library.signal_sizes is not None:
        n_seen, n_actions = library.signal_sizes
        act = fill("act.h", n_seen=n_seen, n_actions=n_actions, **names)
    if guarantee.dwell_time > 0:
        dwell = round_to_side(guarantee.dwell_time, up=True)
        timed = fill("timed.h", dwell_time=dwell, **names)
    guaranteed = estimated = "never here"
    if guarantee.status == Status.GUARANTEED:
        guaranteed = f"by {guarantee.kind}"
    elif guarantee.status == Status.ESTIMATED:
        estimated = "served by estimates, nothing guaranteed"
    return fill(
        "library.h",
        real=real.name,
        statement=comment(guarantee.statement),
        cost="".join(f" * {comment(text)}\n *\n" for text in texts if text),
        contexts=contexts_comment(said),
        outside=comment(said["selection"]["outside"]),
        not_finite=comment(said["selection"]["not_finite"]),
        n_axes=len(library.names),
        n_policies=library.size,
        guaranteed=guaranteed,
        estimated=estimated,
        act=act,
        age=f"\n    {name}_real age; /* time since the last switch */" * bool(timed),
        timed=timed,
        **names,
        **{key.upper(): value for key, value in said["outputs"]["status"].items()},
    )


def _source(library: PolicyLibrary, name: str, real: Real, hysteresis: float) -> str:
    names, regions = {"name": name, "upper": name.upper()}, library.regions
    first, last = library.measured_range
    located, more = _region_source(regions, real)
    tables = [
        reals(real, "RANGE_LOW", real.up(first)),
        reals(real, "RANGE_HIGH", real.down(last)),
        reals(
            real, "HOLD_BAND", real.nearest(hysteresis * (library.high - library.low))
        ),
        integers("REGION_POLICY", regions.policy),
        integers("REGION_STATUS", library.statuses()),
        *more,
        *_policy_tables(library.policies, real),
    ]
    is_timed = library.guarantee.dwell_time > 0
    if is_timed:
        tables.append(
            reals(real, "DWELL_TIME", real.up([library.guarantee.dwell_time]))
        )
    refuse = "if (!inside) {\n        return found;\n    }"
    return "\n".join(
        [
            f'#include "{name}.h"\n\n#include <math.h>\n#include <stdint.h>\n',
            f"typedef {name}_real real;\n",
            "\n".join(tables),
            located,
            fill("select.c", refused=refuse * (library.outside == "refuse"), **names),
            _act_source(library.policies, real, names),
            fill(
                "held.c",
                fabs=real.call("fabs"),
                start="\n    hold->age = 0;" * is_timed,
                switched="\n        hold->age = 0;" * is_timed,
                **names,
            ),
            fill("timed.c", **names) if is_timed else "",
        ]
    )


# --- the map ------------------------------------------------------------------------


def _region_source(regions: Regions, real: Real) -> tuple[str, list[str]]:
    """Return the functions `locate` and `knows`, and the tables that they read."""
    d = len(regions.low)
    if isinstance(regions, GridRegions):
        # One border fewer than values: the last of each axis is padding, never read.
        borders = [np.append(real.down(b), real.nearest(0.0)) for b in regions.borders]
        values = [_only_exact(real, value) for value in regions.values]
        return fill("grid.c", d=d), [
            integers("AXIS_SIZE", regions.shape),
            integers("AXIS_FIRST", np.cumsum([0, *regions.shape[:-1]])),
            reals(real, "NODE", np.concatenate(values)),
            reals(real, "BORDER", np.concatenate(borders)),
        ]
    low, high = regions.open_ends
    tables = [
        reals(real, "BOX_LOW", real.down(low)),
        reals(real, "BOX_HIGH", real.down(high)),
    ]
    knows = "boxes_whole.c"
    if regions.nodes is not None:
        knows = "boxes_nodes.c"
        columns = [_only_exact(real, column) for column in regions.nodes.T]
        tables.append(reals(real, "NODE", np.stack(columns, 1)))
    return fill("boxes.c", d=d, n=len(low)) + fill(knows, d=d), tables


def _only_exact(real: Real, values: NDArray[Any]) -> NDArray[Any]:
    """Nodes that the precision has exactly; others become a value out of range.

    A context in `float` is never equal to a node that is not a `float`, so what is
    known at the node is not claimed for a neighbour.
    """
    rounded = real.nearest(values)
    low = real.up(values.min())
    outside = np.nextafter(low, np.array(-np.inf, low.dtype))
    return np.where(rounded.astype(np.float64) == values, rounded, outside)


# --- policies: gains, networks and tables of actions ------------------------------


def _policy_tables(policies: Policy | None, real: Real) -> list[str]:
    """Return static tables of all policies."""
    if isinstance(policies, LinearGain):
        return [reals(real, "GAIN", real.nearest(policies.gain))]
    if isinstance(policies, Mlp):
        # One row per policy: all layers, one behind the other.
        parts = {"WEIGHT": policies.weights, "BIAS": policies.biases}
        rows = {
            name: np.hstack([x.reshape(len(x), -1) for x in layers])
            for name, layers in parts.items()
        }
        return [reals(real, name, real.nearest(x)) for name, x in rows.items()]
    return []


def _act_source(policies: Policy | None, real: Real, names: dict[str, str]) -> str:
    """Return the functions `act` and `control`."""
    if policies is None:
        return ""
    upper, before = names["upper"], ""
    if isinstance(policies, Mlp):
        before, body = fill("layer.c"), _network_body(policies, real)
    else:
        body = fill("gain.c", n=f"{upper}_N_OBSERVATIONS", m=f"{upper}_N_ACTIONS")
    return fill("act.c", before=before, body=body, **names)


def _network_body(policies: Mlp, real: Real) -> str:
    shapes = [w.shape[-2:] for w in policies.weights]
    sizes = [shapes[0][0], *(n_out for _, n_out in shapes)]
    low, high = float(policies.action_low), float(policies.action_high)
    head = {"n_out": sizes[-1], "low": real.literal(low)}
    if policies.head == "squash":
        head |= {"tanh": real.call("tanh"), "width": real.literal(high - low)}
    elif policies.head == "clip":
        head["high"] = real.literal(high)
    is_tanh = policies.activation == "tanh"
    return fill(
        "network.c",
        sizes=", ".join(map(str, sizes)),
        n_layers=len(shapes),
        n_weights=sum(n_in * n_out for n_in, n_out in shapes),
        n_biases=sum(sizes[1:]),
        widest=max(sizes[1:]),
        activation=f"{real.call('tanh')}(out[i])"
        if is_tanh
        else "out[i] > 0 ? out[i] : 0",
        head=fill(f"{policies.head}.c", **head),
    )


# --- the self-test ------------------------------------------------------------------


def _selftest(library: PolicyLibrary, name: str, real: Real) -> str:
    """Return the program: contexts, observations, and what Python gave."""
    names, rng = {"name": name, "upper": name.upper()}, np.random.default_rng(0)
    width = library.high - library.low
    drawn = rng.uniform(-0.05, 1.05, (N_VECTORS, len(width))) * width + library.low
    nodes = library.regions.centres
    nodes = nodes[:: max(1, len(nodes) // 8)][:8]
    contexts = real.nearest(np.concatenate([nodes, drawn]))
    chosen = library.select(contexts.astype(np.float64))
    tables = [
        reals(real, "CONTEXT", contexts),
        integers("POLICY", chosen.policy),
        integers("STATUS", chosen.status),
    ]
    act = action = ""
    if library.policies is not None:
        n_seen, n_actions = library.signal_sizes or (0, 0)
        seen = real.nearest(rng.standard_normal((len(contexts), n_seen)))
        expected = np.zeros((len(contexts), n_actions))
        for i in np.flatnonzero(chosen.policy >= 0):
            observation = seen[i].astype(np.float64)
            expected[i] = library.act_as(chosen.policy[i], observation)
        exact = real.name == "double" and library.policies.kind != "mlp"
        share = 0.0 if exact else 1e-5
        tolerance = share * (1.0 + float(np.abs(expected).max(initial=0.0)))
        tables += [
            reals(real, "OBSERVATION", seen),
            reals(real, "ACTION", real.nearest(expected)),
        ]
        action = f"    real action[{names['upper']}_N_ACTIONS];\n    int j;\n"
        sizes = {"n_seen": n_seen, "n_actions": n_actions}
        act = fill(
            "selftest_act.c", tolerance=real.literal(tolerance), **sizes, **names
        )
    return fill(
        "selftest.c",
        tables="\n".join(tables),
        action=action,
        n=len(contexts),
        act=act,
        **names,
    )
