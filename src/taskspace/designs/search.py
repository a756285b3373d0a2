"""The search for few gains: design and bound in turn.

All gains move at once to lessen the worst loss (`taskspace.trainers.minimax`). Where
that leaves room, one gain is taken away and the others repair what it served, until
nothing gets smaller; then from seeded choices of other gains.

Between the nodes of a grid, losses are looked at on a finer grid, and around its worst
contexts closer and closer. That finds contexts to design for; what holds for all of
them is proven elsewhere (`taskspace.certificates`).
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice, product

import numpy as np
from scipy.ndimage import maximum_filter

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.designs.bound import MOST_BOXES, GainBound, bound_all_gains
from taskspace.designs.problem import DesignProblem, fewer_contexts
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.spaces import Grid, Points, Space
from taskspace.trainers.minimax import GainRegion, RegionGains, design_gains

# Boxes of gains for the first bound, before gains are designed anew.
FIRST_BOXES = 20_000
# Targets that a design for a whole box begins with; it adds those that it needs.
N_BEFORE = 400
# Restarts from other gains, of a size that was not reached by taking one away.
MOST_RESTARTS = 20
# Work of one step of the search, in losses of a gain of two states at a context.
STEP_WORK = 2e7
# How often contexts between the others are added, so that gains lose less there, and
# where they must serve them.
MOST_EXCHANGES, MOST_ROUNDS = 12, 60
# A worst loss so far below the tolerance is good enough to try one gain less.
EASY = 0.98
# One gain less should lose so much more than the tolerance, as a share of it.
HARD = 0.03
# How often the steps of the grid are halved around its worst contexts, and how many
# are made before that, at most.
N_ZOOMS, N_MOVES = 6, 5
STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)
# Contexts that lose less than this share of the worst are not looked at closer, nor
# more of them at a time.
NEAR, MOST_MAXIMA = 0.9, 100


class Between:
    """The contexts between the nodes of a grid.

    Args:
        problem: what is designed.
        grid: finer than its targets.
    """

    def __init__(self, problem: DesignProblem, grid: Grid):
        self.problem, self.grid = problem, grid

    @cached_property
    def region(self) -> GainRegion:
        """The contexts of the finer grid with their plants."""
        return self.problem.region_of(self.grid)

    def at(self, points: Array) -> GainRegion:
        """Return contexts with their plants.

        Args:
            points: one context per row.
        """
        return self.problem.region_of(Points(self.grid.names, points))

    def worst(self, gains: Array, limit: float) -> tuple[float, Array]:
        """Return the largest loss of gains, and contexts where it is above a limit.

        Args:
            gains: shape `(gain, n_inputs, n_states)`.
            limit: loss above which a context counts.

        Returns:
            The largest loss that was found, and contexts that lose more than the limit
            and than all around them, one per row.
        """
        least = self.region.losses(gains).min(0)
        top = float(least.max())
        on_grid = least.reshape(self.grid.shape)
        highest = maximum_filter(on_grid, size=3, mode="nearest")
        floor = top - (1 - NEAR) * abs(top)
        nodes = np.flatnonzero((on_grid >= highest) & (on_grid >= floor))
        chosen = nodes[np.argsort(-least[nodes], kind="stable")[:MOST_MAXIMA]]
        points, values = self.grid.points[chosen], least[chosen]
        step = np.array([np.diff(axis.values).max() for axis in self.grid.axes])
        for _ in range(N_ZOOMS):
            for _ in range(N_MOVES):
                before = values
                points, values = self._closer(gains, points, values, step)
                if (values == before).all():
                    break
            step = step / 2
        return float(values.max()), points[values > limit]

    def _closer(
        self, gains: Array, points: Array, values: Array, step: Array
    ) -> tuple[Array, Array]:
        """Return the worst context around each of some, and its loss."""
        offsets = np.array(list(product(STEPS, repeat=len(step)))) * step
        around = np.clip(points[:, None] + offsets, self.grid.low, self.grid.high)
        flat = around.reshape(-1, len(step))
        losses = self.at(flat).losses(gains).min(0).reshape(len(points), -1)
        best, rows = losses.argmax(1), np.arange(len(points))
        better = losses[rows, best] > values
        points = np.where(better[:, None], around[rows, best], points)
        return points, np.where(better, losses[rows, best], values)


class DesignSearch:
    """Gains for a problem, improved in steps of counted work.

    Args:
        problem: what is designed.
        k: how many gains; None for as few as possible.
        clock: when to end.
        seed: of the restarts.
        progress: told the number of gains or the worst loss.
        whole: the gains must serve contexts between the targets, too.
    """

    def __init__(
        self,
        problem: DesignProblem,
        k: int | None,
        clock: Clock,
        seed: int,
        progress: Progress,
        *,
        whole: bool,
    ):
        if whole and problem.finer is None:
            raise InvalidInputError(
                "A design for a whole box needs a grid, whose ends are those of the "
                "box, but got scattered contexts."
            )
        self.problem, self.k, self.clock, self.whole = problem, k, clock, whole
        self.seed, self.progress = seed, progress
        self.epsilon = problem.question.epsilon
        finer = problem.finer
        self.between = None if finer is None else Between(problem, finer)
        self.nodes: Space = problem.nodes
        self.region = problem.region
        if whole:
            self.nodes = fewer_contexts(problem.nodes, N_BEFORE)
            self.region = problem.region_of(self.nodes)
        self.added: list[Array] = []  # contexts between the others, in the region
        self.work = 0.0  # of this step: losses computed, by cost

    @property
    def contexts(self) -> Space:
        """The nodes, and the contexts between them that the gains were designed for."""
        if not self.added:
            return self.nodes
        points = np.concatenate([self.nodes.points, *self.added])
        return Points(self.nodes.names, np.unique(points, axis=0))

    @property
    def is_over(self) -> bool:
        """Whether the work of this step is done, or time is up."""
        return self.work > STEP_WORK or self.clock.left <= 0

    def run(self, start: Array) -> tuple[RegionGains, Study, float, GainBound]:
        """Design and bound in turn, until both meet or nothing gets better.

        Args:
            start: gains that serve, shape `(gain, n_inputs, n_states)`.

        Returns:
            The gains, their study with that of the start, the tolerance, the bound.
        """
        problem, clock = self.problem, self.clock
        is_anew = self.k is not None or self.whole  # before the box is given up
        if self.k is not None:
            self.work = 0.0
            selection = self._settle(self._least(start))
        else:
            selection = self._fewest(start)
        if selection is None:
            # Time was up before gains served between the targets: on with these alone.
            self.whole = False
            self.added.clear()
            losses = problem.region.losses(start)
            selection = RegionGains(start, float(losses.min(0).max()))
        while True:
            study, n = problem.study(selection.gains, start), len(selection.gains)
            epsilon = self.epsilon
            if self.k is not None:
                epsilon = self._reached(selection, study)
            bound = bound_all_gains(
                problem.system,
                self.contexts,
                problem.question.at(epsilon),
                mask=problem.mask,
                goal=n,
                time_limit=max(1.0, clock.left),
                max_boxes=MOST_BOXES if is_anew else FIRST_BOXES,
                progress=self.progress,
            )
            if self.k is not None or bound.value == n or clock.left <= 0:
                break
            smaller, n_contexts = None, self.contexts.size
            if bound.smaller is not None:
                # On its way the bound met fewer gains that serve its contexts.
                smaller = self._fewest(bound.smaller)
            elif not is_anew:
                is_anew = True
                self.work = 0.0
                smaller = self._take_away(selection.gains, anew=True)
            if smaller is not None and len(smaller.gains) < n:
                selection = smaller
            elif self.contexts.size == n_contexts:
                break
        return selection, study, epsilon, bound

    def n_served_between(self, selection: RegionGains, epsilon: float) -> int:
        """Return how many contexts between the targets the gains serve, if all.

        Args:
            selection: the gains.
            epsilon: the tolerance.
        """
        if not self.whole or self.between is None:
            return 0
        served = self.between.worst(selection.gains, epsilon)[0] <= epsilon
        return (self.between.grid.size - self.problem.targets.size) * served

    def _reached(self, selection: RegionGains, study: Study) -> float:
        """Return the least tolerance that gains reach, wherever they must serve."""
        losses = self.problem.question.losses(study).values[: len(selection.gains)]
        worst = float(losses.min(0).max())
        if self.whole and self.between is not None:
            worst = max(worst, self.between.worst(selection.gains, worst)[0])
        return worst

    def _fewest(self, start: Array) -> RegionGains | None:
        """Return the fewest gains, None if none serve between the targets as asked."""
        self.work = 0.0
        if not self.whole or self.between is None:
            return self._settle(self._take_away(start))
        served = self._serve_between(start, self.between)
        if served is None:
            return None
        if len(served.gains) > 1:
            self.work = 0.0
            self._harden(served.gains, self.between)
        return self._settle(served)

    def _settle(self, start: RegionGains) -> RegionGains:
        """Return gains of less loss between the targets, if they still serve these.

        Contexts where they lose most join the region for a while, and the gains
        descend again.
        """
        if self.between is None:
            return start
        self.work = 0.0
        before, best, moved, least = self.region, start, start, np.inf
        for _ in range(MOST_EXCHANGES):
            losses = self.region.losses(moved.gains).min(0)[: len(before)]
            at_nodes = float(losses.max())
            loss, points = self.between.worst(moved.gains, at_nodes)
            if (top := max(loss, at_nodes)) < least:
                least, best = top, RegionGains(moved.gains, at_nodes)
            if not len(points) or self.is_over:
                break
            self._add(points)
            moved = self._descend(moved.gains, is_warm=True)
        self.region = before
        if self.k is None and best.worst > self.epsilon:
            return start
        return best

    def _take_away(self, start: Array, *, anew: bool = False) -> RegionGains:
        """Return the fewest gains found that serve the region.

        Args:
            start: gains that serve it.
            anew: begin with other gains of the pool, not by taking one away.
        """
        best = self._descend(start)
        if best.worst > self.epsilon:
            best = RegionGains(start, float(self.region.losses(start).min(0).max()))
        while len(best.gains) > 1 and not self.is_over:
            n = len(best.gains) - 1
            starts = self._restarts(n) if anew else self._without_one(best.gains)
            smaller = self._of_size(n, starts)
            if smaller is None:
                break
            best, anew = smaller, False
        polished = self._descend(best.gains)
        return polished if polished.worst < best.worst else best

    def _least(self, start: Array) -> RegionGains:
        """Return as many gains as in `start` with the least worst loss found."""
        best = self._descend(start)
        for restart in self._restarts(len(start)):
            if self.is_over:
                break
            result = self._descend(restart)
            if result.worst < best.worst:
                best = result
            self.progress("design", 0, len(start), f"worst loss {best.worst:.4g}")
        return best

    def _serve_between(self, start: Array, between: Between) -> RegionGains | None:
        """Return the fewest gains found that serve the contexts between, too.

        Some of these join the region, and stay. None where time was up before any gains
        served all.
        """
        gains, best = start, None
        while best is None and not self.is_over:
            best = self._exchange(gains, between)
            if best is None:  # one more: the best of the pool where these are worst
                worst = self.region.losses(gains).min(0).argmax()
                single = self.region.at(np.array([worst]))
                own = single.losses(self.problem.pool)[:, 0].argmin()
                gains = np.concatenate([gains, self.problem.pool[own : own + 1]])
        is_least = len(gains) > len(start)  # one gain less was tried on the way
        while best is not None and len(best.gains) > 1 and not is_least:
            n = len(best.gains) - 1
            starts = chain(self._without_one(best.gains), self._restarts(n))
            smaller = self._of_size(n, starts)
            if smaller is not None:
                smaller = self._exchange(smaller.gains, between)
            if smaller is None:
                break
            best = smaller
        return best

    def _exchange(self, gains: Array, between: Between) -> RegionGains | None:
        """Return as many gains that serve the contexts between, None if there are none.

        Contexts that they serve worst join the region, and the gains descend again.
        """
        n = len(gains)
        for _ in range(MOST_ROUNDS):
            loss, points = between.worst(gains, self.epsilon)
            self.progress("design", 0, n, f"{n} gains: worst between {loss:.4g}")
            if not len(points):
                return RegionGains(gains, loss)
            if self.is_over:
                return None
            self._add(points, stay=True)
            result = self._descend(gains, stop_at=EASY * self.epsilon, is_warm=True)
            if result.worst > self.epsilon:
                result = self._of_size(n, chain([gains], self._restarts(n)))
            if result is None:
                return None
            gains = result.gains
        return None

    def _harden(self, gains: Array, between: Between) -> None:
        """Add contexts until one gain less loses far too much at the region.

        So the bound over all gains has to exclude nothing that is nearly enough.
        """
        starts = chain(self._without_one(gains), self._restarts(len(gains) - 1))
        fewer = min(map(self._descend, islice(starts, 4)), key=lambda g: g.worst)
        for _ in range(MOST_ROUNDS):
            self.progress("harden", 0, len(fewer.gains), f"{fewer.worst:.4g}")
            _, points = between.worst(fewer.gains, fewer.worst)
            is_hard = fewer.worst > self.epsilon + HARD * abs(self.epsilon)
            if is_hard or not len(points) or self.is_over:
                return
            self._add(points, stay=True)
            fewer = self._descend(fewer.gains, is_warm=True)

    def _add(self, points: Array, *, stay: bool = False) -> None:
        """Let contexts join the region."""
        assert self.between is not None
        if stay:
            self.added.append(points)
        self.region = GainRegion.concatenate([self.region, self.between.at(points)])

    def _of_size(self, n: int, starts: Iterator[Array]) -> RegionGains | None:
        """Return n gains that serve, from the first start that leads to some."""
        best_worst = np.inf
        for start in starts:
            if self.is_over:
                return None
            result = self._descend(start, stop_at=EASY * self.epsilon)
            best_worst = min(best_worst, result.worst)
            self.progress("design", 0, n, f"{n} gains: worst loss {best_worst:.4g}")
            if result.worst <= self.epsilon:
                return result
        return None

    def _without_one(self, gains: Array) -> Iterator[Array]:
        """Yield the gains without one of them, first the one that is missed least."""
        losses = self.region.losses(gains)
        rest = [np.delete(losses, i, 0).min(0) for i in range(len(gains))]
        order = sorted(range(len(gains)), key=lambda i: (rest[i].max(), rest[i].sum()))
        for i in order:
            yield np.delete(gains, i, 0)

    def _restarts(self, n: int) -> Iterator[Array]:
        """Yield gains of the pool far from each other in what they lose, seeded."""
        rng, pool = np.random.default_rng(self.seed), self.problem.pool
        losses = self.region.losses(pool)
        for _ in range(MOST_RESTARTS):
            chosen = [int(rng.integers(len(pool)))]
            while len(chosen) < n:
                least = losses[chosen].min(0)
                # A context drawn among those served worst, and who serves it best.
                bad = np.argsort(least)[-max(1, len(least) // 10) :]
                chosen.append(int(losses[:, rng.choice(bad)].argmin()))
            yield pool[chosen]

    def _descend(
        self, start: Array, stop_at: float = -np.inf, *, is_warm: bool = False
    ) -> RegionGains:
        def is_over() -> bool:
            n_states = self.problem.mask.shape[1]
            cost = len(self.region) * max(1.0, n_states / 2) ** 3
            self.work += len(start) * cost
            return self.is_over

        return design_gains(
            self.region,
            start,
            self.problem.mask,
            stop_at=stop_at,
            should_stop=is_over,
            is_warm=is_warm,
        )
