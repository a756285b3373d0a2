"""Selectors that fit no model: by chance, evenly, or where nothing serves yet."""

import numpy as np

from taskspace._util.arrays import Mask, Numbers
from taskspace.performance.ledger import Ledger
from taskspace.selection.candidates import distances
from taskspace.selection.selectors.base import Known, OneByOne, selector


@selector("random")
class Random(OneByOne):
    """Uniformly among the candidates that are left."""

    def pick(self, ledger: Ledger, seen: Known, left: Mask) -> int | None:
        """Return any candidate that is left."""
        del ledger
        return int(self.rng(seen).choice(np.flatnonzero(left)))


@selector("uniform")
class Uniform(OneByOne):
    """The candidate farthest from all sources; the middle first."""

    def pick(self, ledger: Ledger, seen: Known, left: Mask) -> int | None:
        """Return the candidate whose nearest source is farthest."""
        del ledger
        if not len(seen.planned):
            return self.candidates.middle
        planned = self.candidates.units_of(seen.planned)
        gap = distances(self.candidates.unit, planned).min(1)
        return int(np.where(left, gap, -1.0).argmax())


class _AtHomes(OneByOne):
    """A selector of candidates at home of uncovered targets."""

    def open_homes(self, ledger: Ledger, seen: Known, left: Mask) -> Numbers:
        """Return the candidate nearest to each uncovered target.

        A target whose own candidate was tried before waits for the others.

        Args:
            ledger: what is trained so far.
            seen: what it says.
            left: candidates that are not planned.
        """
        uncovered = ledger.target_space.points[~seen.covered]
        homes = self.homes(uncovered)
        if left[homes].any() or not len(uncovered):
            return homes[left[homes]]
        indices = np.flatnonzero(left)
        units = self.candidates.units_of(uncovered)
        return indices[distances(self.candidates.unit[indices], units).argmin(0)]


@selector("uncovered")
class Uncovered(_AtHomes):
    """The home of a random target among those that are not covered."""

    def pick(self, ledger: Ledger, seen: Known, left: Mask) -> int | None:
        """Return a candidate nearest to some uncovered target."""
        homes = self.open_homes(ledger, seen, left)
        return int(self.rng(seen).choice(homes)) if len(homes) else None


@selector("farthest")
class Farthest(_AtHomes):
    """The home of the uncovered target farthest from all sources; the middle first."""

    def pick(self, ledger: Ledger, seen: Known, left: Mask) -> int | None:
        """Return the candidate nearest to the most distant uncovered target."""
        if not len(seen.planned) and not seen.covered.any():
            return self.candidates.middle
        homes = np.unique(self.open_homes(ledger, seen, left))
        if not len(homes):
            return None
        units = self.candidates.unit[homes]
        if not len(seen.planned):  # policies of regions serve the others
            middle = units.mean(0, keepdims=True)
            return int(homes[distances(units, middle)[:, 0].argmin()])
        planned = self.candidates.units_of(seen.planned)
        return int(homes[distances(units, planned).min(1).argmax()])
