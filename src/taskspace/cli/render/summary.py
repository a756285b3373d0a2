"""What a run found, for people."""

import math
from pathlib import Path

from taskspace._util.decimals import decimal_text
from taskspace.cli.options import question_options
from taskspace.cli.output import console, number, percent, show_table, shown, warn
from taskspace.cover import Cover
from taskspace.cover.cover import no_reference_words
from taskspace.questions import Question
from taskspace.runs import Experiment
from taskspace.runs.results import Results, Scores, Spent
from taskspace.systems.base import PROVENANCE_WORDS

SHOWN_FAILURES = 5


def print_summary(
    path: Path,
    experiment: Experiment,
    results: Results,
    figures: list[Path],
    closing: str = "",
    cost: str = "",
) -> None:
    """Print what a run found.

    Args:
        path: the run.
        experiment: what was run.
        results: the answer to the experiment.
        figures: files that were drawn.
        closing: a line about the run itself.
        cost: what J is, in one sentence.
    """
    words = PROVENANCE_WORDS[results.provenance]
    numbers = words.scores.format(n_episodes=results.n_episodes)
    console.print(
        f"\n[bold]{shown(experiment.name)}[/bold]: {results.n_sources:,} sources x "
        f"{results.spent.trainings_per_source} policies x {results.n_targets:,} "
        f"targets; {numbers}, regret against the {results.best_known_kind}"
    )
    if cost:
        console.print(shown(cost))
    last: Question | None = None
    for place, (question, answers) in enumerate(results.by_question):
        _print_covers(question, answers, results)
        for found in results.schedules[place : place + 1]:
            words = found if isinstance(found, str) else found.answer[0]
            console.print(f"Interpolated: {shown(words)}")
        last = question
    _explain_baselines(results)
    console.print(
        "worst regret: what the cover really leaves, in units of performance. trained: "
        "policies that had to be trained before it could be chosen."
    )
    _print_scores(results.scores)
    _print_failures(results)
    if closing:
        console.print(closing)
    for figure in figures:
        console.print(f"Figure {shown(figure)}")
    if last is not None:
        console.print(
            f"Next: taskspace certify {shown(path)} {question_options(last)}",
            soft_wrap=True,
        )


def _print_covers(question: Question, answers: list[Cover], results: Results) -> None:
    """Print the covers that answer one question, and a warning if need be."""
    covers = answers
    full = [cover for cover in covers if _is_full(answers[0], cover.coverage)]
    lower = max(cover.lower_bound for cover in covers)
    scope = PROVENANCE_WORDS[results.provenance].scope
    scope = f" {scope}" if scope else ""
    if full:
        upper = min(cover.size for cover in full)
        answer_words = (
            f"{upper} of these {covers[0].n_sources:,} sources, proven{scope}"
            if upper == lower
            else rf"in \[{lower:g}, {upper}]"
        )
    else:
        answer_words = f"at least {lower:g}"
    n_lost, n_targets = len(covers[0].uncoverable), covers[0].n_targets
    if n_lost == n_targets:
        answer_words = "not defined: no target can be served"
    elif n_lost:
        answer_words += f", for the {n_targets - n_lost:,} targets that can be served"
    losses = dict.fromkeys((f"worst {question.criterion}", "worst regret"))
    show_table(
        ("method", "sources", "covered", *losses, "trained"),
        [_cells(question, answer, results.spent) for answer in answers],
        title=f"{question.statement}: complexity {answer_words}",
    )
    n_lacking = len(answers[0].without_reference)
    if n_lacking:
        warn(f"{no_reference_words(n_lacking)} Ask for a level, or train there.")
    n_lost -= n_lacking
    if n_lost:
        warn(
            f"No source serves {n_lost:,} of the {n_targets:,} targets "
            f"within ε = {decimal_text(question.epsilon)}."
        )
    misleading = [answer.worst_regret or 0.0 for answer in answers if answer.misleads]
    if misleading:
        warn(
            f"A cover of {question.rule.short(question.epsilon)} leaves a "
            f"regret of up to {number(max(misleading))}: it compares each policy with "
            "its own score at home, so a poor policy covers much. Use the regret "
            "criterion to deploy."
        )


def _explain_baselines(results: Results) -> None:
    """Say what uniform and random selections are, where there are some."""
    sentences = []
    if any(answer.subgrid is not None for answer in results.covers):
        sentences.append(
            "uniform: the coarsest sub-grid that serves all, with its points at the "
            "middles of equal cells."
        )
    repeats = int(results.settings.get("n_repeats", 0))
    if repeats > 1 and any(answer.sizes is not None for answer in results.covers):
        sentences.append(f"random: mean of {repeats:,} draws ± its standard error.")
    if sentences:
        console.print(" ".join(sentences))


def _is_full(answer: Cover, coverage: float) -> bool:
    n_targets = answer.n_targets
    return round(coverage * n_targets) == n_targets - len(answer.uncoverable)


def _cells(question: Question, answer: Cover, spent: Spent) -> list[str]:
    cover, sizes = answer, answer.sizes
    size, n_selected = str(cover.size), float(cover.size)
    if sizes is not None:
        error = sizes.get("standard_error")
        size = f"{sizes['mean']:.0f}"
        if error is not None and not math.isnan(error):
            size += f" ± {round(error)}" if error >= 10 else f" ± {error:.2g}"
        n_selected = sizes["mean"] or 0.0
    elif answer.subgrid is not None:
        size = f"{size} ({' × '.join(map(str, answer.subgrid))})"
    regret = number(answer.worst_regret)
    if answer.misleads:
        regret = f"[red]{regret} ![/red]"
    losses = [number(answer.worst_loss)]
    if not question.is_regret:
        losses.append(regret)
    return [
        cover.method,
        size,
        percent(cover.coverage),
        *losses,
        f"{spent.trained_for(cover.method, n_selected):,}",
    ]


def _print_scores(scores: Scores) -> None:
    home, best = scores.home, scores.best
    console.print(
        f"Scores J at home: {number(home[0])} to {number(home[1])}; the best known at "
        f"the targets: {number(best[0])} to {number(best[1])}."
    )
    if scores.ignorant is not None:
        low, high = scores.ignorant
        words = f"Doing nothing scores {number(low)} to {number(high)}"
        if scores.n_no_better:
            warn(
                f"{words}, and at {scores.n_no_better} of {scores.n_tried} "
                "targets tried no policy here does better: it may have learned nothing."
            )
        else:
            console.print(f"{words}.")
    for axis in scores.dead_axes:
        warn(
            f"No performance changes along {shown(axis)}: the axis is "
            "dead, or does not matter here. Try: taskspace doctor"
        )
    if scores.n_failed and scores.solved_return is not None:
        warn(
            f"{scores.n_failed} of {scores.n_policies} policies score "
            f"below {scores.solved_return:g} at their own source (the worst "
            f"{number(home[0])}). The signed criterion is blind to that: such a policy "
            "has little to lose, so its tolerance set is large."
        )
    elif scores.n_failed:
        warn(
            f"{scores.n_failed} of {scores.n_policies} policies fail at "
            "their own source."
        )
    elif scores.solved_return is not None:
        console.print(
            f"All {scores.n_policies} policies reach {scores.solved_return:g} at "
            "their own source."
        )


def _print_failures(results: Results) -> None:
    if not results.failures:
        return
    warn(
        f"{len(results.failures)} trainings failed; they serve nothing "
        "here, and the next call tries them again:"
    )
    for failure in results.failures[:SHOWN_FAILURES]:
        where = ", ".join(f"{k}={number(v)}" for k, v in failure["context"].items())
        console.print(
            f"  source {failure['source']} ({shown(where)}), seed {failure['seed']}: "
            f"{shown(failure['reason'])}"
        )
