"""What criteria, cover methods and selectors must satisfy, ours or yours.

Criteria are tried on random numbers in units from 1e-3 to 1e3, cover methods on small
random problems whose minimum is found by trying all selections, and selectors on tasks
in which every context can be served by its own training.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.decimals import fraction_of
from taskspace.cover import Cover, verify_cover
from taskspace.cover.methods import METHODS
from taskspace.criteria import Criterion
from taskspace.errors import InvalidInputError, TaskspaceError, UnknownNameError
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.selection.base import Selector
from taskspace.selection.log import Log
from taskspace.selection.loop import COVERED, Options, SelectionLoop
from taskspace.selection.selecting import new_selection_ledger
from taskspace.sets import pack
from taskspace.spaces import Grid, Space
from taskspace.systems.base import ContextAxis, System
from taskspace.trainers.base import Region, RegionTrainer, Trained

__all__ = ["check_criterion", "check_method", "check_selector"]

# Losses of bounds may exceed those inside by this share of the numbers in them.
ROUNDING = 1e-12


def check_criterion(rule: Criterion, *, n_targets: int = 200, seed: int = 0) -> None:
    """Assert that losses, thresholds, enclosures and text of a criterion agree.

    Args:
        rule: the criterion, with its parameters.
        n_targets: numbers that are tried in each unit; the number of targets for a
            criterion that knows a number for each of them.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    for unit, sign in itertools.product((1e-3, 1.0, 1e3), (-1.0, 1.0)):
        best = sign * unit * (0.05 + rng.exponential(size=n_targets))
        try:
            reference = rule.against(best=lambda b=best: b, home=lambda b=best: b)
        except InvalidInputError:  # this sign has no meaning for the criterion
            continue
        reference = np.broadcast_to(reference, n_targets).astype(np.float64)
        scores = best - unit * rng.exponential(size=n_targets)
        losses = rule.loss(scores, reference)
        losses = losses[np.isfinite(losses)]
        if not len(losses):
            continue
        _check_losses(rule, scores, reference)
        for epsilon in np.quantile(losses, [0.1, 0.5, 0.9]).tolist():
            _check_threshold(rule, scores, reference, epsilon)
        _check_enclosures(rule, scores, reference)
        _check_decimals(rule, scores, reference)
    for epsilon in (0.0, 0.02, 1 / 3):
        question = Question(rule, epsilon=epsilon)
        try:
            same = Question(str(question)) == question
        except TaskspaceError as error:
            raise AssertionError(f"text: It cannot be read back: {error}") from error
        assert same, f"text: {str(question)!r} reads back to another question."


def _check_losses(rule: Criterion, scores: Array, reference: Array) -> None:
    step = np.abs(scores).mean() * np.array([0.0, 1e-3, 0.1, 1.0])[:, None]
    rising = rule.loss(scores + step, reference)
    rises = np.diff(rising, axis=0) > ROUNDING * np.abs(rising[1:])
    assert not rises.any(), "order: The loss must fall as the score rises."
    with np.errstate(invalid="ignore"):
        failed = rule.loss(np.full_like(scores, -np.inf), reference)
    assert (failed == np.inf).all(), (
        f"failures: The loss of a failure must be inf, but is {failed.min()}."
    )


def _check_threshold(
    rule: Criterion, scores: Array, reference: Array, epsilon: float
) -> None:
    size = np.abs(scores) + np.abs(reference)
    least = rule.threshold(epsilon, reference)
    above = rule.loss(least + ROUNDING * size, reference)
    below = rule.loss(least - ROUNDING * size - 1e-300, reference)
    slack = ROUNDING * (1 + abs(epsilon)) * (1 + size)
    wrong = (above > epsilon + slack) | (below < epsilon - slack)
    assert not (wrong & np.isfinite(least)).any(), (
        f"threshold: The score that just meets {epsilon:g} does not."
    )
    served = rule.served(scores, reference, epsilon)
    clear = np.abs(scores - least) > ROUNDING * size
    for i in np.flatnonzero(clear & (served != (scores >= least)))[:1]:
        raise AssertionError(
            f"threshold: At epsilon = {epsilon:g} a score of {scores[i]:g} against "
            f"{reference[i]:g} must be served if and only if it reaches {least[i]:g}, "
            f"but served is {served[i]}."
        )


def _check_enclosures(rule: Criterion, scores: Array, reference: Array) -> None:
    parts = (0.0, 0.3, 0.7, 1.0)
    for width in (0.0, 0.1, 2.0):
        low_score = scores - width * np.abs(scores)
        high_best = reference + 0.4 * width * np.abs(reference)
        low, high = rule.enclose((low_score, scores), (reference, high_best))
        for share, other in itertools.product(parts, parts):
            score = low_score + share * (scores - low_score)
            loss = rule.loss(score, reference + other * (high_best - reference))
            slack = ROUNDING * (1 + np.abs(loss))
            inside = (loss >= low - slack) & (loss <= high + slack)
            outside = ~(inside | np.isnan(loss))
            assert not outside.any(), "enclosure: A loss lies outside its bounds."


def _check_decimals(rule: Criterion, scores: Array, reference: Array) -> None:
    size = np.abs(scores) + np.abs(reference)
    losses = rule.loss(scores, reference)
    decimal = rule.decimal_loss(scores, reference)
    same = np.allclose(decimal, losses, rtol=1e-9, atol=1e-12 * size.max())
    assert same, "decimals: The loss of decimals differs from that of floats."
    for i in range(0, len(scores), 20):
        pair = fraction_of(scores[i]), fraction_of(reference[i])
        exact = rule.quotient(*pair, fraction_of)
        if exact is None or not exact[1] or not np.isfinite(decimal[i]):
            continue
        true = exact[0] / exact[1]
        assert true <= fraction_of(decimal[i]) <= true + abs(true) / 10**12, (
            f"decimals: The loss {decimal[i]!r} is not {float(true)!r} rounded up."
        )


# Two sources serve all; a method that takes the largest set first needs three.
_TRAP = np.array(
    [[1] * 7 + [0] * 7, [0] * 7 + [1] * 7, ([1] * 4 + [0] * 3) * 2,
     ([0] * 4 + [1] * 2 + [0]) * 2, ([0] * 6 + [1]) * 2], bool
)  # fmt: skip


def check_method(method: str, *, n_problems: int = 12, seed: int = 0) -> None:
    """Assert that a cover method covers, states a true bound and keeps its options.

    Args:
        method: its name, as registered with `cover_method`.
        n_problems: random problems that are tried.
        seed: of the problems.
    """
    if method not in METHODS:
        raise UnknownNameError("cover method", method, METHODS)
    _check_cover(method, _TRAP, {})
    rng = np.random.default_rng(seed)
    for _ in range(n_problems):
        n, m = rng.integers(2, 8), rng.integers(1, 12)
        matrix = rng.random((n, m)) < rng.choice([0.2, 0.4, 0.7])
        matrix[rng.integers(n)] = matrix[rng.integers(n)]  # equal sources: a tie
        _check_cover(method, matrix, {})
        options = {
            "costs": rng.integers(1, 6, n).astype(np.float64),
            "include": [int(rng.integers(n))],
            "exclude": [int(rng.integers(n))],
            "share": 0.6,
            "budget": 1,
            "target_weights": rng.integers(0, 4, m).astype(np.float64),
        }
        for name, value in options.items():
            if name in METHODS[method].takes:
                _check_cover(method, matrix, {name: value})


def _check_cover(
    method: str, matrix: NDArray[np.bool_], options: dict[str, Any]
) -> None:
    """Assert all promises about one problem with at most one option."""
    sets, promise = pack(matrix), next(iter(options), "cover")
    usual = {"time_limit": 5.0, "seed": 0, "max_steps": 50, "shape": (len(matrix),)}
    given = {k: v for k, v in usual.items() if k in METHODS[method].takes} | options
    try:
        cover, again = (METHODS[method].find(sets, None, **given) for _ in range(2))
    except TaskspaceError as error:
        raise AssertionError(f"{promise}: It refuses to answer: {error}") from error
    assert isinstance(cover, Cover), f"cover: It returned a {type(cover).__name__}."
    records = [one.to_dict() | {"seconds": 0.0} for one in (cover, again)]
    assert records[0] == records[1], "ties: The same problem got another cover."

    chosen = cover.sources.tolist()
    include, exclude = options.get("include", []), options.get("exclude", [])
    assert set(include) <= set(chosen), f"include: {include} is not in {chosen}."
    assert not set(exclude) & set(chosen), f"exclude: {exclude} is in {chosen}."
    budget = options.get("budget", len(matrix))
    assert len(chosen) <= budget, f"budget: {chosen} are more than {budget}."
    able = np.delete(matrix, exclude, axis=0).any(0)
    served = matrix[chosen].any(0)
    if not {"share", "budget", "target_weights"} & set(options):
        missed = np.flatnonzero(able & ~served)
        assert not len(missed), f"{promise}: {chosen} do not serve {missed.tolist()}."
    weights = options.get("target_weights", np.ones(matrix.shape[1]))
    reached = float(weights[served].sum())
    required = min(options.get("share", 1.0) * weights.sum(), weights[able].sum())
    if "budget" in options:
        required = reached
    assert reached >= required - 1e-9, (
        f"{promise}: A weight of {required:g} must be served, but {chosen} serve "
        f"{reached:g}."
    )
    first = np.full(matrix.shape[1], -1)
    for s in sorted(chosen, reverse=True):
        first[matrix[s]] = s
    assert np.array_equal(first, cover.assignment), (
        "ties: A target must go to the lowest selected source that serves it."
    )
    best = _least_cost(matrix, options, required)
    assert cover.lower_bound <= best + 1e-9, (
        f"bound: lower_bound={cover.lower_bound}, but a selection that serves as much "
        f"costs {best:g}."
    )
    costs, weights = options.get("costs"), options.get("target_weights")
    checked = verify_cover(cover, sets, costs, target_weights=weights, effort=0)
    for failure in checked.failures:
        claim = "bound" if "lower_bound" in failure else "claims"
        raise AssertionError(f"{claim}: The verifier refutes it: {failure}.")


def _least_cost(
    matrix: NDArray[np.bool_], options: dict[str, Any], required: float
) -> float:
    """Return the least cost of a selection that serves a weight, by trying all."""
    n, m = matrix.shape
    costs = options.get("costs", np.ones(n))
    weights = options.get("target_weights", np.ones(m))
    forced = set(options.get("include", ()))
    free = sorted(set(range(n)) - forced - set(options.get("exclude", ())))
    least = float(np.sum(costs))
    for k in range(len(free) + 1):
        for some in itertools.combinations(free, k):
            chosen = [*forced, *some]
            if float(weights[matrix[chosen].any(0)].sum()) >= required - 1e-9:
                least = min(least, float(costs[chosen].sum()))
    return least


@dataclass(frozen=True)
class _Distance(System):
    """J is minus the distance between a target and the number that is a policy."""

    n_axes: int = 1
    id: ClassVar[str] = "distance-v1"
    provenance: ClassVar[Any] = "exact"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        return tuple(ContextAxis(f"x{i}", 0.0) for i in range(self.n_axes))

    def performance(self, policies: Any, contexts: Array) -> Array:
        away = policies.gain[:, :, None, 0] - contexts
        return -np.sqrt((away**2).sum(-1))

    def optimum(self, contexts: Array) -> Array:
        return np.zeros(len(contexts))


@dataclass(frozen=True)
class _Mean(RegionTrainer[LinearGain]):
    """The policy of a region is its mean; with it, that of a context the context."""

    n_policies: int = 1
    total_steps: int = 100
    id: ClassVar[str] = "mean"

    @property
    def steps_per_source(self) -> int:
        return self.total_steps

    def train_region(
        self, system: System, region: Region, *, seed: int, start: Any = None
    ) -> Trained[LinearGain]:
        del system, seed, start
        gain = (region.weights @ region.contexts)[None, None, None]
        steps = np.array([[min(self.total_steps, 10 * len(region.contexts))]])
        return Trained(LinearGain(gain), steps, {"since_best": np.ones((1, 1))})


def check_selector(make: Callable[[Space, int], Selector]) -> None:
    """Assert that a selector is pure, proposes candidates, covers and resumes.

    Args:
        make: makes it from the contexts that may be trained and a seed: its class.
    """
    for space in (Grid(x0=(0.0, 9.0, 10)), Grid(x0=(0.0, 3.0, 4), x1=(0.0, 3.0, 4))):
        _check_selection(make, space)


def _check_selection(make: Callable[[Space, int], Selector], space: Space) -> None:
    whole = _selection(make, space, Log())
    selector, propose = whole.selector, whole.selector.propose

    def watched(ledger: Any, question: Question, n: int) -> Array:
        version, rows = ledger.version, np.asarray(propose(ledger, question, n))
        again = np.asarray(make(space, 0).propose(ledger, question, n))
        assert np.array_equal(rows, again), (
            f"pure: A fresh selector proposed {again.tolist()}, not {rows.tolist()}."
        )
        assert ledger.version == version, "pure: It changed the ledger."
        _check_proposals(selector, ledger, rows, n)
        for more in (2, 3):
            several = np.asarray(make(space, 0).propose(ledger, question, more))
            _check_proposals(selector, ledger, several, more)
        return rows

    selector.propose = watched
    reason = whole.run()
    n_left = int((~whole.look().covered).sum())
    assert reason == COVERED or not selector.tries_homes, (
        f"covers: It stopped ({reason}) with {n_left} of {space.size} targets left."
    )
    lines = whole.log.lines
    for cut in range(1, len(lines)):
        again = _selection(make, space, Log(lines=lines[:cut]))
        again.run()
        assert again.log.proposals == whole.log.proposals, (
            f"resumes: Killed after line {cut} of its log, it proposes others."
        )


def _selection(
    make: Callable[[Space, int], Selector], space: Space, log: Log
) -> SelectionLoop:
    """Return a selection over a space that continues a log."""
    system, question = _Distance(len(space.names)), Question("regret <= 1.5")
    ledger = new_selection_ledger(system, _Mean(), space, space, question, seed=0)
    return SelectionLoop(ledger, make(space, 0), question, Options(), log=log)


def _check_proposals(selector: Selector, ledger: Any, rows: Array, n: int) -> None:
    candidates = selector.candidates
    d = len(candidates.space.names)
    assert not rows.size or (rows.ndim == 2 and rows.shape[1] == d), (
        f"candidates: It must propose one row per context, but proposed {rows}."
    )
    assert len(rows) <= n, f"candidates: It proposed {len(rows)}, but at most {n} fit."
    seen = set(map(tuple, ledger.sources.points.tolist() if ledger.n_sources else ()))
    known = set(map(tuple, candidates.points.tolist()))
    for row in map(tuple, rows.tolist()):
        assert np.isfinite(row).all(), f"candidates: {row} is not finite."
        assert row not in seen, f"candidates: {row} is planned already."
        assert row in known or selector.anywhere, f"candidates: {row} is no candidate."
        seen.add(row)
