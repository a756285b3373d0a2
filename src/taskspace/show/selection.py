"""What a selection saved: coverage against trainings, beside the oracle's greedy."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace._files import write_atomically
from taskspace.cover import coverage_curve
from taskspace.select import SelectResult
from taskspace.show.style import METHOD_COLOURS, PALETTE, STYLE, new_figure, save

__all__ = ["SelectionPlot", "draw_selection", "save_selection", "selection_plot"]


@dataclass(frozen=True)
class SelectionPlot:
    """Coverage against what was spent.

    Args:
        title: the question.
        selector: who chose.
        trainings: trainings, after each step.
        environment_steps: simulated steps, likewise.
        evaluations: pairs of a policy and a target, likewise.
        coverage: share of the targets covered, likewise.
        oracle: coverage of the oracle's greedy after 1, 2, … sources; empty where the
            table of all candidates is not known.
        lower_bound: no selector needs fewer trainings; None where not known.
    """

    title: str
    selector: str
    trainings: tuple[int, ...]
    environment_steps: tuple[int, ...]
    evaluations: tuple[int, ...]
    coverage: tuple[float, ...]
    oracle: tuple[float, ...] = ()
    lower_bound: int | None = None


def selection_plot(
    result: SelectResult, full_table: xr.Dataset | None = None
) -> SelectionPlot:
    """The record of a selection.

    Args:
        result: what was found.
        full_table: the table of all candidates, where it is known.
    """
    oracle: tuple[float, ...] = ()
    if full_table is not None:
        curve = coverage_curve(result.question.sets(full_table), method="greedy")
        oracle = tuple(curve.coverage.tolist())
    columns = {
        name: tuple(entry[name] for entry in result.history)
        for name in ("trainings", "environment_steps", "evaluations", "coverage")
    }
    return SelectionPlot(
        title=result.question.label,
        selector=result.selector,
        oracle=oracle,
        lower_bound=None if full_table is None else result.lower_bound_trainings,
        **columns,
    )


def draw_selection(plot: SelectionPlot) -> Figure:
    """Draw coverage against trainings.

    Args:
        plot: the record.
    """
    figure = new_figure(5.4, 4.0)
    with mpl.rc_context(STYLE):
        axes = figure.subplots()
        axes.step(
            plot.trainings,
            plot.coverage,
            where="post",
            color=PALETTE[3],
            marker="o",
            markersize=3,
            label=f"{plot.selector}: {max(plot.trainings, default=0)} trainings",
        )
        if plot.oracle:
            axes.step(
                range(1, len(plot.oracle) + 1),
                plot.oracle,
                where="post",
                color=METHOD_COLOURS["greedy"],
                label=f"oracle's greedy: {len(plot.oracle)} of all sources trained",
            )
        if plot.lower_bound is not None:
            axes.axvline(
                plot.lower_bound,
                color="black",
                linestyle=":",
                label=f"no selector needs fewer than {plot.lower_bound}",
            )
        axes.set(
            title=plot.title,
            xlabel="trainings",
            ylabel="targets covered",
            ylim=(0, 1.02),
        )
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend(loc="lower right")
    return figure


def save_selection(plot: SelectionPlot, folder: Path) -> list[Path]:
    """Write the picture and the numbers behind it.

    Args:
        plot: the record.
        folder: where to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "selection.json", json.dumps(asdict(plot), indent=1))
    return save(draw_selection(plot), folder / "selection")
