"""Shares, budgets and means of tables of scores, beside HiGHS in the same time.

Scores of n sources at m targets with four hidden abilities; the question is regret
<= 0.1 (0.05 for the large table) against the best of the table. HiGHS (`scipy`) gets
the textbook models: x for sources, y for targets (or pairs, for means). `--large` adds
1,000 x 10,000, a minute for each solver; `--graphs` hitting sets in which every
element lies in two sets.
"""

import sys
import time

import numpy as np
from scipy import optimize, sparse

from taskspace.cover import least_mean, minimum_cover
from taskspace.sets import pack


def table(n, m, seed):
    rng = np.random.default_rng(seed)
    ability, task = rng.normal(0, 0.6, (n, 4)), rng.normal(0, 1, (m, 4))
    level = rng.normal(0, 0.7, (n, 1)) + rng.normal(0, 1, m)
    noise = rng.normal(0, 0.8, (n, m))
    return 1 / (1 + np.exp(-(ability @ task.T + level + noise)))


def highs(costs, matrix, low, high, integral, seconds):
    start = time.perf_counter()
    found = optimize.milp(
        costs,
        integrality=integral,
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(matrix, low, high),
        options={"time_limit": seconds},
    )
    return found.fun, found.mip_dual_bound, time.perf_counter() - start


def highs_part(serves, share, budget, seconds):
    """Return the cheapest of a share, or the targets that a budget leaves."""
    n, m = serves.shape
    links = sparse.hstack([sparse.csr_array(serves.T.astype(float)), -sparse.eye(m)])
    count = (
        np.r_[np.zeros(n), np.ones(m)]
        if budget is None
        else np.r_[np.ones(n), np.zeros(m)]
    )
    rows = sparse.vstack([links, sparse.csr_array(count[None])]).tocsr()
    low = np.r_[np.zeros(m), np.ceil(share * m) if budget is None else 0]
    high = np.r_[np.full(m, np.inf), np.inf if budget is None else budget]
    costs = (
        np.r_[np.ones(n), np.zeros(m)]
        if budget is None
        else np.r_[np.zeros(n), -np.ones(m)]
    )
    return highs(costs, rows, low, high, np.r_[np.ones(n), np.zeros(m)], seconds)


def highs_mean(losses, budget, seconds):
    n, m = losses.shape
    each = sparse.kron(np.ones((1, n)), sparse.eye(m))  # every target is assigned
    link = sparse.hstack(
        [sparse.kron(sparse.eye(n), np.ones((m, 1))), -sparse.eye(n * m)]
    )
    rows = sparse.vstack([
        sparse.hstack([sparse.csr_array((m, n)), each]), link,
        sparse.csr_array(np.r_[np.ones(n), np.zeros(n * m)][None]),
    ]).tocsr()  # fmt: skip
    low = np.r_[np.ones(m), np.zeros(n * m), 0]
    high = np.r_[np.ones(m), np.full(n * m, np.inf), budget]
    costs = np.r_[np.zeros(n), losses.ravel() / m]
    return highs(costs, rows, low, high, np.r_[np.ones(n), np.zeros(n * m)], seconds)


def line(what, ours, bound, seconds, peer):
    value, low, peer_seconds = peer
    theirs = "nothing in time"
    if value is not None:
        theirs = f"{abs(value):.6g} [{abs(low):.6g}] in {peer_seconds:.2f} s"
    proven = "proven" if bound == ours else f"bound {bound:.6g}"
    print(
        f"| {what} | {ours:.6g}, {proven}, in {seconds:.2f} s | {theirs} |", flush=True
    )


def compare(n, m, epsilon, seconds, budgets, *, with_means=True):
    scores = table(n, m, 0)
    losses = scores.max(0) - scores
    serves = losses <= epsilon
    sets = pack(serves)
    for share in (0.8, 0.95):
        cover = minimum_cover(sets, share=share, time_limit=seconds)
        peer = highs_part(serves, share, None, seconds)
        what = f"{n} x {m}, share {share:g}"
        line(what, cover.size, cover.lower_bound, cover.seconds, peer)
    for budget in budgets:
        cover = minimum_cover(sets, budget=budget, time_limit=seconds)
        peer = highs_part(serves, None, budget, seconds)
        served, most = round(cover.coverage * m), round(cover.coverage_bound * m)
        line(f"{n} x {m}, most of {budget}", served, most, cover.seconds, peer)
        cover = least_mean(losses, budget, time_limit=seconds)
        peer = highs_mean(losses, budget, seconds) if with_means else (None, 0, 0)
        what = f"{n} x {m}, least mean of {budget}"
        line(what, cover.mean_loss, cover.lower_bound, cover.seconds, peer)


def main():
    small = table(8, 20, 1)
    warm = small.max(0) - small
    for options in ({"share": 0.5}, {"budget": 2}):
        minimum_cover(pack(warm <= 0.1), **options)  # compiles
    least_mean(warm, 2)
    print("| question | taskspace | HiGHS: value [bound] |\n|---|---|---|")
    compare(60, 800, 0.1, 60, (5, 10))
    if "--large" in sys.argv:
        # The model of the mean has 10 million pairs there: HiGHS does not start.
        compare(1000, 10_000, 0.05, 60, (20,), with_means=False)


if __name__ == "__main__":
    main()
