"""Complexity against the tolerance."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from taskspace._util.arrays import Array
from taskspace.cover import Profile, complexity_profile
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.style import (
    METHOD_COLOURS,
    few_ticks,
    legend_below,
    panel,
)


def profile(
    study: Study | xr.Dataset,
    question: Question,
    *,
    points: Profile | None = None,
    time_limit: float = 20.0,
) -> Figure:
    """Draw how many sources each tolerance needs: greedy, best found, lower bound.

    Args:
        study: what is known, or a performance table.
        question: criterion and judge; its tolerance does not matter.
        points: the profile, where it is known already; one without a cover is left out.
        time_limit: processor seconds for all tolerances together.
    """
    if points is None:
        points = complexity_profile(as_study(study), question, time_limit=time_limit)
    covered = [point for point in points if point.upper is not None]
    epsilon = np.array([point.epsilon for point in covered])
    minimum = METHOD_COLOURS["minimum"]
    bound = f"lower bound, proven {points.scope}".rstrip()
    sizes = [n for p in covered for n in (p.greedy, p.upper) if n is not None]
    with panel(5.4, 4.2) as (figure, axes):
        # A cover at ε is one at every larger ε, so sizes hold to the right; a
        # lower bound at ε is one at every smaller ε, so bounds hold to the left.
        for name, label, shade, line, width in (
            ("greedy", "greedy", METHOD_COLOURS["greedy"], "-", 3.5),
            ("upper", "best found", minimum, "-", 1.5),
            ("lower", bound, "black", ":", 1.5),
        ):
            axes.step(
                epsilon,
                [getattr(point, name) for point in covered],
                where="pre" if name == "lower" else "post",
                color=shade,
                linestyle=line,
                linewidth=width,
                marker="o",
                markersize=3,
                label=label,
            )
        axes.fill_between(
            epsilon,
            [point.lower or 0 for point in [*covered[1:], *covered[-1:]]],
            [point.upper or 0 for point in covered],
            step="post",
            color=minimum,
            alpha=0.2,
            lw=0,
        )
        scale_tolerances(axes, epsilon)
        if max(sizes, default=0) < 10:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            axes.set_yscale("log")
            few_ticks(axes.yaxis, min(sizes), max(sizes))
        title = f"{question.criterion}, {question.judge} policy of each source"
        axes.set(xlabel="tolerance ε", ylabel="sources", title=title)
        legend_below(figure)
    return figure


def scale_tolerances(axes: Axes, epsilon: Array) -> None:
    """Make the axis of tolerances logarithmic above the smallest positive one.

    Args:
        axes: where tolerances are on the x-axis.
        epsilon: the tolerances.
    """
    positive = epsilon[epsilon > 0]
    if len(positive) and len(positive) == len(epsilon):
        axes.set_xscale("log")
        few_ticks(axes.xaxis, positive.min(), positive.max())
    elif len(positive) and epsilon.min() == 0:
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.4)
        axes.set_xlim(0, None)
        decades = np.floor(np.log10(positive.max() / positive.min())) + 1
        every = 10.0 ** (np.arange(-decades, 1) + np.floor(np.log10(positive.max())))
        axes.set_xticks([0, *every[every > 1.5 * positive.min()]])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
