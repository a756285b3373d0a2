"""The fewest gains for some contexts, or the best k of them, one design after another.

All gains move at once to lessen the worst loss (`taskspace.trainers.minimax`). Where
that leaves room, one gain is taken away and the others repair what it served, until
nothing gets smaller; then from seeded choices of other gains. What is found is kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock
from taskspace.progress import Progress, silent
from taskspace.trainers.minimax import GainRegion, RegionGains, design_gains

__all__ = ["DesignSearch"]

# Restarts from other gains, of a size that was not reached by taking one away.
MOST_RESTARTS = 20
# Contexts between the given ones that are added at a time, and how often.
N_EXCHANGED, MOST_EXCHANGES = 200, 8
# A worst loss so far below the tolerance is good enough to try one gain less.
EASY = 0.98


@dataclass
class DesignSearch:
    """Gains for a region, improved until time is up.

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
    pool: NDArray[np.float64]
    mask: NDArray[np.bool_]
    clock: Clock
    seed: int = 0
    keep: Callable[[RegionGains], None] = lambda found: None
    progress: Progress = silent

    def fewest(
        self, start: NDArray[np.float64], epsilon: float, *, anew: bool = False
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
        while len(best.gains) > 1 and self.clock.left > 0:
            n = len(best.gains) - 1
            starts = self._restarts(n) if anew else self._without_one(best.gains)
            smaller = self._of_size(n, starts, epsilon)
            if smaller is None:
                break
            best, anew = smaller, False
            self.keep(best)
        return self._polish(best)

    def least(
        self, start: NDArray[np.float64], n_restarts: int = MOST_RESTARTS
    ) -> RegionGains:
        """Return as many gains as in `start` with the least worst loss found.

        Args:
            start: gains of which one at least stabilises each context.
            n_restarts: from other gains of the pool, at most.
        """
        best = self._descend(start)
        self.keep(best)
        for restart in self._restarts(len(start), n_restarts):
            if self.clock.left <= 0:
                break
            found = self._descend(restart)
            if found.worst < best.worst:
                best = found
                self.keep(best)
            self.progress("design", 0, len(start), f"worst loss {best.worst:.4g}")
        return best

    def between(self, found: RegionGains, finer: GainRegion) -> RegionGains:
        """Return gains moved so that they lose less between the contexts, too.

        Contexts of a finer region where they lose most are added to the region, and
        the gains descend again.

        Args:
            found: gains that were designed for the region.
            finer: more contexts of the same box.
        """
        best, start, nodes = found, found, len(self.region)
        worst = np.inf
        for _ in range(MOST_EXCHANGES):
            losses = finer.judged(start.gains).min(0)
            own = self.region.judged(start.gains).min(0)[:nodes].max()
            top = max(float(losses.max()), float(own))
            if top < worst:
                worst, best = top, RegionGains(start.gains, float(own))
            bad = np.argsort(losses)[-N_EXCHANGED:]
            bad = bad[losses[bad] > own]
            if not len(bad) or self.clock.left <= 0:
                break
            self.region = GainRegion.concatenate([self.region, finer.take(bad)])
            start = self._descend(start.gains)
        return best

    def _of_size(
        self, n: int, starts: Iterator[NDArray[np.float64]], epsilon: float
    ) -> RegionGains | None:
        """Return n gains that serve, from the first start that leads to some."""
        best_worst = np.inf
        for start in starts:
            if self.clock.left <= 0:
                return None
            found = self._descend(start, stop_at=EASY * epsilon)
            best_worst = min(best_worst, found.worst)
            self.progress("design", 0, n, f"{n} gains: worst loss {best_worst:.4g}")
            if found.worst <= epsilon:
                return found
        return None

    def _without_one(self, gains: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yield the gains without one of them, first the one that is missed least."""
        losses = self.region.judged(gains)
        rest = [np.delete(losses, i, 0).min(0) for i in range(len(gains))]
        order = sorted(range(len(gains)), key=lambda i: (rest[i].max(), rest[i].sum()))
        for i in order:
            yield np.delete(gains, i, 0)

    def _restarts(
        self, n: int, n_restarts: int = MOST_RESTARTS
    ) -> Iterator[NDArray[np.float64]]:
        """Yield gains of the pool far from each other in what they lose, seeded."""
        if n_restarts == 0:
            return
        rng = np.random.default_rng(self.seed)
        losses = self.region.judged(self.pool)
        for _ in range(n_restarts):
            chosen = [int(rng.integers(len(self.pool)))]
            while len(chosen) < n:
                left = losses[chosen].min(0)
                # A context drawn among those served worst, and who serves it best.
                bad = np.argsort(left)[-max(1, len(left) // 10) :]
                chosen.append(int(losses[:, rng.choice(bad)].argmin()))
            yield self.pool[chosen]

    def _polish(self, best: RegionGains) -> RegionGains:
        found = self._descend(best.gains)
        return found if found.worst < best.worst else best

    def _descend(
        self, start: NDArray[np.float64], stop_at: float = -np.inf
    ) -> RegionGains:
        return design_gains(
            self.region,
            start,
            self.mask,
            stop_at=stop_at,
            should_stop=lambda: self.clock.left <= 0,
        )
