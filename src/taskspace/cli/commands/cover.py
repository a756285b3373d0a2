"""`taskspace cover`: the fewest sources that serve all targets."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from taskspace.cli.options import (
    Asking,
    Reading,
    SeedOption,
    argument,
    as_command,
    option,
    read_problem,
    source_places,
)
from taskspace.cli.output import (
    Answer,
    figure_file,
    search_progress,
    stage_progress,
    writable,
)
from taskspace.cover import METHODS, Cover
from taskspace.cover.part import mean_cover
from taskspace.cover.problem import CoverProblem
from taskspace.cover.tolerance import (
    SmallestEpsilon,
    find_best_cover,
    smallest_tolerance,
)
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.runs.opening import check_exists

UNMET = 3  # exit code of a demand that the answer does not meet

EXAMPLES = (
    "taskspace cover scores.csv --ask 'regret <= 5'",
    "taskspace cover runs/msd-lqr --budget 4",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace cover` may be told beside the question and the reading."""

    path: Path = argument("A run or a matrix file.")
    method: str = option(f"{', '.join(METHODS)}.", "minimum")
    time_limit: float = option("Processor seconds until a search ends.", 60.0)
    seed: SeedOption = 0
    budget: int | None = option(
        "Sources at most: as many targets as they serve within the bound of --ask, or "
        "without it the smallest ε within which they serve all."
    )
    objective: str = option(
        "What a budget makes small: worst, or mean (then the bound of --ask, if "
        "there is one, caps the worst).",
        "worst",
    )
    include: str | None = option("Sources that must be in, by name or number: a,b,3.")
    exclude: str | None = option("Sources that must not be in, likewise.")
    share: float | None = option(
        "Share of the targets that is enough, for greedy and minimum; exit code 3 "
        "where it cannot be reached."
    )
    weights: Path | None = option(
        "A file with the weight of each target, for greedy and minimum."
    )
    costs: Path | None = option(
        "A file with the cost of each source, for greedy, local, minimum."
    )
    plot: Path | None = option("Draw who serves whom here: .png, .pdf or .svg.")
    save: Path | None = option("Write the cover here, for `taskspace verify`.")


@as_command
def cover(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    question = _question(options, asking)
    with stage_progress() as report:
        report("load", 0, 1)
        study = reading.study(options.path)
        question.table_of(study)  # reads it
        problem = read_problem(
            study, question, costs=options.costs, weights=options.weights
        )
        names, n = problem.source_names, study.n_sources
        problem = replace(
            problem,
            include=source_places(options.include, names, n),
            exclude=source_places(options.exclude, names, n),
        )
        report("load", 1, 1)
        found = _find(options, problem, report)
    result, text = found, str(found)
    if isinstance(found, SmallestEpsilon):
        assert found.cover is not None
        found = found.cover
    if options.save is not None:
        assert found.question is not None
        record = {
            "path": str(options.path),
            **found.question.to_dict(),
            "read": reading.options,
            "costs": options.costs and str(options.costs),
            "weights": options.weights and str(options.weights),
        }
        found.save(options.save, question=record)
        words = ["taskspace", "verify", str(options.save), str(options.path)]
        text += f"\nNext: {shlex.join(words)}"
    if options.plot is not None:
        from taskspace.show import map as draw_map  # matplotlib loads slowly

        draw_map(study, found).savefig(options.plot, dpi=200)
    return Answer(result, text, code=0 if found.missed_share is None else UNMET)


def _question(options: Options, asking: Asking) -> Question:
    """Return what is asked; bad options are refused before any work."""
    writable(options.save)
    figure_file(options.plot)
    check_exists(options.path)
    is_mean = options.objective == "mean"
    if options.objective not in ("worst", "mean"):
        words = ["worst", "mean"]
        raise UnknownNameError("value of --objective:", options.objective, words)
    if is_mean and options.budget is None:
        raise InvalidInputError(
            "--objective mean asks which sources of a budget have the least mean "
            "loss: it needs --budget, e.g. --budget 5."
        )
    question = asking.question(options.path, needs_bound=options.budget is None)
    if options.budget is not None and asking.ask is None:
        question = question.at(None)  # the run's own bound is about all targets
    seeks_epsilon = question.epsilon is None and not is_mean
    if seeks_epsilon and options.method not in ("greedy", "minimum"):
        raise InvalidInputError(
            f"The smallest ε is found by minimum covers, so --method {options.method} "
            "needs a bound in --ask."
        )
    for name in ("share", "weights", "costs"):
        is_refused = seeks_epsilon or (is_mean and name != "weights")
        if is_refused and getattr(options, name) is not None:
            raise InvalidInputError(
                f"--{name} needs a bound in --ask and --objective worst: the smallest "
                "ε and the least mean are those of all targets and of free sources."
            )
    return question


def _find(
    options: Options, problem: CoverProblem, report: Progress
) -> Cover | SmallestEpsilon:
    """Return a cover, or the smallest tolerance of a budget, with what to know."""
    question, study, limit = problem.question, problem.study, options.time_limit
    if options.objective == "mean":
        found = mean_cover(
            problem,
            options.budget or 1,
            epsilon=question.epsilon,
            leave_out=True,
            time_limit=limit,
            progress=search_progress(report, limit, "mean in [{:.4g}, {:.4g}]"),
        )
    elif question.epsilon is None:
        return smallest_tolerance(
            problem,
            options.budget or 1,
            time_limit=limit,
            seed=options.seed,
            progress=search_progress(report, limit, "ε in [{:.4g}, {:.4g}]"),
        )
    else:
        found = find_best_cover(
            problem,
            options.method,
            share=options.share,
            budget=options.budget,
            time_limit=limit,
            seed=options.seed,
            progress=search_progress(report, limit),
        )
    near = question.rounding_note(
        study,
        found.sources,
        is_minimum=found.method == "minimum"
        and options.share is None
        and options.budget is None,
    )
    notes = [*problem.notes, *([near] if near else [])]
    return replace(found.about(study), notes=tuple(notes) or None)
