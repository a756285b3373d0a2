"""`ts.schedule`: the fewest breakpoints of an interpolated schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.cover import Profile, complexity_profile, minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.measured import ErrorBounds
from taskspace.performance import evaluate_policies
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.schedules.designed import bound_of_lines, design_schedule
from taskspace.schedules.parameters import structure_of
from taskspace.schedules.search import Cells, Segments, losses_at, search
from taskspace.schedules.table import Scale, Schedule, axis_scales
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import System

if TYPE_CHECKING:
    import pandas as pd

# Candidates per axis, by the number of axes that vary; 9 of three axes or more.
MAX_CANDIDATES = {1: 100, 2: 20}
MAX_TARGETS = 200_000


def schedule(
    study: Study,
    question: Question | str,
    *,
    table: Schedule | None = None,
    candidates: int | None = None,
    between: int = 3,
    interpolation: Mapping[str, Scale] | Scale | None = None,
    design: bool = False,
    constant_pieces: bool = True,
    time_limit: float = 60,
    progress: Progress | None = None,
) -> Schedule:
    """Find the fewest breakpoints between which gains are interpolated.

    **Main arguments**

    Args:
        study: a grid of linear gains, or of PI or PID controllers, one per source.
            Its sources are where breakpoints may be.
        question: what it means to serve a target, e.g. `"ratio <= 5 %"`.
        table: a schedule that is in use: its breakpoints are the candidates, in place
            of the study's sources. The answer is the fewest of them that serve.
        design: design the gains at the breakpoints, too, which may need fewer. The
            bound is then over all state feedback gains: a factor 2 per axis along
            which no single gain serves.

    **Other arguments**

    Args:
        candidates: the most candidates per axis, evenly thinned; 100 of one axis and
            20 of two if left out.
        between: targets between neighbouring candidates, added to those of the study.
        interpolation: `"linear"` or `"log"`, for all axes or for each; `"log"` on log
            axes of the study if left out.
        constant_pieces: count the gains that are needed if none is interpolated.
        time_limit: processor seconds for designs and for that count.
        progress: told what is going on.

    Examples:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 10))
        >>> study = ts.evaluate(ts.systems.ScalarLqr(), ts.trainers.Lqr(), space)
        >>> ts.schedule(study, "ratio <= 5 %").shape
        (4,)
    """
    clock = Clock(time_limit)
    question = as_question(question)
    cells = make_cells(
        study, question, table, candidates, between, interpolation, progress
    )
    ((chosen, bound),) = search(cells, [question.epsilon])
    if chosen is None:
        raise InvalidInputError(_no_schedule(cells, question, is_sure=bound == np.inf))
    every, values = cells.table, cells.table.breakpoints.items()
    made = replace(
        every,
        breakpoints={n: x[list(c)] for (n, x), c in zip(values, chosen, strict=True)},
        gains=every.gains[np.ix_(*chosen)],
        question=question,
        lower_bound=int(bound),
        optimal=bool(bound >= prod(map(len, chosen))),
        bound_of=cells.bound_of,
        provenance=question.provenance_of(study),
    )
    if design:
        made = design_schedule(cells, made, clock)
    elif len(cells.axes) > 2 and made.structure.is_gain:
        low = bound_of_lines(cells.system, question, cells.targets, clock)
        made = replace(made, lower_bound=low)
    notes, pieces = [], None
    given = study.sources.shape if isinstance(study.sources, Grid) else ()
    if every.shape != (given if table is None else table.shape):
        some, of = (" × ".join(map(str, shape)) for shape in (every.shape, given))
        whose = f"{of} sources" if table is None else "breakpoints of the table"
        notes.append(f"Breakpoints were sought among {some} of the {whose}.")
    if question.error is not None:
        notes.append(
            "At targets the measured context is the true one and the ends of its "
            "error; certify looks at all of them."
        )
    elif constant_pieces:
        cover = minimum_cover(_constants(cells), question, time_limit=clock.left)
        if len(cover.uncoverable):
            notes.append(
                f"Gains constant on pieces: {len(cover.uncoverable):,} targets "
                "are served by none of the candidates."
            )
        else:
            pieces = int(cover.lower_bound), cover.size
    measured = _mesh([axis.measured for axis in cells.axes])
    policies = made.structure.policies(made.numbers_at(measured)[:, None])
    losses = losses_at(cells.system, question, policies, cells.contexts, cells.best)
    place = np.unravel_index(int(losses.argmax()), cells.shape)
    true = [float(axis.true[i]) for axis, i in zip(cells.axes, place, strict=True)]
    return replace(
        made,
        worst=float(losses.max()),
        worst_context=dict(zip(made.names, true, strict=True)),
        constant_pieces=pieces,
        notes=tuple(notes),
        seconds=clock.seconds,
    )


@dataclass(frozen=True, eq=False)
class ScheduleProfile:
    """The fewest vertices of interpolated schedules at several tolerances.

    Args:
        question: criterion, without its tolerance.
        epsilons: the tolerances, ascending.
        shapes: breakpoints per axis at each, None where no schedule serves.
        lower_bounds: no schedule of the candidates has fewer vertices.
        constant: the same of gains that are constant on pieces; None where contexts
            are measured with an error.
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
    time_limit: float = 60,
    progress: Progress | None = None,
) -> ScheduleProfile:
    """Find the fewest vertices of a schedule at several tolerances.

    The losses of cells are computed once, for the largest tolerance.

    Args:
        study: as in `schedule`.
        criterion: e.g. `"regret"`; its tolerance does not matter.
        epsilons: the tolerances.
        candidates: as in `schedule`.
        between: likewise.
        interpolation: likewise.
        time_limit: processor seconds for the count of constant gains.
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
    cells = make_cells(
        study, question, None, candidates, between, interpolation, progress
    )
    shapes, bounds = [], []
    for chosen, bound in search(cells, values)[::-1]:
        shapes.append(None if chosen is None else tuple(map(len, chosen)))
        bounds.append(None if chosen is None else int(bound))
    constant = None
    if question.error is None:
        constant = complexity_profile(
            _constants(cells),
            question,
            epsilons=values,
            time_limit=time_limit,
            progress=progress,
        )
    return ScheduleProfile(
        question,
        tuple(values[::-1]),
        tuple(shapes),
        tuple(bounds),
        constant,
        cells.bound_of,
    )


# --- candidates and targets -----------------------------------------------------------


def make_cells(
    study: Study,
    question: Question,
    table: Schedule | None,
    candidates: int | None,
    between: int,
    interpolation: Mapping[str, Scale] | Scale | None,
    progress: Progress | None,
) -> Cells:
    """Return the cells between candidates, with the targets that they must serve.

    Args:
        study: as in `schedule`, like all that follow.
        question: what is asked; its tolerance does not matter.
        table: likewise.
        candidates: likewise.
        between: likewise.
        interpolation: likewise.
        progress: likewise.
    """
    system = check_schedulable(study, question)
    targets = study.targets
    assert isinstance(targets, Grid)
    if question.error is not None:
        question.error.columns(targets.names)  # refuses axes that it does not vary
    for name, value, least in (
        ("candidates", 1 if candidates is None else candidates, 1),
        ("between", between, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInputError(
                f"{name} >= {least} must hold, but got {name}={value!r}."
            )
    table = _thinned(_all_candidates(study, table, interpolation), candidates)
    axes = [
        _segments(
            axis.values,
            table.breakpoints[axis.name],
            between,
            table.interpolation[axis.name],
            question.error,
            axis.name,
        )
        for axis in targets.axes
    ]
    shape = [len(axis.measured) for axis in axes]
    if prod(shape) > MAX_TARGETS:
        raise InvalidInputError(
            f"A schedule is judged at up to {MAX_TARGETS:,} targets, but there are "
            f"{' × '.join(map(str, shape))}. Ask with fewer targets, or between=0."
        )
    contexts = system.contexts(
        Points(targets.names, _mesh([axis.true for axis in axes]))
    )
    best = _best_scores(system, question, contexts)
    return Cells(system, question, table, axes, contexts, best, progress or silent)


def check_schedulable(study: Study, question: Question) -> System:
    """Return the system of a study; refuse what has no schedule, in a sentence.

    Args:
        study: what is known.
        question: what is asked.
    """
    if study.system is None or study.policies is None:
        raise InvalidInputError(
            "An interpolated policy is a new one at every context, so its score must "
            "be computed: a schedule needs a system and policies, not a table alone."
        )
    check_plan(study.sources, study.targets, study.n_policies, question)
    return study.require_system()


def check_plan(
    sources: Space | None, targets: Space | None, n_policies: int, question: Question
) -> None:
    """Refuse what can have no schedule, whatever is trained.

    Args:
        sources: where policies are trained.
        targets: where they are tried.
        n_policies: of each source.
        question: what is asked.
    """
    if any(demand.rule.compares_with_home for demand in question.demands):
        raise InvalidInputError(
            "signed compares a policy with its own score at its source, and an "
            "interpolated policy has no source. Ask for regret, ratio or a level."
        )
    if not isinstance(sources, Grid) or not isinstance(targets, Grid):
        raise InvalidInputError(
            "A schedule has breakpoints per axis, so sources and targets must be "
            "grids, but these are points."
        )
    if sources.names != targets.names:
        raise InvalidInputError(
            "Sources and targets must vary the same axes, but they vary "
            f"{', '.join(sources.names)} and {', '.join(targets.names)}."
        )
    if n_policies != 1:
        raise InvalidInputError(
            "A schedule interpolates one policy per source, but each source has "
            f"{n_policies}. Train one, e.g. with Lqr()."
        )


def _all_candidates(
    study: Study,
    table: Schedule | None,
    interpolation: Mapping[str, Scale] | Scale | None,
) -> Schedule:
    """Return the sources of a study, or a table in use, with the study's axes."""
    sources = study.sources
    assert isinstance(sources, Grid)
    if table is not None:
        if set(table.names) != set(sources.names):
            raise InvalidInputError(
                f"The table must have the axes {', '.join(sources.names)}, but has "
                f"{', '.join(table.names)}."
            )
        order = [table.names.index(name) for name in sources.names]
        at = {name: table.breakpoints[name] for name in sources.names}
        gains = np.moveaxis(table.gains, order, range(len(order)))
        scales = axis_scales(at, table.interpolation)
        return Schedule(at, gains, table.structure, scales)
    assert study.policies is not None
    structure, numbers = structure_of(study.require_system(), study.policies)
    at = {axis.name: axis.values for axis in sources.axes}
    if not isinstance(interpolation, str):
        logs: dict[str, Scale] = {
            a.name: "log" for a in sources.axes if a.scale == "log"
        }
        interpolation = {**dict.fromkeys(at, "linear"), **logs, **(interpolation or {})}
    scales = axis_scales(at, interpolation)
    made = Schedule(at, numbers.reshape(*sources.shape, -1), structure, scales)
    made.check_breakpoints()
    return made


def _thinned(table: Schedule, candidates: int | None) -> Schedule:
    """Return the table with fewer candidates per axis, evenly spread, with the ends."""
    varying = sum(n > 1 for n in table.shape)
    most = candidates or MAX_CANDIDATES.get(max(varying, 1), 9)
    kept = [
        np.unique(np.round(np.linspace(0, n - 1, min(most, n))).astype(int))
        for n in table.shape
    ]
    values = zip(table.breakpoints.items(), kept, strict=True)
    at = {name: x[k] for (name, x), k in values}
    return replace(table, breakpoints=at, gains=table.gains[np.ix_(*kept)])


def _segments(
    targets: Array,
    candidates: Array,
    between: int,
    scale: Scale,
    error: ErrorBounds | None,
    name: str,
) -> Segments:
    """Return the segments of an axis, with the targets that they must serve."""
    shares = np.arange(1, between + 1) / (between + 1)
    at = np.log(candidates) if scale == "log" else candidates
    added = (at[:-1, None] + shares * np.diff(at)[:, None]).ravel()
    added = np.exp(added) if scale == "log" else added
    added = added[(added > targets[0]) & (added < targets[-1])]
    true = np.unique(np.concatenate([targets, added]))
    own = () if error is None else [axis for axis in error.axes if axis[0] == name]
    if not own:
        return Segments(candidates, true, true, scale)
    # What may be measured: the truth, and both ends of the error.
    pairs = []
    for x in true[:, None]:
        low, high = ErrorBounds(tuple(own)).measured_range([name], x, x)
        pairs += [(low[0], x[0]), (x[0], x[0]), (high[0], x[0])]
    measured, true = np.unique(np.array(pairs), axis=0).T
    return Segments(candidates, measured, true, scale)


def _mesh(values: Sequence[Any]) -> NDArray[Any]:
    """Return all combinations of some values, one per row, the last axis fastest."""
    return np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, len(values))


def _best_scores(system: System, question: Question, contexts: Array) -> Array:
    """Return the best score at each target, NaN where it is not needed."""
    if not any(demand.rule.compares_with_best for demand in question.demands):
        return np.full(len(contexts), np.nan)
    best = system.optimum(contexts)
    if best is not None:
        return best
    raise InvalidInputError(
        "regret and ratio compare with the best score at every target, which this "
        "system does not compute. Ask for a level, e.g. score >= 475."
    )


def _constants(cells: Cells) -> Study:
    """Return a study of the candidates at the targets, none interpolated."""
    flat = cells.table.gains.reshape(-1, cells.table.gains.shape[-1])
    there = flat[np.isfinite(flat).all(-1)]
    policies = cells.table.structure.policies(there[:, None])
    return evaluate_policies(cells.system, policies, cells.targets)


def _no_schedule(cells: Cells, question: Question, *, is_sure: bool) -> str:
    """Return why no schedule serves, with a target that even all candidates fail."""
    every = _mesh([axis.path(range(axis.n)) for axis in cells.axes])
    losses, where = cells.worst(every, np.inf)
    worst = int(losses.argmax())
    said = f"No schedule of {cells.bound_of} has {question}."
    if not is_sure:
        said = f"Of {cells.bound_of} no schedule was found that has {question}."
    if where[worst] < 0:
        return f"{said} A source failed: leave it out, or take other sources."
    pairs = zip(cells.system.axes, cells.contexts[where[worst]], strict=True)
    place = ", ".join(f"{axis.name} = {x:.6g}" for axis, x in pairs)
    return (
        f"{said} With all candidates as breakpoints the loss is {losses[worst]:.4g} at "
        f"{place}. Take more candidates there, or ask for less."
    )
