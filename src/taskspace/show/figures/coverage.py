"""Coverage against the number of policies, and everything that a run has to show."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace._util.files import checksum, clean_leftovers, read_sealed, write_sealed
from taskspace.cover import coverage_curve, greedy_cover
from taskspace.errors import DamagedFileError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results
from taskspace.show.figures.map import map as draw_map
from taskspace.show.style import (
    METHOD_COLOURS,
    few_ticks,
    legend_below,
    literal,
    panels,
    save,
    title_of,
)
from taskspace.systems.base import PROVENANCE_WORDS


def coverage(
    study: Study | xr.Dataset,
    question: Question,
    *,
    methods: Sequence[str] = ("greedy", "random"),
    n_repeats: int = 100,
    seed: int = 0,
) -> Figure:
    """Draw coverage against the sources kept and the policies trained.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        methods: of `greedy`, `uniform` (for sources on a grid) and `random`.
        n_repeats: random selections.
        seed: of the random selections.
    """
    study = as_study(study)
    sets = question.sets(study)
    curves = [
        coverage_curve(
            sets,
            method=cast("Any", method),
            n_repeats=n_repeats,
            seed=seed,
            shape=study.shape,
        )
        for method in methods
    ]
    with panels(4.6, 6.4, 2, 1, sharey=True) as (figure, axes):
        provenance = question.provenance_of(study)
        bound = greedy_cover(sets).lower_bound
        n = study.n_policies
        _draw(axes[:, 0], question, curves, [], bound, provenance, n, n * len(sets))
        for first in axes[:, 0]:
            first.set_ylabel("targets covered")
        legend_below(figure)
    return figure


def run_coverage(results: Results, questions: Sequence[Question]) -> Figure:
    """Draw the curves and covers of a run, one column per question.

    Args:
        results: what the run found.
        questions: of the run.
    """
    n = len(questions)
    with panels(4.6 * n, 6.4, 2, n, sharey=True) as (figure, axes):
        for column, question in zip(axes.T, questions, strict=True):
            curves = [c for c in results.curves if c.question == question]
            covers = [a for a in results.covers if a.question == question]
            bound = max((cover.lower_bound for cover in covers), default=0)
            spent = results.spent.trainings_per_source, results.spent.trainings
            _draw(column, question, curves, covers, bound, results.provenance, *spent)
        for first in axes[:, 0]:
            first.set_ylabel("targets covered")
        legend_below(figure)
    return figure


def _draw(
    panes: Any,
    question: Question,
    curves: Sequence[Any],
    covers: Sequence[Any],
    bound: float,
    provenance: Any,
    per_source: int,
    trained: int,
) -> None:
    """Draw one question: above by sources kept, below by policies trained."""
    top, bottom = panes
    most = max((int(max(c.n_sources)) for c in curves if len(c.n_sources)), default=1)
    for curve in curves:
        colour = METHOD_COLOURS.get(curve.method, "black")
        x, y = np.array(curve.n_sources), np.array(curve.coverage)
        style = "steps-post" if curve.method == "greedy" else "default"
        for axes, factor in ((top, 1), (bottom, per_source)):
            if axes is bottom and curve.method == "greedy":
                continue
            axes.plot(factor * x, y, color=colour, label=curve.method, drawstyle=style)
            if tuple(curve.low) != tuple(curve.high):
                axes.fill_between(
                    factor * x, curve.low, curve.high, color=colour, alpha=0.2, lw=0
                )
        if curve.method == "greedy" and len(x):
            # It chooses from the finished table: everything is trained first.
            top.plot(x[-1], y[-1], "o", color=colour, ms=4, clip_on=False)
            label = "greedy, from the finished table"
            bottom.plot(trained, y[-1], "o", color=colour, label=label, clip_on=False)
    drawn = [curve.method for curve in curves]
    for cover in covers:
        if cover.method not in drawn:  # a hollow star hides no curve
            top.plot(
                cover.size,
                cover.coverage,
                "*",
                color=METHOD_COLOURS.get(cover.method, "black"),
                markersize=13,
                markerfacecolor="none",
                markeredgewidth=1.5,
                linestyle="none",
                label=f"{cover.method}: {cover.size}",
                clip_on=False,
                zorder=5,
            )
    if bound:
        words = PROVENANCE_WORDS[provenance]
        of = f" of {words.table}" if words.scope else ""
        label = f"proven{of}: at least {bound:g}"
        top.axvline(bound, color="black", linestyle=":", linewidth=1, label=label)
    top.set_title(literal(textwrap.fill(title_of(question), 42)), fontsize=9.5)
    top.set_xlabel("sources kept")
    bottom.set_xlabel("policies trained to choose them")
    for axes, factor in ((top, 1), (bottom, per_source)):
        axes.set(xscale="log", ylim=(0, 1.02))
        few_ticks(axes.xaxis, factor, max(factor * most, trained * (axes is bottom)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


RECORD = "drawn.json"
"""What was drawn, and from which results."""


def draw_run(path: Path, results: Results) -> list[Path]:
    """Draw the figures of a run, unless they are there as they were drawn.

    Args:
        path: the run directory.
        results: what it found.

    Returns:
        The PNG files: `coverage.png`, `map-regret-worst-0.2.png`, ….
    """
    folder = path / "figures"
    drawn = _drawn(path)
    if drawn is not None:
        return [file for file in drawn if file.suffix == ".png"]
    (folder / RECORD).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    clean_leftovers(folder)
    files: list[Path] = []
    # A question by which no target can be served has nothing to show.
    shown = [
        question
        for question, _ in results.by_question
        if any(c.question == question and any(c.coverage) for c in results.curves)
    ]
    if shown:
        files += save(run_coverage(results, shown), folder / "coverage")
    study = open_study(path)
    for question, answers in results.by_question:
        # The smallest of the fullest covers.
        best = min(answers, key=lambda a: (-a.coverage, a.size))
        if best.size:
            name = f"map-{question.criterion}-{question.judge}-{question.epsilon:g}"
            files += save(draw_map(study, best), folder / name)
    record = {
        "results": checksum((path / "results.json").read_bytes()),
        "files": {file.name: checksum(file.read_bytes()) for file in sorted(files)},
    }
    write_sealed(folder / RECORD, record)
    return [file for file in files if file.suffix == ".png"]


def _drawn(path: Path) -> list[Path] | None:
    """Return the figures of these results, None if one is missing or damaged."""
    folder = path / "figures"
    try:
        record = read_sealed(folder / RECORD)
        files = {folder / Path(name).name: c for name, c in record["files"].items()}
        same = record["results"] == checksum((path / "results.json").read_bytes())
        same &= all(checksum(file.read_bytes()) == c for file, c in files.items())
        return list(files) if same else None
    except (DamagedFileError, OSError, AttributeError, KeyError, TypeError):
        return None
