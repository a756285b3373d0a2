"""Which source for a new target? Rules from features, judged on targets not seen.

A rule is made from the losses of a selection at known targets and their features, and
names a source for a new one. It is judged twice:

- **Leave-one-out**: made anew without each target, and asked about that one. The
  selection was chosen with all of them, so this is an estimate.
- **Set aside**: the selection and the rule are both made from half of the targets, and
  asked about the others. If targets are independent draws of one distribution, the
  share of new targets that this rule serves is bounded (Clopper and Pearson); where
  sources have several runs, so is the share of targets that most runs serve.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array, Numbers
from taskspace._util.betting import good_share_bound, share_bound
from taskspace._util.files import plain, write_atomically
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.sets import pack

Choose = Callable[[Array, Array, Array], Numbers]
"""From losses `(source, target)`, features of targets, and features of new targets:
the place of the source of each new one."""

FORMAT_VERSION = 1
N_NEAR = 5
DEPTH = 3


def _distances(features: Array, new: Array) -> Array:
    """Squared distances in units of each feature's range; dims `(new, target)`."""
    width = np.ptp(features, axis=0)
    scale = np.where(width > 0, width, 1.0)
    return (((new[:, None] - features[None]) / scale) ** 2).sum(axis=2)


def _nearest(losses: Array, features: Array, new: Array) -> Numbers:
    """Return the best source of the nearest target."""
    return losses.argmin(axis=0)[_distances(features, new).argmin(axis=1)]


def _predicted(losses: Array, features: Array, new: Array) -> Numbers:
    """Return the source of least mean loss at the nearest few targets."""
    order = np.argsort(_distances(features, new), axis=1, kind="stable")
    near = order[:, :N_NEAR]
    return losses[:, near].mean(axis=2).argmin(axis=0)


def _tree(losses: Array, features: Array, new: Array) -> Numbers:
    """Return what a decision tree of small depth says."""
    chosen = np.empty(len(new), np.int64)
    stack = [(grow_tree(losses, features), np.arange(len(new)))]
    while stack:
        node, rows = stack.pop()
        if "source" in node:
            chosen[rows] = node["source"]
            continue
        is_low = new[rows, node["feature"]] <= node["at_most"]
        stack += [(node["then"], rows[is_low]), (node["else"], rows[~is_low])]
    return chosen


def grow_tree(losses: Array, features: Array, depth: int = DEPTH) -> dict[str, Any]:
    """Return a decision tree, each split the best for the total loss.

    Args:
        losses: dims `(source, target)`.
        features: one row per target.
        depth: splits below each other, at most.

    Returns:
        `{"feature", "at_most", "then", "else"}`, or `{"source": place}` for a leaf.
    """
    split = _best_split(losses, features) if depth else None
    if split is None:
        return {"source": int(losses.sum(axis=1).argmin())}
    axis, cut = split
    low = features[:, axis] <= cut
    return {
        "feature": axis,
        "at_most": cut,
        "then": grow_tree(losses[:, low], features[low], depth - 1),
        "else": grow_tree(losses[:, ~low], features[~low], depth - 1),
    }


def _best_split(losses: Array, features: Array) -> tuple[int, float] | None:
    """Return the axis and the value that lower the total loss most, None if none do."""
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


RULES: dict[str, Choose] = {
    "nearest": _nearest,
    "predicted": _predicted,
    "tree": _tree,
}
"""All rules by name."""


@dataclass(frozen=True, eq=False)
class SourceRule:
    """A rule that names a source for any features; kept as JSON.

    Args:
        rule: one of `RULES`.
        sources: numbers of the sources among which it chooses.
        names: their names; numbers where they have none.
        axes: names of the features.
        losses: that it was made from, dims `(source, target)`.
        features: that it was made from, dims `(target, feature)`.
        about: what is said about it, plain values.
    """

    rule: str
    sources: tuple[int, ...]
    names: tuple[str, ...]
    axes: tuple[str, ...]
    losses: Array
    features: Array
    about: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, features: ArrayLike) -> Numbers:
        """Return the number of the source for each new target.

        Args:
            features: one row per target, in the order of `axes`.
        """
        rows = np.atleast_2d(np.asarray(features, np.float64))
        if rows.shape[1:] != (len(self.axes),) or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"Features must be finite numbers {', '.join(self.axes)}, one row per "
                f"target, but got shape {rows.shape}."
            )
        places = RULES[self.rule](self.losses, self.features, rows)
        return np.asarray(self.sources)[places]

    def save(self, path: str | Path) -> None:
        """Write the rule as JSON; of a tree also its splits, for other programs.

        Args:
            path: the file.
        """
        record: dict[str, Any] = {"format": "taskspace-rule", "version": FORMAT_VERSION}
        record |= plain({name: getattr(self, name) for name in self.__annotations__})
        if self.rule == "tree":
            record["tree"] = grow_tree(self.losses, self.features)
        write_atomically(Path(path), json.dumps(record, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Args:
            path: the file.
        """
        try:
            record = json.loads(Path(path).read_text())
            if (
                record["format"] != "taskspace-rule"
                or record["version"] != FORMAT_VERSION
            ):
                raise ValueError("its format is another one")
            losses = np.array(record["losses"], np.float64)
            features = np.array(record["features"], np.float64)
            sources = tuple(int(s) for s in record["sources"])
            axes = tuple(map(str, record["axes"]))
            shapes = (len(sources), len(features)), (len(features), len(axes))
            if (losses.shape, features.shape) != shapes or record["rule"] not in RULES:
                raise ValueError("its parts do not fit together")
            names = tuple(map(str, record["names"]))
            about = dict(record["about"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInputError(
                f"{path} must be a rule saved by taskspace, but reading it failed: "
                f"{error!r}."
            ) from error
        return cls(record["rule"], sources, names, axes, losses, features, about)


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
        served_bound: with `confidence`, at least this share of new targets is served
            by `made`; None where sources have several runs.
        good_bound: with `confidence`, at least this share of new targets has a
            probability of `run_share` or more that a run of the source that `made`
            names serves it; None where sources have one run each.
        run_share: see `good_bound`.
        confidence: of the bounds of all rules that were judged together.
        made: the rule that the bound is about, from half of the targets.
    """

    rule: str
    mean_regret: float
    worst_regret: float
    served: float
    served_by_best: float
    served_by_one: float
    served_bound: float | None
    good_bound: float | None
    run_share: float
    confidence: float
    made: SourceRule = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the rule itself as plain JSON values."""
        numbers = {k: v for k, v in vars(self).items() if k != "made"}
        return numbers | {"sources": list(self.made.sources)}


def make_rule(
    losses: ArrayLike,
    features: ArrayLike,
    sources: Sequence[int],
    rule: str = "tree",
    *,
    names: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
) -> SourceRule:
    """Make a rule that names a selected source for any features.

    Args:
        losses: loss matrix `(source, target)`; must be finite at the selection.
        features: one row per target, finite numbers; their units do not matter.
        sources: the selection, e.g. of a cover.
        rule: one of `RULES`.
        names: names of all sources; their numbers if left out.
        axes: names of the features; their numbers if left out.
    """
    if rule not in RULES:
        raise UnknownNameError("rule", rule, RULES)
    rows = np.asarray(losses, np.float64)[np.asarray(sources, np.int64)]
    points = np.asarray(features, np.float64)
    n_targets = rows.shape[1]
    if points.ndim != 2 or len(points) != n_targets or not np.isfinite(points).all():
        raise InvalidInputError(
            f"features must be finite numbers, one row for each of {n_targets} targets,"
            f" but got shape {points.shape}."
        )
    if not n_targets or not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            "Rules need targets and a selection whose losses are finite there, but got "
            f"{len(rows)} sources and {n_targets} targets."
        )
    chosen = tuple(int(s) for s in sources)
    return SourceRule(
        rule,
        chosen,
        tuple(str(s) if names is None else names[s] for s in chosen),
        tuple(axes or map(str, range(points.shape[1]))),
        rows,
        points,
    )


def judge_rules(
    losses: ArrayLike,
    features: ArrayLike,
    sources: Sequence[int],
    *,
    epsilon: float,
    rules: Sequence[str] | None = None,
    run_share: float = 0.5,
    independent_runs: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
    names: Sequence[str] | None = None,
    axes: Sequence[str] | None = None,
) -> list[RuleTrial]:
    """Judge rules that name a selected source for a target that was not seen.

    Args:
        losses: loss matrix `(source, target)`, finite; or `(source, run, target)` for
            sources with several independent runs.
        features: one row per target, finite numbers; their units do not matter.
        sources: the selection for leave-one-out, e.g. of a cover.
        epsilon: a target is served if its loss is at most this.
        rules: names from `RULES`; all if left out.
        run_share: of several runs, a target is good if a run serves it with at least
            this probability.
        independent_runs: whether the runs at a target have nothing in common with those
            at others. If run r is one training that is tried at all targets, they have,
            and the bound needs some eight runs to say anything.
        confidence: of the bounds of all rules together, which hold if targets are
            independent draws of one distribution.
        seed: which half of the targets is kept aside for them.
        names: names of all sources; their numbers if left out.
        axes: names of the features; their numbers if left out.

    Returns:
        One trial per rule. Bounds are about a selection and a rule that are made
        from half of the targets alone (`RuleTrial.made`).
    """
    runs = np.asarray(losses, np.float64)
    runs = runs[:, None] if runs.ndim == 2 else runs
    means, points = runs.mean(axis=1), np.asarray(features, np.float64)
    n_targets = means.shape[1]
    if n_targets < 4:
        raise InvalidInputError(
            f"Rules are judged with four targets or more, but got {n_targets}."
        )
    order = np.random.default_rng(seed).permutation(n_targets)
    half, rest = order[: n_targets // 2], order[n_targets // 2 :]
    fewer = minimum_cover(pack(means[:, half] <= epsilon), seed=seed).sources.tolist()
    fewer = fewer or [int(means[:, half].mean(axis=1).argmin())]
    trials = []
    asked = list(RULES if rules is None else rules)
    each = 1 - (1 - confidence) / max(1, len(asked))  # whichever is chosen afterwards
    for name in asked:
        whole = make_rule(means, points, sources, name, names=names, axes=axes)
        loss = _left_out(whole)
        best = whole.losses.min(axis=0)
        one = whole.losses[whole.losses.sum(axis=1).argmin()]
        made = make_rule(
            means[:, half], points[half], fewer, name, names=names, axes=axes
        )
        outcomes = (runs[made.choose(points[rest]), :, rest] <= epsilon).astype(float)
        served_bound = good_bound = None
        if outcomes.shape[1] == 1:
            served_bound = share_bound(int(outcomes.sum()), len(rest), each)
        else:
            shared = None if independent_runs else len(runs)
            good_bound = good_share_bound(outcomes, run_share, each, n_shared=shared)
        trials.append(
            RuleTrial(
                rule=name,
                mean_regret=float((loss - best).mean()),
                worst_regret=float((loss - best).max()),
                served=float((loss <= epsilon).mean()),
                served_by_best=float((best <= epsilon).mean()),
                served_by_one=float((one <= epsilon).mean()),
                served_bound=served_bound,
                good_bound=good_bound,
                run_share=run_share,
                confidence=confidence,
                made=made,
            )
        )
    return trials


def _left_out(rule: SourceRule) -> Array:
    """Return the loss of a rule at each target, made anew without that one."""
    losses, features = rule.losses, rule.features
    every = np.arange(len(features))
    chosen = [
        RULES[rule.rule](losses[:, every != t], features[every != t], features[[t]])[0]
        for t in every
    ]
    return losses[chosen, every]
