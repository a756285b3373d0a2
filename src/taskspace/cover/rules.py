"""Which selected source for a new target? Rules from features, judged on others.

A rule is made from the losses of a selection at known targets and their features, and
names a source for a new one. Leave-one-out makes it anew without each target and asks
it about that one. For targets that are draws of one distribution, a second judgement
keeps half of them aside and bounds the share that is served (Clopper and Pearson).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["RULES", "RuleTrial", "judge_rules"]

Array = NDArray[np.float64]
Rule = Callable[[Array, Array, Array], NDArray[np.int64]]
"""From losses `(source, target)`, features of targets, and features of new targets:
the source of each new one."""

N_NEAR = 5
DEPTH = 3


@dataclass(frozen=True)
class RuleTrial:
    """How a rule does at targets that it has not seen.

    Args:
        rule: its name.
        mean_regret: mean of its loss minus the least loss of the selection.
        worst_regret: the largest such difference.
        served: share of targets within the tolerance, leave-one-out.
        served_by_best: share that the best source of each target would serve.
        served_by_one: share that the one source of least total loss serves.
        served_bound: with `confidence`, the share of new targets that are served is
            at least this, of a rule made from half of the targets.
        confidence: of that bound.
    """

    rule: str
    mean_regret: float
    worst_regret: float
    served: float
    served_by_best: float
    served_by_one: float
    served_bound: float
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return asdict(self)


def _distances(features: Array, new: Array) -> Array:
    """Squared distances in units of each feature's range; dims `(new, known)`."""
    width = np.ptp(features, axis=0)
    scale = np.where(width > 0, width, 1.0)
    return (((new[:, None] - features[None]) / scale) ** 2).sum(axis=2)


def _nearest(losses: Array, features: Array, new: Array) -> NDArray[np.int64]:
    """The best source of the nearest known target."""
    return losses.argmin(axis=0)[_distances(features, new).argmin(axis=1)]


def _predicted(losses: Array, features: Array, new: Array) -> NDArray[np.int64]:
    """The source of least mean loss at the nearest few known targets."""
    order = np.argsort(_distances(features, new), axis=1, kind="stable")
    near = order[:, :N_NEAR]
    return losses[:, near].mean(axis=2).argmin(axis=0)


def _tree(losses: Array, features: Array, new: Array) -> NDArray[np.int64]:
    """A decision tree of small depth, each split the best for the total loss."""
    chosen = np.empty(len(new), np.int64)
    stack = [(np.arange(losses.shape[1]), np.arange(len(new)), 0)]
    while stack:
        known, asked, depth = stack.pop()
        split = None
        if depth < DEPTH and len(asked):
            split = _best_split(losses[:, known], features[known])
        if split is None:
            chosen[asked] = losses[:, known].sum(axis=1).argmin()
            continue
        axis, cut = split
        left, right = features[known, axis] <= cut, new[asked, axis] <= cut
        stack.append((known[left], asked[right], depth + 1))
        stack.append((known[~left], asked[~right], depth + 1))
    return chosen


def _best_split(losses: Array, features: Array) -> tuple[int, float] | None:
    """The axis and the value that lower the total loss most, None if nothing does."""
    best, split = losses.sum(axis=1).min(), None
    for axis in range(features.shape[1]):
        order = np.argsort(features[:, axis], kind="stable")
        values = features[order, axis]
        below = np.cumsum(losses[:, order], axis=1).min(axis=0)[:-1]
        above = np.cumsum(losses[:, order[::-1]], axis=1).min(axis=0)[::-1][1:]
        totals = np.where(np.diff(values) > 0, below + above, np.inf)
        if len(totals) and totals.min() < best:
            at = int(totals.argmin())
            best, split = totals[at], (axis, float((values[at] + values[at + 1]) / 2))
    return split


RULES: dict[str, Rule] = {
    "nearest": _nearest,
    "predicted": _predicted,
    "tree": _tree,
}
"""All rules by name."""


def judge_rules(
    losses: ArrayLike,
    features: ArrayLike,
    sources: Sequence[int],
    *,
    epsilon: float,
    rules: Sequence[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[RuleTrial]:
    """Judge rules that name a selected source for a target that was not seen.

    Args:
        losses: loss matrix `(source, target)`; must be finite at the selection.
        features: one row per target, finite numbers; their units do not matter.
        sources: the selection, e.g. of a cover.
        epsilon: a target is served if its loss is at most this.
        rules: names from `RULES`; all if left out.
        confidence: of the bound on the share of new targets that are served; it holds
            if targets are independent draws of one distribution.
        seed: which half of the targets is kept aside for that bound.

    Returns:
        One trial per rule.
    """
    rows = np.asarray(losses, np.float64)[np.asarray(sources, np.int64)]
    points = np.asarray(features, np.float64)
    n_targets = rows.shape[1]
    if points.ndim != 2 or len(points) != n_targets or not np.isfinite(points).all():
        raise InvalidInputError(
            f"features must be finite numbers, one row for each of {n_targets} targets,"
            f" but got shape {points.shape}."
        )
    if n_targets < 4 or not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            "Rules need at least four targets and a selection whose losses are finite "
            f"there, but got {len(rows)} sources and {n_targets} targets."
        )
    every = np.arange(n_targets)
    order = np.random.default_rng(seed).permutation(n_targets)
    half, rest = order[: n_targets // 2], order[n_targets // 2 :]
    trials = []
    for name in RULES if rules is None else rules:
        if name not in RULES:
            raise UnknownNameError("rule", name, RULES)
        rule = RULES[name]
        left_out = np.array(
            [
                rule(rows[:, every != t], points[every != t], points[[t]])[0]
                for t in range(n_targets)
            ]
        )
        loss = rows[left_out, every]
        regret = loss - rows.min(axis=0)
        aside = rows[rule(rows[:, half], points[half], points[rest]), rest] <= epsilon
        trials.append(
            RuleTrial(
                rule=name,
                mean_regret=float(regret.mean()),
                worst_regret=float(regret.max()),
                served=float((loss <= epsilon).mean()),
                served_by_best=float((rows.min(axis=0) <= epsilon).mean()),
                served_by_one=float(
                    (rows[rows.sum(axis=1).argmin()] <= epsilon).mean()
                ),
                served_bound=_share_bound(int(aside.sum()), len(rest), confidence),
                confidence=confidence,
            )
        )
    return trials


def _share_bound(n_served: int, n_draws: int, confidence: float) -> float:
    """A share that the true one is at least, with this confidence."""
    from scipy import stats  # loads slowly

    if n_served == 0:
        return 0.0
    return float(stats.beta.ppf(1 - confidence, n_served, n_draws - n_served + 1))
