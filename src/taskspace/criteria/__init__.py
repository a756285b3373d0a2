r"""Criteria: what a source loses at a target, and the tolerance sets that follow.

A criterion turns a performance table into one loss matrix `(source, target)`; a
source serves a target within ε iff `loss <= epsilon`.

| criterion | loss of policy π of source s at target t |
|---|---|
| `signed` | J(s, π) − J(t, π): the paper's divergence D, relative to π's own score |
| `regret` | best known J at t − J(t, π) |
| `ratio` | cost at t / best known cost at t − 1, for J = −cost < 0 |
| `floor` | −J(t, π): "at least this good" |
| `every_start` | cost / least cost − 1 at t from the worst initial state |

`judge="worst"` takes the worst policy of the source's family (the paper's sup),
`judge="best"` the best one. See docs/theory.md, "Criteria".
"""

from taskspace.criteria.base import (
    JUDGES,
    Criterion,
    judge_named,
)
from taskspace.criteria.losses import (
    CRITERIA,
    assigned_errors,
    assigned_losses,
    assigned_regret,
    criterion_named,
    loss,
    loss_blocks,
    loss_rows,
    table_sets,
    tolerance_sets,
    without_reference,
)

__all__ = [
    "CRITERIA",
    "JUDGES",
    "Criterion",
    "assigned_errors",
    "assigned_losses",
    "assigned_regret",
    "criterion_named",
    "judge_named",
    "loss",
    "loss_blocks",
    "loss_rows",
    "table_sets",
    "tolerance_sets",
    "without_reference",
]
