"""A C program that checks an exported library on the machine that it runs on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import PolicyLibrary
from taskspace.export.c99_policies import action_sizes
from taskspace.export.c99_text import Real, integers, reals

__all__ = ["selftest_source"]

N_VECTORS = 48


def selftest_source(library: PolicyLibrary, name: str, real: Real) -> str:
    """The program: contexts, observations, and what Python gave.

    Args:
        library: the library.
        name: prefix of names.
        real: precision of the numbers.
    """
    upper = name.upper()
    contexts, seen, expected = _vectors(library, real)
    chosen = library.select(contexts.astype(np.float64))
    policy, status = np.asarray(chosen.policy), np.asarray(chosen.status)
    tables = [
        reals(real, "CONTEXT", contexts),
        integers("POLICY", policy),
        integers("STATUS", status),
    ]
    act = ""
    if seen is not None and expected is not None:
        exact = real.name == "double" and getattr(library.policies, "kind", "") != "mlp"
        share = 0.0 if exact else 1e-5
        tolerance = share * (1.0 + float(np.abs(expected).max(initial=0.0)))
        tables += [
            reals(real, "OBSERVATION", seen),
            reals(real, "ACTION", real.nearest(expected)),
        ]
        n_seen, n_actions = seen.shape[1], expected.shape[1]
        act = f"""
        {name}_control(CONTEXT + i * {upper}_N_AXES,
                       OBSERVATION + i * {n_seen}, action);
        for (j = 0; j < {n_actions}; j++) {{
            real difference = action[j] - ACTION[i * {n_actions} + j];
            if (!(difference <= {real.literal(tolerance)}
                  && -difference <= {real.literal(tolerance)})) {{
                failures++;
            }}
        }}"""
    action = f"    real action[{upper}_N_ACTIONS];\n    int j;\n" if act else ""
    joined = "\n".join(tables)
    return f"""/* Checks {name}.c against Python here; exit code 0 is good. */
#include "{name}.h"

#include <stdint.h>
#include <stdio.h>

typedef {name}_real real;

{joined}

int main(void)
{{
    int i, failures = 0;
{action}
    for (i = 0; i < {len(contexts)}; i++) {{
        {name}_selection found = {name}_select(CONTEXT + i * {upper}_N_AXES);
        if (found.policy != POLICY[i] || found.status != STATUS[i]) {{
            failures++;
        }}{act}
    }}
    printf("{name}: %d of {len(contexts)} vectors, %d failures\\n", i, failures);
    return failures != 0;
}}
"""


def _vectors(
    library: PolicyLibrary, real: Real
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.float64] | None]:
    """Contexts in and out of the range, observations, and Python's actions."""
    rng = np.random.default_rng(0)
    width = library.high - library.low
    drawn = rng.uniform(-0.05, 1.05, (N_VECTORS, len(width))) * width + library.low
    nodes = library.regions.centres[:: max(1, library.regions.n_regions // 8)][:8]
    contexts = real.nearest(np.concatenate([nodes, drawn]))
    n_seen, n_actions = action_sizes(library.policies)
    if library.policies is None:
        return contexts, None, None
    chosen = library.select(contexts.astype(np.float64)).policy
    seen = real.nearest(rng.standard_normal((len(contexts), n_seen)))
    if library.policies.kind == "tabular":
        n_states = library.policies.arrays()["probabilities"].shape[-2]
        seen = real.nearest(rng.integers(0, n_states, (len(contexts), 1)))
    acted = np.zeros((len(contexts), n_actions))
    for i in np.flatnonzero(chosen >= 0):
        one = seen[i].astype(np.float64)
        one = one[0] if library.policies.kind == "tabular" else one
        acted[i] = library.act_as(int(chosen[i]), one)
    return contexts, seen, acted
