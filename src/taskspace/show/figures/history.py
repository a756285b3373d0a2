"""Selections: coverage against what was spent; policies kept against steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from taskspace.cover.methods import find_cover
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs.folder import RunFolder
from taskspace.runs.opening import is_run, is_selection
from taskspace.selection import SelectResult
from taskspace.show.style import PALETTE, legend_below, literal, panel, panels

COSTS = {
    "trainings": "trainings",
    "environment_steps": "environment steps",
    "evaluations": "evaluations of a policy at a target",
}


def history(selection: SelectResult | str | Path) -> Figure:
    """Return coverage against trainings, environment steps and evaluations.

    Args:
        selection: what `taskspace.select` returned, or a selection's directory. How
            few trainings any selector needs is beside it where the result knows it.
    """
    if isinstance(selection, SelectResult):
        title, name = selection.question.label, selection.selector
        entries, fewest = selection.history, selection.fewest
    else:
        record = selection_record(selection)
        title, name = record["title"], record["selector"]
        entries, fewest = record["history"], None
    costs = [c for c in COSTS if any(entry[c] for entry in entries)] or ["trainings"]
    spent = {c: [entry[c] for entry in entries] for c in (*costs, "coverage")}
    n_trainings = entries[-1]["trainings"] if entries else 0
    width = 4.6 * len(costs) + 0.8
    with panels(width, 4.0, 1, len(costs), sharey=True) as (figure, (row,)):
        for axes, cost in zip(row, costs, strict=True):
            axes.step(
                spent[cost],
                spent["coverage"],
                where="post",
                color=PALETTE[3],
                linewidth=2.0,
                marker="o",
                markersize=3,
                label=f"{literal(name)}: {n_trainings} trainings",
            )
            axes.set(xlabel=COSTS[cost])
        first = row[0]
        if fewest is not None and fewest.lower_bound > 1:
            first.axvline(
                fewest.lower_bound,
                color="black",
                linestyle=":",
                label=f"no selector needs fewer than {fewest.lower_bound}{fewest.of}",
            )
        first.set(ylabel="targets covered", ylim=(0, 1.03))
        first.yaxis.set_major_formatter(PercentFormatter(1.0))
        legend_below(figure)
        figure.suptitle(literal(title))
    return figure


def selection_record(path: str | Path) -> dict[str, Any]:
    """Return what a page says of a selection's directory, finished or not.

    Args:
        path: what `taskspace select` writes into.

    Returns:
        `title` and `question`, `selector`, `history` (an entry after each step), and
        `sources` in the order of their proposal: `context`, `kind`, `place` in the
        table (−1 if it has no row there), `state` (`"done"`, `"failed"` or `"under
        way"`), `reason`, and `region`, the targets it was trained for, as pairs
        `[first, stop)`, empty where it was trained at `context` alone.
    """
    path = Path(path)
    run = RunFolder.open(path) if is_run(path) else None
    if run is None or run.log is None:
        raise InvalidInputError(
            f"A history needs the directory of a selection, but {path} is none. Make "
            "one with: taskspace select FILE.toml"
        )
    asked, found = run.info.data, run.trainings
    question = Question.from_dict(asked["question"])
    sources: list[dict[str, Any]] = []
    place = 0
    for number, (line, is_done) in enumerate(
        zip(run.log.proposals, found.evaluated, strict=True)
    ):
        reason = found.failures.get(number, "")
        sources.append(
            {
                "context": line.context,
                "kind": line.kind,
                "place": place if is_done else -1,
                "state": "done" if is_done else "failed" if reason else "under way",
                "reason": reason,
                "region": line.region,
            }
        )
        place += int(is_done)
    return {
        "title": question.label,
        "selector": asked["select"].get("selector", ""),
        "history": [step.entry for step in run.log.steps],
        "question": question.to_dict(),
        "sources": sources,
    }


class PricePoint(NamedTuple):
    """What one selection spent and kept.

    Args:
        name: the selector, with its price per policy if it has one.
        environment_steps: simulated steps of all trainings.
        policies: sources of the smallest cover of what it trained.
        covers_all: whether they serve all targets.
    """

    name: str
    environment_steps: int
    policies: int
    covers_all: bool


def price(selections: Sequence[SelectResult] | str | Path) -> Figure:
    """Return policies kept against environment steps, one mark per selection.

    Those that no other one beats in both are joined; selections that left targets
    uncovered are hollow, and beat nothing.

    Args:
        selections: results of `taskspace.select`, or a folder with directories of
            selections, e.g. of several values of `select.price`.
    """
    if isinstance(selections, str | Path):
        folders = [p for p in sorted(Path(selections).glob("*")) if is_selection(p)]
        points = [_stored_point(folder) for folder in folders]
    else:
        points = [
            PricePoint(
                result.selector,
                result.environment_steps,
                result.cover.size,
                result.coverage == 1.0,
            )
            for result in selections
        ]
    if not points:
        raise InvalidInputError(
            f"A price figure needs selections, but {selections} has none. Make some "
            "with: taskspace select FILE.toml --set select.price=100000 --out FOLDER/1"
        )
    front = unbeaten(points)
    with panel(6.0, 4.0) as (figure, axes):
        axes.step(
            [point.environment_steps for point in front],
            [point.policies for point in front],
            where="post",
            color="grey",
            linewidth=1.2,
            label="not beaten",
        )
        for number, name in enumerate(dict.fromkeys(point.name for point in points)):
            own = [point for point in points if point.name == name]
            shade = PALETTE[number % len(PALETTE)]
            axes.scatter(
                [point.environment_steps for point in own],
                [point.policies for point in own],
                facecolors=[shade if p.covers_all else "none" for p in own],
                edgecolors=shade,
                zorder=3,
                label=literal(name),
            )
        axes.set(xlabel="environment steps", ylabel="policies kept", ylim=(0, None))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        legend_below(figure)
    return figure


def _stored_point(folder: Path) -> PricePoint:
    """Return what the selection in a directory spent and kept."""
    run = RunFolder.open(folder)
    assert run.log is not None
    asked = run.info.data
    question, select = Question.from_dict(asked["question"]), asked["select"]
    cover = find_cover(question.sets(run.table()), method="minimum", time_limit=10.0)
    name = select["selector"]
    if select.get("price"):
        name = f"{name}, {select['price']:,.0f} steps per policy"
    last = run.log.steps[-1]
    return PricePoint(name, last.environment_steps, cover.size, last.coverage == 1.0)


def unbeaten(points: Sequence[PricePoint]) -> list[PricePoint]:
    """Return the points that no other one beats in steps and policies, by steps.

    Args:
        points: what selections spent and kept; those that left targets out are none.
    """
    best: list[PricePoint] = []
    whole = [point for point in points if point.covers_all]
    for point in sorted(whole, key=lambda p: (p.environment_steps, p.policies)):
        if not best or point.policies < best[-1].policies:
            best.append(point)
    return best
