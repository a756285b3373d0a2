"""The map and the policies of a library in C99: their tables and functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.regions import BoxRegions, GridRegions, Regions
from taskspace.export.c99_text import Real, fill, integers, reals
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy

# --- the map: index of a grid, tree of boxes --------------------------------------


def region_source(regions: Regions, real: Real) -> tuple[str, list[str]]:
    """Return the functions `locate` and `knows`, and the tables that they read.

    Args:
        regions: the map.
        real: precision of the numbers.
    """
    if isinstance(regions, GridRegions):
        return _grid_source(regions, real)
    assert isinstance(regions, BoxRegions)
    return _tree_source(regions, real)


def _grid_source(regions: GridRegions, real: Real) -> tuple[str, list[str]]:
    shape = regions.shape
    first = np.concatenate([[0], np.cumsum(shape)])
    values = [_only_exact(real, value) for value in regions.values]
    # One border fewer than values: the last of each axis is padding, never read.
    borders = [np.append(real.down(b), real.nearest(0.0)) for b in regions.borders]
    tables = [
        integers("AXIS_SIZE", np.array(shape)),
        integers("AXIS_FIRST", first[:-1]),
        reals(real, "NODE", np.concatenate(values)),
        reals(real, "BORDER", np.concatenate(borders)),
    ]
    return fill("grid.c", d=len(shape)), tables


def _tree_source(regions: BoxRegions, real: Real) -> tuple[str, list[str]]:
    tables = [
        integers("TREE_AXIS", regions.axis),
        reals(real, "TREE_CUT", real.down(regions.cut)),
        integers("TREE_FOLLOW", regions.follow),
    ]
    d = len(regions.low)
    knows = "boxes_whole.c"
    if regions.nodes is not None:
        knows = "boxes_nodes.c"
        columns = [_only_exact(real, column) for column in regions.nodes.T]
        tables.append(reals(real, "NODE", np.stack(columns, 1)))
    return fill("boxes.c", d=d, depth=regions.depth) + fill(knows, d=d), tables


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


def policy_tables(policies: Policy | None, real: Real) -> list[str]:
    """Return static tables of all policies.

    Args:
        policies: the stack of a library, None for names only.
        real: precision of the numbers.
    """
    if isinstance(policies, LinearGain):
        return [reals(real, "GAIN", real.nearest(policies.gain))]
    if isinstance(policies, Mlp):
        tables = []
        for i, (weight, bias) in enumerate(
            zip(policies.weights, policies.biases, strict=True)
        ):
            tables.append(reals(real, f"WEIGHT_{i}", real.nearest(weight)))
            tables.append(reals(real, f"BIAS_{i}", real.nearest(bias)))
        return tables
    if isinstance(policies, TabularPolicy):
        return [integers("BEST_ACTION", policies.probabilities.argmax(-1))]
    return []


def act_source(policies: Policy | None, name: str, real: Real) -> str:
    """Return the functions `act` and `control`.

    Args:
        policies: the stack of a library, None for names only.
        name: prefix of names.
        real: precision of the numbers.
    """
    if policies is None:
        return ""
    upper = name.upper()
    before = ""
    if isinstance(policies, LinearGain):
        body = fill("gain.c", n=f"{upper}_N_OBSERVATIONS", m=f"{upper}_N_ACTIONS")
    elif isinstance(policies, Mlp):
        before, body = fill("layer.c"), _network_body(policies, upper, real)
    else:
        assert isinstance(policies, TabularPolicy)
        n_states = policies.probabilities.shape[-2]
        body = fill("tabular.c", n_states=n_states, last=n_states - 1)
    return fill("act.c", name=name, upper=upper, before=before, body=body)


def _network_body(policies: Mlp, upper: str, real: Real) -> str:
    sizes = [w.shape[-2:] for w in policies.weights]
    widest = max(n_out for _, n_out in sizes)
    lines = [f"    {{\n        real even[{widest}], odd[{widest}];\n"]
    source = "observation"
    for i, (n_in, n_out) in enumerate(sizes):
        out = "even" if i % 2 == 0 else "odd"
        lines.append(
            f"        layer(WEIGHT_{i} + (long)policy * {n_in * n_out}, "
            f"BIAS_{i} + (long)policy * {n_out}, {n_in}, {n_out}, {source}, {out});\n"
        )
        if i < len(sizes) - 1:
            value = f"{out}[i] > 0 ? {out}[i] : 0"
            if policies.activation == "tanh":
                value = f"{real.call('tanh')}({out}[i])"
            lines.append(
                f"        for (i = 0; i < {n_out}; i++) {{\n"
                f"            {out}[i] = {value};\n        }}\n"
            )
        source = out
    lines.append(_head(policies, source, sizes[-1][1], upper, real))
    if len(sizes) == 1:
        lines.append("        (void)odd;\n")
    return "".join(lines) + "    }\n"


def _head(policies: Mlp, out: str, n_out: int, upper: str, real: Real) -> str:
    if policies.head == "argmax":
        return fill("argmax.c", out=out, n_out=n_out)
    low, high = float(policies.action_low), float(policies.action_high)
    start = f"        for (i = 0; i < {upper}_N_ACTIONS; i++) {{\n"
    if policies.head == "squash":
        width = real.literal(high - low)
        return (
            f"{start}            action[i] = {real.literal(low)}\n"
            f"                + ({real.call('tanh')}({out}[i]) + 1) / 2 * {width};\n"
            "        }\n"
        )
    clip = f"            action[i] = {out}[i];\n"
    for sign, bound in (("<", low), (">", high)):
        if np.isfinite(bound):
            text = real.literal(bound)
            clip += (
                f"            if (action[i] {sign} {text}) {{\n"
                f"                action[i] = {text};\n            }}\n"
            )
    return f"{start}{clip}        }}\n"
