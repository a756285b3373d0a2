"""Complexity against tolerance: how many policies as epsilon grows."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace._util.files import check_memory
from taskspace.cover.cover import html_view
from taskspace.cover.minimum import N_ROUNDS
from taskspace.cover.problem import losses_of
from taskspace.cover.tolerance import ToleranceSearch, loss_matrix
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
        """What "proven" is limited to, in words; empty for exact numbers."""
        return PROVENANCE_WORDS[self.provenance].scope

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per tolerance; sizes are missing where there is no cover."""
        import pandas as pd  # loads slowly

        columns: dict[str, Any] = {"epsilon": [point.epsilon for point in self]}
        for name in ("greedy", "lower", "upper", "n_uncoverable"):
            columns[name] = pd.array([getattr(p, name) for p in self], "Int64")
        return pd.DataFrame(columns)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the points as plain JSON values."""
        return [p.to_dict() | {"provenance": self.provenance} for p in self]

    def _title(self) -> str:
        n_proven = sum(p.upper is not None and p.lower == p.upper for p in self)
        title = f"Profile of {len(self):,} tolerances, {n_proven:,} proven {self.scope}"
        return f"{title.rstrip()}\n{self.note}".rstrip()

    def __repr__(self) -> str:
        table = self.to_frame().to_string(max_rows=40, index=False, na_rep="-")
        return f"{self._title()}\n{table if self else ''}".rstrip()

    def _repr_html_(self) -> str:
        return html_view(self._title(), self.to_frame())


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
    same, and `lower` and `upper` never grow with epsilon.

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
    attributes = getattr(problem, "attrs", {})
    provenance, note = attributes.get("provenance", "given"), ""
    asked = Question(attributes.get("criterion", "regret"))
    if isinstance(problem, Study):
        asked = as_question(question, needs_bound=False)
        provenance, note = asked.provenance_of(problem), asked.unused_bound
        check_memory(8 * problem.n_sources * problem.n_targets, "The losses")
        problem, question = asked.losses(problem), None
    matrix = loss_matrix(losses_of(problem, question))
    signed = asked.rule.allows_negative_epsilon
    if epsilons is None:
        values = default_epsilons(matrix, n_epsilons, allow_negative=signed)
    else:
        values = np.unique(np.asarray(epsilons, np.float64))
        low = -np.inf if signed else 0.0
        if values.size == 0 or not np.isfinite(values).all() or values[0] < low:
            raise InvalidInputError(
                f"epsilons must be finite numbers{'' if signed else ' >= 0'}, at least "
                f"one, but got {list(epsilons)}."
            )
    search, clock = ToleranceSearch(matrix, values, seed=seed), Clock(time_limit)
    greedy = _solve(search, matrix.size, clock, progress or silent)
    points = []
    for k, epsilon in enumerate(values.tolist()):
        sizes = greedy.get(k), int(search.lower[k]), int(search.upper[k])
        missing = int(search.n_uncoverable[k])
        sizes = (None, None, None) if missing else sizes
        points.append(ProfilePoint(epsilon, *sizes, missing))
    return Profile(points, provenance, note)


def _solve(
    search: ToleranceSearch, n_cells: int, clock: Clock, progress: Progress
) -> dict[int, int]:
    """Search from the ends to the middles; return greedy's sizes."""
    greedy: dict[int, int] = {}
    searched: set[int] = set()

    def tell(k: int) -> None:
        note = f"epsilon={search.epsilons[k]:g}"
        progress("profile", len(searched), len(search.epsilons), note)

    def improve(places: Sequence[int], n_stages: int) -> None:
        for k in places:
            if search.lower[k] < search.upper[k] and clock.left > 0:
                searched.add(k)
                search.minimum(k, clock, n_stages)
                tell(k)

    order = _ends_then_middles(np.flatnonzero(search.n_uncoverable == 0).tolist())
    for first in range(0, len(order), BLOCK):
        block = order[first : first + BLOCK]
        for place, k in enumerate(block):
            is_quick = (first + place) * n_cells <= QUICK_CELLS
            if first + place >= 2 and not is_quick and clock.left <= 0:
                return greedy
            greedy[k] = search.greedy(k).size
            tell(k)
        improve(block, FIRST_STAGES)
    n_stages = N_ROUNDS + 1
    while clock.left > 0 and (search.lower[order] < search.upper[order]).any():
        improve(order, n_stages)
        n_stages += 1
    return greedy


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


ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def default_epsilons(
    losses: NDArray[Any], n_epsilons: int, *, allow_negative: bool = False
) -> NDArray[np.float64]:
    """Return tolerances over the range where the complexity goes from its largest to 1.

    Values of the losses themselves, because between two of them the complexity cannot
    change: spread evenly in logarithm as far as they are positive, or evenly where
    negative ones have a meaning.

    Args:
        losses: loss matrix `(source, target)`.
        n_epsilons: how many at most.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    if n_epsilons < 2:
        raise InvalidInputError(f"n_epsilons >= 2 must hold, but got {n_epsilons}.")
    if losses.size == 0:
        return np.zeros(1)
    best, high = losses.min(0), losses.max(1).min()
    low = float(best.max()) if allow_negative else max(0.0, float(best.max()))
    if not np.isfinite(low):
        raise InvalidInputError(
            "Every target must have a source of finite loss, but "
            f"{int(np.isinf(best).sum())} have none. Give epsilons to profile the "
            "others."
        )
    is_inside = (losses >= low) & (losses <= high) & np.isfinite(losses)
    values = np.unique(losses[is_inside]).astype(np.float64)
    if len(values) <= n_epsilons:
        return values if len(values) else np.array([low])
    first, second, last = values[0], values[1], values[-1]
    if allow_negative:
        wanted = np.linspace(first, last, n_epsilons)
    else:
        floor = max(second if first <= 0 else first, 1e-3 * last)
        # geomspace rounds: a trifle more, relative, keeps the values that it means.
        wanted = np.geomspace(floor, last, n_epsilons - 1) * (1 + 1e-12)
    at = np.searchsorted(values, wanted, side="right") - 1
    return np.unique(np.append(values[np.maximum(at, 0)], first))


def round_epsilons(
    losses: NDArray[Any],
    asked: Iterable[float] = (),
    *,
    n_epsilons: int = 40,
    allow_negative: bool = False,
) -> NDArray[np.float64]:
    """Return round tolerances over the range where the answer changes.

    From where every target has a source (or a thousandth of the other end) to where
    one source is enough.

    Args:
        losses: loss matrix `(source, target)`.
        asked: tolerances that must be among them.
        n_epsilons: about how many.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    best, high = losses.min(0), float(losses.max(1).min())
    best = best[np.isfinite(best)]
    if not np.isfinite(high):
        some = losses[:: max(1, len(losses) // 200)]
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
