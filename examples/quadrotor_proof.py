"""A quadrotor whose motors wear: covers that are proven for every efficiency.

Preiss & Sukhatme (L4DC 2021) cover σ in [0.1, 1]⁴ within a factor α = 2 of the optimal
cost by 4⁴ = 256 guaranteed-cost controllers, proven for every σ. Here a few LQR gains
are shown to do, by bounds on whole boxes of σ: one, that of σ = 0.178 in all four, for
α = 2.

For smaller α the gains begin as a cover of some σ by the gains of a grid. Then the σ
that they are optimal for are moved so that fewer do; where the proof fails, the failing
σ are added and they are moved again. A lower bound says that no fewer of all the gains
that were looked at serve some σ, again by rigorous bounds.

    python examples/quadrotor_proof.py
"""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import taskspace as ts
from taskspace.certificates import Boxes, LinearEnclosure, certify_cover
from taskspace.certificates.continuum import CERTIFIED

PUBLISHED = 256
# Some σ are served a little better than needed, so that gaps between them stay small.
TIGHTER = 0.98
# σ moves by these shares of itself, and fails by no more than HOPELESS.
STEPS = (0.3, 0.15, 0.07, 0.03, 0.015)
HOPELESS = 3.0

QUADROTOR = ts.systems.Quadrotor()


def grid(low: float, high: float, n: int) -> NDArray[np.float64]:
    values = np.geomspace(low, high, n)
    return np.stack(np.meshgrid(*[values] * 4, indexing="ij"), -1).reshape(-1, 4)


def gains(sources: NDArray[np.float64]) -> ts.policies.LinearGain:
    return ts.policies.LinearGain(QUADROTOR.optimal_gain(sources)[0][:, None])


def losses(sources: NDArray, targets: NDArray) -> NDArray[np.float64]:
    """What the gain of each source costs at each target, over the optimum, minus 1."""
    optimum = QUADROTOR.optimum(targets)
    assert optimum is not None
    ratio = QUADROTOR.performance(gains(sources), targets)[:, 0] / optimum
    return np.minimum(ratio - 1, HOPELESS)


def moved(sources: NDArray, targets: NDArray, allowed: float) -> tuple[NDArray, bool]:
    """The sources, moved until together they serve the targets; whether they do."""
    rows = losses(sources, targets)

    def excess(rows: NDArray) -> float:
        return float(np.maximum(rows.min(0) - allowed, 0).sum())

    best = excess(rows)
    for step in STEPS:
        while best > 0:
            # Every source a step along every axis, both ways: take the best of them.
            factors = 1 + np.vstack([step * np.eye(4), -step * np.eye(4)])
            tries = (sources[:, None] * factors).clip(0.1, 1.0)
            found = losses(tries.reshape(-1, 4), targets).reshape(len(sources), 8, -1)
            scores = np.empty(found.shape[:2])
            for s, way in np.ndindex(*scores.shape):
                others = np.delete(rows, s, axis=0)
                scores[s, way] = excess(np.vstack([others, found[s, way]]))
            s, way = np.unravel_index(scores.argmin(), scores.shape)
            if not scores[s, way] < best:
                break
            sources, rows = sources.copy(), rows.copy()
            sources[s], rows[s], best = tries[s, way], found[s, way], scores[s, way]
    return sources, best == 0


def fewer(sources: NDArray, targets: NDArray, allowed: float, least: int) -> NDArray:
    """Leave out one source after the other, as long as the rest can be moved to do."""
    while len(sources) > least:
        rows = losses(sources, targets)
        without = [
            np.maximum(np.delete(rows, s, 0).min(0) - allowed, 0).sum()
            for s in range(len(rows))
        ]
        rest, fine = moved(np.delete(sources, np.argmin(without), 0), targets, allowed)
        if not fine:
            break
        sources = rest
    return sources


def main(
    alphas: Sequence[float] = (2.0, 1.5, 1.2, 1.1),
    n: int = 4,
    low: float = 0.1,
    rounds: int = 20,
    time_limit: float = 3600.0,
) -> None:
    axes = [axis.name for axis in QUADROTOR.axes]
    candidates = np.concatenate([np.full((1, 4), 0.178), grid(0.14, 0.6, n)])
    first = LinearEnclosure(QUADROTOR, gains(candidates), candidates, criterion="ratio")
    first.bounds(Boxes.points(candidates[:1]), [0])  # compiled, or found in the cache
    corners = Boxes.points(grid(low, 1.0, 3))
    at_least, _ = first.bounds(corners)
    print(f"published: {PUBLISHED} controllers for α = 2, proven for every σ")
    for alpha in alphas:
        wall, busy = time.perf_counter(), time.process_time()
        allowed = TIGHTER * (alpha - 1)
        targets = grid(low, 1.0, 4)
        needed = _least(at_least, alpha)
        chosen = ts.minimum_cover(
            ts.tolerance_sets(losses(candidates, targets), allowed), time_limit=20
        ).sources
        sources, seen = candidates[chosen], [candidates[chosen]]
        for _ in range(rounds):
            sources = fewer(sources, targets, allowed, needed)
            seen.append(sources)
            bounds = LinearEnclosure(
                QUADROTOR, gains(sources), sources, criterion="ratio"
            )
            cover = certify_cover(
                bounds,
                np.arange(len(sources)),
                [np.array([low, 1.0])] * 4,
                alpha - 1,
                axes=axes,
                max_boxes=10**6,
                time_limit=time_limit,
                until_failure=True,
            )
            if cover.certificate.holds:
                break
            # Where it fails becomes a target too.
            gaps = cover.boxes[cover.status != CERTIFIED].centre
            targets = np.concatenate([targets, gaps[:: 1 + len(gaps) // 100]])
            sources, fine = moved(sources, targets, allowed)
            if not fine:
                more = np.concatenate([candidates, *seen])
                chosen = ts.minimum_cover(
                    ts.tolerance_sets(losses(more, targets), allowed), time_limit=20
                ).sources
                sources = more[chosen]
        own = np.concatenate(seen)
        extra, _ = LinearEnclosure(
            QUADROTOR, gains(own), own, criterion="ratio"
        ).bounds(corners)
        needed = _least(np.concatenate([at_least, extra]), alpha)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        word = "proven for every σ" if cover.certificate.holds else "not proven"
        print(
            f"α = {alpha:g}: {cover.size} LQR gains, {word}, {len(cover.boxes)} boxes, "
            f"at least {needed:g} of {len(candidates) + len(own)} candidates needed; "
            f"{wall:.0f} s ({busy:.0f} s of a processor)\n"
            f"  σ of the gains: {sources.round(3).tolist()}",
            flush=True,
        )


def _least(at_least: NDArray[np.float64], alpha: float) -> int:
    """How many sources it takes to serve some points, by bounds from below."""
    sets = ts.sets.PackedSets.from_bool(at_least <= alpha - 1)
    return int(ts.minimum_cover(sets, time_limit=20).lower_bound)


if __name__ == "__main__":
    main()
