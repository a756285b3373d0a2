"""Selectors that fit no model: by chance, evenly, or where nothing serves yet."""

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.ledger import Ledger
from taskspace.selection.selectors.base import Known, OneByOne, distances, selector

__all__ = ["Farthest", "Random", "Uncovered", "Uniform"]


@selector("random")
class Random(OneByOne):
    """Uniformly among the candidates that are left."""

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return any candidate that is left."""
        del ledger
        return int(self.rng(seen).choice(np.flatnonzero(left)))


@selector("uniform")
class Uniform(OneByOne):
    """The candidate farthest from all sources; the middle first."""

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Pick the candidate whose nearest source is farthest, the first of equals."""
        del ledger
        if not len(seen.planned):
            return self.candidates.middle
        planned = self.candidates.units_of(seen.planned)
        gap = self.candidates.distances(planned).min(1)
        return int(np.where(left, gap, -1.0).argmax())


@selector("uncovered")
class Uncovered(OneByOne):
    """The home of a random target among those that are not covered."""

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return a candidate nearest to some uncovered target."""
        del left
        _, homes = self.wanted(seen, ledger.target_space.points)
        return int(self.rng(seen).choice(homes)) if len(homes) else None


@selector("farthest")
class Farthest(OneByOne):
    """The home of the uncovered target farthest from all sources; the middle first."""

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return a candidate nearest to the loneliest uncovered target."""
        del left
        if not len(seen.planned) and not seen.covered.any():
            return self.candidates.middle
        _, homes = self.wanted(seen, ledger.target_space.points)
        if not len(homes):
            return None
        homes = np.unique(homes)
        if not len(seen.planned):  # policies of regions serve the others
            middle = self.candidates.unit[homes].mean(0, keepdims=True)
            away = distances(self.candidates.unit[homes], middle)[:, 0]
            return int(homes[away.argmin()])
        planned = self.candidates.units_of(seen.planned)
        gap = distances(self.candidates.unit[homes], planned).min(1)
        return int(homes[gap.argmax()])
