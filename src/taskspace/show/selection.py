"""What a selection trained and saved: coverage against what was spent.

`selection_plot` makes the record of a result, `stored_selection` that of a directory,
also of one in progress; figure and page draw the same record.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from taskspace._files import read_sealed, write_atomically
from taskspace.cover import coverage_curve
from taskspace.errors import InvalidInputError
from taskspace.performance.table import source_space
from taskspace.questions import Question
from taskspace.select import SelectResult
from taskspace.show.style import METHOD_COLOURS, PALETTE, STYLE, new_figure, save

__all__ = [
    "SelectionPlot",
    "draw_selection",
    "history",
    "save_selection",
    "selection_plot",
    "stored_selection",
]

SPENT = {
    "trainings": "trainings",
    "environment_steps": "environment steps",
    "evaluations": "evaluations of a policy at a target",
}
"""What coverage is drawn against."""


@dataclass(frozen=True)
class OtherSelector:
    """Coverage of somebody else who chooses from the same candidates.

    Args:
        name: who chooses.
        trainings: trainings, ascending.
        coverage: share of the targets covered, the mean over repeats.
        low: 5 % quantile over repeats.
        high: 95 % quantile.
    """

    name: str
    trainings: tuple[int, ...]
    coverage: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class SelectedSource:
    """One source of a selection, in the order of its proposal.

    Args:
        context: values on the axes of the sources.
        kind: `"trained"`, or how else its policies were made (`"interpolated"`).
        place: its number in the table of the run, −1 if it has no row there.
        state: `"done"`, `"failed"` or `"under way"`.
        reason: why it failed.
        made_from: numbers of the sources it was made from, if it was not trained.
    """

    context: tuple[float, ...]
    kind: str
    place: int
    state: str
    reason: str = ""
    made_from: tuple[int, ...] = ()


@dataclass(frozen=True)
class SelectionPlot:
    """Coverage against what was spent.

    Args:
        title: the question in a few words.
        question: criterion, judge and tolerance.
        selector: who chose.
        trainings: trainings, after each step.
        environment_steps: simulated steps, likewise.
        evaluations: pairs of a policy and a target, likewise.
        coverage: share of the targets covered, likewise.
        oracle: coverage of the oracle's greedy after 1, 2, … sources; empty where the
            table of all candidates is not known.
        lower_bound: no selector needs fewer trainings; None where not known.
        others: other selectors on that table.
        sources: what was trained or made, in order; empty where not known.
    """

    title: str
    question: dict[str, Any]
    selector: str
    trainings: tuple[int, ...]
    environment_steps: tuple[int, ...]
    evaluations: tuple[int, ...]
    coverage: tuple[float, ...]
    oracle: tuple[float, ...] = ()
    lower_bound: int | None = None
    others: tuple[OtherSelector, ...] = ()
    sources: tuple[SelectedSource, ...] = ()


def selection_plot(
    result: SelectResult, full_table: xr.Dataset | None = None
) -> SelectionPlot:
    """The record of a selection.

    Args:
        result: what was found.
        full_table: the table of all candidates, where it is known.
    """
    plot = SelectionPlot(
        title=result.question.label,
        question=result.question.to_dict(),
        selector=result.selector,
        lower_bound=None if full_table is None else result.lower_bound_trainings,
        **_columns(result.history),
    )
    return _beside_others(plot, result.question, full_table)


def stored_selection(
    path: str | Path, full_table: xr.Dataset | None = None
) -> SelectionPlot:
    """The record of a selection's directory, finished or not.

    What was compared with when it ran (the oracle, other selectors) is kept beside
    its figure and is part of the record.

    Args:
        path: what `taskspace select` writes into.
        full_table: the table of all candidates, to compare with now.
    """
    path = Path(path)
    if not (path / "selection.json").is_file():
        raise InvalidInputError(
            f"A history needs the directory of a selection, but {path} is none. Make "
            "one with: taskspace select FILE.toml"
        )
    record = read_sealed(path / "selection.json")
    asked = record["asked"]
    question = Question.from_dict(asked["question"])
    plot = SelectionPlot(
        title=question.label,
        question=question.to_dict(),
        selector=asked["select"].get("selector", ""),
        sources=tuple(_source(entry) for entry in record["sources"]),
        **_columns(record["history"]),
    )
    if full_table is not None:
        return _beside_others(plot, question, full_table)
    return _as_drawn(plot, path / "figures" / "selection.json")


def _columns(history: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = (*SPENT, "coverage")
    return {name: tuple(entry[name] for entry in history) for name in names}


def _source(entry: Mapping[str, Any]) -> SelectedSource:
    state = "failed" if "failure" in entry else "done"
    if state == "done" and "place" not in entry:
        state = "under way"
    return SelectedSource(
        tuple(entry["context"]),
        entry["kind"],
        entry.get("place", -1),
        state,
        str(entry.get("failure", "")),
        tuple(entry.get("made_from", ())),
    )


def _as_drawn(plot: SelectionPlot, file: Path) -> SelectionPlot:
    """With the comparison of the figure, if that shows the same history."""
    try:
        drawn = json.loads(file.read_text(encoding="utf-8"))
        if tuple(drawn["coverage"]) != plot.coverage:
            return plot
        return replace(
            plot,
            oracle=tuple(drawn["oracle"]),
            lower_bound=drawn["lower_bound"],
            others=tuple(OtherSelector(**one) for one in drawn.get("others", ())),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return plot


def _beside_others(
    plot: SelectionPlot, question: Question, full_table: xr.Dataset | None
) -> SelectionPlot:
    """With the oracle's greedy, random and uniform choices on the full table."""
    if full_table is None:
        return plot
    sets = question.sets(full_table)
    shape = getattr(source_space(full_table), "shape", None)
    others = []
    for name in ("uniform", "random") if shape else ("random",):
        if name == plot.selector:
            continue
        curve = coverage_curve(sets, method=name, shape=shape)
        others.append(
            OtherSelector(
                name,
                tuple(curve.n_sources.tolist()),
                tuple(curve.coverage.tolist()),
                tuple(curve.low.tolist()),
                tuple(curve.high.tolist()),
            )
        )
    oracle = coverage_curve(sets, method="greedy").coverage
    return replace(plot, oracle=tuple(oracle.tolist()), others=tuple(others))


def history(
    selection: SelectResult | str | Path, *, full_table: xr.Dataset | None = None
) -> Figure:
    """Coverage against trainings, environment steps and evaluations.

    Args:
        selection: what `taskspace.select` returned, or a selection's directory.
        full_table: the table of all candidates, for the oracle and other selectors.
    """
    if isinstance(selection, SelectResult):
        return draw_selection(selection_plot(selection, full_table))
    return draw_selection(stored_selection(selection, full_table))


def draw_selection(plot: SelectionPlot) -> Figure:
    """Draw coverage against trainings, and against what else was spent.

    Args:
        plot: the record.
    """
    spent = [name for name in SPENT if name == "trainings" or any(getattr(plot, name))]
    figure = new_figure(1.4 + 4.0 * len(spent), 4.0)
    with mpl.rc_context(STYLE):
        panels = figure.subplots(1, len(spent), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, spent, strict=True):
            axes.step(
                getattr(plot, name),
                plot.coverage,
                where="post",
                color=PALETTE[3],
                marker="o",
                markersize=3,
                label=f"{plot.selector}: {max(plot.trainings, default=0)} trainings",
                zorder=3,
            )
            axes.set(xlabel=SPENT[name], ylim=(0, 1.02))
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        _draw_others(panels[0], plot)
        panels[0].set_ylabel("targets covered")
        figure.suptitle(plot.title, fontsize=11)
        panels[0].legend(loc="lower right", fontsize=8)
    return figure


def _draw_others(axes: Axes, plot: SelectionPlot) -> None:
    if plot.oracle:
        axes.step(
            range(1, len(plot.oracle) + 1),
            plot.oracle,
            where="post",
            color=METHOD_COLOURS["greedy"],
            label=f"oracle's greedy: {len(plot.oracle)}, all candidates trained",
        )
    last = max([*plot.trainings, len(plot.oracle), 1])
    for other in plot.others:
        colour = METHOD_COLOURS.get(other.name, "black")
        axes.plot(other.trainings, other.coverage, color=colour, label=other.name)
        if other.low != other.high:
            axes.fill_between(
                other.trainings, other.low, other.high, color=colour, alpha=0.2, lw=0
            )
    if plot.others:
        axes.set_xlim(0, 1.5 * last)
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
