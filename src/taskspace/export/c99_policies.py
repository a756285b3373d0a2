"""Policies in C99: gains, networks and tables of actions."""

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.export.c99_text import Real, integers, reals
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy

__all__ = ["act_source", "action_sizes", "policy_tables"]


def action_sizes(policies: Policy | None) -> tuple[int, int]:
    """Length of an observation and of an action in C.

    Args:
        policies: the stack of a library, None for names only.
    """
    if policies is None:
        return 0, 0
    if isinstance(policies, LinearGain):
        n_actions, n_seen = policies.gain.shape[-2:]
        return n_seen, n_actions
    if isinstance(policies, Mlp):
        n_actions = 1 if policies.head == "argmax" else policies.biases[-1].shape[-1]
        return policies.weights[0].shape[-2], n_actions
    if isinstance(policies, TabularPolicy):
        return 1, 1
    raise InvalidInputError(
        "C code can be written for policies of kind linear-gain, mlp and tabular, but "
        f"these are of kind {policies.kind!r}."
    )


def policy_tables(policies: Policy | None, real: Real) -> list[str]:
    """Static tables of all policies.

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
    """The functions `act` and `control`.

    Args:
        policies: the stack of a library, None for names only.
        name: prefix of names.
        real: precision of the numbers.
    """
    if policies is None:
        return ""
    upper = name.upper()
    if isinstance(policies, LinearGain):
        before, body = "", _gain_body(upper)
    elif isinstance(policies, Mlp):
        before, body = _layer_function(), _network_body(policies, upper, real)
    else:
        assert isinstance(policies, TabularPolicy)
        before, body = "", _tabular_body(policies)
    return f"""{before}
void {name}_act(int policy, const real observation[{upper}_N_OBSERVATIONS],
                real action[{upper}_N_ACTIONS])
{{
    int i;

    for (i = 0; i < {upper}_N_ACTIONS; i++) {{
        action[i] = 0;
    }}
    if (policy < 0 || policy >= {upper}_N_POLICIES) {{
        return;
    }}
{body}}}

{name}_selection {name}_control(const real context[{upper}_N_AXES],
                                const real observation[{upper}_N_OBSERVATIONS],
                                real action[{upper}_N_ACTIONS])
{{
    {name}_selection found = {name}_select(context);

    {name}_act(found.policy, observation, action);
    return found;
}}
"""


def _gain_body(upper: str) -> str:
    n, m = f"{upper}_N_OBSERVATIONS", f"{upper}_N_ACTIONS"
    return f"""    for (i = 0; i < {m}; i++) {{
        const real *row = GAIN + (policy * {m} + i) * {n};
        real sum = -row[0] * observation[0];
        int j;
        for (j = 1; j < {n}; j++) {{
            sum = sum + -row[j] * observation[j];
        }}
        action[i] = sum;
    }}
"""


def _layer_function() -> str:
    return """
/* out = in W + b, W by rows of inputs. */
static void layer(const real *weight, const real *bias, int n_in, int n_out,
                  const real *in, real *out)
{
    int i, j;

    for (j = 0; j < n_out; j++) {
        out[j] = bias[j];
    }
    for (i = 0; i < n_in; i++) {
        const real x = in[i];
        for (j = 0; j < n_out; j++) {
            out[j] += x * weight[i * n_out + j];
        }
    }
}
"""


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
        return f"""        {{
            int best = 0;
            for (i = 1; i < {n_out}; i++) {{
                if ({out}[i] > {out}[best]) {{
                    best = i;
                }}
            }}
            action[0] = (real)best;
        }}
"""
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


def _tabular_body(policies: TabularPolicy) -> str:
    n_states = policies.probabilities.shape[-2]
    return f"""    {{
        int state = 0;
        if (observation[0] >= {n_states}) {{
            state = {n_states - 1};
        }} else if (observation[0] > 0) {{
            state = (int)observation[0];
        }}
        action[0] = (real)BEST_ACTION[policy * {n_states} + state];
    }}
"""
