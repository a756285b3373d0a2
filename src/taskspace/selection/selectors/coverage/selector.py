"""Ours: learn what an untrained source would serve, and plan the whole cover.

Each proposal fits `transfer.TransferModel` to the rows seen, predicts the tolerance
set of every candidate with a margin learned from past errors, covers what is still
uncovered with predicted sets, and trains the member of that plan which serves the most
targets that few others could. If the last training served less than half of what was
predicted, the model is wrong there, and an uncovered context is trained instead. No
prediction ever counts as covered. On one axis `line` predicts and plans.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.performance.ledger import Ledger
from taskspace.questions import Question
from taskspace.selection.selectors.base import (
    Known,
    Selector,
    distances,
    selector,
)
from taskspace.selection.selectors.baselines import Farthest
from taskspace.selection.selectors.coverage.line import FIRST, Reaches, plan_line
from taskspace.selection.selectors.coverage.transfer import fit_transfer
from taskspace.spaces import Space

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
        varies = np.flatnonzero(np.ptp(self.candidates.unit, axis=0) > 0)
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
            middle = np.full((1, len(self.candidates.space.names)), FIRST)
            return self.candidates.points[self.candidates.nearest(middle)]
        problem = _Problem(self, ledger, seen)
        remaining = self.candidates.left(seen.planned)
        if not remaining.any() or not len(seen.sources):
            return self._fallback.propose(ledger, question, n)
        model = self._model(problem, len(seen.sources))
        if model is None or self._disappointed(problem):
            first = self._fallback.propose(ledger, question, 1)
            if model is None or n == 1 or not len(first):
                return first if n == 1 else self._fallback.propose(ledger, question, n)
            rest = self._plan(problem, model, remaining, n - 1, first)
            return np.concatenate([first, rest])
        return self._plan(problem, model, remaining, n, np.empty((0, remaining.ndim)))

    def _plan(
        self, problem: "_Problem", model: Ratios, remaining: Mask, n: int, before: Array
    ) -> Array:
        """Return members of planned covers, each knowing those before and under way."""
        seen = problem.seen
        open_ = ~seen.covered
        for rows in (seen.pending, before):
            if len(rows):
                units = self.candidates.units_of(rows)
                served = model(units, np.arange(len(problem.targets))) <= 1
                open_ &= ~served.any(0)
                remaining = remaining & self.candidates.left(rows)
        numbers = self._pool(remaining, problem, open_)
        open_numbers = np.flatnonzero(open_)
        if len(open_numbers) > MAX_TARGETS:
            rng = np.random.default_rng([self.seed, len(seen.planned), 1])
            open_numbers = np.sort(rng.choice(open_numbers, MAX_TARGETS, replace=False))
        if not len(open_numbers) or not len(numbers):
            uncovered = np.flatnonzero(~seen.covered)
            if not len(uncovered) or not len(numbers):
                return np.empty((0, seen.planned.shape[1]))
            open_numbers = uncovered[:MAX_TARGETS]
        if self._axis is not None:
            place = problem.targets[open_numbers, self._axis]
            open_numbers = open_numbers[np.argsort(place, kind="stable")]
        units = self.candidates.unit[numbers]
        if self.anywhere:
            units = np.concatenate([units, self._points_between(seen)])
        ratio = model(units, open_numbers)
        # At home a policy serves, whatever the model thinks.
        homes = KDTree(units).query(problem.targets[open_numbers])[1]
        ratio[homes, np.arange(len(open_numbers))] = 0.0
        if self._axis is not None:
            chosen = plan_line(ratio)[:n]
        else:
            chosen = _members(ratio <= 1 / (1 + self._margin(problem)), n)
        points = self.candidates.points_of(units[chosen])
        nodes = np.array(chosen, np.int64) < len(numbers)
        points[nodes] = self.candidates.points[numbers[np.array(chosen)[nodes]]]
        return points

    def _points_between(self, seen: Known) -> Array:
        """Return coordinates between the candidates: other ones at each proposal."""
        rng = np.random.default_rng([self.seed, len(seen.planned), 3])
        units = np.repeat(self.candidates.unit[:1], MAX_CANDIDATES, axis=0)
        varies = np.ptp(self.candidates.unit, axis=0) > 0
        units[:, varies] = rng.random((MAX_CANDIDATES, int(varies.sum())))
        return units

    def _pool(self, remaining: Mask, problem: "_Problem", open_: Mask) -> Numbers:
        """Candidates to look at: those near uncovered targets, and some others."""
        numbers = np.flatnonzero(remaining)
        if len(numbers) <= MAX_CANDIDATES:
            return numbers
        rng = np.random.default_rng([self.seed, len(problem.seen.planned), 2])
        some = rng.choice(numbers, MAX_CANDIDATES // 2, replace=False)
        wanted = np.flatnonzero(open_)
        if len(wanted) > 200:
            wanted = rng.choice(wanted, 200, replace=False)
        away = distances(self.candidates.unit[numbers], problem.targets[wanted])
        near = numbers[np.argsort(away.min(1), kind="stable")[: MAX_CANDIDATES // 2]]
        return np.union1d(some, near)

    # --- what past predictions were worth -----------------------------------------

    def _model(self, problem: "_Problem", n_rows: int) -> Ratios | None:
        """Return what the first rows predict; None if they tell nothing."""
        excess = problem.excess[:n_rows]
        key = n_rows, excess[-1].tobytes()[:4096]
        if key not in self._models:
            self._models[key] = self._fitted(problem, n_rows)
        return self._models[key]

    def _fitted(self, problem: "_Problem", n_rows: int) -> Ratios | None:
        sources, targets = problem.sources[:n_rows], problem.targets
        if self._axis is not None:
            reaches = Reaches.of(
                sources[:, self._axis],
                targets[:, self._axis],
                problem.ratio[:n_rows],
                problem.seen.served[:n_rows],
            )
            if reaches is None:
                return None
            axis = self._axis
            return lambda units, wanted: reaches.ratios(
                units[:, axis], targets[wanted, axis]
            )
        rng = np.random.default_rng([self.seed, n_rows, 0])
        model = fit_transfer(
            sources, targets, problem.excess[:n_rows], problem.scale, rng
        )
        if model is None:
            return None
        return lambda units, wanted: _over(
            model.predict(units, targets[wanted]), problem.roots(units, wanted)
        )

    def _margin(self, problem: "_Problem") -> float:
        """Return how much predictions near the tolerance were off, of late."""
        errors = []
        n_rows = len(problem.sources)
        for place in range(max(1, n_rows - LOOK_BACK), n_rows):
            model = self._model(problem, place)
            if model is None:
                continue
            real, every = problem.ratio[place], np.arange(len(problem.targets))
            predicted = model(problem.sources[place, None], every)[0]
            near = (predicted > 0.5) & (predicted < 2) & np.isfinite(real)
            errors.append(np.abs(real[near] / predicted[near] - 1))
        sizes = np.concatenate(errors) if errors else np.empty(0)
        typical = float(np.median(sizes)) if len(sizes) else 0.0
        return float(np.clip(typical, *MARGINS))

    def _disappointed(self, problem: "_Problem") -> bool:
        """Say whether the last training served less than half of the prediction."""
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

    def __init__(self, selector: Selector, ledger: Ledger, seen: Known):
        self.seen = seen
        self.sources = selector.candidates.units_of(seen.sources)
        self.targets = selector.candidates.units_of(ledger.target_space.points)
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
