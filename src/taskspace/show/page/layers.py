"""One criterion and judge of a page: its tolerances, covers, and exact memberships.

The slider of a page stands on a few tolerances ("steps"). For every source and target
the first step at which the source serves the target is known, so that whatever the
page counts is what the library would count: no rounded loss is compared with
anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace._util.threads import over_rows
from taskspace.cover import Cover
from taskspace.cover.cover import assign_rows
from taskspace.cover.minimum import N_ROUNDS
from taskspace.cover.profile import round_epsilons
from taskspace.cover.tolerance import ToleranceSearch
from taskspace.progress import Progress, silent
from taskspace.questions import Question

MAX_ORDERED = 300
"""Covers up to this size are put in the order of what each source adds."""

BLOCK_ROWS = 16
"""Rows of losses that a thread looks up at a time: they stay in its cache."""


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
        is_time_up: whether the time limit ended the search for fewer sources.
    """

    epsilon: float
    covers: list[Cover]
    lower: int
    prover: Cover | None
    largest: int
    n_uncoverable: int
    is_stored: bool
    is_time_up: bool = False

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
        return layer_key(self.question)

    @property
    def epsilons(self) -> list[float]:
        """The tolerances of the steps."""
        return [step.epsilon for step in self.steps]

    def assignment(self, sources: Sequence[int], step: int) -> NDArray[np.int64]:
        """Return the source of least loss at each target, −1 where none serves it.

        Args:
            sources: selected sources; ties go to the lowest index.
            step: number of the step.
        """
        return assign_rows(
            sources,
            lambda source: self.first[source] <= step,
            lambda source: self.losses[source],
            self.first.shape[1],
        )


def layer_key(question: Question) -> str:
    """Return a short name of all but the tolerance.

    Args:
        question: what is asked.
    """
    error = question.error
    return question.key + (f"@{error.text}".replace(" ", "") if error else "")


def make_layer(
    losses: NDArray[np.float64],
    question: Question,
    *,
    stored: Iterable[float] = (),
    covers: Iterable[tuple[float, Cover]] = (),
    n_steps: int = 40,
    time_limit: float = 5.0,
    progress: Progress = silent,
) -> Layer:
    """Find tolerances, covers and memberships of one criterion and judge.

    Args:
        losses: of that criterion and judge, dims `(source, target)`.
        question: criterion and judge; its tolerance does not matter.
        stored: tolerances that must be among the steps; the first is shown first.
        covers: covers that are known already, with their tolerances.
        n_steps: about how many steps to choose beside them.
        time_limit: processor seconds for searches beyond greedy, all steps together.
        progress: told how far it is.
    """
    asked = list(dict.fromkeys([*stored, *(epsilon for epsilon, _ in covers)]))
    steps = round_epsilons(
        losses,
        asked,
        n_epsilons=n_steps,
        allow_negative=question.rule.allows_negative_epsilon,
    )
    first = first_steps(losses, steps)
    start = int(np.searchsorted(steps, asked[0])) if asked else 0
    layer = Layer(question.at(float(steps[0])), [], first, losses, start)
    # Steps are small integers, so they are compared faster than the losses.
    numbers = np.arange(len(steps), dtype=first.dtype)
    search = ToleranceSearch(first, numbers)
    clock = Clock(time_limit)
    for number, epsilon in enumerate(steps.tolist()):
        progress(layer.key, number, len(steps), f"ε = {epsilon:g}")
        known = [cover for known_at, cover in covers if known_at == epsilon]
        layer.steps.append(
            Step(
                epsilon,
                _covers_at(search, number, known, clock),
                0,
                None,
                search.largest(number),
                int(search.n_uncoverable[number]),
                epsilon in asked,
                clock.left <= 0,
            )
        )
    progress(layer.key, len(steps), len(steps))
    _share_findings(layer, search)
    return layer


def _covers_at(
    search: ToleranceSearch, number: int, known: Sequence[Cover], clock: Clock
) -> list[Cover]:
    """Return the covers of one step, greedy's first: those known and those missing."""
    covers = sorted(known, key=lambda cover: cover.method != "greedy")
    for cover in covers:
        search.learn(number, cover)
    if not covers or covers[0].method != "greedy":
        covers.insert(0, search.greedy(number))
    worth_it = covers[0].size > covers[0].lower_bound and clock.left > 0
    if worth_it and not any(cover.method == "minimum" for cover in covers):
        covers.append(search.minimum(number, clock, N_ROUNDS + 1))
    return covers


def _share_findings(layer: Layer, search: ToleranceSearch) -> None:
    """Give each step the bound of a wider one, or the cover of a tighter one."""
    bests = [step.best for step in layer.steps]
    for number, step in enumerate(layer.steps):
        step.lower = int(search.lower[number])
        limited = any(cover.stop_reason == "time limit" for cover in step.covers)
        is_open = min(step.best.size, int(search.upper[number])) > step.lower
        step.is_time_up = is_open and (step.is_time_up or limited)
        proven_at, found_at = search.lower_from[number], search.upper_from[number]
        if proven_at >= 0:
            # Its sets hold those here, so prices that they bear are borne here, too.
            covers = layer.steps[proven_at].covers
            full = [c for c in covers if (c.assignment < 0).sum() == step.n_uncoverable]
            step.prover = max(full, key=lambda cover: cover.lower_bound)
        if 0 <= found_at < number and search.upper[number] < bests[number].size:
            tight = bests[found_at]
            step.covers.append(
                replace(
                    tight,
                    assignment=layer.assignment(tight.sources.tolist(), number),
                    lower_bound=step.lower,
                    prices=None,
                    optimal=tight.size <= step.lower,
                    stop_reason=f"found at epsilon={layer.epsilons[found_at]:g}",
                )
            )


def by_gain(served: NDArray[np.bool_], cover: Cover) -> NDArray[np.int64]:
    """Return the sources of a cover, the one that adds most to those before it next.

    Args:
        served: targets that each of them serves, dims `(source, target)`.
        cover: their cover; greedy's order is such an order already.
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


def first_steps(
    losses: NDArray[np.float64], epsilons: NDArray[np.float64]
) -> NDArray[np.unsignedinteger]:
    """Return the first step that each loss meets, the number of steps if none.

    Args:
        losses: dims `(source, target)`.
        epsilons: ascending.
    """
    first = np.empty(losses.shape, np.uint8 if len(epsilons) < 256 else np.uint16)

    def fill(begin: int, stop: int) -> None:
        for row in range(begin, stop, BLOCK_ROWS):
            rows = slice(row, min(stop, row + BLOCK_ROWS))
            first[rows] = np.searchsorted(epsilons, losses[rows])

    over_rows(fill, len(first))
    return first
