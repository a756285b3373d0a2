"""One criterion and judge of a page: its tolerances, covers, and exact memberships.

The slider of a page stands on a few tolerances ("steps"). For every source and target
the first step at which the source serves the target is known, so that whatever the
page counts is what the library would count: no rounded loss is compared with
anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr
from numba import njit
from numpy.typing import NDArray

from taskspace._util.threads import over_rows
from taskspace.cover import Cover, greedy_cover, minimum_cover
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.performance.table import row_blocks
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import PackedSets, TargetSets
from taskspace.sets.kernels import pack_rows

__all__ = ["Layer", "Step", "all_losses", "make_layer", "round_steps", "slider_steps"]

MAX_NUMBERS = 500_000_000
"""Losses that are held at once while a page is made (4 GB)."""

MAX_ORDERED = 300
"""Covers up to this size are put in the order of what each source adds."""

BLOCK_CELLS = 250_000
"""Memberships that a thread unpacks at a time: they stay in its cache."""

ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


@dataclass
class Step:
    """What is known at one tolerance.

    Args:
        epsilon: the tolerance.
        covers: covers found at it, greedy first.
        lower: no selection that serves all that can be served has fewer sources.
        prover: the cover whose prices prove `lower`, also one of a wider tolerance.
        largest: how many targets the most useful source serves.
        n_uncoverable: targets that no source serves.
        is_stored: whether somebody asked for this tolerance.
    """

    epsilon: float
    covers: list[Cover]
    lower: int
    prover: Cover | None
    largest: int
    n_uncoverable: int
    is_stored: bool

    @property
    def best(self) -> Cover:
        """The smallest of the fullest covers, the first of equals."""
        return min(self.covers, key=lambda c: (-c.coverage, c.size))


@dataclass
class Layer:
    """One criterion and judge.

    Args:
        question: criterion and judge, at the first tolerance.
        steps: ascending in the tolerance.
        first: for each (source, target) the first step at which it serves, the number
            of steps where it never does.
        losses: of every source at every target.
        start: number of the step that is shown first.
    """

    question: Question
    steps: list[Step]
    first: NDArray[np.unsignedinteger]
    losses: NDArray[np.float64] = field(repr=False)
    start: int = 0

    @property
    def key(self) -> str:
        """A short name, used in the address of a view."""
        return f"{self.question.criterion}.{self.question.judge}"

    @property
    def epsilons(self) -> list[float]:
        """The tolerances of the steps."""
        return [step.epsilon for step in self.steps]

    def sets(self, step: int) -> TargetSets:
        """Tolerance sets at a step.

        Args:
            step: number of the step.
        """
        n_sources, n_targets = self.first.shape
        height = max(1, BLOCK_CELLS // max(1, n_targets))
        words = np.zeros((n_sources, -(-n_targets // 64)), np.uint64)
        sizes = np.zeros(n_sources, np.int64)

        def fill(first: int, stop: int) -> None:
            for start in range(first, stop, height):
                rows = slice(start, min(stop, start + height))
                served = (self.first[rows] <= step).view(np.uint8)
                pack_rows(served, words[rows], sizes[rows])

        over_rows(fill, n_sources)
        return PackedSets(words, n_targets)

    def assignment(self, sources: Sequence[int], step: int) -> NDArray[np.int64]:
        """The source of least loss of each target, −1 where none of them serves it.

        Args:
            sources: selected sources; ties go to the lowest index.
            step: number of the step.
        """
        chosen = np.sort(np.asarray(sources, np.int64))
        n_targets = self.losses.shape[1]
        served_by = np.full(n_targets, -1, np.int64)
        least = np.full(n_targets, np.inf)
        for source in chosen.tolist():
            better = (self.first[source] <= step) & (
                (self.losses[source] < least) | (served_by < 0)
            )
            served_by[better] = source
            least[better] = self.losses[source][better]
        return served_by


def all_losses(
    table: xr.Dataset, questions: Sequence[Question]
) -> dict[Question, NDArray[np.float64]]:
    """Return the losses of several questions, in one pass over the table.

    Args:
        table: a performance table, in memory or read as it is needed.
        questions: criteria and judges; their tolerances do not matter.

    Returns:
        Losses with dims `(source, target)`; a criterion that does not apply to the
        table is left out.
    """
    shape = table.sizes["source"], table.sizes["target"]
    n_numbers = len(questions) * shape[0] * shape[1]
    if n_numbers > MAX_NUMBERS:
        raise InvalidInputError(
            f"A page is made from at most {MAX_NUMBERS:,} losses, but {shape[0]:,} "
            f"sources at {shape[1]:,} targets by {len(questions)} criteria are "
            f"{n_numbers:,}. Choose fewer sources, e.g. "
            "table.isel(source=slice(None, None, 10))."
        )
    losses = {question: np.empty(shape) for question in questions}
    for rows in row_blocks(table):
        for question in list(losses):
            try:
                losses[question][rows] = question.rows(table, rows)
            except (InvalidInputError, KeyError):
                del losses[question]
    return losses


def make_layer(
    losses: NDArray[np.float64],
    question: Question,
    *,
    stored: Iterable[float] = (),
    covers: Iterable[tuple[float, Cover]] = (),
    n_steps: int = 40,
    time_limit: float = 5.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Layer:
    """Find tolerances, covers and memberships of one criterion and judge.

    Args:
        losses: of that criterion and judge, dims `(source, target)`.
        question: criterion and judge; its tolerance does not matter.
        stored: tolerances that must be among the steps; the first is shown first.
        covers: covers that are known already, with their tolerances.
        n_steps: about how many steps to choose beside them.
        time_limit: seconds for searches beyond greedy, all steps together.
        seed: of the searches.
        progress: told how far it is.
    """
    progress = progress or silent
    asked = list(dict.fromkeys([*stored, *(epsilon for epsilon, _ in covers)]))
    negative = question.rule.allows_negative_epsilon
    epsilons = slider_steps(losses, asked, n_steps=n_steps, negative=negative)
    first = first_steps(losses, epsilons)
    question = question.at(float(epsilons[0]))
    start = int(np.searchsorted(epsilons, asked[0])) if asked else 0
    layer = Layer(question, [], first, losses, start)
    found: dict[float, list[Cover]] = {}
    for epsilon, cover in covers:
        found.setdefault(epsilon, []).append(cover)
    n_left = len(epsilons)
    reach = first.min(0)
    clock = Clock()
    for number, epsilon in enumerate(epsilons.tolist()):
        progress(layer.key, number, len(epsilons), f"ε = {epsilon:g}")
        sets = layer.sets(number)
        known = sorted(found.get(epsilon, []), key=lambda c: c.method != "greedy")
        if not any(c.method == "greedy" for c in known):
            known = [greedy_cover(sets), *known]
        share = max(0.0, time_limit - clock.seconds) / n_left
        n_left -= 1
        worth_it = known[0].size > known[0].lower_bound and share > 0
        if worth_it and not any(c.method == "minimum" for c in known):
            known.append(minimum_cover(sets, time_limit=share, seed=seed))
        n_uncoverable = int((reach > number).sum())
        full = [c for c in known if c.n_targets - _n_served(c) == n_uncoverable]
        prover = max(full, key=lambda c: c.lower_bound, default=None)
        layer.steps.append(
            Step(
                epsilon,
                known,
                0 if prover is None else int(prover.lower_bound),
                prover,
                int(sets.sizes.max(initial=0)),
                n_uncoverable,
                epsilon in asked,
            )
        )
    progress(layer.key, len(epsilons), len(epsilons))
    _carry(layer)
    for number, step in enumerate(layer.steps):
        step.covers = [
            replace(
                cover, sources=_by_gain(layer.first[cover.sources] <= number, cover)
            )
            for cover in step.covers
        ]
    return layer


def _by_gain(served: NDArray[np.bool_], cover: Cover) -> NDArray[np.int64]:
    """The sources of a cover, the one that adds most to those before it next.

    Args:
        served: targets that each of them serves, dims `(source, target)`.
        cover: whose order to change; greedy's is such an order already.
    """
    if cover.method == "greedy" or cover.size > MAX_ORDERED:
        return cover.sources
    left, order = served.copy(), []
    for _ in range(cover.size):
        gains = left.sum(1)
        gains[order] = -1
        order.append(int(gains.argmax()))
        left &= ~served[order[-1]]
    return cover.sources[order]


def _n_served(cover: Cover) -> int:
    return int((cover.assignment >= 0).sum())


def _carry(layer: Layer) -> None:
    """Steps that serve the same targets learn from each other.

    A lower bound at ε holds at every smaller one, and a cover at ε is one at every
    larger one.
    """
    steps = layer.steps
    for wider, step in zip(steps[:0:-1], steps[-2::-1], strict=True):
        same = wider.n_uncoverable == step.n_uncoverable
        if same and wider.lower > step.lower:
            # Its sets hold those here, so prices that they bear are borne here, too.
            step.lower, step.prover = wider.lower, wider.prover
    for number in range(1, len(steps)):
        tight, step = steps[number - 1], steps[number]
        smaller = tight.best.size < step.best.size
        if smaller and tight.n_uncoverable == step.n_uncoverable:
            assignment = layer.assignment(tight.best.sources.tolist(), number)
            step.covers.append(
                replace(
                    tight.best,
                    assignment=assignment,
                    lower_bound=step.lower,
                    prices=None,
                    optimal=tight.best.size <= step.lower,
                    stop_reason=f"found at epsilon={tight.epsilon:g}",
                )
            )


def slider_steps(
    losses: NDArray[np.float64],
    asked: Iterable[float],
    *,
    n_steps: int = 40,
    negative: bool = False,
) -> NDArray[np.float64]:
    """Tolerances to show: round numbers over the range where the answer changes.

    From where every target has a source (or a thousandth of the other end) to where
    one source is enough.

    Args:
        losses: dims `(source, target)`.
        asked: tolerances that must be among them.
        n_steps: about how many.
        negative: whether a tolerance below zero means something.
    """
    reach = losses.min(0)
    low = float(reach[np.isfinite(reach)].max(initial=-np.inf))
    worst = losses.max(1)
    high = float(worst.min())
    if not np.isfinite(high):
        some = losses[:: max(1, len(losses) // 200)]
        finite = some[np.isfinite(some)]
        high = float(np.quantile(finite, 0.95)) if finite.size else 1.0
    if not np.isfinite(low):
        low = 0.0
    low, high = min(low, high), max(low, high)
    if negative:
        margin = 0.05 * (high - low)
        steps = round_steps(low - margin, high + margin, n_steps, log=False)
    else:
        top = max(high, *asked, 0.0)
        start = max(low / 1.5, 1e-3 * top)
        steps = round_steps(start, 1.3 * top, n_steps, log=True) if top > 0 else []
        if low <= 0:
            steps = [0.0, *steps]
    return np.unique(np.array([*steps, *asked], np.float64))


def round_steps(low: float, high: float, n: int, *, log: bool) -> list[float]:
    """About `n` round numbers from `low` to `high`.

    Args:
        low: smallest; positive for a logarithmic spread.
        high: largest.
        n: about how many.
        log: spread evenly in the logarithm.

    Example:
        >>> round_steps(0.1, 1.0, 10, log=True)
        [0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    if log and low < np.finfo(float).tiny:
        return [high]
    if log:
        first, last = int(np.floor(np.log10(low))), int(np.floor(np.log10(high)))
        values = [
            float(f"{mantissa * 10.0**k:.6g}")
            for k in range(first, last + 1)
            for mantissa in ROUND
        ]
        inside = [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        every = max(1, round(len(inside) / n))
        return inside[::every] or [high]
    raw = (high - low) / n
    magnitude = 10.0 ** np.floor(np.log10(raw))
    width = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    count = np.arange(np.ceil(low / width), np.floor(high / width) + 1)
    return [float(f"{c * width:.12g}") for c in count] or [high]


def first_steps(
    losses: NDArray[np.float64], epsilons: NDArray[np.float64]
) -> NDArray[np.unsignedinteger]:
    """First step whose tolerance each loss does not exceed, their number if none.

    Args:
        losses: dims `(source, target)`.
        epsilons: ascending.
    """
    kind = np.uint8 if len(epsilons) < 256 else np.uint16
    first = np.empty(losses.shape, kind)
    over_rows(lambda a, b: _first_steps(losses[a:b], epsilons, first[a:b]), len(first))
    return first


@njit(cache=True, nogil=True)
def _first_steps(losses, epsilons, first):
    n = len(epsilons)
    for s in range(losses.shape[0]):
        for t in range(losses.shape[1]):
            low, high = 0, n
            while low < high:
                middle = (low + high) // 2
                if losses[s, t] <= epsilons[middle]:
                    high = middle
                else:
                    low = middle + 1
            first[s, t] = low
