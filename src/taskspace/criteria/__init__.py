r"""Criteria: what a source loses at a target, and the tolerance sets that follow.

A criterion turns a performance table into one loss matrix `(source, target)`; a
source serves a target within ε iff `loss <= epsilon`.

| criterion | loss of policy π of source s at target t |
|---|---|
| `signed` | J(s, π) − J(t, π): the paper's divergence D, relative to π's own score |
| `regret` | best known J at t − J(t, π) |
| `ratio` | cost at t / best known cost at t − 1, for J = −cost < 0 |
| `floor` | −J(t, π): "at least this good"; or minus another measure than J |
| `every_start` | cost / least cost − 1 at t from the worst initial state |

`judge="worst"` takes the worst policy of the source's family (the paper's sup),
`judge="best"` the best one. See docs/theory.md, "Criteria".
"""

from taskspace.criteria.base import JUDGES, Criterion
from taskspace.criteria.every_start import EveryStart
from taskspace.criteria.floor import Floor
from taskspace.criteria.ratio import Ratio
from taskspace.criteria.regret import Regret
from taskspace.criteria.signed import Signed
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.base import MEASURES

__all__ = ["CRITERIA", "JUDGES", "Criterion", "criterion_named"]

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (Signed(), Regret(), Ratio(), Floor(), EveryStart())
}
"""All criteria by name; a new one is a file beside these and a name here."""


def criterion_named(name: str, measure: str = "") -> Criterion:
    """Return the criterion of this name.

    Args:
        name: one of `CRITERIA`.
        measure: the score that it reads, where that is not its own; `floor` takes any
            of `taskspace.systems.base.MEASURES`.
    """
    if name not in CRITERIA:
        raise UnknownNameError("criterion", name, CRITERIA)
    if measure in ("", CRITERIA[name].measure):
        return CRITERIA[name]
    if measure not in MEASURES:
        raise UnknownNameError("measure", measure, ["performance", *MEASURES])
    if name != "floor":
        raise InvalidInputError(
            f"Another measure than its own is for criterion='floor', but criterion="
            f"{name!r} was asked with measure={measure!r}: nobody knows the best "
            f"{measure} of a target."
        )
    return Floor(measure)
