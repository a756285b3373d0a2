"""The fewest gains for some contexts, or the best k of them, one design after another.

All gains move at once to lessen the worst loss (`taskspace.trainers.minimax`). Where
that leaves room, one gain is taken away and the others repair what it served, until
nothing gets smaller; then from seeded choices of other gains. What is found is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from taskspace._util.arrays import Array, Mask
from taskspace._util.clock import Clock
from taskspace.designs.off_grid import Between
from taskspace.progress import Progress, silent
from taskspace.trainers.minimax import GainRegion, RegionGains, design_gains

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


@dataclass
class DesignSearch:
    """Gains for a region, improved in steps of counted work.

    Args:
        region: contexts and losses.
        pool: gains to start from, shape `(gain, n_inputs, n_states)`.
        mask: which entries are free.
        clock: when to end.
        seed: of the restarts.
        keep: called with every better selection of gains.
        progress: told the number of gains or the worst loss.
    """

    region: GainRegion
    pool: Array
    mask: Mask
    clock: Clock
    seed: int = 0
    keep: Callable[[RegionGains], None] = lambda gains: None
    progress: Progress = silent
    added: list[Array] = field(default_factory=list)
    """Contexts between the others that joined the region."""
    work: float = 0.0
    """Losses of a gain at a context that this step has computed, by cost."""

    def begin(self) -> None:
        """Begin a step: it has its own budget of counted work."""
        self.work = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the work of this step is done, or time is up."""
        return self.work > STEP_WORK or self.clock.left <= 0

    def _worked(self, n_gains: int) -> bool:
        """Count an iteration with some gains; return whether the step is over."""
        n_states = self.mask.shape[1]
        self.work += len(self.region) * n_gains * max(1.0, n_states / 2) ** 3
        return self.is_over

    def fewest(
        self, start: Array, epsilon: float, *, anew: bool = False
    ) -> RegionGains:
        """Return the fewest gains found whose worst loss is at most `epsilon`.

        Args:
            start: gains that serve within `epsilon`.
            epsilon: the tolerance.
            anew: begin with other gains of the pool, not by taking one away.
        """
        best = self._descend(start)
        if best.worst > epsilon:
            best = RegionGains(start, float(self.region.judged(start).min(0).max()))
        self.keep(best)
        while len(best.gains) > 1 and not self.is_over:
            n = len(best.gains) - 1
            starts = self._restarts(n) if anew else self._without_one(best.gains)
            smaller = self._of_size(n, starts, epsilon)
            if smaller is None:
                break
            best, anew = smaller, False
            self.keep(best)
        return self._polish(best)

    def least(self, start: Array, n_restarts: int = MOST_RESTARTS) -> RegionGains:
        """Return as many gains as in `start` with the least worst loss found.

        Args:
            start: gains of which one at least stabilises each context.
            n_restarts: from other gains of the pool, at most.
        """
        best = self._descend(start)
        self.keep(best)
        for restart in self._restarts(len(start), n_restarts):
            if self.is_over:
                break
            result = self._descend(restart)
            if result.worst < best.worst:
                best = result
                self.keep(best)
            self.progress("design", 0, len(start), f"worst loss {best.worst:.4g}")
        return best

    def one_more(self, gains: Array) -> Array:
        """Return the gains and the one of the pool that is best where they are worst.

        Args:
            gains: shape `(gain, n_inputs, n_states)`.
        """
        worst = self.region.judged(gains).min(0).argmax()
        best = self.region.take(np.array([worst])).judged(self.pool)[:, 0].argmin()
        return np.concatenate([gains, self.pool[best : best + 1]])

    def between(self, start: RegionGains, around: Between) -> RegionGains:
        """Return gains moved so that they lose less between the contexts, too.

        Contexts where they lose most are added to the region, and the gains descend
        again.

        Args:
            start: gains that were designed for the region.
            around: more contexts of the same box.
        """
        best, nodes = start, len(self.region)
        least = np.inf
        for _ in range(MOST_EXCHANGES):
            at_nodes = float(self.region.judged(start.gains).min(0)[:nodes].max())
            worst = around.worst(start.gains, at_nodes)
            if (top := max(worst.loss, at_nodes)) < least:
                least, best = top, RegionGains(start.gains, at_nodes)
            if worst.region is None or self.is_over:
                break
            self.region = GainRegion.concatenate([self.region, worst.region])
            start = self._descend(start.gains, is_warm=True)
        return best

    def whole(
        self, start: Array, epsilon: float, around: Between
    ) -> RegionGains | None:
        """Return the fewest gains found that serve the contexts between, too.

        Args:
            start: gains that serve within `epsilon`.
            epsilon: the tolerance.
            around: more contexts of the same box; some join the region, and stay.

        Returns:
            The gains, None where time was up before any served all.
        """
        gains, best = start, None
        while best is None and not self.is_over:
            best = self._exchange(gains, epsilon, around)
            if best is None:
                gains = self.one_more(gains)
        is_least = len(gains) > len(start)  # one gain less was tried on the way
        while best is not None and len(best.gains) > 1 and not is_least:
            self.keep(best)
            n = len(best.gains) - 1
            starts = chain(self._without_one(best.gains), self._restarts(n))
            smaller = self._of_size(n, starts, epsilon)
            if smaller is not None:
                smaller = self._exchange(smaller.gains, epsilon, around)
            if smaller is None:
                break
            best = smaller
        return best

    def _exchange(
        self, gains: Array, epsilon: float, around: Between
    ) -> RegionGains | None:
        """Return as many gains that serve the contexts between, None if there are none.

        Contexts that they serve worst join the region, and the gains descend again.
        """
        n = len(gains)
        for _ in range(MOST_ROUNDS):
            worst = around.worst(gains, epsilon)
            self.progress("design", 0, n, f"{n} gains: worst between {worst.loss:.4g}")
            if worst.region is None:
                return RegionGains(gains, worst.loss)
            if self.is_over:
                return None
            self.added.append(worst.points)
            self.region = GainRegion.concatenate([self.region, worst.region])
            result = self._descend(gains, stop_at=EASY * epsilon, is_warm=True)
            if result.worst > epsilon:
                result = self._of_size(n, chain([gains], self._restarts(n)), epsilon)
            if result is None:
                return None
            gains = result.gains
        return None

    def harden(self, gains: Array, epsilon: float, around: Between) -> None:
        """Add contexts until one gain less loses far too much at the region.

        So the bound over all gains has to exclude nothing that is nearly enough.

        Args:
            gains: that serve; one less was not found to.
            epsilon: the tolerance.
            around: more contexts of the same box.
        """
        starts = chain(self._without_one(gains), self._restarts(len(gains) - 1))
        fewer = min(map(self._descend, islice(starts, 4)), key=lambda g: g.worst)
        for _ in range(MOST_ROUNDS):
            self.progress("harden", 0, len(fewer.gains), f"{fewer.worst:.4g}")
            worst = around.worst(fewer.gains, fewer.worst)
            is_hard = fewer.worst > epsilon + HARD * abs(epsilon)
            if is_hard or worst.region is None or self.is_over:
                return
            self.added.append(worst.points)
            self.region = GainRegion.concatenate([self.region, worst.region])
            fewer = self._descend(fewer.gains, is_warm=True)

    def _of_size(
        self, n: int, starts: Iterator[Array], epsilon: float
    ) -> RegionGains | None:
        """Return n gains that serve, from the first start that leads to some."""
        best_worst = np.inf
        for start in starts:
            if self.is_over:
                return None
            result = self._descend(start, stop_at=EASY * epsilon)
            best_worst = min(best_worst, result.worst)
            self.progress("design", 0, n, f"{n} gains: worst loss {best_worst:.4g}")
            if result.worst <= epsilon:
                return result
        return None

    def _without_one(self, gains: Array) -> Iterator[Array]:
        """Yield the gains without one of them, first the one that is missed least."""
        losses = self.region.judged(gains)
        rest = [np.delete(losses, i, 0).min(0) for i in range(len(gains))]
        order = sorted(range(len(gains)), key=lambda i: (rest[i].max(), rest[i].sum()))
        for i in order:
            yield np.delete(gains, i, 0)

    def _restarts(self, n: int, n_restarts: int = MOST_RESTARTS) -> Iterator[Array]:
        """Yield gains of the pool far from each other in what they lose, seeded."""
        if n_restarts == 0:
            return
        rng = np.random.default_rng(self.seed)
        losses = self.region.judged(self.pool)
        for _ in range(n_restarts):
            chosen = [int(rng.integers(len(self.pool)))]
            while len(chosen) < n:
                least = losses[chosen].min(0)
                # A context drawn among those served worst, and who serves it best.
                bad = np.argsort(least)[-max(1, len(least) // 10) :]
                chosen.append(int(losses[:, rng.choice(bad)].argmin()))
            yield self.pool[chosen]

    def _polish(self, best: RegionGains) -> RegionGains:
        result = self._descend(best.gains)
        return result if result.worst < best.worst else best

    def _descend(
        self, start: Array, stop_at: float = -np.inf, *, is_warm: bool = False
    ) -> RegionGains:
        return design_gains(
            self.region,
            start,
            self.mask,
            stop_at=stop_at,
            should_stop=lambda: self._worked(len(start)),
            is_warm=is_warm,
        )
