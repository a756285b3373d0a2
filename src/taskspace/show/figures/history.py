"""What a selection saved: coverage against what was really spent, beside others.

`selection_plot` makes the record of a result, `stored_selection` that of a directory,
also of one in progress; figure and page draw the same record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace.errors import InvalidInputError
from taskspace.performance.store.base import Store
from taskspace.questions import Question
from taskspace.runs.opening import is_run
from taskspace.runs.results import Results
from taskspace.runs.store import RunStore
from taskspace.selection import SelectResult
from taskspace.selection.log import Proposal
from taskspace.selection.result import Saved
from taskspace.show.style import METHOD_COLOURS, PALETTE, panels, save

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
class SelectedSource:
    """One source of a selection, in the order of its proposal.

    Args:
        context: values on the axes of the sources.
        kind: `"trained"`, or how else its policies were made (`"interpolated"`).
        place: its number in the table of the run, −1 if it has no row there.
        state: `"done"`, `"failed"` or `"under way"`.
        reason: why it failed.
        made_from: numbers of the sources it was made from, if it was not trained.
        region: the targets it was trained for, as pairs `[first, stop)`; empty where it
            was trained at `context` alone.
    """

    context: tuple[float, ...]
    kind: str
    place: int
    state: str
    reason: str = ""
    made_from: tuple[int, ...] = ()
    region: tuple[tuple[int, int], ...] = ()


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
        question: criterion, judge and tolerance.
        sources: what was trained or made, in order; empty where not known.
    """

    title: str
    selector: str
    own: Spending
    rivals: tuple[Spending, ...] = ()
    greedy: tuple[float, ...] = ()
    minimum: tuple[int, int] | None = None
    oracle: dict[str, int] | None = None
    lower_bound: int | None = None
    question: dict[str, Any] = field(default_factory=dict)
    sources: tuple[SelectedSource, ...] = ()


def selection_plot(result: SelectResult) -> SelectionPlot:
    """Return the record of a selection.

    Args:
        result: what was found.
    """
    plot = SelectionPlot(
        result.question.label,
        result.selector,
        _spending(result.selector, result.history),
        question=result.question.to_dict(),
    )
    return _beside(plot, result.saved)


def _beside(plot: SelectionPlot, saved: Saved | None) -> SelectionPlot:
    """Add what the table of all candidates allows, where that is known."""
    if saved is None:
        return plot
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
    return replace(
        plot,
        rivals=rivals,
        greedy=saved.greedy,
        minimum=saved.minimum,
        oracle={
            "trainings": saved.n_candidates,
            "environment_steps": saved.environment_steps or 0,
            "evaluations": saved.evaluations,
        },
        lower_bound=saved.lower_bound if saved.lower_bound > 1 else None,
    )


def stored_selection(path: str | Path) -> SelectionPlot:
    """Return the record of a selection's directory, finished or not.

    What it was compared with (`taskspace select --full-table`) is among its results.

    Args:
        path: what `taskspace select` writes into.
    """
    path = Path(path)
    run = RunStore.open(path) if is_run(path) else None
    if run is None or run.log is None:
        raise InvalidInputError(
            f"A history needs the directory of a selection, but {path} is none. Make "
            "one with: taskspace select FILE.toml"
        )
    asked = run.trainings.header.data
    question = Question.from_dict(asked["question"])
    selector = asked["select"].get("selector", "")
    results = path / "results.json"
    saved = Results.load(results).saved if results.is_file() else None
    plot = SelectionPlot(
        question.label,
        selector,
        _spending(selector, [step.entry for step in run.log.steps]),
        question=question.to_dict(),
        sources=_sources(run.log.proposals, run.trainings),
    )
    return _beside(plot, saved)


def _spending(name: str, entries: Iterable[Mapping[str, Any]]) -> Spending:
    columns = {c: tuple(entry[c] for entry in entries) for c in (*COSTS, "coverage")}
    return Spending(name, **columns)


def _sources(proposals: Sequence[Proposal], store: Store) -> tuple[SelectedSource, ...]:
    """Return the sources that were proposed, and what came of each."""
    selected, place = [], 0
    for line, key, is_done in zip(
        proposals, store.sources, store.evaluated, strict=False
    ):
        reason = store.failures.get(key, "")
        state = "done" if is_done else "failed" if reason else "under way"
        selected.append(
            SelectedSource(
                line.context,
                line.kind,
                place if is_done else -1,
                state,
                reason,
                line.made_from,
                line.region,
            )
        )
        place += int(is_done)
    return tuple(selected)


def history(selection: SelectResult | str | Path) -> Figure:
    """Return coverage against trainings, environment steps and evaluations.

    Args:
        selection: what `taskspace.select` returned, or a selection's directory. Other
            selectors and the oracle are beside it where it was told the table of all
            candidates.
    """
    if isinstance(selection, SelectResult):
        return draw_selection(selection_plot(selection))
    return draw_selection(stored_selection(selection))


def draw_selection(plot: SelectionPlot) -> Figure:
    """Draw coverage against trainings, environment steps and evaluations.

    Args:
        plot: the record.
    """
    everyone = (plot.own, *plot.rivals)
    costs = [c for c in COSTS if any(any(getattr(each, c)) for each in everyone)]
    costs = costs or ["trainings"]
    width = 4.6 * len(costs) + 0.8
    with panels(width, 4.0, 1, len(costs), sharey=True) as (figure, ((first, *rest),)):
        for axes, cost in zip((first, *rest), costs, strict=True):
            _panel(axes, plot, cost)
        first.set(ylabel="targets covered", ylim=(0, 1.03))
        first.yaxis.set_major_formatter(PercentFormatter(1.0))
        first.legend(loc="lower right", fontsize=8)
        figure.suptitle(plot.title)
    return figure


def _panel(axes: Axes, plot: SelectionPlot, cost: str) -> None:
    for each in (*plot.rivals, plot.own):
        is_own = each is plot.own
        axes.step(
            getattr(each, cost),
            each.coverage,
            where="post",
            color=PALETTE[3] if is_own else COLOURS.get(each.name, PALETTE[7]),
            linewidth=2.0 if is_own else 1.2,
            marker="o" if is_own else None,
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
    return save(draw_selection(plot), folder / "selection", plot)
