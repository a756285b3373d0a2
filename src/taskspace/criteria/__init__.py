r"""Criteria: what a source loses at a target, and the tolerance sets that follow.

A criterion turns a performance table into one loss matrix `(source, target)`; a
source serves a target within ε iff `loss <= epsilon`.

| criterion | loss of policy π of source s at target t |
|---|---|
| `signed` | J(s, π) − J(t, π): the paper's divergence D, relative to π's own score |
| `regret` | best known J at t − J(t, π) |
| `ratio` | cost at t / best known cost at t − 1, for J = −cost < 0 |
| `floor` | −J(t, π): "at least this good"; or minus another measure than J |

Some take parameters, written after the name: `"ratio:floor=0.1"`.

`judge="worst"` takes the worst policy of the source's family (the paper's sup),
`judge="best"` the best one. See docs/theory.md, "Criteria".
"""

from taskspace.criteria.base import JUDGES, Criterion
from taskspace.criteria.floor import Floor
from taskspace.criteria.ratio import Ratio
from taskspace.criteria.regret import Regret
from taskspace.criteria.signed import Signed
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.base import MEASURES

__all__ = ["CRITERIA", "JUDGES", "Criterion", "criterion_named"]

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion for criterion in (Signed(), Regret(), Ratio(), Floor())
}
"""All criteria by name; a new one is a file beside these and a name here."""


def criterion_named(text: str, measure: str = "") -> Criterion:
    """Return the criterion of this name, with the parameters that follow it.

    Args:
        text: one of `CRITERIA`, and its parameters if others than its own are meant:
            `"ratio:floor=0.1"`.
        measure: the score that it reads, where that is not its own; `floor` takes any
            of `taskspace.systems.base.MEASURES`.
    """
    if not isinstance(text, str):
        raise UnknownNameError("criterion", text, CRITERIA)
    name, _, rest = text.partition(":")
    if name not in CRITERIA:
        raise UnknownNameError("criterion", name, CRITERIA)
    rule = CRITERIA[name]
    if rest:
        rule = type(rule)(**_parameters(rule, rest))
    if measure in ("", rule.measure):
        return rule
    if not isinstance(measure, str) or measure not in MEASURES:
        raise UnknownNameError("measure", measure, ["performance", *MEASURES])
    if name != "floor":
        raise InvalidInputError(
            f"Another measure than its own is for criterion='floor', but criterion="
            f"{name!r} was asked with measure={measure!r}: there is no known best "
            f"{measure} of a target."
        )
    return Floor(measure)


def _parameters(rule: Criterion, text: str) -> dict[str, float]:
    """Return the parameters of `floor=0.1,...`, checked."""
    values = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in rule.parameters:
            what = f"parameter of criterion {rule.name!r}:"
            raise UnknownNameError(what, key, list(rule.parameters))
        try:
            values[key] = float(value)
        except ValueError:
            raise InvalidInputError(
                f"{key} of criterion {rule.name!r} must be a number, e.g. "
                f"{rule.name}:{key}=0.1, but got {value!r}."
            ) from None
    return values
