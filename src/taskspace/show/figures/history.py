"""What a selection trained: coverage against trainings, steps and evaluations."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs.folder import RunFolder
from taskspace.runs.opening import is_run
from taskspace.selection import SelectResult
from taskspace.show.style import PALETTE, literal, panels

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
        first.legend(loc="lower right", fontsize=8)
        figure.suptitle(title)
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
