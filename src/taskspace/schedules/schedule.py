"""`ts.schedule`: the fewest breakpoints of an interpolated schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.cover import minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.measured import ErrorBounds
from taskspace.performance import evaluate_policies
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.schedules.cells import CellLosses, Segments, losses_at
from taskspace.schedules.designed import bound_of_lines, design_schedule
from taskspace.schedules.parameters import structure_of
from taskspace.schedules.search import Size, search
from taskspace.schedules.table import Scale, Schedule
from taskspace.spaces import Axis, Grid, Space
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

MAX_CANDIDATES = {1: 1000, 2: 20}
"""Candidates per axis of which all schedules are looked at, by the number of axes."""
MAX_TARGETS = 200_000


def schedule(
    study: Study,
    question: Question | str,
    *,
    table: Schedule | None = None,
    candidates: int | None = None,
    between: int = 3,
    interpolation: Mapping[str, Scale] | Scale | None = None,
    include: Mapping[str, Sequence[float]] | None = None,
    size: str | Mapping[str, float] = "vertices",
    design: bool = False,
    constant_pieces: bool = True,
    time_limit: float = 60,
    progress: Progress | None = None,
) -> Schedule:
    """Find the fewest breakpoints between which gains are interpolated.

    **Main arguments**

    Args:
        study: a grid of linear gains, or of PI, PID or static controllers, one per
            source. Its sources are where breakpoints may be.
        question: what it means to serve a target, e.g. `"ratio <= 5 %"`.
        table: a schedule that is in use: its breakpoints are the candidates, in place
            of the study's sources. The answer is the fewest of them that serve.
        include: for some axes breakpoints that must be there, among the candidates.
        candidates: at most so many candidates per axis, evenly thinned; 20 of two
            axes if left out.
        between: targets between neighbouring candidates, beside those of the study.

    **Other arguments**

    Args:
        interpolation: `"linear"` or `"log"`, for all axes or for each; `"log"` on log
            axes of the study if left out.
        size: what is to be small: `"vertices"`, their number; `"breakpoints"`, their
            sum over the axes; or a weight per axis, for a weighted sum.
        design: design the gains at the breakpoints, too, which may need fewer. The
            bound is then over all state feedback gains: a factor 2 per axis along
            which no single gain serves.
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
    cells = cells_of(
        study, question, table, candidates, between, interpolation, include, progress
    )
    axes, names = cells.axes, [axis.name for axis in cells.axes]
    measure = _size_of(size, names)
    (found,) = search(cells, [question.epsilon], measure)
    if found.breakpoints is None:
        is_sure = found.lower_bound == np.inf
        raise InvalidInputError(_no_schedule(cells, question, is_sure=is_sure))
    chosen = found.breakpoints
    made = Schedule(
        {a.name: a.candidates[list(c)] for a, c in zip(axes, chosen, strict=True)},
        cells.numbers[np.ix_(*chosen)],
        cells.structure,
        {axis.name: axis.scale for axis in axes},
        question,
        lower_bound=_fewest_vertices(axes, measure, found.lower_bound),
        optimal=bool(found.lower_bound >= measure(tuple(map(len, chosen)))),
        smallest_by=_size_words(size),
        bound_of=cells.bound_of,
        provenance=question.provenance_of(study),
    )
    if design:
        made = _designed(made, cells, clock)
    elif len(axes) > 2 and made.structure.is_gain:
        made = replace(made, lower_bound=max(made.lower_bound, _lines(cells, clock)))
    measured = np.stack(
        np.meshgrid(*(axis.measured for axis in axes), indexing="ij"), -1
    ).reshape(-1, len(axes))
    policies = made.structure.policies(made.numbers_at(measured)[:, None])
    losses = losses_at(cells.system, question, policies, cells.contexts, cells.best)
    target = int(losses.argmax())
    place = np.unravel_index(target, cells.shape)
    notes = []
    given = study.sources.shape if isinstance(study.sources, Grid) else ()
    if table is None and cells.numbers.shape[:-1] != given:
        notes.append(
            f"Breakpoints were sought among {cells.bound_of.split(' candidates')[0]} "
            f"of the {' × '.join(map(str, given))} sources."
        )
    if question.error is not None:
        notes.append(
            "At targets the measured context is the true one and the ends of its "
            "error; certify looks at all of them."
        )
    pieces = None
    constants = study_of_candidates(cells) if constant_pieces else None
    if constants is not None:
        cover = minimum_cover(constants, question, time_limit=clock.left)
        if len(cover.uncoverable):
            notes.append(
                f"Gains constant on pieces: {len(cover.uncoverable):,} targets "
                "are served by none of the candidates."
            )
        else:
            pieces = int(cover.lower_bound), cover.size
    return replace(
        made,
        worst=float(losses[target]),
        worst_context={
            axis.name: float(axis.true[i]) for axis, i in zip(axes, place, strict=True)
        },
        constant_pieces=pieces,
        notes=tuple(notes),
        seconds=clock.seconds,
    )


def _designed(made: Schedule, cells: CellLosses, clock: Clock) -> Schedule:
    """Return a schedule with designed gains, of at most as many vertices."""
    system, question = cells.system, cells.question
    is_plain = not question.also and question.error is None
    if (
        not isinstance(system, LinearSystem)
        or not made.structure.is_gain
        or not is_plain
    ):
        raise InvalidInputError(
            "design=True designs state feedback gains of linear families, for one "
            "demand and contexts that are known exactly."
        )
    grid = Grid(**{a.name: Axis(a.name, values=a.true) for a in cells.axes})
    gains = made.gains.reshape(*made.shape, *made.structure.shape)
    scales = list(made.interpolation.values())
    at, gains = design_schedule(
        system, question, grid, list(made.breakpoints.values()), gains, scales, clock
    )
    low, size = _lines(cells, clock), prod(map(len, at))
    return replace(
        made,
        breakpoints=dict(zip(made.names, at, strict=True)),
        gains=gains.reshape(*gains.shape[:-2], -1),
        lower_bound=low,
        optimal=low >= size,
        bound_of="any state feedback gains at any breakpoints",
        smallest_by="vertices",
        size_of_candidates=made.size,
    )


def _lines(cells: CellLosses, clock: Clock) -> int:
    """Return a bound on the vertices of a schedule of any gains, 1 where none is."""
    if not isinstance(cells.system, LinearSystem) or cells.question.also:
        return 1
    names = [axis.name for axis in cells.axes]
    values = [np.unique(axis.true) for axis in cells.axes]
    question = cells.question.measured_with(None)
    return bound_of_lines(cells.system, question, names, values, clock)


def cells_of(
    study: Study,
    question: Question,
    table: Schedule | None,
    candidates: int | None,
    between: int,
    interpolation: Mapping[str, Scale] | Scale | None,
    include: Mapping[str, Sequence[float]] | None,
    progress: Progress | None,
) -> CellLosses:
    """Return the cells between candidates, with the targets that they must serve.

    Args:
        study: as in `schedule`.
        question: what is asked; its tolerance does not matter.
        table: as in `schedule`, like all that follow.
        candidates: likewise.
        between: likewise.
        interpolation: likewise.
        include: likewise.
        progress: likewise.
    """
    system = check_schedulable(study, question)
    sources, targets = study.sources, study.targets
    assert isinstance(sources, Grid)
    assert isinstance(targets, Grid)
    if question.error is not None:
        question.error.columns(targets.names)  # refuses axes that it does not vary
    scales: dict[str, Scale] = _scales_of(sources, interpolation)
    if table is None:
        assert study.policies is not None
        structure, numbers = structure_of(system, study.policies)
        at = {axis.name: axis.values for axis in sources.axes}
        numbers, at = _thin(numbers.reshape(*sources.shape, -1), at, candidates)
    else:
        if set(table.names) != set(sources.names):
            raise InvalidInputError(
                f"The table must have the axes {', '.join(sources.names)}, but has "
                f"{', '.join(table.names)}."
            )
        order = [table.names.index(name) for name in sources.names]
        at = {name: table.breakpoints[name] for name in sources.names}
        numbers = np.moveaxis(table.gains, order, range(len(order)))
        structure = table.structure
        scales.update(table.interpolation)
    _check_interpolation(at, scales)
    for name in include or {}:
        if name not in targets.names:
            raise InvalidInputError(
                f"include is by axis, {', '.join(targets.names)}, but got {name!r}."
            )
    axes = [
        _segments(axis, at[axis.name], between, scales, question, include)
        for axis in targets.axes
    ]
    shape = [len(axis.measured) for axis in axes]
    if prod(shape) > MAX_TARGETS:
        raise InvalidInputError(
            f"A schedule is judged at up to {MAX_TARGETS:,} targets, but there are "
            f"{' × '.join(map(str, shape))}. Ask with fewer targets, or between=0."
        )
    contexts = _rows_of(system, targets.names, [axis.true for axis in axes])
    best = _best_scores(study, question, contexts, between)
    progress = progress or silent
    return CellLosses(
        system, question, structure, numbers, axes, contexts, best, progress
    )


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


def _scales_of(
    sources: Grid, interpolation: Mapping[str, Scale] | Scale | None
) -> dict[str, Scale]:
    if interpolation is None:
        return {a.name: "log" if a.scale == "log" else "linear" for a in sources.axes}
    if isinstance(interpolation, str):
        return dict.fromkeys(sources.names, interpolation)
    for name in interpolation:
        if name not in sources.names:
            raise InvalidInputError(
                f"interpolation is by axis, {', '.join(sources.names)}, but got "
                f"{name!r}."
            )
    return _scales_of(sources, None) | dict(interpolation)


def _check_interpolation(at: Mapping[str, Array], scales: Mapping[str, Scale]) -> None:
    for name, scale in scales.items():
        if scale not in ("linear", "log"):
            raise InvalidInputError(
                f"interpolation must be 'linear' or 'log', but got {scale!r}."
            )
        if scale == "log" and at[name][0] <= 0:
            raise InvalidInputError(
                f"{name} must be positive to interpolate in log, but the first "
                f"candidate is {at[name][0]:g}."
            )


def _thin(
    numbers: Array, at: dict[str, Array], candidates: int | None
) -> tuple[Array, dict[str, Array]]:
    """Return at most so many candidates per axis, evenly spread, with both ends."""
    if candidates is not None and candidates < 1:
        raise InvalidInputError(
            f"candidates >= 1 must hold, but got candidates={candidates}."
        )
    varying = sum(len(x) > 1 for x in at.values())
    most = candidates or MAX_CANDIDATES.get(max(varying, 1), 9)
    kept = [
        np.unique(np.round(np.linspace(0, len(x) - 1, min(most, len(x)))).astype(int))
        for x in at.values()
    ]
    some = {name: x[k] for (name, x), k in zip(at.items(), kept, strict=True)}
    return numbers[np.ix_(*kept)], some


def _segments(
    targets: Axis,
    candidates: Array,
    between: int,
    scales: Mapping[str, Scale],
    question: Question,
    include: Mapping[str, Sequence[float]] | None,
) -> Segments:
    """Return the segments of an axis, with the targets that they must serve."""
    if isinstance(between, bool) or not isinstance(between, int) or between < 0:
        raise InvalidInputError(f"between >= 0 must hold, but got {between!r}.")
    name = targets.name
    low, high = targets.values[0], targets.values[-1]
    shares = np.arange(1, between + 1) / (between + 1)
    if scales[name] == "log":
        logs = np.log(candidates)
        added = np.exp(logs[:-1, None] + shares * np.diff(logs)[:, None]).ravel()
    else:
        added = (candidates[:-1, None] + shares * np.diff(candidates)[:, None]).ravel()
    added = added[(added > low) & (added < high)]
    true = np.unique(np.concatenate([targets.values, added]))
    measured = true
    if question.error is not None:
        measured, true = _measured(question.error, name, true)
    must = []
    for value in (include or {}).get(name, ()):
        place = np.flatnonzero(np.isclose(candidates, value, rtol=1e-9, atol=0))
        if not len(place):
            raise InvalidInputError(
                f"A breakpoint that must be there must be a candidate, but {name} = "
                f"{value:g} is none of {', '.join(f'{x:.6g}' for x in candidates)}."
            )
        must.append(int(place[0]))
    include_at = tuple(sorted(set(must)))
    return Segments(name, candidates, measured, true, scales[name], include_at)


def _measured(error: ErrorBounds, name: str, true: Array) -> tuple[Array, Array]:
    """Return what may be measured, the ends and the truth, with the true values."""
    own = ErrorBounds(tuple(pair for pair in error.axes if pair[0] == name))
    if not own.axes:
        return true, true
    pairs = []
    for x in true[:, None]:
        low, high = own.measured_range([name], x, x)
        pairs += [(low[0], x[0]), (x[0], x[0]), (high[0], x[0])]
    measured, behind = np.unique(np.array(pairs), axis=0).T
    return measured, behind


def _rows_of(system: System, names: Sequence[str], values: Sequence[Array]) -> Array:
    """Return full context rows of all combinations, the last axis fastest."""
    mesh = np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, len(names))
    rows = np.empty((len(mesh), len(system.axes)))
    for column, axis in enumerate(system.axes):
        rows[:, column] = axis.default
        if axis.name in names:
            rows[:, column] = mesh[:, names.index(axis.name)]
    return rows


def _best_scores(
    study: Study, question: Question, contexts: Array, between: int
) -> Array:
    """Return the best score at each target, NaN where it is not known or not needed."""
    if not any(demand.rule.compares_with_best for demand in question.demands):
        return np.full(len(contexts), np.nan)
    best = study.require_system().optimum(contexts)
    if best is not None:
        return best
    if between:
        raise InvalidInputError(
            "regret and ratio compare with the best score, which is known at the "
            "study's targets only. Ask with between=0 to judge a schedule there, or "
            "ask for a level."
        )
    known = study.table["best_known"].values
    if len(known) != len(contexts):
        raise InvalidInputError(
            "The best scores are known at the study's targets only, which an error of "
            "the measured context leaves. Ask for a level instead."
        )
    return known


def _size_of(size: str | Mapping[str, float], names: Sequence[str]) -> Size:
    if size == "vertices":
        return lambda counts: float(prod(counts))
    if size == "breakpoints":
        return lambda counts: float(sum(counts))
    if (
        not isinstance(size, Mapping)
        or set(size) != set(names)
        or not all(weight > 0 for weight in size.values())
    ):
        raise InvalidInputError(
            "size must be 'vertices', 'breakpoints', or a positive weight for each of "
            f"{', '.join(names)}, but got {size!r}."
        )
    weights = [float(size[name]) for name in names]
    return lambda counts: float(np.dot(weights, counts))


def _size_words(size: str | Mapping[str, float]) -> str:
    if isinstance(size, str):
        return {"vertices": "vertices", "breakpoints": "sum of breakpoints"}[size]
    weights = ", ".join(f"{name}: {weight:g}" for name, weight in size.items())
    return f"sum of breakpoints with weights {weights}"


def _fewest_vertices(axes: Sequence[Segments], size: Size, bound: float) -> int:
    """Return the fewest vertices of a schedule whose size is at least a bound."""
    least = [max(1, len(axis.include)) for axis in axes]
    counts = product(
        *(range(low, axis.n + 1) for low, axis in zip(least, axes, strict=True))
    )
    return min(prod(some) for some in counts if size(some) >= bound)


def study_of_candidates(cells: CellLosses) -> Study | None:
    """Return the candidates at the targets, none interpolated.

    Args:
        cells: that lie between them.

    Returns:
        A study; None where contexts are measured with an error.
    """
    if cells.question.error is not None:
        return None
    targets = Grid(**{a.name: Axis(a.name, values=a.true) for a in cells.axes})
    flat = cells.numbers.reshape(-1, cells.numbers.shape[-1])
    policies = cells.structure.policies(flat[np.isfinite(flat).all(-1)][:, None])
    return evaluate_policies(cells.system, policies, targets)


def _no_schedule(cells: CellLosses, question: Question, *, is_sure: bool) -> str:
    """Return why no schedule serves, with a target that even all candidates fail."""
    every = [axis.path(range(axis.n)) for axis in cells.axes]
    mesh = np.stack(np.meshgrid(*every, indexing="ij"), -1)
    losses, where = cells.worst(mesh.reshape(-1, len(cells.axes)), np.inf)
    worst = int(losses.argmax())
    said = f"No schedule of {cells.bound_of} has {question}."
    if not is_sure:
        said = f"Of {cells.bound_of} no schedule was found that has {question}."
    if where[worst] < 0:
        return f"{said} A source failed: leave it out, or take other sources."
    row = cells.contexts[where[worst]]
    place = ", ".join(
        f"{axis.name} = {x:.6g}" for axis, x in zip(cells.system.axes, row, strict=True)
    )
    return (
        f"{said} With all candidates as breakpoints the loss is {losses[worst]:.4g} at "
        f"{place}. Take more candidates there, or ask for less."
    )
