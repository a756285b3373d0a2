"""What `taskspace cover` is asked beside a cover: holes, values, chance, rules."""

from collections.abc import Callable
from dataclasses import replace

from taskspace.cli.commands.cover_options import CoverOptions
from taskspace.cli.render.cover import More
from taskspace.cover import (
    Cover,
    SmallestEpsilon,
    cover_with_holes,
    resampled_covers,
    source_values,
)
from taskspace.cover.ask import CoverProblem
from taskspace.cover.base import Clock
from taskspace.cover.holes import unknown_cells
from taskspace.cover.resample import run_losses
from taskspace.cover.values import Best, best_of
from taskspace.deploy import RuleTrial, judge_rules
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent

__all__ = ["ask_more"]

Ask = Callable[..., tuple[Cover, SmallestEpsilon | None]]
"""From options, a problem, a clock, a progress and limits: a cover of the question."""


def ask_more(
    ask: Ask,
    options: CoverOptions,
    problem: CoverProblem,
    found: Cover,
    least: SmallestEpsilon | None,
    clock: Clock,
    report: Progress,
) -> More:
    """Return what unmeasured cells leave open, what sources add, what is chance.

    Args:
        ask: asks the question of the command again, under other restrictions.
        options: of the command.
        problem: what is covered.
        found: the cover.
        least: the smallest tolerance of a budget, where that was asked for.
        clock: whose time limit counts.
        report: draws progress.
    """
    holes, values = None, None
    study, question = problem.study, problem.question
    is_plain = not options.is_mean and not options.seeks_epsilon
    has_holes = study is not None and unknown_cells(study) is not None
    if study is not None and question is not None and is_plain and has_holes:
        holes = cover_with_holes(
            study,
            question,
            costs=problem.costs,
            time_limit=clock.left / 2,
            seed=options.seed,
            **options.limits(problem),
        )
    if options.values:
        proven = replace(options, method="minimum")

        def solve(include: list[int], exclude: list[int], seconds: float) -> Best:
            limits = {"include": include, "exclude": exclude}
            answer = ask(proven, problem, Clock(seconds), silent, limits)
            return best_of(*answer, problem.weights)

        values = source_values(
            found,
            solve,
            own=best_of(found, least, problem.weights),
            time_limit=clock.left,
            progress=report,
        )
    resampled = None
    if options.resample is not None:
        if study is None or question is None or not is_plain:
            raise InvalidInputError(
                "--resample is about covers of a run or a matrix within --epsilon."
            )
        resampled = resampled_covers(
            study,
            question,
            aggregate=options.aggregate,
            n_resamples=options.resample,
            bounds=_bounds(options.score_bounds, study),
            time_limit=clock.left,
            seed=options.seed,
        )
    trials = _judge(options, problem, found) if options.rules else None
    return More(holes, values, options.measure, resampled, trials)


def _bounds(text: str | None, study: Study) -> tuple[float, float] | None:
    """Return the bounds of all scores, in the direction of J."""
    if text is None:
        return None
    try:
        low, high = sorted(float(word) for word in text.split(","))
    except ValueError as error:
        raise InvalidInputError(
            f"--score-bounds must be two numbers, e.g. 0,100, but got {text!r}."
        ) from error
    if study.table.attrs.get("quantity") == "cost":
        return -high, -low
    return low, high


def _judge(
    options: CoverOptions, problem: CoverProblem, found: Cover
) -> list[RuleTrial]:
    """Rules that name a source for a new target, the one of the largest bound first."""
    study, question = problem.study, problem.question
    space = None if study is None else study.targets
    if study is None or question is None or space is None:
        raise InvalidInputError(
            "--rules choose by the contexts of targets: give a run, or a matrix with "
            "--contexts."
        )
    runs = run_losses(study, question) if study.n_policies > 1 else None
    trials = judge_rules(
        question.losses(study) if runs is None else runs,
        space.points,
        found.sources.tolist(),
        epsilon=question.epsilon,
        run_share=options.run_share,
        seed=options.seed,
        names=problem.source_names,
        axes=space.names,
    )
    return sorted(trials, key=lambda t: -(t.served_bound or t.good_bound or 0.0))
