"""What a selection saved: coverage against what was really spent, beside others."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace._files import write_atomically
from taskspace.select import SelectResult
from taskspace.show.style import METHOD_COLOURS, PALETTE, STYLE, new_figure, save

__all__ = [
    "SelectionPlot",
    "Spending",
    "draw_selection",
    "save_selection",
    "selection_plot",
]

COSTS = {
    "trainings": "trainings",
    "environment_steps": "environment steps",
    "evaluations": "evaluations of a policy at a target",
}
COLOURS = {
    "uniform": METHOD_COLOURS["uniform"],
    "random": METHOD_COLOURS["random"],
    "mbtl": PALETTE[5],
}


@dataclass(frozen=True)
class Spending:
    """Coverage against what one way to choose spent.

    Args:
        name: who chose.
        trainings: trainings, after each step.
        environment_steps: simulated steps, likewise.
        evaluations: pairs of a policy and a target, likewise.
        coverage: share of the targets covered, likewise.
    """

    name: str
    trainings: tuple[int, ...]
    environment_steps: tuple[int, ...]
    evaluations: tuple[int, ...]
    coverage: tuple[float, ...]

    @property
    def label(self) -> str:
        """Who chose, and after how many trainings everything was covered."""
        done = [
            n for n, c in zip(self.trainings, self.coverage, strict=True) if c == 1.0
        ]
        if done:
            return f"{self.name}: {done[0]} trainings"
        return f"{self.name}: more than {max(self.trainings, default=0)}"


@dataclass(frozen=True)
class SelectionPlot:
    """A selection beside what the table of all candidates allows.

    Args:
        title: the question.
        selector: who chose.
        own: what the selection spent.
        rivals: what others would have spent; empty where the table of all candidates
            is not known.
        greedy: coverage of the oracle's greedy after 1, 2, … sources.
        minimum: proven lower bound and size of the smallest cover of the whole table.
        oracle: what the whole table took, by the names of `COSTS`.
        lower_bound: no selector that serves with trained policies needs fewer; None
            where not known.
    """

    title: str
    selector: str
    own: Spending
    rivals: tuple[Spending, ...] = ()
    greedy: tuple[float, ...] = ()
    minimum: tuple[int, int] | None = None
    oracle: dict[str, int] | None = None
    lower_bound: int | None = None


def selection_plot(result: SelectResult) -> SelectionPlot:
    """The record of a selection.

    Args:
        result: what was found.
    """
    columns = {
        name: tuple(entry[name] for entry in result.history)
        for name in (*COSTS, "coverage")
    }
    own = Spending(result.selector, **columns)
    title, saved = result.question.label, result.saved
    if saved is None:
        return SelectionPlot(title, result.selector, own)
    rivals = tuple(
        Spending(
            rival.name,
            tuple(range(1, len(rival.coverage) + 1)),
            rival.environment_steps,
            rival.evaluations,
            rival.coverage,
        )
        for rival in saved.rivals
    )
    return SelectionPlot(
        title,
        result.selector,
        own,
        rivals,
        saved.greedy,
        saved.minimum,
        {
            "trainings": saved.n_candidates,
            "environment_steps": saved.environment_steps or 0,
            "evaluations": saved.evaluations,
        },
        saved.lower_bound if saved.lower_bound > 1 else None,
    )


def draw_selection(plot: SelectionPlot) -> Figure:
    """Draw coverage against trainings, environment steps and evaluations.

    Args:
        plot: the record.
    """
    everyone = (plot.own, *plot.rivals)
    costs = [c for c in COSTS if any(any(getattr(each, c)) for each in everyone)]
    costs = costs or ["trainings"]
    figure = new_figure(4.6 * len(costs) + 0.8, 4.0)
    with mpl.rc_context(STYLE):
        panels = figure.subplots(1, len(costs), sharey=True, squeeze=False)[0]
        for axes, cost in zip(panels, costs, strict=True):
            _panel(axes, plot, cost)
        panels[0].set(ylabel="targets covered", ylim=(0, 1.03))
        panels[0].yaxis.set_major_formatter(PercentFormatter(1.0))
        panels[0].legend(loc="lower right", fontsize=8)
        figure.suptitle(plot.title)
    return figure


def _panel(axes: Axes, plot: SelectionPlot, cost: str) -> None:
    for each in (*plot.rivals, plot.own):
        mine = each is plot.own
        axes.step(
            getattr(each, cost),
            each.coverage,
            where="post",
            color=PALETTE[3] if mine else COLOURS.get(each.name, PALETTE[7]),
            linewidth=2.0 if mine else 1.2,
            marker="o" if mine else None,
            markersize=3,
            label=each.label,
        )
    axes.set(xlabel=COSTS[cost])
    if cost == "trainings":
        _oracle(axes, plot)
    elif plot.oracle:
        # Three decades lie between a selection and a whole table.
        axes.set_xscale("log")
        axes.plot(
            [plot.oracle[cost]],
            [1.0],
            marker="*",
            markersize=10,
            linestyle="none",
            color=METHOD_COLOURS["greedy"],
        )
        axes.annotate(
            "the whole table",
            (plot.oracle[cost], 1.0),
            xytext=(-4, -14),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )


def _oracle(axes: Axes, plot: SelectionPlot) -> None:
    if plot.greedy and plot.oracle:
        axes.step(
            range(1, len(plot.greedy) + 1),
            plot.greedy,
            where="post",
            linestyle="--",
            color=METHOD_COLOURS["greedy"],
            label=f"oracle's greedy: {len(plot.greedy)} of "
            f"{plot.oracle['trainings']:,} trained",
        )
    if plot.minimum:
        low, high = plot.minimum
        size = f"{high}" if low == high else f"{low} to {high}"
        axes.plot(
            [high],
            [plot.greedy[-1] if plot.greedy else 1.0],
            marker="D",
            linestyle="none",
            color=METHOD_COLOURS["minimum"],
            label=f"oracle's minimum: {size}",
        )
    if plot.lower_bound is not None:
        axes.axvline(
            plot.lower_bound,
            color="black",
            linestyle=":",
            label=f"no selector needs fewer than {plot.lower_bound}",
        )


def save_selection(plot: SelectionPlot, folder: Path) -> list[Path]:
    """Write the picture and the numbers behind it.

    Args:
        plot: the record.
        folder: where to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "selection.json", json.dumps(asdict(plot), indent=1))
    return save(draw_selection(plot), folder / "selection")
