"""Gains: what a schedule loses between its breakpoints, and designed gains."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taskspace._util.arrays import Array
from taskspace.designs import Design
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question, as_question
from taskspace.schedules import Schedule
from taskspace.schedules.schedule import check_schedulable
from taskspace.schedules.search import losses_at
from taskspace.show.maps import AxisRecord, axes_of, cell_edges
from taskspace.show.style import (
    PALETTE,
    colour,
    legend_below,
    literal,
    panel,
    panels,
    set_axis,
    title_of,
)
from taskspace.spaces import Grid
from taskspace.systems.linear import LinearSystem

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
    names = [record.name for record in records]
    if set(answer.names) != set(names):
        raise InvalidInputError(
            f"The schedule must have the axes of the study, {', '.join(names)}, but "
            f"has {', '.join(answer.names)}."
        )
    shown = [record for record in records if record.high > record.low]
    if len(shown) not in N_VALUES:
        raise InvalidInputError(
            "The picture of a schedule has one or two axes that vary, but these vary: "
            f"{', '.join(record.name for record in shown) or 'none'}."
        )
    # Where the best score is known at the study's targets only, these are drawn.
    rows, best = system.contexts(study.targets), None
    values = [np.array(record.values) for record in records]
    compared = any(demand.rule.compares_with_best for demand in question.demands)
    if compared and system.optimum(rows[:1]) is None:
        best = np.asarray(study.table["best_known"].values)
    else:
        values = [_dense(record, N_VALUES[len(shown)], answer) for record in records]
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
    with panels(5.6, 5.2, 3 - len(shown), 1, sharex=True, grid=False) as (figure, grid):
        if len(shown) == 2:
            axes, image = grid[0, 0], losses.reshape(len(varying[0]), -1).T
            _draw_losses(axes, shown, varying, image, question.epsilon)
            star: Any = {"ms": 13, "color": PALETTE[1], "mec": "black", "zorder": 5}
            axes.plot(*place, "*", **star, clip_on=False, label=said)
        else:
            top, axes = grid.ravel()
            finite = np.where(np.isfinite(losses), losses, np.nan)
            top.plot(varying[0], finite, color=PALETTE[0])
            top.axhline(question.epsilon, color=PALETTE[5], ls="--", label="ε")
            if np.isfinite(losses.max()):
                top.plot(*place, losses.max(), "o", color="black", label=said)
            else:
                top.plot([], [], " ", label=f"fails at {words}")
            top.set(ylabel="loss")
            for i, name in enumerate(answer.structure.names):
                axes.plot(varying[0], numbers[:, i], color=colour(i), label=name)
            axes.set(ylabel="gain")
        for panel in grid.ravel():
            for record, line in zip(
                shown, (panel.axvline, panel.axhline), strict=False
            ):
                for at in answer.breakpoints[record.name]:
                    line(at, color="white", lw=2.6, clip_on=False, zorder=1.5)
                    line(at, color="black", lw=1.2, clip_on=False, label="breakpoints")
        for axis, record in zip((axes.xaxis, axes.yaxis), shown, strict=False):
            set_axis(axis, record.label, record.scale, record.low, record.high)
        figure.suptitle(literal(textwrap.fill(title, 62)), fontsize=10)
        legend_below(figure)
    return figure


def _draw_losses(
    axes: Axes,
    records: Sequence[AxisRecord],
    values: Sequence[Array],
    losses: Array,
    epsilon: float,
) -> None:
    """Draw losses over two axes, with a contour at ε."""
    edges = [cell_edges(x, r.scale) for x, r in zip(values, records, strict=True)]
    served = np.ma.masked_where(~(losses <= epsilon), losses)
    axes.set_facecolor("#dddddd")
    image = axes.pcolormesh(
        *edges, served, cmap="cividis_r", vmax=epsilon, rasterized=True
    )
    axes.figure.colorbar(image, ax=axes, label="loss; grey: above ε")
    if served.mask.any() and not served.mask.all():
        finite = np.where(np.isfinite(losses), losses, 1e300)
        axes.contour(*values, finite, [epsilon], colors=PALETTE[5])
        axes.plot([], [], color=PALETTE[5], label="loss = ε")


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


def gains(design: Design) -> Figure:
    """Draw the optimal gains of the targets, by who serves them, and the designed ones.

    Args:
        design: what `taskspace.design` returned, with gains of two entries.
    """
    system, targets = design.study.system, design.study.targets
    if design.gains[0].size != 2 or not isinstance(system, LinearSystem):
        raise InvalidInputError(
            "The picture of a design needs gains of two entries, but these have "
            f"{design.gains[0].size}."
        )
    assert targets is not None
    optimal = system.optimal_gain(system.contexts(targets))[0].reshape(-1, 2)
    who = design.question.losses(design.study).values[: design.size].argmin(0)
    names = [f"{i} on {x}" for i in system.inputs for x in system.states]
    least = design.lower_bound_all
    proven = "the least of any" if least == design.size else f"at least {least} of any"
    asked = title_of(design.question.at(design.epsilon))
    with panel(5.4, 4.6) as (figure, axes):
        axes.plot([], [], "o", ms=3, color="grey", label="optimal gain of a target")
        for i, gain in enumerate(design.gains.reshape(design.size, 2)):
            own = optimal[who == i]
            axes.scatter(own[:, 0], own[:, 1], s=6, color=colour(i), lw=0)
            label = "designed gain" if i == 0 else None
            axes.plot(*gain, "*", ms=14, color=colour(i), mec="black", label=label)
        x, y = map(literal, names[:2])
        title = f"{design.size} designed gains, {proven}: {asked}"
        axes.set(xlabel=x, ylabel=y)
        axes.set_title(literal(title), fontsize=10)
        legend_below(figure)
    return figure
