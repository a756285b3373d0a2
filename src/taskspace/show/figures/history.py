"""A selection: coverage against what was spent."""

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from taskspace.selection import SelectResult
from taskspace.show.style import PALETTE, legend_below, literal, panels

COSTS = {
    "trainings": "trainings",
    "environment_steps": "environment steps",
    "evaluations": "evaluations of a policy at a target",
}


def history(selection: SelectResult) -> Figure:
    """Draw coverage against trainings, environment steps and evaluations.

    Args:
        selection: what `taskspace.select` returned. The least number of trainings of
            any selector is drawn where the result knows it.
    """
    entries, fewest = selection.history, selection.fewest
    costs = [c for c in COSTS if any(entry[c] for entry in entries)] or ["trainings"]
    covered = [entry["coverage"] for entry in entries]
    width = 4.6 * len(costs) + 0.8
    with panels(width, 4.0, 1, len(costs), sharey=True) as (figure, (row,)):
        for axes, cost in zip(row, costs, strict=True):
            axes.step(
                [entry[cost] for entry in entries],
                covered,
                where="post",
                color=PALETTE[3],
                linewidth=2.0,
                marker="o",
                markersize=3,
                label=f"{literal(selection.selector)}: {selection.trainings} trainings",
            )
            axes.set(xlabel=COSTS[cost])
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if fewest is not None and fewest.lower_bound > 1:
            label = f"no selector needs fewer than {fewest.lower_bound}{fewest.of}"
            row[0].axvline(fewest.lower_bound, color="black", ls=":", label=label)
        row[0].set(ylabel="targets covered", ylim=(0, 1.03))
        row[0].yaxis.set_major_formatter(PercentFormatter(1.0))
        legend_below(figure)
        figure.suptitle(literal(selection.question.label))
    return figure
