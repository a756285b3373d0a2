"""What `taskspace cover` found, for people and for spreadsheets."""

from collections.abc import Iterable
from pathlib import Path

from taskspace._util.decimals import decimal_text
from taskspace.cli.output import (
    console,
    first_few,
    number,
    percent,
    show_table,
    shown,
    warn,
)
from taskspace.cover import Cover
from taskspace.cover.cover import error_words, no_reference_words, unmet_words
from taskspace.cover.problem import CoverProblem
from taskspace.questions import Question

SHOWN_SOURCES = 12
SHOWN_TARGETS = 30


def _label(names: list[str] | None, place: int) -> str:
    return shown(names[place]) if names else f"{place:,}"


def _labels(names: list[str] | None, places: Iterable[int]) -> list[str]:
    return [_label(names, int(place)) for place in places]


def _asked(answer: Cover, question: Question, quantity: str) -> str:
    """Return the question, in words of costs where the table holds costs."""
    statement = question.statement
    if question.rule.compares_with_best and answer.reference:
        statement += f"; against: {shown(answer.reference)}"
    return statement


def show_cover(
    answer: Cover,
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
    cover, question = answer, answer.question
    assert question is not None
    quantity = str(problem.study.table.attrs.get("quantity", "performance"))
    things, verb = ("source", "covers") if cover.size == 1 else ("sources", "cover")
    console.print(
        f"[bold]{cover.size} {things}[/bold] of {cover.n_sources:,} {verb} "
        f"{percent(cover.coverage)} of {cover.n_targets:,} targets: "
        f"{shown(cover.claim(weighted=problem.target_weights is not None))}."
    )
    if cover.missed_share is not None:
        warn(cover.shortfall)
    console.print(f"Asked: {_asked(answer, question, quantity)}.")
    if cover.cost != cover.size:
        console.print(f"Total cost {number(cover.cost, 8)}.")
    _show_unserved(answer, problem)
    for what, sources in (("in", cover.include), ("out", cover.exclude)):
        if len(sources):
            names = first_few(_labels(problem.source_names, sources), 8)
            console.print(f"Must be {what}: {names}.")
    _show_losses(answer, question, quantity)
    _show_sources(answer)
    if cover.n_targets <= SHOWN_TARGETS and cover.size > 0:
        _show_assignment(answer, problem)
    console.print(f"{cover.method}, {cover.stop_reason}, {cover.seconds:.2f} s")
    if save is not None:
        console.print(
            f"Saved {shown(save)}; check it with: taskspace verify {shown(save)} "
            f"{shown(path)}"
        )
    if again is not None and cover.method != "minimum" and not cover.optimal:
        words = f"taskspace cover {again} --method minimum"
        console.print(f"Next: {shown(words)}", soft_wrap=True)


def _show_unserved(answer: Cover, problem: CoverProblem) -> None:
    """Name targets that no source serves, or that lack what they are compared with."""
    names = problem.target_names
    if unserved := answer.unserved:
        few = first_few(_labels(names, unserved))
        warn(f"{len(unserved)} targets are served by no source: {few}.")
    if answer.unmet:
        console.print(shown(unmet_words(answer.unmet)))
    if lacking := list(answer.without_reference):
        warn(
            f"{no_reference_words(len(lacking))} They are: "
            f"{first_few(_labels(names, lacking))}. Ask for a level (score >= ...), or "
            "train there."
        )


def _show_losses(answer: Cover, question: Question, quantity: str) -> None:
    """Print what the targets that are served lose at worst."""
    unit = question.rule.unit if question.rule.is_relative else quantity
    if not question.is_regret:
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
        warn(
            f"That exceeds ε = {decimal_text(question.epsilon)}: the signed criterion "
            "compares each policy with its own score at home, so a poor policy covers "
            "much. Use regret to deploy."
        )


def _show_sources(answer: Cover) -> None:
    """Print the first sources, how many targets each serves, and their contexts."""
    cover = answer
    axes = list(answer.contexts[0]) if answer.contexts else []
    rows = []
    for place, source in enumerate(cover.sources[:SHOWN_SOURCES].tolist()):
        label = shown(answer.names[place]) if answer.names else str(source)
        n_served = int((cover.assignment == source).sum())
        values = answer.contexts[place] if answer.contexts else {}
        rows.append([label, f"{n_served:,}", *(number(values[axis]) for axis in axes)])
    show_table(["source", "serves", *map(shown, axes)], rows)
    if cover.size > SHOWN_SOURCES:
        console.print(
            f"... and {cover.size - SHOWN_SOURCES} more; all with --format json."
        )


def _show_assignment(answer: Cover, problem: CoverProblem) -> None:
    columns = ("target", "served by", "loss")
    rows = [
        (shown(target), shown(source) or "–", number(loss))
        for target, source, loss in _assigned(answer, problem)
    ]
    show_table(columns, rows, texts=columns[:2])


def _assigned(
    answer: Cover, problem: CoverProblem
) -> list[tuple[str, str, float | None]]:
    """For each target its name, its source, and what it loses."""
    targets, sources = problem.target_names, problem.source_names
    assert answer.question is not None
    losses = answer.question.assigned_losses(problem.study, answer.assignment)
    rows = []
    for target, source in enumerate(answer.assignment.tolist()):
        label = targets[target] if targets else str(target)
        if source < 0:
            rows.append((label, "", None))
            continue
        name = sources[source] if sources else str(source)
        rows.append((label, name, float(losses[target])))
    return rows
