"""`taskspace profile`: complexity against the tolerance."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskspace._util import memory as _memory
from taskspace.cli.options import (
    Asking,
    MemoryOption,
    Reading,
    SeedOption,
    argument,
    as_command,
    command_options,
    option,
)
from taskspace.cli.output import (
    Answer,
    began,
    console,
    figure_file,
    number,
    search_progress,
    show_notes,
    show_table,
    shown,
    stage_progress,
)
from taskspace.cover import (
    BudgetPoint,
    SmallestEpsilon,
    budget_profile,
    complexity_profile,
)
from taskspace.cover.ask import CoverProblem
from taskspace.cover.base import Clock
from taskspace.cover.tolerance.epsilons import default_epsilons
from taskspace.cover.tolerance.profile import Profile
from taskspace.cover.tolerance.thresholds import losses_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.questions import Question

EXAMPLES = (
    "taskspace profile scores.csv",
    "taskspace profile runs/msd-lqr --epsilon 0.1 --epsilon 0.2",
)

SHOWN = 40
"""Rows of the table, at most."""


@dataclass(frozen=True)
class Options:
    """What `taskspace profile` may be told beside the question and the reading."""

    path: Path = argument("A run or a matrix file.")
    epsilon: list[float] | None = option(
        "A tolerance; repeat for more. Chosen from the losses if left out."
    )
    n_epsilons: int = option("How many tolerances to choose.", 20, name="--n")
    time_limit: float = option("Seconds for all of it.", 60.0)
    seed: SeedOption = 0
    budget: int | None = option(
        "Also the smallest ε within which so many sources serve all."
    )
    budgets: str | None = option(
        "Instead of tolerances, worst and mean loss of so many sources: 1,2,5."
    )
    memory: MemoryOption = None
    plot: Path | None = option("Draw the profile here: .png, .pdf or .svg.")


@as_command
def profile(options: Options, asking: Asking, reading: Reading) -> Answer:
    """How many sources each tolerance needs: lower bound, best found, greedy."""
    clock = Clock(options.time_limit, began=began())
    _memory.limit(options.memory)
    figure_file(options.plot)
    epsilons = options.epsilon or []
    first = epsilons[0] if epsilons else None
    question = asking.question(options.path, first, any_epsilon=True)
    for epsilon in epsilons:
        question.at(epsilon)  # a wrong one shows before anything is loaded
    with stage_progress() as report:
        report("load", 0, 1)
        study = reading.study(options.path)
        question.table_of(study)  # reads it
        report("load", 1, 1)
        if options.budgets is not None:
            losses = _ask_budgets(options, study, question, clock, report)
            return Answer(
                lambda: [point.to_dict() for point in losses],
                lambda: _show_budgets(losses, question, study),
            )
        points, least = _ask(options, study, question, clock, report)
    middle = points[len(points) // 2]
    asked = question.at(float(f"{middle.epsilon:.4g}"))
    again = command_options(options.path, asked, read=reading.read)
    if options.plot is not None:
        from taskspace.show.figures.profile import draw_profile  # matplotlib is slow

        draw_profile(points, question).savefig(options.plot, dpi=200)
    return Answer(
        lambda: _record(points, least),
        lambda: _show(points, question, again, study, least),
    )


def _ask(
    options: Options, study: Study, question: Question, clock: Clock, report: Progress
) -> tuple[Profile, SmallestEpsilon | None]:
    """Return the profile, and the smallest tolerance of a budget if asked for."""
    least, epsilons = None, options.epsilon
    if options.budget is not None:
        limit = clock.left / 2
        least = CoverProblem(study, question).smallest_tolerance(
            options.budget,
            time_limit=limit,
            seed=options.seed,
            progress=search_progress(report, limit, "ε in [{:.4g}, {:.4g}]"),
        )
        chosen = epsilons or default_epsilons(
            losses_of(study, question),
            options.n_epsilons,
            allow_negative=question.rule.allows_negative_epsilon,
        )
        epsilons = [*map(float, chosen), least.upper]
    points = complexity_profile(
        study,
        question,
        epsilons=epsilons,
        n_epsilons=options.n_epsilons,
        time_limit=clock.left,
        seed=options.seed,
        progress=report,
    )
    return points, least


def _ask_budgets(
    options: Options, study: Study, question: Question, clock: Clock, report: Progress
) -> list[BudgetPoint]:
    """Worst and mean loss of every number of sources that `--budgets` names."""
    words = (options.budgets or "").split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise InvalidInputError(
            f"--budgets must be numbers of sources, e.g. 1,2,5, but got "
            f"{options.budgets!r}."
        )
    losses = question.losses(study)
    if not question.rule.allows_negative_epsilon:
        losses = losses.clip(min=0.0, keep_attrs=True)
    return budget_profile(
        losses,
        [int(word) for word in words],
        time_limit=clock.left,
        seed=options.seed,
        progress=report,
    )


def _show_budgets(points: list[BudgetPoint], question: Question, study: Study) -> None:
    show_notes(study.notes)
    values = [(p.budget, p.worst, p.worst_bound, p.mean, p.mean_bound) for p in points]
    show_table(
        ("sources", "worst", "at least", "mean", "at least"),
        [list(map(number, row)) for row in values],
        title=f"Least loss by {question.criterion}",
        texts=(),
    )


def _record(points: Profile, least: SmallestEpsilon | None) -> list[dict[str, Any]]:
    """Return the profile as JSON."""
    records = [asdict(point) for point in points]
    for record in records:
        record["provenance"] = points.provenance
        if least is not None and record["epsilon"] == least.upper:
            record["smallest_epsilon"] = least.to_dict()
    return records


def _show(
    points: Profile,
    question: Question,
    again: str,
    study: Study,
    least: SmallestEpsilon | None,
) -> None:
    show_notes(study.notes)
    if least is not None:
        console.print(shown(least.say(scope=points.scope)))
    where = f" {points.scope}" if points.scope else ""
    places = np.unique(np.linspace(0, len(points) - 1, SHOWN).round().astype(int))
    values = [
        (p.epsilon, p.lower, p.upper, p.greedy, p.n_uncoverable)
        for p in (points[place] for place in places)
    ]
    show_table(
        ("ε", "lower", "upper", "greedy", "unserved targets"),
        [list(map(number, row)) for row in values],
        title=f"How many of these {study.n_sources:,} sources{where}, by "
        f"{question.criterion}, the {question.judge} policy of each",
        texts=(),
    )
    if len(places) < len(points):
        console.print(
            f"{len(places)} of {len(points):,} tolerances; --format json has all."
        )
    words = f"taskspace cover {again} --method minimum"
    console.print(f"Next: {shown(words)}", soft_wrap=True)
