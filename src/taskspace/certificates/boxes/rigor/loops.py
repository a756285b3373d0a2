"""Bounds on the losses of closed loops over boxes of contexts, compiled.

A controller with states makes a loop with more states than the plant. The loop is a
plant of its own here, which nothing drives; the reference is the least cost of the
plant itself over all feedback of its whole state, which no controller beats.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.costs import (
    STABLE,
    UNKNOWN,
    box_costs,
    empty_matrices,
)
from taskspace.certificates.boxes.rigor.losses import (
    COST,
    empty_plant,
    fill_plant,
    loss_range,
)


@njit(cache=True, error_model="numpy", nogil=True)
def bound_loop(loop, plant, boxes, tables, order, n_p, options, home, low, high):
    """Fill bounds on the loss of one closed loop on each box.

    Args:
        loop: tape, places of A, B, Q, R, place of each axis, of the closed loop.
        plant: the same of the plant, whose least cost is the reference.
        boxes: centre, radius, enclosed parameters, each by box.
        tables: `product, even, n_linear`.
        order: of the models and of the candidates.
        n_p: number of monomials up to that order.
        options: kind, continuous, Σ of the loop, Σ of the plant.
        home: bounds on the cost at home; zero unless signed, infinite where the loop
            is unstable there.
        low: filled, one number per box, −inf at first.
        high: filled, inf at first.
    """
    centre, radius, enclosed = boxes
    kind, continuous, sigma, plant_sigma = options
    n, m = plant[1][1].shape
    size = len(sigma)
    even = tables[1][:n_p]
    loop_models = empty_plant(n_p, size, 1)
    models = empty_plant(n_p, n, m)
    none, nothing = np.zeros((1, 1, size)), np.zeros((1, m, n))
    cost_low, cost_high = np.zeros(n_p), np.zeros(n_p)
    least_low, least_high = np.zeros(n_p), np.zeros(n_p)
    loop_matrices, matrices = empty_matrices(0, size), empty_matrices(0, n)
    # Not literals: the compiler would make a copy of everything for each.
    of_loop, of_all = n_p < 0, n_p > 0
    for b in range(len(centre)):
        if home[0] == np.inf:
            low[b], high[b] = -np.inf, 0.0
            continue
        box = (centre[b], radius[b], enclosed[b])
        if not fill_plant(loop[0], loop[1], box, loop[2], tables, order, loop_models):
            continue
        status = box_costs(
            loop_models, none, of_loop, sigma, tables, continuous, n_p,
            cost_low, cost_high, loop_matrices,
        )  # fmt: skip
        is_point = radius[b].max() == 0.0
        known = False
        wanted = status == STABLE or (status == UNKNOWN and is_point)
        if (
            kind != COST
            and wanted
            and fill_plant(plant[0], plant[1], box, plant[2], tables, order, models)
        ):
            best = box_costs(
                models, nothing, of_all, plant_sigma, tables, continuous, n_p,
                least_low, least_high, matrices,
            )  # fmt: skip
            known = best == STABLE
        low[b], high[b] = loss_range(
            kind, status, cost_low, cost_high, home, known, least_low, least_high, even
        )
