"""`taskspace cover`: the fewest sources that serve all targets."""

from dataclasses import replace
from typing import Any

import typer

from taskspace._util import memory as _memory
from taskspace._util.files import write_atomically
from taskspace.cli.commands.cover_more import ask_more
from taskspace.cli.commands.cover_options import CoverOptions
from taskspace.cli.options import (
    Asking,
    Reading,
    command_options,
    grouped,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    began,
    console,
    figure_file,
    print_json,
    search_progress,
    shown,
    stage_progress,
    writable,
)
from taskspace.cli.reading import (
    has_questions,
    read_problem,
)
from taskspace.cli.render.cover import More, assignment_csv, show_cover, show_more
from taskspace.cover import (
    Cover,
    CoverAnswer,
    SmallestEpsilon,
)
from taskspace.cover.ask import (
    CoverProblem,
    cover_within,
    mean_within,
    smallest_tolerance,
)
from taskspace.cover.base import Clock
from taskspace.cover.tolerance.error import largest_error
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.questions import Question

UNMET = 3  # exit code of a demand that the answer does not meet

EXAMPLES = (
    "taskspace cover scores.csv --epsilon 5 --method minimum",
    "taskspace cover runs/msd-lqr --budget 4",
)


@grouped
def cover(
    options: CoverOptions,
    asking: Asking,
    reading: Reading,
    output: FormatOption = Format.TEXT,
) -> None:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    clock = Clock(options.time_limit, began=began())
    _memory.limit(options.memory)
    question = _question(options, asking)
    with stage_progress() as report:
        report("load", 0, 1)
        problem = _read(options, question, reading)
        report("load", 1, 1)
        if options.largest_error:
            _find_error(options, problem, output)
            return
        found, least = _ask(options, problem, clock, report, options.limits(problem))
        more = ask_more(_ask, options, problem, found, least, clock, report)
    answer = problem.answer(found)
    _write(options, reading, problem, answer, more)
    if output == Format.JSON:
        print_json(_record(problem, answer, least) | more.record())
    else:
        _show(options, reading, problem, answer, least)
        show_more(more, problem)
    is_short = options.require_full and not found.is_full
    if is_short or found.missed_share is not None:
        raise typer.Exit(UNMET)


def _question(options: CoverOptions, asking: Asking) -> Question | None:
    """Return what is asked, None of a set-cover file; bad options show at once."""
    writable(options.save)
    writable(options.assignment)
    writable(options.save_rule)
    if options.save_rule is not None and not options.rules:
        raise InvalidInputError("--save-rule writes what --rules judges: give both.")
    figure_file(options.plot)
    options.check()
    question, seeks = None, options.seeks_epsilon
    if options.is_mean:
        own = options.epsilon
        return asking.question(options.path, own, any_epsilon=own is None)
    if options.epsilon is not None or seeks or has_questions(options.path):
        question = asking.question(options.path, options.epsilon, any_epsilon=seeks)
    if options.plot is not None and question is None:
        raise InvalidInputError("--plot needs a run or a matrix, not a set-cover file.")
    if not seeks:
        return question
    if options.method not in ("greedy", "minimum"):
        raise InvalidInputError(
            f"The smallest ε is found by minimum covers, so --method {options.method} "
            "needs --epsilon."
        )
    for name in ("share", "weights", "costs"):
        if getattr(options, name) is not None:
            raise InvalidInputError(
                f"--{name} needs --epsilon: the smallest ε is that of all targets, "
                "each counted alike."
            )
    return question


def _read(
    options: CoverOptions, question: Question | None, reading: Reading
) -> CoverProblem:
    """Return the study and its table, or the sets of a file; costs and weights."""
    study = None
    if question is not None:
        study = reading.study(options.path)
        question.table_of(study)  # reads it
    return read_problem(
        options.path,
        study,
        question,
        costs=options.costs,
        weights=options.weights,
        unicost=options.unicost,
    )


def _ask(
    options: CoverOptions,
    problem: CoverProblem,
    clock: Clock,
    report: Progress,
    limits: dict[str, Any],
) -> tuple[Cover, SmallestEpsilon | None]:
    """Return a cover, and the smallest tolerance of a budget if that is asked for."""
    seed = options.seed
    leave_out = options.unservable == "leave-out"
    if options.is_mean:
        assert options.budget is not None
        cover = mean_within(
            problem,
            options.budget,
            epsilon=options.epsilon,
            leave_out=leave_out,
            time_limit=clock.left,
            progress=search_progress(report, clock.left, "mean in [{:.4g}, {:.4g}]"),
            **limits,
        )
        return cover, None
    if not options.seeks_epsilon:
        cover = problem.find_cover(
            options.method,
            share=options.share,
            budget=options.budget,
            time_limit=clock.left,
            seed=seed,
            progress=search_progress(report, clock.left),
            **limits,
        )
        return cover, None
    assert problem.study is not None
    assert problem.question is not None
    assert options.budget is not None
    least = smallest_tolerance(
        problem.study,
        problem.question,
        options.budget,
        leave_out=leave_out,
        time_limit=clock.left,
        seed=seed,
        progress=search_progress(report, clock.left, "ε in [{:.4g}, {:.4g}]"),
        **limits,
    )
    question = problem.question.at(least.upper)
    return cover_within(least, problem.study, question, **limits), least


def _find_error(options: CoverOptions, problem: CoverProblem, output: Format) -> None:
    """Print the largest error that some sources stand."""
    included, question = options.limits(problem)["include"], problem.question
    if question is None or question.error is None or problem.study is None:
        raise InvalidInputError(
            "--largest-error multiplies an error, so it needs --error, e.g. --error "
            "speed=1%,mass=1, and a run or a matrix with contexts."
        )
    if (len(included) == 0) == (options.budget is None):
        raise InvalidInputError(
            "--largest-error is about the sources of --include, or about any --budget "
            "of them: give one of the two."
        )
    largest = largest_error(
        problem.study,
        question,
        sources=included if len(included) else None,
        n_sources=options.budget,
        time_limit=options.time_limit,
        seed=options.seed,
    )
    if output == Format.JSON:
        print_json({**question.to_dict(), "largest_error": largest.to_dict()})
        return
    console.print(shown(largest.words))
    targets = problem.study.targets
    if len(largest.unserved) and targets is not None:
        first = targets.context(int(largest.unserved[0]))
        place = ", ".join(f"{name} = {value:g}" for name, value in first.items())
        more = f" and {len(largest.unserved) - 1} more" * (len(largest.unserved) > 1)
        console.print(shown(f"From there on none of them serves {place}{more}."))


def _write(
    options: CoverOptions,
    reading: Reading,
    problem: CoverProblem,
    answer: CoverAnswer,
    more: More,
) -> None:
    """Write the files that were asked for: the cover, who serves whom, the picture."""
    if options.save is not None:
        asked = answer.question.to_dict() if answer.question else {"epsilon": None}
        record = {
            "path": str(options.path),
            **asked,
            **reading.record,
            "unicost": options.unicost,
            "costs": options.costs and str(options.costs),
            "weights": options.weights and str(options.weights),
        }
        answer.cover.save(options.save, question=record)
    if options.assignment is not None:
        write_atomically(options.assignment, assignment_csv(answer, problem))
    if options.save_rule is not None and more.trials:
        best = more.trials[0]
        replace(best.made, about=best.to_dict()).save(options.save_rule)
    if options.plot is not None and problem.study is not None:
        from taskspace.show.figures.map import map as draw_map  # matplotlib is slow

        draw_map(problem.study, answer.cover).savefig(options.plot, dpi=200)


def _record(
    problem: CoverProblem, answer: CoverAnswer, least: SmallestEpsilon | None
) -> dict[str, Any]:
    """Return the answer as JSON."""
    record = answer.record()
    if least is not None:
        record["smallest_epsilon"] = least.to_dict()
    if problem.weights is not None:
        record["weight_coverage"] = problem.served_weight(answer.cover)
    if problem.notes:
        record["notes"] = problem.notes
    return record


def _show(
    options: CoverOptions,
    reading: Reading,
    problem: CoverProblem,
    answer: CoverAnswer,
    least: SmallestEpsilon | None,
) -> None:
    """Print the answer, and the next command."""
    for note in problem.notes:
        console.print(f"Note: {shown(note)}")
    if least is not None:
        console.print(shown(least.say(scope=answer.scope)))
    weight = problem.served_weight(answer.cover)
    if weight is not None:
        console.print(f"{100 * weight:.4g} % of the weight is served.")
    again = None
    if least is None and not options.is_mean:
        again = command_options(
            options.path,
            answer.question,
            **reading.again,
            unicost=options.unicost,
            costs=options.costs,
            include=options.include,
            exclude=options.exclude,
            share=options.share,
            budget=options.budget,
            weights=options.weights,
        )
    show_cover(answer, problem, options.path, options.save, again=again)
    if options.plot is not None:
        console.print(f"Figure {shown(options.plot)}")
