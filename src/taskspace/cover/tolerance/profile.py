"""Complexity against tolerance: how many policies as epsilon grows."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.base import html_view
from taskspace.cover.methods.minimum import N_ROUNDS
from taskspace.cover.tolerance.epsilons import default_epsilons
from taskspace.cover.tolerance.search import ToleranceSearch
from taskspace.cover.tolerance.thresholds import Losses, losses_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.systems.base import PROVENANCE_WORDS

__all__ = ["Profile", "ProfilePoint", "complexity_profile"]

BLOCK = 33
"""Tolerances that greedy looks at before they are searched."""
QUICK_CELLS = 10**7
"""Cells of tables that greedy looks at whatever the time limit."""
FIRST_STAGES = 3
"""Stages of work at each tolerance, before any gets more; see `full_cover`."""

if TYPE_CHECKING:
    import pandas as pd


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
    """

    def __init__(self, points: Iterable[ProfilePoint] = (), provenance: str = "given"):
        super().__init__(points)
        self.provenance = provenance

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
        title = title.rstrip()
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
        question: criterion and judge for a study; its tolerance does not matter.
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
    rule = None
    if question is not None:
        rule = as_question(question, needs_bound=False).rule
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
    return Profile(profile.points(), provenance)


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
