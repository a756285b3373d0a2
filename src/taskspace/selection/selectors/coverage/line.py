"""Plans on one axis, where what a source serves is a stretch around it.

Each row seen tells how far its source reaches to both sides; between sources the reach
is interpolated. A sweep from one end then gives the fewest stretches that cover what is
left. Most plans of that size have room to spare: the one whose stretches may be shrunk
most, all alike, survives the largest errors of the prediction.
"""

from dataclasses import dataclass

import numpy as np

from taskspace._util.arrays import Array, Mask

FIRST = (3 - 5**0.5) / 2
"""Where to begin: at the golden section. From the middle both sides would need equally
many more, which makes every total odd."""

HALVINGS = 8
WIDEST = 2.0


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
