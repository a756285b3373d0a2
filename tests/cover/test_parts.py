"""Shares, budgets and means against brute force in fractions, and their proofs."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from taskspace.cover import (
    Cover,
    find_cover,
    greedy_cover,
    least_mean,
    minimum_cover,
    verify_cover,
)
from taskspace.cover.verify import (
    MeanProblem,
    Problem,
    unserved_price_bound,
)
from taskspace.errors import InvalidInputError
from taskspace.questions import tolerance_sets
from taskspace.sets import pack
from tests.cover.cover_problems import selections

N_QUICK, N_SLOW = 40, 3000


def exact(values):
    return [Fraction(float(v)) for v in values]


def random_case(rng):
    """Sets, costs, weights and restrictions, with ties, zeros and wild scales."""
    n, m = int(rng.integers(1, 8)), int(rng.integers(1, 10))
    matrix = rng.random((n, m)) < rng.choice([0.2, 0.4, 0.6])
    costs = [
        None, rng.integers(1, 5, n).astype(float), rng.random(n) + 0.1,
        rng.choice([0.1, 0.2, 0.3], n),
    ][rng.integers(4)]  # fmt: skip
    weights = [
        None, rng.integers(0, 5, m).astype(float), rng.random(m),
        rng.choice([1e16, 1.0, 0.0], m),
    ][rng.integers(4)]  # fmt: skip
    order = rng.permutation(n).tolist()
    n_in, n_out = rng.integers(0, 2, 2) * (rng.random() < 0.3)
    include, exclude = order[:n_in], order[n_in : n_in + n_out]
    return matrix, costs, weights, include, exclude


def served(matrix, weights, chosen):
    covered = matrix[chosen].any(0)
    return sum(
        (w for w, is_in in zip(weights, covered, strict=True) if is_in), Fraction(0)
    )


def asked_weight(share, weight):
    """Weight that a share asks for: all of it, or up to the rounding of the share."""
    if share == 1:
        return sum(weight)
    return Fraction(share) * (1 - Fraction(1, 2**50)) * sum(weight)


def least_cost(matrix, costs, weights, share, include, exclude):
    """Cost of the cheapest selection that serves the share, or all that can be."""
    n, m = matrix.shape
    weight = exact(np.ones(m) if weights is None else weights)
    cost = exact(np.ones(n) if costs is None else costs)
    allowed = [s for s in range(n) if s not in exclude]
    needed = min(asked_weight(share, weight), served(matrix, weight, allowed))
    return min(
        sum((cost[s] for s in chosen), Fraction(0))
        for chosen in selections(n, include, exclude, n)
        if served(matrix, weight, chosen) >= needed
    )


def read_back(cover):
    return Cover.from_dict(json.loads(json.dumps(cover.to_dict())))


def check_share(rng):
    matrix, costs, weights, include, exclude = random_case(rng)
    share = float(rng.choice([0, 0.3, 0.5, 0.75, 0.9, 1.0]))
    costs = costs if share == 1 else None
    sets = pack(matrix)
    cover = minimum_cover(
        sets, costs=costs, target_weights=weights, share=share,
        include=include, exclude=exclude,
    )  # fmt: skip
    truth = least_cost(matrix, costs, weights, share, include, exclude)
    assert cover.optimal
    assert abs(Fraction(cover.cost) - truth) <= truth / 2**45
    again = verify_cover(read_back(cover), sets, costs, target_weights=weights)
    assert again.holds
    assert not again.not_checked
    check_missed(cover, matrix, costs, weights, share)
    greedy = greedy_cover(
        sets, costs=costs, target_weights=weights, share=share,
        include=include, exclude=exclude,
    )  # fmt: skip
    assert greedy.missed_share == cover.missed_share


def check_missed(cover, matrix, costs, weights, share):
    """A cover that misses its share says so, and one that denies it is refused."""
    weight = exact(np.ones(matrix.shape[1]) if weights is None else weights)
    asked = asked_weight(share, weight)
    is_missed = served(matrix, weight, cover.sources.tolist()) < asked
    assert cover.missed_share == (share if is_missed else None)
    assert ("is missed:" in repr(cover)) == is_missed
    if share < 1:
        lie = replace(cover, missed_share=None if is_missed else share)
        sets = pack(matrix)
        assert not verify_cover(lie, sets, costs, target_weights=weights).holds


def check_budget(rng):
    matrix, _, weights, include, exclude = random_case(rng)
    n, m = matrix.shape
    budget = int(rng.integers(len(include), n + 1))
    sets = pack(matrix)
    cover = minimum_cover(
        sets, target_weights=weights, budget=budget, include=include, exclude=exclude
    )
    weight = exact(np.ones(m) if weights is None else weights)
    best = max(
        served(matrix, weight, chosen)
        for chosen in selections(n, include, exclude, budget)
    )
    assert cover.optimal
    assert cover.size <= budget
    assert served(matrix, weight, cover.sources.tolist()) == best
    again = verify_cover(read_back(cover), sets, target_weights=weights)
    assert again.holds
    assert not again.not_checked


def check_mean(rng):
    n, m = int(rng.integers(1, 8)), int(rng.integers(1, 9))
    losses = [
        rng.random((n, m)), rng.integers(0, 4, (n, m)).astype(float),
        rng.normal(size=(n, m)), rng.choice([0.1, 0.2, 0.3], (n, m)),
    ][rng.integers(4)]  # fmt: skip
    losses[rng.random((n, m)) < rng.choice([0.0, 0.3])] = np.inf
    _, _, _, include, exclude = random_case(rng)
    include, exclude = ([s for s in x if s < n] for x in (include, exclude))
    weights = [None, rng.integers(1, 4, m) * 1.0, rng.choice([1e9, 1.0], m)][
        rng.integers(3)
    ]
    budget = int(rng.integers(max(1, len(include)), n + 1))
    epsilon = None if rng.random() < 0.5 else float(rng.choice([0.2, 0.7, 2.0]))
    allowed = losses if epsilon is None else np.where(losses <= epsilon, losses, np.inf)
    weight = exact(np.ones(m) if weights is None else weights)
    means = []
    for chosen in selections(n, include, exclude, budget):
        best = allowed[chosen].min(0, initial=np.inf)
        if np.isfinite(best).all():
            pairs = zip(exact(best), weight, strict=True)
            means.append(sum(v * w for v, w in pairs) / sum(weight))
    options = {"epsilon": epsilon, "target_weights": weights}
    options |= {"include": include, "exclude": exclude}
    if not means:
        with pytest.raises(InvalidInputError, match="serve"):
            least_mean(losses, budget, **options)
        return
    cover = least_mean(losses, budget, **options)
    assert cover.optimal
    assert cover.mean_loss is not None
    assert 0 <= min(means) - Fraction(cover.mean_loss) <= abs(min(means)) / 2**50
    assert cover.lower_bound == cover.mean_loss
    worst = max(0.0, allowed[cover.sources].min(0).max())
    again = verify_cover(
        read_back(cover), tolerance_sets(losses, worst), target_weights=weights
    )
    assert again.holds
    assert again.proven


CHECKS = [check_share, check_budget, check_mean]


@pytest.mark.parametrize("check", CHECKS)
def test_the_optimum_is_that_of_brute_force(check):
    rng = np.random.default_rng(7)
    for _ in range(N_QUICK):
        check(rng)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_thousands_of_optima_are_those_of_brute_force(check):
    rng = np.random.default_rng(8)
    for _ in range(N_SLOW):
        check(rng)


def scores(n, m, seed):
    rng = np.random.default_rng(seed)
    skill, task = rng.normal(0, 0.6, (n, 4)), rng.normal(0, 1, (m, 4))
    noise = rng.normal(0, 0.7, (n, 1)) + rng.normal(0, 0.8, (n, m))
    return 1 / (1 + np.exp(-(skill @ task.T + noise)))


@pytest.fixture(scope="module")
def losses():
    table = scores(30, 120, 0)
    return table.max(0) - table


@pytest.mark.parametrize("with_weights", [False, True])
def test_highs_finds_the_same_optima(losses, with_weights):
    matrix = losses <= 0.1
    n, m = matrix.shape
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 9, m) if with_weights else np.ones(m, int)

    def solve(share, budget):
        """Sources x and served targets y: least cost, or most weight."""
        rows = [np.hstack([matrix.T, -np.eye(m)])]
        if budget is None:
            rows.append(np.hstack([np.zeros(n), weights])[None])
            aim = np.hstack([np.ones(n), np.zeros(m)])
            least = [*np.zeros(m), np.ceil(share * weights.sum())]
        else:
            rows.append(np.hstack([-np.ones(n), np.zeros(m)])[None])
            aim = np.hstack([np.zeros(n), -weights])
            least = [*np.zeros(m), -budget]
        found = milp(
            aim,
            integrality=np.ones(n + m),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(np.vstack(rows), lb=least),
            options={"mip_rel_gap": 0.0},
        )
        assert found.success
        return abs(round(found.fun))

    sets = pack(matrix)
    cover = minimum_cover(sets, target_weights=weights, share=0.75)
    assert cover.optimal
    assert cover.size == solve(0.75, None)
    cover = minimum_cover(sets, target_weights=weights, budget=4)
    assert cover.optimal
    assert weights[cover.assignment >= 0].sum() == solve(None, 4)


def test_optima_do_not_depend_on_units_or_order(losses):
    rng = np.random.default_rng(2)
    rows, columns = rng.permutation(30), rng.permutation(120)
    turned = losses[np.ix_(rows, columns)]
    for scale in (1.0, 1e-9, 3e7):
        for epsilon in (None, 0.5):
            base = least_mean(losses, 4, epsilon=epsilon)
            cap = None if epsilon is None else epsilon * scale
            other = least_mean(turned * scale, 4, epsilon=cap)
            assert base.optimal
            assert other.optimal
            assert other.mean_loss == pytest.approx(base.mean_loss * scale, rel=1e-12)
            assert sorted(rows[other.sources]) == base.sources.tolist()
    sets = [pack(x <= 0.1) for x in (losses, turned)]
    weights = rng.random(120)
    first = minimum_cover(sets[0], share=0.7, target_weights=weights)
    second = minimum_cover(sets[1], share=0.7, target_weights=weights[columns] / 7)
    assert first.optimal
    assert second.optimal
    assert second.size == first.size


def test_out_of_time_there_are_bounds_that_hold():
    table = scores(60, 400, 3)
    losses = table.max(0) - table
    done = least_mean(losses, 4)
    quick = least_mean(losses, 4, time_limit=0.0)
    assert quick.lower_bound <= done.lower_bound <= done.mean_loss <= quick.mean_loss
    sets = pack(losses <= 0.1)
    done = minimum_cover(sets, share=0.9)
    quick = minimum_cover(sets, share=0.9, time_limit=0.0)
    assert quick.lower_bound <= done.cost <= quick.cost


# --- proofs that are not true ---


@pytest.fixture(scope="module")
def proven(losses):
    """Sets and honest covers, each with its proof."""
    sets = tolerance_sets(losses, 0.1)
    mean = least_mean(losses, 3)
    worst = float(losses[mean.sources].min(0).max())
    return [
        (sets, minimum_cover(sets, share=0.8)),
        (sets, minimum_cover(sets, budget=3)),
        (tolerance_sets(losses, worst), mean),
    ]


def with_prices(cover, **changes):
    return replace(cover, prices=replace(cover.prices, **changes))


@pytest.mark.parametrize("case", range(3))
def test_honest_prices_hold_and_tampered_ones_are_refused(proven, case):
    sets, cover = proven[case]
    prices = cover.prices
    assert cover.optimal
    assert verify_cover(cover, sets).holds
    forgeries = [
        with_prices(cover, targets=prices.targets + 1000),
        with_prices(cover, targets=prices.targets[::-1].copy()),
        with_prices(cover, unit=-prices.unit),
        replace(with_prices(cover, units=0 * prices.units), lower_bound_kind="prices"),
    ]
    if case < 2:  # means may have any prices, but these prove nothing
        forgeries.append(with_prices(cover, units=prices.units * 8))
    for forged in forgeries:
        assert not verify_cover(forged, sets).holds
    wild = with_prices(cover, units=prices.units * 8)
    again = verify_cover(wild, sets, effort=0)
    assert not any("its prices" in sentence for sentence in again.proven)
    assert verify_cover(replace(cover, prices=None), sets, effort=0).not_checked


@pytest.mark.parametrize("case", range(3))
def test_no_prices_prove_more_than_the_truth(proven, losses, case):
    """Random prices around the honest ones: a fault, or a bound that holds."""
    sets, cover = proven[case]
    problem, rng = Problem.of(sets, None, None), np.random.default_rng(case)
    fewer = cover.size - 1
    mean = MeanProblem(sets, np.ones(120), cover.include, cover.exclude)
    best, n_valid = 0.0, 0
    unserved = 120 * (1 - minimum_cover(sets, budget=fewer).coverage)
    for _ in range(200):
        factor = rng.choice([0.0, 0.9, 1.0, 1.05, 1.3], p=[0.05, 0.1, 0.7, 0.1, 0.05])
        units = (cover.prices.units * rng.choice([1.0, factor], 120)[
            : len(cover.prices.units)
        ]).astype(np.int64)  # fmt: skip
        prices = replace(cover.prices, units=units)
        bound, fault = [
            lambda p: unserved_price_bound(p, problem, fewer),
            lambda p: unserved_price_bound(p, problem, 3),
            lambda p: mean.price_bound(p, 3),
        ][case](prices)
        truth = [unserved, 120 * (1 - cover.coverage), 120 * (cover.mean_loss or 0)][
            case
        ]
        assert bound <= truth * (1 + 1e-12)
        n_valid += not fault
        best = max(best, float(bound))
    assert n_valid > 20
    assert best > 0.5 * truth


def test_a_bound_above_the_truth_is_refused(proven):
    (sets, share), (_, budget), (mean_sets, mean) = proven
    worse = minimum_cover(sets, include=[0], share=0.8)
    dearer = replace(worse, include=worse.include[:0], prices=share.prices)
    assert worse.cost > share.cost  # or the forgery would be none
    assert not verify_cover(dearer, sets).holds
    lower = replace(budget, coverage_bound=budget.coverage - 0.01)
    assert not verify_cover(lower, sets).holds
    losses = np.array([mean_sets.losses(s) for s in range(30)])
    other = least_mean(losses, 3, exclude=[int(mean.sources[0])])
    forged = replace(other, exclude=mean.exclude, question=mean.question)
    assert not verify_cover(forged, tolerance_sets(losses, 1.0), effort=10**8).holds
    fewer = replace(mean, budget=4)  # what is proven of 3 is not proven of 4
    assert not verify_cover(fewer, mean_sets, effort=0).proven


def test_what_does_not_fit_together_is_refused_in_words(losses):
    sets = pack(losses <= 0.1)
    with pytest.raises(InvalidInputError, match="share"):
        minimum_cover(sets, share=1.5)
    with pytest.raises(InvalidInputError, match="either share or costs"):
        minimum_cover(sets, share=0.5, costs=np.ones(30) * 2)
    with pytest.raises(InvalidInputError, match="budget counts sources"):
        minimum_cover(sets, budget=2, costs=np.ones(30) * 2)
    with pytest.raises(InvalidInputError, match="include must fit"):
        minimum_cover(sets, budget=1, include=[0, 1])
    with pytest.raises(InvalidInputError, match="weight above 0"):
        least_mean(losses, 2, target_weights=np.zeros(120))
    with pytest.raises(InvalidInputError, match="above −inf"):
        least_mean(np.full((2, 2), -np.inf), 1)
    assert find_cover(sets, method="minimum", budget=2).size == 2
