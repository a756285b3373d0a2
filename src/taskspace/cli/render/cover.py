"""What `taskspace cover` found, for people and for spreadsheets."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from taskspace._util.words import round_to_side
from taskspace.cli.output import console, number, show_table, shown
from taskspace.cover import (
    Cover,
    CoverAnswer,
    CoverWithHoles,
    Resampled,
    SourceValue,
)
from taskspace.cover.answer import error_words, no_reference_words, unmet_words
from taskspace.cover.ask import CoverProblem
from taskspace.deploy import RuleTrial
from taskspace.performance import target_space
from taskspace.questions import Question

SHOWN_SOURCES = 12
SHOWN_TARGETS = 30


def _label(names: list[str] | None, place: int) -> str:
    return shown(names[place]) if names else f"{place:,}"


def _first(names: list[str] | None, places: list[int]) -> str:
    """Return the first few of some targets."""
    more = ", ..." if len(places) > 5 else ""
    return ", ".join(_label(names, place) for place in places[:5]) + more


def _claim(found: Cover, scope: str, weighted: bool) -> str:
    """Return what is known of a cover beside its size."""
    if found.mean_loss is not None:
        mean = f"mean loss {number(found.mean_loss, 6)}"
        if n_unserved := len(found.uncoverable):
            mean += f" over the {found.n_targets - n_unserved:,} that can be served"
        if found.optimal:
            return f"{mean}, proven that no {found.budget} have less{scope}"
        low = number(found.lower_bound, 6)
        return f"{mean}, and no {found.budget} have less than {low}{scope}"
    if found.coverage_bound is not None:
        some = "source serves" if found.size == 1 else f"{found.size} sources serve"
        if found.optimal:
            return f"proven that no {some} more{scope}"
        unit = " of the weight" if weighted else ""
        return f"no {some} more than {100 * found.coverage_bound:.4g} %{unit}{scope}"
    n_unserved = int((found.assignment < 0).sum())
    if found.optimal and 0 < n_unserved == len(found.uncoverable):
        return f"all that can be served, proven that none cheaper do so{scope}"
    if found.optimal:
        return f"proven optimal of these {found.n_sources:,} sources{scope}"
    return (
        rf"\[{number(found.lower_bound)}, {number(found.cost)}] by the "
        f"{found.lower_bound_kind} bound{scope}"
    )


def _asked(answer: CoverAnswer, question: Question, quantity: str) -> str:
    """Return the question, in words of costs where the table holds costs."""
    statement = question.statement
    if quantity == "cost" and question.criterion == "floor":
        statement = statement.replace(
            f"performance of at least {-question.epsilon:g}",
            f"a cost of at most {question.epsilon:g}",
        )
    if question.rule.reference == "best known" and answer.reference:
        statement += f"; against: {shown(answer.reference)}"
    return statement


def show_cover(
    answer: CoverAnswer,
    problem: CoverProblem,
    path: Path,
    save: Path | None,
    *,
    again: str | None,
) -> None:
    """Print a cover and what is known of it.

    Args:
        answer: the cover and its question.
        problem: what it covers.
        path: the run or file.
        save: where the cover was written, None if nowhere.
        again: the options that ask the same again, None where no method does better.
    """
    found, question = answer.cover, answer.question
    quantity = "performance"
    if problem.study is not None:
        quantity = str(problem.study.table.attrs.get("quantity", quantity))
    scope = f" {answer.scope}" if answer.scope else ""
    some = "source" if found.size == 1 else "sources"
    console.print(
        f"[bold]{found.size} {some}[/bold] of {found.n_sources:,} cover "
        f"{100 * found.coverage:.4g} % of {found.n_targets:,} targets: "
        f"{_claim(found, scope, problem.weights is not None)}."
    )
    if found.missed_share is not None:
        console.print(f"[red]![/red] {found.shortfall}")
    if question is not None:
        console.print(f"Asked: {_asked(answer, question, quantity)}.")
    if found.cost != found.size:
        console.print(f"Total cost {number(found.cost, 8)}.")
    names = problem.target_names
    if unserved := answer.unserved:
        console.print(
            f"[red]![/red] {len(unserved)} targets are served by no source: "
            f"{_first(names, unserved)}."
        )
    if answer.unmet:
        console.print(shown(unmet_words(answer.unmet)))
    if lacking := list(answer.without_reference):
        console.print(
            f"[red]![/red] {no_reference_words(len(lacking))} They are: "
            f"{_first(names, lacking)}. Use --criterion floor, or train there."
        )
    _show_restrictions(found, problem)
    if question is not None:
        _show_losses(answer, quantity)
    _show_sources(answer)
    if problem.study and found.n_targets <= SHOWN_TARGETS and found.size > 0:
        _show_assignment(answer, problem)
    console.print(f"{found.method}, {found.stop_reason}, {found.seconds:.2f} s")
    if save is not None:
        console.print(
            f"Saved {shown(save)}; check it with: taskspace verify {shown(save)} "
            f"{shown(path)}"
        )
    if again is not None and found.method != "minimum" and not found.optimal:
        words = f"taskspace cover {again} --method minimum"
        console.print(f"Next: {shown(words)}", soft_wrap=True)


@dataclass(frozen=True)
class More:
    """What is asked beside a cover: holes, values of sources, what is chance."""

    holes: CoverWithHoles | None = None
    values: list[SourceValue] | None = None
    measure: str = "cost"
    resampled: Resampled | None = None
    trials: list[RuleTrial] | None = None

    def record(self) -> dict[str, Any]:
        """Return all as JSON; what was not asked is left out."""
        record: dict[str, Any] = {}
        if self.holes is not None:
            record["holes"] = self.holes.to_dict()
        if self.values is not None:
            record["values"] = [value.to_dict() for value in self.values]
            record["values_measure"] = self.measure
        if self.resampled is not None:
            record["resampled"] = self.resampled.to_dict()
        if self.trials is not None:
            record["rules"] = [trial.to_dict() for trial in self.trials]
        return record


def show_more(more: More, problem: CoverProblem) -> None:
    """Print what was asked beside a cover.

    Args:
        more: the answers.
        problem: what is covered.
    """
    sources, targets = problem.source_names, problem.target_names
    if more.holes is not None:
        console.print(f"[bold]Holes[/bold]: {more.holes.statement}")
        cells = [
            f"{_label(sources, s)} at {_label(targets, t)}"
            for s, t in more.holes.cells[:SHOWN_SOURCES]
        ]
        if cells and not more.holes.is_decided:
            rest = len(more.holes.cells) - len(cells)
            also = f" and {rest:,} more (--format json)" if rest else ""
            console.print(f"Measure next: {', '.join(cells)}{also}.")
    if more.resampled is not None:
        cover = more.resampled.cover
        names = ", ".join(_label(sources, int(s)) for s in cover.sources[:8])
        console.print(
            f"[bold]Joined runs[/bold] ({more.resampled.aggregate}): {cover.size} "
            f"sources, {names}. {more.resampled.statement}"
        )
        if more.resampled.bet is not None:
            width = float(np.nanmax(more.resampled.bet[1] - more.resampled.bet[0]))
            console.print(
                f"Intervals of J by betting (confidence {more.resampled.confidence:g} "
                f"each) are up to {number(width)} wide; all with --format json."
            )
    if more.trials is not None:
        _show_rules(more.trials)
    if more.values is None:
        return
    view = Table("source", "", more.measure, "at least", "more targets unserved")
    for value in more.values[:SHOWN_TARGETS]:
        view.add_row(
            _label(sources, value.source),
            "without it" if value.selected else "with it",
            number(value.value),
            number(value.lower_bound),
            f"{value.unserved:,}" if value.unserved else "",
        )
    console.print(view)


def _show_rules(trials: list[RuleTrial]) -> None:
    """Print how rules do at targets that they have not seen."""
    first = trials[0]
    runs = first.good_bound is not None
    what = f"served by {100 * first.run_share:g} % of runs" if runs else "served"
    view = Table(
        "rule", "served, left out", "mean regret", f"{what}, at least", "sources"
    )
    for trial in trials:
        bound = trial.good_bound if runs else trial.served_bound
        view.add_row(
            trial.rule,
            f"{100 * trial.served:.3g} %",
            number(trial.mean_regret),
            f"{round_to_side(100 * (bound or 0.0), up=False)} %",
            ", ".join(shown(name) for name in trial.made.names[:5]),
        )
    best, one = (100 * share for share in (first.served_by_best, first.served_by_one))
    console.print(
        f"[bold]Rules[/bold] for new targets: the best source of each would serve "
        f"{best:.3g} %, one source {one:.3g} %. Bounds (confidence "
        f"{first.confidence:g}) are about a selection and a rule from half of the "
        "targets, and hold if targets are independent draws."
    )
    console.print(view)


def _show_restrictions(found: Cover, problem: CoverProblem) -> None:
    """Name the sources that had to be selected or left out."""
    sources = problem.source_names
    for what, held in (("in", found.include), ("out", found.exclude)):
        if len(held):
            first = ", ".join(_label(sources, int(s)) for s in held[:8])
            more = ", ..." if len(held) > 8 else ""
            console.print(f"Must be {what}: {first}{more}.")


def _show_losses(answer: CoverAnswer, quantity: str) -> None:
    question = answer.question
    assert question is not None
    unit = question.rule.unit if question.rule.is_relative else quantity
    if question.criterion != "regret":
        console.print(
            f"Worst {question.criterion} over the targets served: "
            f"{number(answer.worst_loss)} (in {unit})."
        )
    console.print(
        f"Worst regret over the targets served: {number(answer.worst_regret)} (in "
        f"{quantity})."
        + error_words(
            answer.standard_error,
            " Standard error of the scores there: up to {}.",
        )
    )
    if answer.misleads:
        console.print(
            f"[red]![/red] That exceeds ε = {question.epsilon:g}: the signed criterion "
            "compares each policy with its own score at home, so a poor policy covers "
            "much. Use --criterion regret to deploy."
        )


def _show_sources(answer: CoverAnswer) -> None:
    found = answer.cover
    names = list(answer.contexts[0]) if answer.contexts else []
    rows = []
    for place, source in enumerate(found.sources[:SHOWN_SOURCES].tolist()):
        label = shown(answer.names[place]) if answer.names else str(source)
        served = int((found.assignment == source).sum())
        values = answer.contexts[place] if answer.contexts else {}
        rows.append([label, f"{served:,}", *(number(values[n]) for n in names)])
    show_table(["source", "serves", *map(shown, names)], rows)
    if found.size > SHOWN_SOURCES:
        console.print(
            f"... and {found.size - SHOWN_SOURCES} more; all with --format json."
        )


def _show_assignment(answer: CoverAnswer, problem: CoverProblem) -> None:
    view = Table("target", "served by", "loss")
    for target, source, loss in _assigned(answer, problem):
        view.add_row(shown(target), shown(source) if source else "–", number(loss))
    console.print(view)


def _assigned(
    answer: CoverAnswer, problem: CoverProblem
) -> list[tuple[str, str, float | None]]:
    """For each target its name, its source, and what it loses."""
    found = answer.cover
    names, sources = problem.target_names, problem.source_names
    losses = None
    if answer.question is not None and problem.study is not None:
        losses = answer.question.assigned_losses(problem.study, found.assignment)

    def called(source: int) -> str:
        return "" if source < 0 else (sources[source] if sources else str(source))

    rows = []
    for target, source in enumerate(found.assignment.tolist()):
        rows.append(
            (
                names[target] if names else str(target),
                called(source),
                None if losses is None or source < 0 else float(losses[target]),
            )
        )
    return rows


def assignment_csv(answer: CoverAnswer, problem: CoverProblem) -> str:
    """Return who serves whom, one row per target, as CSV.

    Args:
        answer: the cover and its question.
        problem: what it covers.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    study = problem.study
    space = target_space(study.table) if study is not None else None
    axes = list(space.names) if space is not None else []
    writer.writerow(["target", *axes, "source", "loss"])
    for place, (*names, loss) in enumerate(_assigned(answer, problem)):
        values = space.points[place].tolist() if space is not None else []
        # A cell that a spreadsheet would take for a formula gets an apostrophe.
        cells = [f"'{c}" if c[:1] in "=+-@" and c else c for c in names]
        writer.writerow([cells[0], *values, *cells[1:], "" if loss is None else loss])
    return out.getvalue()
