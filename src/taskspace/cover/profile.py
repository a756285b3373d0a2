"""Complexity against tolerance: how many policies as epsilon grows."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace._util.threads import over_rows
from taskspace.cover.cover import html_view
from taskspace.cover.minimum import N_ROUNDS
from taskspace.cover.thresholds import (
    BLOCK_CELLS,
    Losses,
    MatrixLosses,
    ToleranceSearch,
    losses_of,
)
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.systems.base import PROVENANCE_WORDS

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 33
"""Tolerances that greedy looks at before they are searched."""
QUICK_CELLS = 10**7
"""Cells of tables that greedy looks at whatever the time limit."""
FIRST_STAGES = 3
"""Stages of work at each tolerance, before any gets more; see `full_cover`."""


@dataclass(frozen=True)
class ProfilePoint:
    """Complexity at one tolerance.

    Args:
        epsilon: the tolerance.
        greedy: size of greedy's cover; None where some target has no source, and where
            there was no time for it.
        lower: no cover of all targets is smaller; None where there is no cover.
        upper: size of the best cover found; None where there is no cover.
        n_uncoverable: targets that no source serves within epsilon.
    """

    epsilon: float
    greedy: int | None
    lower: int | None
    upper: int | None
    n_uncoverable: int

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return asdict(self)


class Profile(list[ProfilePoint]):
    """The points of a complexity profile, ascending in epsilon: a list.

    Args:
        points: the points.
        provenance: where the losses come from: `"exact"`, `"sampled"` or `"given"`.
            Bounds of losses that are not exact are proven of these numbers only.
        note: what was left unused of the question, if something was.
    """

    def __init__(
        self,
        points: Iterable[ProfilePoint] = (),
        provenance: str = "given",
        note: str = "",
    ):
        super().__init__(points)
        self.provenance, self.note = provenance, note

    @property
    def scope(self) -> str:
        """What must be said beside "proven": nothing for exact numbers."""
        return PROVENANCE_WORDS[self.provenance].scope

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per tolerance; sizes are missing where there is no cover."""
        import pandas as pd  # loads slowly

        columns: dict[str, Any] = {"epsilon": [point.epsilon for point in self]}
        for name in ("greedy", "lower", "upper", "n_uncoverable"):
            columns[name] = pd.array([getattr(p, name) for p in self], "Int64")
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        n_proven = sum(p.upper is not None and p.lower == p.upper for p in self)
        title = f"Profile of {len(self):,} tolerances, {n_proven:,} proven {self.scope}"
        title = f"{title.rstrip()}\n{self.note}".rstrip()
        table = self.to_frame().to_string(max_rows=12, index=False, na_rep="-")
        return f"{title}\n{table}" if self else title

    def _repr_html_(self) -> str:
        return html_view(repr(self).splitlines()[0], self.to_frame())


def complexity_profile(
    problem: Study | Any,
    question: Question | str | None = None,
    *,
    epsilons: Sequence[float] | None = None,
    n_epsilons: int = 20,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Profile:
    """Find the smallest cover of all targets at many tolerances.

    The ends of the range come first and then the middles, first by greedy and then by
    searches with proofs. A cover at one tolerance is a cover at every larger one, and
    a lower bound there is one at every smaller one, so that what lies between equal
    numbers needs no search, tolerances for which there is no time have bounds all the
    same, and `lower` and `upper` never grow with epsilon. The losses of a study are
    never held all at once.

    Args:
        problem: a study; or a loss matrix `(source, target)`, xarray or NumPy, which
            may hold infinities.
        question: what is asked of a study; a bound is not used, and `note` says so.
        epsilons: tolerances, `>= 0` unless the criterion allows others, as `floor`
            does; by default spread from the smallest one at which a cover exists to
            the one at which a single source is enough.
        n_epsilons: how many tolerances, where they are not given.
        time_limit: processor seconds for all together; greedy at both ends is there
            all the same.
        seed: of the random choices.
        progress: called after each tolerance, with how many were searched.

    Returns:
        One point for each tolerance, ascending.
    """
    clock, losses = Clock(time_limit), losses_of(problem, question)
    attributes = getattr(problem, "attrs", {})
    rule, note = None, ""
    if question is not None:
        asked = as_question(question, needs_bound=False)
        rule, note = asked.rule, asked.unused_bound
    elif "criterion" in attributes:
        rule = Question(attributes["criterion"]).rule
    signed = rule is not None and rule.allows_negative_epsilon
    values = _tolerances(losses, epsilons, n_epsilons, signed)
    search = ToleranceSearch(losses, values, seed=seed)
    clock.restart()  # losses are there
    n_cells = losses.n_sources * losses.n_targets
    profile = _Profile(search, n_cells, clock, progress or silent)
    profile.solve()
    provenance = attributes.get("provenance", "given")
    if isinstance(problem, Study):
        provenance = as_question(question, needs_bound=False).provenance_of(problem)
    return Profile(profile.points(), provenance, note)


def _tolerances(
    losses: Losses, epsilons: Sequence[float] | None, n_epsilons: int, signed: bool
) -> NDArray[np.float64]:
    """Return the tolerances asked for, ascending, or those that the losses suggest."""
    if epsilons is None:
        return default_epsilons(losses, n_epsilons, allow_negative=signed)
    values = np.unique(np.asarray(epsilons, np.float64))
    low = -np.inf if signed else 0.0
    if values.size == 0 or not np.isfinite(values).all() or values[0] < low:
        raise InvalidInputError(
            f"epsilons must be finite numbers{'' if signed else ' >= 0'}, at least "
            f"one, but got {list(epsilons)}."
        )
    return values


class _Profile:
    """A search from the ends to the middles, by greedy and then with proofs."""

    def __init__(
        self,
        search: ToleranceSearch,
        n_cells: int,
        clock: Clock,
        progress: Progress,
    ):
        self.search, self.n_cells = search, n_cells
        self.clock, self.progress = clock, progress
        self.greedy: dict[int, int] = {}
        self.searched: set[int] = set()

    def solve(self) -> None:
        search = self.search
        order = _ends_then_middles(np.flatnonzero(search.n_uncoverable == 0).tolist())
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            for place, k in enumerate(block):
                is_quick = (first + place) * self.n_cells <= QUICK_CELLS
                if first + place >= 2 and not is_quick and self.clock.left <= 0:
                    return
                self.greedy[k] = search.greedy(k, block[place + 1 :]).size
                self._tell(k)
            self._search(block, FIRST_STAGES)
        n_stages = N_ROUNDS + 1
        while self.clock.left > 0 and (search.lower[order] < search.upper[order]).any():
            self._search(order, n_stages)
            n_stages += 1

    def _search(self, order: Sequence[int], n_stages: int) -> None:
        """Search at all tolerances that are still open, by some stages of work."""
        for place, k in enumerate(order):
            if self.search.lower[k] < self.search.upper[k] and self.clock.left > 0:
                self.searched.add(k)
                self.search.minimum(k, self.clock, n_stages, order[place + 1 :])
                self._tell(k)

    def _tell(self, k: int) -> None:
        note = f"epsilon={self.search.epsilons[k]:g}"
        self.progress("profile", len(self.searched), len(self.search.epsilons), note)

    def points(self) -> list[ProfilePoint]:
        return [self._point(k) for k in range(len(self.search.epsilons))]

    def _point(self, k: int) -> ProfilePoint:
        search = self.search
        epsilon, missing = float(search.epsilons[k]), int(search.n_uncoverable[k])
        if missing:
            return ProfilePoint(epsilon, None, None, None, missing)
        sizes = int(search.lower[k]), int(search.upper[k])
        return ProfilePoint(epsilon, self.greedy.get(k), *sizes, 0)


def _ends_then_middles(places: Sequence[int]) -> list[int]:
    """Return the last, the first, the middle, the middles of both halves, and so on."""
    if len(places) < 2:
        return list(places)
    order, intervals = [places[-1], places[0]], [(0, len(places) - 1)]
    while intervals:
        halves = []
        for low, high in intervals:
            if high - low >= 2:
                middle = (low + high) // 2
                order.append(places[middle])
                halves += [(low, middle), (middle, high)]
        intervals = halves
    return order


# Which tolerances to look at: values of the losses themselves, or round numbers.


N_PLACES = 2**15
"""From how many places the search for a tolerance may begin; see `_largest_up_to`."""
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def default_epsilons(
    loss: Any, n_epsilons: int, *, allow_negative: bool = False
) -> NDArray[np.float64]:
    """Return tolerances over the range where the complexity goes from its largest to 1.

    Values of the losses themselves, because between two of them the complexity cannot
    change: spread evenly in logarithm as far as they are positive, or evenly where
    negative ones have a meaning.

    Args:
        loss: loss matrix `(source, target)`, or `Losses`.
        n_epsilons: how many at most.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    if n_epsilons < 2:
        raise InvalidInputError(f"n_epsilons >= 2 must hold, but got {n_epsilons}.")
    losses = loss if isinstance(loss, Losses) else MatrixLosses(loss)
    if losses.n_sources * losses.n_targets == 0:
        return np.zeros(1)
    low, high = float(losses.best.max()), losses.single
    low = low if allow_negative else max(0.0, low)
    if not np.isfinite(low):
        raise InvalidInputError(
            "Every target must have a source of finite loss, but "
            f"{int(np.isinf(losses.best).sum())} have none. Give epsilons to profile "
            "the others."
        )
    values = _values_between(losses, low, high, n_epsilons)
    if len(values) <= n_epsilons:
        return values if len(values) else np.array([low])
    # Now `values` are the two smallest, others, and the largest.
    first, second, last = values[0], values[1], values[-1]
    if allow_negative:
        wanted = np.linspace(first, last, n_epsilons)
    else:
        floor = max(second if first <= 0 else first, 1e-3 * last)
        # geomspace rounds: a trifle more, relative, keeps the values that it means.
        wanted = np.geomspace(floor, last, n_epsilons - 1) * (1 + 1e-12)
    bounds = np.full(len(wanted), first)
    places = np.searchsorted(wanted, np.linspace(first, last, N_PLACES))
    for block in losses.blocks():
        parts: list[NDArray[np.float64]] = []

        def kernel(a: int, b: int, block=block, parts=parts) -> None:
            part = np.full(len(wanted), first)
            _largest_up_to(block[a:b].ravel(), wanted, places, last, part)
            parts.append(part)

        over_rows(kernel, len(block), in_threads=block.size > BLOCK_CELLS)
        bounds = np.max([bounds, *parts], axis=0)
    return np.unique(np.append(np.maximum.accumulate(bounds), first))


def _values_between(
    losses: Losses, low: float, high: float, n_most: int
) -> NDArray[np.float64]:
    """Finite losses in `[low, high]`, distinct and sorted, or some if there are many.

    Those some are more than `n_most`, and the two smallest and the largest are there.
    """
    seen = np.zeros(0)
    for block in losses.blocks():
        if len(seen) > n_most:
            ends = np.array(_two_least_and_largest(block.ravel(), low, high))
            inside = ends[np.isfinite(ends)]
        else:
            inside = block[(block >= low) & (block <= high) & np.isfinite(block)]
        seen = np.union1d(seen, inside)
        if len(seen) > n_most + 3:
            seen = np.append(seen[: n_most + 2], seen[-1])
    return seen


@njit(cache=True, nogil=True)
def _two_least_and_largest(values, low, high):
    """Return the two least distinct finite values in `[low, high]`, and the largest."""
    least, second, largest = np.inf, np.inf, -np.inf
    for value in values:
        if low <= value <= high and value < np.inf:
            if value < least:
                least, second = value, least
            elif least < value < second:
                second = value
            if value > largest:
                largest = value
    return least, second, largest


@njit(cache=True, nogil=True)
def _largest_up_to(values, wanted, places, last, found):
    """Raise `found[k]` to the largest value in `(wanted[k − 1], wanted[k]]`.

    `found` holds the least value at first; `places` has the k of values spread evenly
    from there to the last one, where the search for k begins.
    """
    least = found[0]
    scale = (len(places) - 1) / (last - least)
    is_normal = 0 < scale < np.inf  # else the range is too wide, or too narrow
    for value in values:
        if least < value <= last:
            k = places[int((value - least) * scale)] if is_normal else 0
            while k > 0 and wanted[k - 1] >= value:
                k -= 1
            while k < len(wanted) and wanted[k] < value:
                k += 1
            if k < len(wanted) and value > found[k]:
                found[k] = value


def round_epsilons(
    losses: MatrixLosses,
    asked: Iterable[float] = (),
    *,
    n_epsilons: int = 40,
    allow_negative: bool = False,
) -> NDArray[np.float64]:
    """Return round tolerances over the range where the answer changes.

    From where every target has a source (or a thousandth of the other end) to where
    one source is enough.

    Args:
        losses: the losses.
        asked: tolerances that must be among them.
        n_epsilons: about how many.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    best, high = losses.best[np.isfinite(losses.best)], losses.single
    if not np.isfinite(high):
        some = losses.matrix[:: max(1, losses.n_sources // 200)]
        finite = some[np.isfinite(some)]
        high = float(np.quantile(finite, 0.95)) if finite.size else 1.0
    low = float(best.max()) if best.size else 0.0
    low, high = min(low, high), max(low, high)
    if allow_negative:
        margin = 0.05 * (high - low)
        values = round_numbers(low - margin, high + margin, n_epsilons, log=False)
    else:
        top = max(high, *asked, 0.0)
        start = max(low / 1.5, 1e-3 * top)
        values = []
        if top > 0:
            values = round_numbers(start, 1.3 * top, n_epsilons, log=True)
        if low <= 0:
            values = [0.0, *values]
    return np.unique(np.array([*values, *asked], np.float64))


def round_numbers(low: float, high: float, n: int, *, log: bool) -> list[float]:
    """Return about `n` round numbers from `low` to `high`.

    Args:
        low: smallest; positive for a logarithmic spread.
        high: largest.
        n: about how many.
        log: spread evenly in the logarithm.

    Examples:
        >>> round_numbers(0.1, 1.0, 10, log=True)
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
