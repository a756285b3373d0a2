"""`taskspace cover`: the fewest sources that serve all targets."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from taskspace.cli.options import (
    Asking,
    Reading,
    SeedOption,
    argument,
    as_command,
    command_options,
    option,
)
from taskspace.cli.output import (
    Answer,
    console,
    figure_file,
    percent,
    search_progress,
    show_notes,
    shown,
    stage_progress,
    writable,
)
from taskspace.cli.reading import read_problem, source_places
from taskspace.cli.render.cover import show_cover
from taskspace.cover import METHODS, Cover, SmallestEpsilon
from taskspace.cover.mean import mean_cover
from taskspace.cover.problem import CoverProblem
from taskspace.cover.tolerance import (
    cover_within,
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

    @property
    def is_mean(self) -> bool:
        """Whether the least mean loss of a budget is asked for."""
        return self.objective == "mean"

    def seeks_epsilon(self, question: Question) -> bool:
        """Return whether the smallest tolerance of a budget is asked for."""
        return self.budget is not None and question.epsilon is None and not self.is_mean

    def check(self) -> None:
        """Reject invalid values and options that cannot be combined."""
        if self.objective not in ("worst", "mean"):
            words = ["worst", "mean"]
            raise UnknownNameError("value of --objective:", self.objective, words)
        if not self.is_mean:
            return
        if self.budget is None:
            raise InvalidInputError(
                "--objective mean asks which sources of a budget have the least mean "
                "loss: it needs --budget, e.g. --budget 5."
            )
        if self.share is not None or self.costs is not None:
            raise InvalidInputError(
                "--objective mean cannot be combined with --share or --costs."
            )

    def restrict(self, problem: CoverProblem) -> CoverProblem:
        """Return a problem with the sources that must be in or out."""
        names, n = problem.source_names, problem.study.n_sources
        return replace(
            problem,
            include=source_places(self.include, names, n),
            exclude=source_places(self.exclude, names, n),
        )


@as_command
def cover(options: Options, asking: Asking, reading: Reading) -> Answer:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    question = _question(options, asking)
    with stage_progress() as report:
        report("load", 0, 1)
        problem = _read(options, question, reading)
        report("load", 1, 1)
        cover, least = _ask(options, problem, report)
    answer = cover.about(problem.study)
    _write(options, reading, problem, answer)
    return Answer(
        lambda: _record(options, problem, answer, least),
        lambda: _show(options, reading, problem, answer, least),
        0 if cover.missed_share is None else UNMET,
    )


def _question(options: Options, asking: Asking) -> Question:
    """Return what is asked; bad options are refused before any work."""
    writable(options.save)
    figure_file(options.plot)
    options.check()
    check_exists(options.path)
    question = asking.question(options.path, needs_bound=options.budget is None)
    if options.budget is not None and asking.ask is None:
        question = question.at(None)  # the run's own bound is about all targets
    if not options.seeks_epsilon(question):
        return question
    if options.method not in ("greedy", "minimum"):
        raise InvalidInputError(
            f"The smallest ε is found by minimum covers, so --method {options.method} "
            "needs a bound in --ask."
        )
    for name in ("share", "weights", "costs"):
        if getattr(options, name) is not None:
            raise InvalidInputError(
                f"--{name} needs a bound in --ask: the smallest ε is that of all "
                "targets, each counted alike."
            )
    return question


def _read(options: Options, question: Question, reading: Reading) -> CoverProblem:
    """Return the study with its table read, the costs and the weights."""
    study = reading.study(options.path)
    question.table_of(study)  # reads it
    problem = read_problem(
        study, question, costs=options.costs, weights=options.weights
    )
    return options.restrict(problem)


def _ask(
    options: Options,
    problem: CoverProblem,
    report: Progress,
) -> tuple[Cover, SmallestEpsilon | None]:
    """Return a cover, and the smallest tolerance of a budget if that is asked for."""
    seed, limit = options.seed, options.time_limit
    if options.is_mean:
        assert options.budget is not None
        cover = mean_cover(
            problem,
            options.budget,
            epsilon=problem.question.epsilon,
            leave_out=True,
            time_limit=limit,
            progress=search_progress(report, limit, "mean in [{:.4g}, {:.4g}]"),
        )
        return cover, None
    if not options.seeks_epsilon(problem.question):
        cover = find_best_cover(
            problem,
            options.method,
            share=options.share,
            budget=options.budget,
            time_limit=limit,
            seed=seed,
            progress=search_progress(report, limit),
        )
        return cover, None
    assert options.budget is not None
    least = smallest_tolerance(
        problem,
        options.budget,
        time_limit=limit,
        seed=seed,
        progress=search_progress(report, limit, "ε in [{:.4g}, {:.4g}]"),
    )
    return cover_within(problem, least), least


def _write(
    options: Options,
    reading: Reading,
    problem: CoverProblem,
    answer: Cover,
) -> None:
    """Write the files that were asked for: the cover, who serves whom, the picture."""
    if options.save is not None:
        assert answer.question is not None
        record = {
            "path": str(options.path),
            **answer.question.to_dict(),
            "read": reading.options,
            "costs": options.costs and str(options.costs),
            "weights": options.weights and str(options.weights),
        }
        answer.save(options.save, question=record)
    if options.plot is not None:
        from taskspace.show.figures.map import map as draw_map  # matplotlib is slow

        draw_map(problem.study, answer).savefig(options.plot, dpi=200)


def _record(
    options: Options,
    problem: CoverProblem,
    answer: Cover,
    least: SmallestEpsilon | None,
) -> dict[str, Any]:
    """Return the answer as JSON."""
    record = answer.to_dict()
    if least is not None:
        record["smallest_epsilon"] = least.to_dict()
    if problem.target_weights is not None:
        record["weight_coverage"] = problem.served_weight(answer)
    if notes := _notes(options, problem, answer):
        record["notes"] = notes
    return record


def _notes(options: Options, problem: CoverProblem, answer: Cover) -> list[str]:
    """Return what a person should know: of the table, and of cells near the bound."""
    if options.seeks_epsilon(problem.question):
        return problem.notes  # a loss is the bound there, and nothing else can be
    is_whole = options.share is None and options.budget is None
    near = problem.question.rounding_note(
        problem.study,
        answer.sources,
        is_minimum=options.method == "minimum" and is_whole,
    )
    return [*problem.notes, *([near] if near else [])]


def _show(
    options: Options,
    reading: Reading,
    problem: CoverProblem,
    answer: Cover,
    least: SmallestEpsilon | None,
) -> None:
    """Print the answer, and the next command."""
    show_notes(_notes(options, problem, answer))
    if least is not None:
        console.print(shown(least.say(scope=answer.scope)))
    weight = problem.served_weight(answer)
    if weight is not None:
        console.print(f"{percent(weight)} of the weight is served.")
    again = None
    if least is None and not options.is_mean:
        again = command_options(
            options.path,
            problem.question,
            read=reading.read,
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
