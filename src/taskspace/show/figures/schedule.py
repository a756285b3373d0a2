"""Interpolated schedules: losses between breakpoints, and vertices against ε."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question, as_question
from taskspace.schedules import Schedule, ScheduleProfile
from taskspace.schedules.cells import losses_at
from taskspace.schedules.schedule import check_schedulable
from taskspace.show.figures.map import AxisRecord, axes_of, cell_edges
from taskspace.show.figures.profile import scale_tolerances
from taskspace.show.style import (
    METHOD_COLOURS,
    PALETTE,
    colour,
    few_ticks,
    legend_below,
    literal,
    panel,
    panels,
    set_axis,
    title_of,
)
from taskspace.spaces import Grid

N_VALUES = {1: 401, 2: 61}
"""Contexts per axis at which losses are computed, by the number of axes."""


def schedule(
    study: Study, answer: Schedule, question: Question | str | None = None
) -> Figure:
    """Draw what a schedule loses between its breakpoints.

    Two axes are a map with the breakpoints as lines; one axis has the loss and the
    interpolated numbers, one above the other. The losses are computed at contexts that
    lie more densely than the targets, measured without an error.

    Args:
        study: what the schedule was made from.
        answer: the schedule.
        question: what is asked; that of the schedule if left out.
    """
    question = as_question(question or answer.question)
    system = check_schedulable(study, question)
    assert isinstance(study.targets, Grid)
    records = axes_of(study.targets, study.labels)
    if set(answer.names) != {record.name for record in records}:
        raise InvalidInputError(
            f"The schedule must have the axes of the study, "
            f"{', '.join(r.name for r in records)}, but has {', '.join(answer.names)}."
        )
    shown = [record for record in records if record.high > record.low]
    if len(shown) not in N_VALUES:
        raise InvalidInputError(
            "The picture of a schedule has one or two axes that vary, but these vary: "
            f"{', '.join(record.name for record in shown) or 'none'}."
        )
    # Where the best score is known at the study's targets only, these are drawn.
    rows = system.contexts(study.targets)
    compared = any(demand.rule.compares_with_best for demand in question.demands)
    if compared and system.optimum(rows[:1]) is None:
        values = [np.array(record.values) for record in records]
        best = np.asarray(study.table["best_known"].values)
    else:
        n, best = N_VALUES[len(shown)], None
        values = [_dense(record, n, answer) for record in records]
        names = [record.name for record in records]
        rows = system.contexts(Grid(**dict(zip(names, values, strict=True))))
    columns = [[axis.name for axis in system.axes].index(n) for n in answer.names]
    numbers = answer.numbers_at(rows[:, columns])
    policies = answer.structure.policies(numbers[:, None])
    losses = losses_at(system, question, policies, rows, best)
    varying = [x for x, r in zip(values, records, strict=True) if r in shown]
    worst = np.unravel_index(int(losses.argmax()), [len(x) for x in varying])
    place = [x[i] for x, i in zip(varying, worst, strict=True)]
    words = ", ".join(f"{r.name} = {x:.4g}" for r, x in zip(shown, place, strict=True))
    said = f"largest loss {losses.max():.4g} at {words}"
    size = " × ".join(map(str, answer.shape))
    title = f"{size} breakpoints, interpolated: {title_of(question)}"
    if len(shown) == 2:
        return _draw_map(answer, question, shown, varying, losses, place, title, said)
    (record,), (x,) = shown, varying
    with panels(5.4, 5.2, 2, 1, sharex=True) as (figure, grid):
        top, bottom = grid.ravel()
        finite = np.where(np.isfinite(losses), losses, np.nan)
        top.plot(x, finite, color=PALETTE[0])
        top.axhline(question.epsilon, color=PALETTE[5], ls="--", label="ε")
        if np.isfinite(losses.max()):
            top.plot(*place, losses.max(), "o", color="black", label=said)
        else:
            top.plot([], [], " ", label=f"fails at {words}")
        top.set(ylabel="loss")
        for i, name in enumerate(answer.structure.names):
            bottom.plot(x, numbers[:, i], color=colour(i), label=name)
        bottom.set(ylabel="interpolated")
        for axes in (top, bottom):
            axes.grid(visible=False)
            for at in answer.breakpoints[record.name]:
                axes.axvline(at, color="grey", lw=1, label="breakpoints")
        set_axis(
            bottom.xaxis, record.label, record.scale, record.low, record.high, 0.02
        )
        figure.suptitle(literal(textwrap.fill(title, 62)), fontsize=10)
        legend_below(figure)
    return figure


def _draw_map(
    answer: Schedule,
    question: Question,
    records: Sequence[AxisRecord],
    values: Sequence[Array],
    losses: Array,
    place: Sequence[float],
    title: str,
    said: str,
) -> Figure:
    """Draw losses over two axes, with breakpoints, ε and the worst context."""
    edges = [cell_edges(x, r.scale) for x, r in zip(values, records, strict=True)]
    above = losses.reshape(len(values[0]), -1).T
    served = np.ma.masked_where(~(above <= question.epsilon), above)
    with panel(5.6, 5.0, grid=False) as (figure, axes):
        axes.set_facecolor("#dddddd")
        image = axes.pcolormesh(
            *edges, served, cmap="cividis_r", vmax=question.epsilon, rasterized=True
        )
        figure.colorbar(image, label="loss; grey: above ε")
        if served.mask.any() and not served.mask.all():
            finite = np.where(np.isfinite(above), above, 1e300)
            axes.contour(*values, finite, [question.epsilon], colors=PALETTE[5])
            axes.plot([], [], color=PALETTE[5], label="loss = ε")
        for record, line in zip(records, (axes.axvline, axes.axhline), strict=True):
            for at in answer.breakpoints[record.name]:
                line(at, color="white", lw=2.6, clip_on=False)
                line(at, color="black", lw=1.2, clip_on=False, label="breakpoints")
        axes.plot(
            *place, "*", ms=13, color=PALETTE[1], mec="black", clip_on=False, label=said
        )
        for axis, record in zip((axes.xaxis, axes.yaxis), records, strict=True):
            set_axis(axis, record.label, record.scale, record.low, record.high)
        axes.set_title(literal(textwrap.fill(title, 62)), fontsize=10)
        legend_below(figure)
    return figure


def _dense(record: AxisRecord, n: int, answer: Schedule) -> Array:
    """Return dense values of an axis, with the breakpoints and the worst context."""
    if record.low == record.high:
        return np.array([record.low])
    spread = np.geomspace if record.scale == "log" else np.linspace
    own = [*answer.breakpoints[record.name], answer.worst_context.get(record.name)]
    inside = [x for x in own if x is not None and record.low <= x <= record.high]
    dense = spread(record.low, record.high, n)
    dense[[0, -1]] = record.low, record.high
    return np.unique([*dense, *inside])


def schedule_profile(profile: ScheduleProfile) -> Figure:
    """Draw how many vertices each tolerance needs, beside gains that are constant.

    Args:
        profile: what `taskspace.schedules.schedule_profile` returned.
    """
    found = [
        (epsilon, size, lower)
        for epsilon, size, lower in zip(
            profile.epsilons, profile.sizes, profile.lower_bounds, strict=True
        )
        if size is not None
    ]
    pieces = [p for p in profile.constant or [] if p.upper is not None]
    minimum = METHOD_COLOURS["minimum"]
    with panel(5.4, 4.4) as (figure, axes):
        if pieces:
            at = [point.epsilon for point in pieces]
            uppers = [point.upper or 0 for point in pieces]
            lowers = [point.lower or 0 for point in pieces]
            _steps(axes, at, uppers, lowers, "constant gains", PALETTE[7])
        if found:
            at, sizes, lowers = map(list, zip(*found, strict=True))
            _steps(axes, at, sizes, lowers, "interpolated, vertices", minimum)
        sizes = [size for _, size, _ in found] + [point.upper or 0 for point in pieces]
        largest = max(sizes, default=1)
        scale_tolerances(axes, np.array(profile.epsilons))
        if largest < 30:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            axes.set_yscale("log")
            few_ticks(axes.yaxis, 1, largest)
        axes.set(xlabel="tolerance ε", ylabel="gains")
        title = f"{profile.question.criterion}, {profile.bound_of}"
        axes.set_title(literal(textwrap.fill(title, 62)), fontsize=10)
        legend_below(figure)
    return figure


def _steps(
    axes: Axes,
    at: Sequence[float],
    sizes: Sequence[int],
    lowers: Sequence[int],
    label: str,
    shade: str,
) -> None:
    """Draw sizes, which hold to the right, and lower bounds, which hold to the left."""
    axes.step(at, sizes, where="post", color=shade, marker="o", ms=4, label=label)
    if list(lowers) != list(sizes):
        said = f"{label}: lower bound"
        axes.step(at, lowers, where="pre", color=shade, ls=":", label=said)
