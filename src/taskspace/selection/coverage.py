"""Ours: learn what an untrained source would serve, and plan the whole cover.

Each proposal fits `transfer.TransferModel` to the rows seen, predicts the tolerance
set of every candidate with a margin learned from past errors, covers what is still
uncovered with predicted sets, and trains the member of that plan which serves the most
targets that few others could. If the last training served less than half of what was
predicted, the model is wrong there, and an uncovered context is trained instead. No
prediction ever counts as covered.

With one axis, sources serve stretches around them. Each row tells how far its source
reaches to both sides; between sources the reach is interpolated. A sweep from one end
gives the fewest stretches that cover what is left. Most plans of that size have room to
spare: the one whose stretches can be shrunk most survives the largest errors of the
prediction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.performance.ledger import Ledger
from taskspace.questions import Question
from taskspace.selection.base import Known, Selector, distances, selector
from taskspace.selection.baselines import Farthest
from taskspace.selection.transfer import fit_transfer
from taskspace.spaces import Space

FIRST = (3 - 5**0.5) / 2
"""Where to begin on one axis: at the golden section. From the middle both sides would
need equally many more, which makes every total odd."""
HALVINGS = 8
WIDEST = 2.0
# Candidates and targets that a plan looks at, where there are more.
MAX_CANDIDATES = 2500
MAX_TARGETS = 2500
# Past predictions that the margin is learned from, and its range.
LOOK_BACK = 4
MARGINS = 0.03, 0.25
# How much rarer targets count for more, in plans and in the pick.
RARITIES = 0.0, 0.5, 1.0
PICK_RARITY = 0.5

Ratios = Callable[[Array, Numbers], Array]
"""Predicted √loss over that of the tolerance, for coordinates of sources and numbers of
targets; at most 1 is served."""


@selector("coverage")
class Coverage(Selector):
    """The member of a planned cover that serves most of what few others could.

    Args:
        space: contexts that may be trained.
        seed: of the cells and candidates that are looked at, where there are many.
        anywhere: propose any point of the box, not only the contexts of `space`.
    """

    def __init__(self, space: Space, seed: int = 0, anywhere: bool = False):
        super().__init__(space, seed)
        self.anywhere = anywhere
        self._fallback = Farthest(space, seed)
        self._models: dict[tuple[int, bytes], Ratios | None] = {}
        varies = self.candidates.varies
        self._axis = int(varies[0]) if len(varies) == 1 else None

    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Return contexts to train next.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
            n: how many contexts, at most.
        """
        seen = self.look(ledger, question)
        if not len(seen.planned) and self._axis is not None and n == 1:
            first = np.full((1, seen.planned.shape[1]), FIRST)
            return self.candidates.points[self.candidates.nearest(first)]
        remaining = self.candidates.left(seen.planned)
        if not remaining.any() or not len(seen.sources):
            return self._fallback.propose(ledger, question, n)
        problem = _Problem(self, seen)
        model = self._model(problem, len(seen.sources))
        if model is None:
            return self._fallback.propose(ledger, question, n)
        before = seen.planned[:0]
        if self._disappointed(problem):
            before = self._fallback.propose(ledger, question, 1)
            if not len(before):
                return before
        rest = self._plan(problem, model, remaining, n - len(before), before)
        return np.concatenate([before, rest])

    def _plan(
        self, problem: "_Problem", model: Ratios, remaining: Mask, n: int, before: Array
    ) -> Array:
        """Return members of planned covers, each knowing those before and under way."""
        seen, candidates = problem.seen, self.candidates
        if not n:
            return before[:0]
        open_ = ~seen.covered
        for rows in (seen.pending, before):
            if len(rows):
                units = candidates.units_of(rows)
                served = model(units, np.arange(len(problem.targets))) <= 1
                open_ &= ~served.any(0)
                remaining = remaining & candidates.left(rows)
        pool = self._pool(remaining, problem, open_)
        wanted = np.flatnonzero(open_)
        if len(wanted) > MAX_TARGETS:
            rng = np.random.default_rng([self.seed, len(seen.planned), 1])
            wanted = np.sort(rng.choice(wanted, MAX_TARGETS, replace=False))
        if not len(wanted):
            wanted = np.flatnonzero(~seen.covered)[:MAX_TARGETS]
        if not len(wanted) or not len(pool):
            return before[:0]
        if self._axis is not None:
            place = problem.targets[wanted, self._axis]
            wanted = wanted[np.argsort(place, kind="stable")]
        units = candidates.unit[pool]
        if self.anywhere:  # points between the candidates, others at each proposal
            rng = np.random.default_rng([self.seed, len(seen.planned), 3])
            more = np.repeat(candidates.unit[:1], MAX_CANDIDATES, axis=0)
            varies = candidates.varies
            more[:, varies] = rng.random((MAX_CANDIDATES, len(varies)))
            units = np.concatenate([units, more])
        ratio = model(units, wanted)
        # At home a policy serves, whatever the model predicts.
        homes = KDTree(units).query(problem.targets[wanted])[1]
        ratio[homes, np.arange(len(wanted))] = 0.0
        if self._axis is not None:
            chosen = plan_line(ratio)[:n]
        else:
            chosen = _members(ratio <= 1 / (1 + self._margin(problem)), n)
        chosen = np.array(chosen, np.int64)
        points = candidates.points_of(units[chosen])
        nodes = chosen < len(pool)
        points[nodes] = candidates.points[pool[chosen[nodes]]]
        return points

    def _pool(self, remaining: Mask, problem: "_Problem", open_: Mask) -> Numbers:
        """Return candidates to consider: those near uncovered targets, and others."""
        indices = np.flatnonzero(remaining)
        if len(indices) <= MAX_CANDIDATES:
            return indices
        rng = np.random.default_rng([self.seed, len(problem.seen.planned), 2])
        some = rng.choice(indices, MAX_CANDIDATES // 2, replace=False)
        wanted = np.flatnonzero(open_)
        if not len(wanted):
            return np.sort(some)
        if len(wanted) > 200:
            wanted = rng.choice(wanted, 200, replace=False)
        away = distances(self.candidates.unit[indices], problem.targets[wanted])
        near = indices[np.argsort(away.min(1), kind="stable")[: MAX_CANDIDATES // 2]]
        return np.union1d(some, near)

    # --- what past predictions were worth -----------------------------------------

    def _model(self, problem: "_Problem", n_rows: int) -> Ratios | None:
        """Return what the first rows predict; None if they tell nothing."""
        key = n_rows, problem.excess[n_rows - 1].tobytes()[:4096]
        if key not in self._models:
            self._models[key] = self._fit(problem, n_rows)
        return self._models[key]

    def _fit(self, problem: "_Problem", n_rows: int) -> Ratios | None:
        axis, rows, targets = self._axis, slice(n_rows), problem.targets
        sources = problem.sources[rows]
        if axis is not None:
            ratio, served = problem.ratio[rows], problem.seen.served[rows]
            line = Reaches.of(sources[:, axis], targets[:, axis], ratio, served)
            return line and (
                lambda units, wanted: line.ratios(units[:, axis], targets[wanted, axis])
            )
        rng = np.random.default_rng([self.seed, n_rows, 0])
        model = fit_transfer(sources, targets, problem.excess[rows], problem.scale, rng)
        return model and (
            lambda units, wanted: _over(
                model.predict(units, targets[wanted]), problem.roots(units, wanted)
            )
        )

    def _margin(self, problem: "_Problem") -> float:
        """Return the typical relative error of recent predictions."""
        errors = [np.empty(0)]
        n_rows = len(problem.sources)
        every = np.arange(len(problem.targets))
        for row in range(max(1, n_rows - LOOK_BACK), n_rows):
            model = self._model(problem, row)
            if model is None:
                continue
            real = problem.ratio[row]
            predicted = model(problem.sources[row, None], every)[0]
            near = (predicted > 0.5) & (predicted < 2) & np.isfinite(real)
            errors.append(np.abs(real[near] / predicted[near] - 1))
        sizes = np.concatenate(errors)
        typical = float(np.median(sizes)) if len(sizes) else 0.0
        return float(np.clip(typical, *MARGINS))

    def _disappointed(self, problem: "_Problem") -> bool:
        """Return whether the last training served less than half of the prediction."""
        last = len(problem.sources) - 1
        model = self._model(problem, last) if last > 0 else None
        if model is None:
            return False
        served = problem.seen.served
        open_ = np.flatnonzero(~served[:last].any(0))
        hoped = (model(problem.sources[last, None], open_)[0] <= 1).sum()
        return bool(served[last, open_].sum() < 0.5 * hoped)


class _Problem:
    """Rows in the shape that the model needs."""

    def __init__(self, selector: Selector, seen: Known):
        self.seen, ledger = seen, seen.ledger
        self.sources = selector.candidates.units_of(seen.sources)
        self.targets = selector.candidates.units_of(seen.targets)
        epsilon = np.full(len(self.targets), seen.question.epsilon)
        excess = seen.losses
        rule = seen.question.rule
        if rule.is_absolute and rule.measure == "performance" and len(excess):
            # The loss is −J: what is above that of the best known policy.
            best, _ = ledger.best_seen()
            # Where every policy fails so far, none is known to be better.
            best = np.where(np.isfinite(best), best, 0.0)
            excess, epsilon = excess + best, epsilon + best
        self._homes: tuple[KDTree, Array] | None = None
        if rule.compares_with_home and len(excess):
            # J(source) − J(target) is the regret less the difference of the optima,
            # and near home it is the regret that a model can learn.
            best, kind = ledger.best_seen()
            if kind == "optimum":
                self._homes = KDTree(self.targets), best
                regret = Question("regret", seen.question.judge, epsilon=0.0)
                excess = regret.losses(ledger.table()).values
                epsilon = epsilon + best
        self.excess: Array = np.maximum(excess, 0.0)
        self._epsilon: Array = epsilon
        roots = self.roots(self.sources, np.arange(len(self.targets)))
        self.ratio: Array = _over(np.sqrt(self.excess), roots)
        finite = self.excess[np.isfinite(self.excess) & (self.excess > 0)]
        # Where only equality is enough, the smallest losses are those that matter.
        least = float(np.quantile(finite, 0.01)) if len(finite) else 1.0
        positive = roots[roots > 0]
        middle = float(np.median(positive)) if len(positive) else 0.0
        self.scale = middle**2 or least

    def roots(self, units: Array, wanted: Numbers) -> Array:
        """√ of the excess that is tolerated, `(source, target)`; one row if all alike.

        Args:
            units: coordinates of the sources.
            wanted: numbers of the targets.
        """
        allowed = self._epsilon[None, wanted]
        if self._homes is not None:
            tree, best = self._homes
            allowed = allowed - best[tree.query(units)[1], None]
        return np.sqrt(np.maximum(allowed, 0.0))


def _over(roots: Array, tolerance: Array) -> Array:
    """√loss over that of the tolerance; where only 0 is enough, 0 or infinite."""
    out = np.where(roots > 0, np.inf, np.zeros_like(roots))
    return np.divide(roots, tolerance, out=out, where=tolerance > 0, dtype=roots.dtype)


def _members(serves: Mask, n: int) -> list[int]:
    """Return members of covers, each planned without what those before serve."""
    chosen: list[int] = []
    for _ in range(n):
        plan = plan_cover(serves)
        if not len(plan):
            break
        rarity = np.maximum(serves.sum(0), 1.0) ** -PICK_RARITY
        best = int(plan[int((serves[plan] @ rarity).argmax())])
        chosen.append(best)
        serves &= ~serves[best]
        serves[best] = False
    return chosen


def plan_cover(serves: Mask) -> Numbers:
    """Plan a small cover: the best of greedy ones that favour rare targets.

    Deterministic and fast; nothing is claimed about its size.

    Args:
        serves: which candidate serves which target.

    Returns:
        Numbers of candidates.
    """
    by_target = np.ascontiguousarray(serves.T).astype(np.float32)
    sizes = by_target.sum(0)
    degree = np.maximum(by_target.sum(1), 1.0)
    plans = []
    for rarity in RARITIES:
        weight = degree**-rarity
        uncovered = np.asarray(serves.any(0))
        gains = (weight * uncovered) @ by_target
        plan: list[int] = []
        while uncovered.any():
            best = int(gains.argmax())
            served = np.flatnonzero(serves[best] & uncovered)
            if not len(served):  # rounding left a gain where there is none
                gains = (weight * uncovered) @ by_target
                gains[plan] = -1.0
                best = int(gains.argmax())
                served = np.flatnonzero(serves[best] & uncovered)
            plan.append(best)
            uncovered[served] = False
            gains -= weight[served] @ by_target[served]
        count = serves[plan].sum(0)
        for member in sorted(plan, key=lambda m: (sizes[m], m)):
            if (count[serves[member]] >= 2).all():
                plan.remove(member)
                count = count - serves[member]
        plans.append(plan)
    return np.array(min(plans, key=len), np.int64)


# --- plans on one axis ------------------------------------------------------------


@dataclass(frozen=True)
class Reaches:
    """How far sources reach on an axis, by what was seen.

    Args:
        left: places of sources, ascending, and how far they reach to the left.
        right: likewise to the right.
    """

    left: tuple[Array, Array]
    right: tuple[Array, Array]

    @classmethod
    def of(
        cls, sources: Array, targets: Array, ratio: Array, served: Mask
    ) -> "Reaches | None":
        """Return what some rows tell, None if nothing.

        A source that does not serve its own place tells nothing, nor does one to a
        side where it reaches to the end.

        Args:
            sources: places on the axis, one per source.
            targets: places on the axis.
            ratio: √loss over that of the tolerance, `(source, target)`.
            served: which source serves which target.
        """
        order = np.argsort(targets, kind="stable")
        targets, ratio, served = targets[order], ratio[:, order], served[:, order]
        sides: tuple[dict[float, float], dict[float, float]] = {}, {}
        for place, values, serves in zip(sources, ratio, served, strict=True):
            home = int(np.abs(targets - place).argmin())
            if not serves[home]:
                continue
            for side, step in zip(sides, (-1, 1), strict=True):
                ahead = slice(home, None, step)
                lost = np.flatnonzero(~serves[ahead])
                if len(lost):
                    last = home + step * (int(lost[0]) - 1)
                    inner, outer = values[last], values[last + step]
                    part = (1 - inner) / (outer - inner) if outer > inner else 0.0
                    edge = targets[last] + part * (targets[last + step] - targets[last])
                    side[float(place)] = max(0.0, (edge - place) * step)
        # A side of which nothing is known is like the other one.
        left, right = (sides[0] or sides[1]), (sides[1] or sides[0])
        if not left:
            return None
        reaches = [
            (np.array(sorted(d)), np.array([d[x] for x in sorted(d)]))
            for d in (left, right)
        ]
        return cls(reaches[0], reaches[1])

    def ratios(self, candidates: Array, targets: Array) -> Array:
        """Return each target's distance over the predicted reach, by candidate.

        Args:
            candidates: places on the axis.
            targets: likewise.
        """
        away = targets - candidates[:, None]
        left, right = (
            np.maximum(np.interp(candidates, *side), np.finfo(float).tiny)[:, None]
            for side in (self.left, self.right)
        )
        return np.where(away > 0, away / right, -away / left)


def plan_line(ratio: Array) -> list[int]:
    """Return a smallest plan of one axis, made as robust as its size allows.

    Args:
        ratio: distance over predicted reach, `(candidate, target)`, targets in the
            order of the axis; those served already are left out, and some candidate
            has 0 at each.

    Returns:
        Numbers of candidates, those that serve most first.
    """
    best, low, high = sweep(ratio <= 1), 1.0, WIDEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        plan = sweep(ratio * middle <= 1)
        if len(plan) <= len(best):
            best, low = plan, middle
        else:
            high = middle
    size = (ratio[best] <= 1).sum(1)
    return [best[place] for place in np.argsort(-size, kind="stable")]


def sweep(serves: Mask) -> list[int]:
    """Return from the first target on, always the candidate that reaches farthest.

    The fewest, if every candidate serves one stretch of targets.

    Args:
        serves: `(candidate, target)`, targets in the order of the axis; each is served
            by some candidate.
    """
    n_targets = serves.shape[1]
    chosen, done = [], np.zeros(n_targets, bool)
    while not done.all():
        first = int(np.flatnonzero(~done)[0])
        able = np.flatnonzero(serves[:, first])
        missed = ~(serves[able, first:] | done[first:])
        reach = np.where(missed.any(1), missed.argmax(1), n_targets - first)
        # Of equal reach, the one that serves most.
        size = serves[able].sum(1)
        best = int(able[np.lexsort((-size, -reach))[0]])
        chosen.append(best)
        done |= serves[best]
    return chosen
