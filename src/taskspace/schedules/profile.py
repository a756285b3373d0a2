"""How many vertices a schedule needs at each tolerance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from taskspace.cover import Profile, complexity_profile
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.questions import Question, as_question
from taskspace.schedules.schedule import cells_of, study_of_candidates
from taskspace.schedules.search import search
from taskspace.schedules.table import Scale

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ScheduleProfile:
    """The fewest vertices of interpolated schedules at several tolerances.

    Args:
        question: criterion, without its tolerance.
        epsilons: the tolerances, ascending.
        shapes: breakpoints per axis at each, None where no schedule serves.
        lower_bounds: no schedule of the candidates has fewer vertices.
        constant: the same of gains that are constant on pieces; None where it was not
            counted.
        bound_of: what the bounds are about: candidates and targets.
    """

    question: Question
    epsilons: tuple[float, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    lower_bounds: tuple[int | None, ...]
    constant: Profile | None
    bound_of: str

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Vertices at each tolerance, None where no schedule serves."""
        return tuple(None if shape is None else prod(shape) for shape in self.shapes)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per tolerance; sizes are missing where nothing serves."""
        import pandas as pd  # loads slowly

        columns: dict[str, Any] = {
            "epsilon": list(self.epsilons),
            "vertices": pd.array(self.sizes, "Int64"),
            "lower": pd.array(self.lower_bounds, "Int64"),
        }
        if self.constant is not None:
            for name in ("lower", "upper"):
                numbers = [getattr(point, name) for point in self.constant]
                columns[f"constant_{name}"] = pd.array(numbers, "Int64")
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        title = f"Vertices of schedules, {self.question.criterion}, of {self.bound_of}"
        return f"{title}\n{self.to_frame().to_string(index=False, na_rep='-')}"


def schedule_profile(
    study: Study,
    criterion: Question | str,
    epsilons: Sequence[float],
    *,
    candidates: int | None = None,
    between: int = 3,
    interpolation: Mapping[str, Scale] | Scale | None = None,
    constant_pieces: bool = True,
    time_limit: float = 60,
    progress: Progress | None = None,
) -> ScheduleProfile:
    """Find the fewest vertices of a schedule at several tolerances.

    The losses of the cells of two axes are computed once, for the largest tolerance.

    Args:
        study: as in `schedule`.
        criterion: e.g. `"regret"`; its tolerance does not matter.
        epsilons: the tolerances.
        candidates: as in `schedule`.
        between: likewise.
        interpolation: likewise.
        constant_pieces: count the gains that are needed if none is interpolated.
        time_limit: processor seconds for that count.
        progress: told what is going on.

    Examples:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 10))
        >>> study = ts.evaluate(ts.systems.ScalarLqr(), ts.trainers.Lqr(), space)
        >>> ts.schedules.schedule_profile(study, "ratio", [0.02, 0.05, 0.2]).sizes
        (4, 4, 3)
    """
    question = as_question(criterion, needs_bound=False).at(None)
    values = sorted({float(epsilon) for epsilon in epsilons}, reverse=True)
    if not values or not np.isfinite(values).all():
        raise InvalidInputError(
            f"epsilons must be finite numbers, at least one, but got {list(epsilons)}."
        )
    cells = cells_of(
        study, question, None, candidates, between, interpolation, None, progress
    )
    found = search(cells, values, lambda counts: float(prod(counts)))[::-1]
    constants = study_of_candidates(cells) if constant_pieces else None
    return ScheduleProfile(
        question,
        tuple(values[::-1]),
        tuple(
            None if f.breakpoints is None else tuple(map(len, f.breakpoints))
            for f in found
        ),
        tuple(
            None if f.breakpoints is None else int(np.ceil(f.lower_bound))
            for f in found
        ),
        None
        if constants is None
        else complexity_profile(
            constants,
            question,
            epsilons=values,
            time_limit=time_limit,
            progress=progress,
        ),
        cells.bound_of,
    )
