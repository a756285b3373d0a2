"""Complexity against the tolerance: the record, and the picture."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from taskspace.cover import ProfilePoint, complexity_profile
from taskspace.cover.profile import Profile
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.style import METHOD_COLOURS, panel


def profile(
    study: Study | xr.Dataset,
    question: Question,
    *,
    time_limit: float = 20.0,
    seed: int = 0,
) -> Figure:
    """Draw how many sources each tolerance needs.

    Args:
        study: what is known, or a performance table.
        question: criterion and judge; its tolerance does not matter.
        time_limit: processor seconds for all tolerances together.
        seed: of the searches.
    """
    points = complexity_profile(
        as_study(study), question, time_limit=time_limit, seed=seed
    )
    return draw_profile(points, question)


def draw_profile(points: Sequence[ProfilePoint], question: Question) -> Figure:
    """Draw lower bound, best cover and greedy as steps over ε.

    Args:
        points: the profile, ascending in ε; points without a cover are left out.
        question: what the losses are; its tolerance does not matter.
    """
    covered = [point for point in points if point.upper is not None]
    epsilon = np.array([point.epsilon for point in covered])
    with panel(5.4, 4.0) as (figure, axes):
        for name, label, colour in (
            ("greedy", "greedy", METHOD_COLOURS["greedy"]),
            ("upper", "best found", METHOD_COLOURS["minimum"]),
            ("lower", f"lower bound, proven{_where(points)}", "black"),
        ):
            # A cover at ε is one at every larger ε, so sizes hold to the right; a
            # lower bound at ε is one at every smaller ε, so bounds hold to the left.
            axes.step(
                epsilon,
                [getattr(point, name) for point in covered],
                where="pre" if name == "lower" else "post",
                color=colour,
                linestyle=":" if name == "lower" else "-",
                marker="o",
                markersize=3,
                label=label,
            )
        axes.fill_between(
            epsilon,
            [point.lower or 0 for point in [*covered[1:], *covered[-1:]]],
            [point.upper or 0 for point in covered],
            step="post",
            color=METHOD_COLOURS["minimum"],
            alpha=0.2,
            lw=0,
        )
        _scale_tolerances(axes, epsilon)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        if covered and max(point.greedy or 0 for point in covered) < 10:
            axes.set_yscale("linear")
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        title = f"{question.criterion}, {question.judge} policy of each source"
        axes.set(xlabel="tolerance ε", ylabel="sources", title=title)
        axes.legend()
    return figure


def _scale_tolerances(axes: Axes, epsilon: NDArray[np.float64]) -> None:
    """Make the axis logarithmic above the smallest positive tolerance."""
    positive = epsilon[epsilon > 0]
    if len(positive) and len(positive) == len(epsilon):
        axes.set_xscale("log")
    elif len(positive) and epsilon.min() == 0:
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.4)
        axes.set_xlim(0, None)
        decades = np.floor(np.log10(positive.max() / positive.min())) + 1
        every = 10.0 ** (np.arange(-decades, 1) + np.floor(np.log10(positive.max())))
        axes.set_xticks([0, *every[every > 1.5 * positive.min()]])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _where(points: Sequence[ProfilePoint]) -> str:
    """Return what must be said beside "proven"; nothing of unknown origin."""
    scope = points.scope if isinstance(points, Profile) else ""
    return f" {scope}" if scope else ""
