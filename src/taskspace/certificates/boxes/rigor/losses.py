"""Bounds on the losses of gains over boxes of contexts, compiled.

One pass per box: the plant's Taylor models, the cost of every gain between two
polynomials, the least cost between two more, and the loss from comparing polynomials
of the same variables: the best and the worst context of a box are the same for both.

A controller with states makes a loop with more states than the plant. The loop is a
plant of its own then, which nothing drives; the reference is the least cost of the
plant itself over all feedback of its whole state, which no controller beats.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.costs import (
    STABLE,
    UNKNOWN,
    UNSTABLE,
    box_costs,
)
from taskspace.certificates.boxes.rigor.taylor import (
    evaluate_tape,
    gather,
    largest_difference,
    largest_ratio,
    most,
)

COST, REGRET, RATIO = 0, 1, 2


@njit(cache=True, error_model="numpy")
def loss_range(kind, status, low, high, home, known, least_low, least_high, even):
    """Return bounds on the loss of one gain over a box, from the polynomials.

    Args:
        kind: `COST`, `REGRET` or `RATIO`.
        status: of the gain's loop.
        low: polynomial below its cost.
        high: polynomial above its cost, if stable.
        home: bounds on what is subtracted from the cost.
        known: whether the least cost is.
        least_low: polynomial below the least cost.
        least_high: polynomial above it.
        even: monomials with range [0, 1].
    """
    stable = status == STABLE
    if kind == COST and home[1] == np.inf:
        # Not known whether the loop is stable at home; if not, there is no gap.
        at_most = np.inf
        if stable:
            at_most = max(0.0, most(high, even))
        return -np.inf, at_most
    if status == UNSTABLE:
        return np.inf, np.inf
    if kind == COST:
        at_least = max(0.0, -most(-low, even))
        at_least -= home[1]
        at_least -= 2e-16 * abs(at_least)
        at_most = np.inf
        if stable:
            at_most = most(high, even) - home[0]
            at_most += 2e-16 * abs(at_most)
        return at_least, at_most
    at_least, at_most = 0.0, np.inf
    if not known:
        if stable and kind == REGRET:
            at_most = most(high, even)
        return at_least, at_most
    if kind == REGRET:
        at_least = max(0.0, -largest_difference(least_high, low, 1.0, even))
        if stable:
            at_most = max(0.0, largest_difference(high, least_low, 1.0, even))
        return at_least, at_most
    if -most(-low, even) > 0.0:
        inverse = largest_ratio(least_high, low, even)
        if inverse > 0.0:
            at_least = max(0.0, (1.0 / inverse - 1.0) - 1e-15 / inverse)
    if stable:
        ratio = largest_ratio(high, least_low, even)
        at_most = max(0.0, ratio - 1.0 + 4e-16 * ratio)
    return at_least, at_most


@njit(cache=True, error_model="numpy")
def fill_plant(tape, places, box, place, tables, order, plant):
    """Fill the plant's Taylor models on a box; False where it is undefined."""
    centre, radius = box
    n_p = plant[0].shape[0]
    c = np.empty((len(tape[0]), n_p))
    r = np.empty(len(tape[0]))
    if not evaluate_tape(tape, centre, radius, place, tables[0], order, c, r):
        return False
    gather(places[0], c, r, False, plant[0], plant[1])
    gather(places[1], c, r, False, plant[2], plant[3])
    gather(places[2], c, r, True, plant[4], plant[5])
    gather(places[3], c, r, True, plant[6], plant[7])
    return True


@njit(cache=True, error_model="numpy")
def empty_plant(n_p, n, m):
    """Return room for `A, A_rest, B, B_rest, Q, Q_rest, R, R_rest` on a box."""
    return (
        np.empty((n_p, n, n)),
        np.empty((n, n)),
        np.empty((n_p, n, m)),
        np.empty((n, m)),
        np.empty((n_p, n, n)),
        np.empty((n, n)),
        np.empty((n_p, m, m)),
        np.empty((m, m)),
    )


@njit(cache=True, error_model="numpy", nogil=True)
def bound_boxes(
    gains,
    home,
    offsets,
    which,
    program,
    boxes,
    tables,
    order,
    n_p,
    options,
    epsilon,
    one_suffices,
    low,
    high,
):
    """Fill bounds on the loss of some families on each box.

    Args:
        gains: `(source, policy, 1, n_inputs, n_states)`.
        home: bounds on the cost at home, `(source, policy, 2)`; zero unless signed;
            infinite where the loop is unstable there.
        offsets: box b is for the sources `which[offsets[b] : offsets[b + 1]]`.
        which: sources.
        program: tape, places of A, B, Q, R, place of each axis.
        boxes: centre and radius, each by box.
        tables: `product, even, n_linear`.
        order: of the plant's models and of the candidates.
        n_p: number of monomials up to that order.
        options: kind, whether the worst policy counts, continuous, Σ.
        epsilon: only `loss <= epsilon` has to be decided, if it is a number.
        one_suffices: nothing is filled after the first source of a box with
            `high <= epsilon`.
        low: filled, one number for each entry of `which`, −inf at first.
        high: filled, inf at first.
    """
    tape, places, place = program
    centre, radius = boxes
    kind, worst, continuous, sigma = options
    _, n_policies, _, m, n = gains.shape
    even = tables[1][:n_p]
    plant = empty_plant(n_p, n, m)
    least_low, least_high = np.zeros(n_p), np.zeros(n_p)
    gain_low, gain_high = np.zeros(n_p), np.zeros(n_p)
    # Not literals: the compiler would make a copy of everything for each.
    of_gain, of_all = n_p < 0, n_p > 0
    for b in range(len(centre)):
        box = (centre[b], radius[b])
        if not fill_plant(tape, places, box, place, tables, order, plant):
            continue  # nothing is known: low and high stay infinite
        asked, known = False, False
        is_point = True
        for a in range(radius.shape[1]):
            is_point &= radius[b, a] == 0.0
        for k in range(offsets[b], offsets[b + 1]):
            s = which[k]
            at_least = -np.inf if worst else np.inf
            at_most = at_least
            for p in range(n_policies):
                if home[s, p, 0] == np.inf:
                    # Unstable at home: no gap to a failure, −inf to anything else.
                    one_low, one_high = -np.inf, 0.0
                else:
                    status = box_costs(
                        plant, gains[s, p], of_gain, sigma, tables, continuous, n_p,
                        gain_low, gain_high,
                    )  # fmt: skip
                    # A loop that is not known to be stable has no bound above, and
                    # only at a point one below that is worth the least cost.
                    wanted = status == STABLE or (status == UNKNOWN and is_point)
                    if kind != COST and not asked and wanted:
                        asked = True
                        best = box_costs(
                            plant, gains[s, p], of_all, sigma, tables, continuous, n_p,
                            least_low, least_high,
                        )  # fmt: skip
                        known = best == STABLE
                    one_low, one_high = loss_range(
                        kind, status, gain_low, gain_high, home[s, p],
                        known, least_low, least_high, even,
                    )  # fmt: skip
                if worst:
                    at_least, at_most = max(at_least, one_low), max(at_most, one_high)
                    if at_least > epsilon:
                        at_most = np.inf
                        break
                else:
                    at_least, at_most = min(at_least, one_low), min(at_most, one_high)
                    if at_most <= epsilon:
                        at_least = -np.inf
                        break
            low[k], high[k] = at_least, at_most
            if one_suffices and at_most <= epsilon:
                break


@njit(cache=True, error_model="numpy", nogil=True)
def bound_loop(loop, plant, boxes, tables, order, n_p, options, home, low, high):
    """Fill bounds on the loss of one closed loop on each box.

    Args:
        loop: tape, places of A, B, Q, R, place of each axis, of the closed loop.
        plant: the same of the plant, whose least cost is the reference.
        boxes: centre and radius, each by box.
        tables: `product, even, n_linear`.
        order: of the models and of the candidates.
        n_p: number of monomials up to that order.
        options: kind, continuous, Σ of the loop, Σ of the plant.
        home: bounds on the cost at home; zero unless signed, infinite where the loop
            is unstable there.
        low: filled, one number per box, −inf at first.
        high: filled, inf at first.
    """
    centre, radius = boxes
    kind, continuous, sigma, plant_sigma = options
    n, m = plant[1][1].shape
    size = len(sigma)
    even = tables[1][:n_p]
    loop_models = empty_plant(n_p, size, 1)
    models = empty_plant(n_p, n, m)
    none, nothing = np.zeros((1, 1, size)), np.zeros((1, m, n))
    cost_low, cost_high = np.zeros(n_p), np.zeros(n_p)
    least_low, least_high = np.zeros(n_p), np.zeros(n_p)
    # Not literals: the compiler would make a copy of everything for each.
    of_loop, of_all = n_p < 0, n_p > 0
    for b in range(len(centre)):
        if home[0] == np.inf:
            low[b], high[b] = -np.inf, 0.0
            continue
        box = (centre[b], radius[b])
        if not fill_plant(loop[0], loop[1], box, loop[2], tables, order, loop_models):
            continue
        status = box_costs(
            loop_models, none, of_loop, sigma, tables, continuous, n_p,
            cost_low, cost_high,
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
                least_low, least_high,
            )  # fmt: skip
            known = best == STABLE
        low[b], high[b] = loss_range(
            kind, status, cost_low, cost_high, home, known, least_low, least_high, even
        )
