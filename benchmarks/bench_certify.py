"""How long certified covers of the continuum take, and how tight they are.

No other library certifies covers between grid points, so the comparison is with two
things one could do instead: a dense sample of contexts (which proves nothing), and
the margin rule with one Lipschitz constant for the whole box (a proof, but a weak one).

    python benchmarks/bench_certify.py
"""

import time

import numpy as np

import taskspace as ts
from taskspace.certificates import (
    Boxes,
    MsdEnclosure,
    box_edges,
    certified_cover,
    margin_rule,
)
from taskspace.certificates.boxes.nodes import serves_cells

EPSILON = 0.1


def main() -> None:
    system = ts.systems.MassSpringDamper()
    trainer = ts.trainers.Lqr()
    print(f"mass-spring-damper, regret <= {EPSILON}, one LQR gain a source")
    print("sources  cells   sets [s]  pairs/s    size  lower  grid  seconds")
    for n in (20, 30, 40):
        space = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
        contexts = system.contexts(space)
        policies = trainer.train(system, contexts, seed=0).policies
        bounds = MsdEnclosure(
            system, policies, contexts, ts.Question("regret", epsilon=0.0)
        )
        edges = box_edges(system, space)
        list(serves_cells(bounds, tuple(e[:2] for e in edges), EPSILON))  # compile
        begin = time.perf_counter()
        n_pairs = sum(block.size for block in serves_cells(bounds, edges, EPSILON))
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        found = certified_cover(bounds, system, space, EPSILON, time_limit=10)
        total = time.perf_counter() - begin
        assert found.certificate.holds
        table = ts.evaluate(system, trainer, space, seed=0).table
        on_grid = ts.minimum_cover(
            ts.Question("regret", "worst", epsilon=EPSILON).sets(table), time_limit=5
        )
        print(
            f"{space.size:7d}  {n_pairs // space.size:5d}  {seconds:8.2f}  "
            f"{n_pairs / seconds:.2e}  {found.size:4d}  {found.lower_bound:5d}  "
            f"{on_grid.size:4d}  {total:7.1f}"
        )
    tightness(system, space, policies, bounds, found)
    one_constant(system, space, bounds, found)


def tightness(system, space, policies, bounds, found) -> None:
    """Certified bound on the worst regret against the worst that a sample finds."""
    rng = np.random.default_rng(0)
    rows = np.c_[0.1 + rng.random((200_000, 2)) * 7.9, np.ones(200_000)]
    chosen = policies[found.sources]
    regret = system.optimum(rows) - system.performance(chosen, rows)[:, 0].max(0)
    print(
        f"worst regret: certified {found.certificate.values['worst_loss_bound']:.5f}, "
        f"in 200,000 random contexts {regret.max():.5f}"
    )


def one_constant(system, space, bounds, found) -> None:
    """Try the margin rule with one rigorous constant per axis for the whole box."""
    edges = box_edges(system, space)
    slopes = bounds.slope_bounds(Boxes.from_edges(edges), found.sources)
    rates = slopes.max((0, 1))[:2]
    for n in (100, 400):
        fine = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
        nodes = system.contexts(fine)
        _, losses = bounds.bounds(Boxes(nodes, nodes), found.sources)
        certified = margin_rule(fine, losses, EPSILON, rates)
        print(
            f"one constant per axis, {n} x {n} nodes: {certified.mean():.1%} of "
            f"the cells certified; boxes: {found.share(0):.1%}"
        )


if __name__ == "__main__":
    main()
