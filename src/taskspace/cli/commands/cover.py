"""`taskspace cover`: the fewest sources that serve all targets."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from taskspace._util import memory as _memory
from taskspace._util.files import write_atomically
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
    percent,
    search_progress,
    show_notes,
    shown,
    stage_progress,
    writable,
)
from taskspace.cli.reading import (
    has_questions,
    is_set_cover,
    read_problem,
    source_places,
)
from taskspace.cli.render.cover import More, assignment_csv, show_cover, show_more
from taskspace.cover import (
    METHODS,
    Cover,
    CoverAnswer,
    SmallestEpsilon,
    SourceValue,
    cover_with_holes,
    resampled_covers,
    source_values,
)
from taskspace.cover.ask import (
    CoverProblem,
)
from taskspace.cover.base import Clock
from taskspace.cover.holes import unknown_cells
from taskspace.cover.resample import run_losses
from taskspace.cover.tolerance.error import largest_error
from taskspace.cover.values import Best, best_of
from taskspace.deploy import RuleTrial, judge_rules
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question

UNMET = 3  # exit code of a demand that the answer does not meet

EXAMPLES = (
    "taskspace cover scores.csv --epsilon 5 --method minimum",
    "taskspace cover runs/msd-lqr --budget 4",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace cover` may be told beside the question and the reading."""

    path: Path = argument(
        "A run or a matrix file (with --epsilon or --budget), or a set-cover file."
    )
    epsilon: float | None = option("Tolerance; not for set-cover files.")
    method: str = option(f"{', '.join(METHODS)}.", "greedy")
    time_limit: float = option("Seconds until a search ends, loading included.", 60.0)
    seed: SeedOption = 0
    memory: MemoryOption = None
    unicost: bool = option("Ignore the costs of a set-cover file.", False)
    budget: int | None = option(
        "Sources at most: as many targets as they serve within --epsilon, or "
        "without it the smallest ε within which they serve all."
    )
    objective: str = option(
        "What a budget makes small: worst, or mean (then --epsilon, if "
        "given, caps the worst).",
        "worst",
    )
    unservable: str = option(
        "Targets of no finite loss, of a budget without --epsilon or of a "
        "mean: error, leave-out.",
        "error",
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
    assignment: Path | None = option("Write who serves whom here, as CSV.")
    values: bool = option(
        "Also what each source adds: the best answer without it, or with it.", False
    )
    largest_error: bool = option(
        "Find the largest multiple of --error that the sources of --include, "
        "or any --budget of them, stand.",
        False,
    )
    resample: int | None = option(
        "Draw the runs (policies) of each source so often anew, and say how much "
        "of a cover of their joined scores is chance."
    )
    aggregate: str = option("How --resample joins runs: mean, iqm.", "mean")
    score_bounds: str | None = option(
        "Between which all scores of runs lie, e.g. 0,100: --resample then has "
        "intervals that hold for few runs too."
    )
    rules: bool = option(
        "Judge rules that name a source for a new target by its context (--contexts).",
        False,
    )
    run_share: float = option(
        "For --rules: share of the runs of a source that must serve a target.", 0.5
    )
    save_rule: Path | None = option(
        "Write the rule of the largest bound here, as JSON."
    )
    require_full: bool = option(
        "Exit with code 3 unless every target is served.", False
    )

    @property
    def is_mean(self) -> bool:
        """Whether the least mean loss of a budget is asked for."""
        return self.objective == "mean"

    @property
    def measure(self) -> str:
        """What the best selection has least of."""
        if self.budget is None:
            return "cost"
        if self.is_mean:
            return "mean loss"
        return "smallest ε" if self.seeks_epsilon else "share unserved"

    @cached_property
    def seeks_epsilon(self) -> bool:
        """Whether the smallest tolerance of a budget is asked for."""
        bounded = self.budget is not None and self.epsilon is None
        bounded &= not self.largest_error
        return bounded and not self.is_mean and not is_set_cover(self.path)

    def check(self) -> None:
        """Refuse words that are none of an option's, and what does not go together."""
        for name, words in (
            ("objective", ["worst", "mean"]),
            ("unservable", ["error", "leave-out"]),
        ):
            if getattr(self, name) not in words:
                raise UnknownNameError(
                    f"value of --{name}:", getattr(self, name), words
                )
        if not self.is_mean:
            return
        if self.budget is None or is_set_cover(self.path):
            raise InvalidInputError(
                "--objective mean asks which sources of a budget have the least mean "
                "loss: it needs --budget, e.g. --budget 5, and a run or a matrix."
            )
        if self.share is not None or self.costs is not None:
            raise InvalidInputError("--objective mean knows no --share and no --costs.")

    def restrict(self, problem: CoverProblem) -> CoverProblem:
        """Return a problem with the sources that must be in or out."""
        names, n = problem.source_names, problem.n_sources
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
    clock = Clock(options.time_limit, began=began())
    _memory.limit(options.memory)
    question = _question(options, asking)
    with stage_progress() as report:
        report("load", 0, 1)
        problem = _read(options, question, reading)
        report("load", 1, 1)
        if options.largest_error:
            return _find_error(options, problem)
        cover, least = _ask(options, problem, clock, report)
        more = _ask_more(options, problem, cover, least, clock, report)
    answer = problem.answer(cover)
    _write(options, reading, problem, answer, more)

    def show() -> None:
        _show(options, reading, problem, answer, least)
        show_more(more, problem)

    is_short = options.require_full and not cover.is_full
    return Answer(
        lambda: _record(problem, answer, least) | more.record(),
        show,
        UNMET if is_short or cover.missed_share is not None else 0,
    )


def _question(options: Options, asking: Asking) -> Question | None:
    """Return what is asked, None of a set-cover file; bad options show at once."""
    writable(options.save)
    writable(options.assignment)
    writable(options.save_rule)
    if options.save_rule is not None and not options.rules:
        raise InvalidInputError("--save-rule writes what --rules judges: give both.")
    if options.rules and options.epsilon is None and options.budget is not None:
        raise InvalidInputError(
            "--rules are judged within a tolerance that no target has chosen: give "
            "--epsilon."
        )
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
    options: Options, question: Question | None, reading: Reading
) -> CoverProblem:
    """Return the study and its table, or the sets of a file; costs and weights."""
    study = None
    if question is not None:
        study = reading.study(options.path)
        question.table_of(study)  # reads it
    problem = read_problem(
        options.path,
        study,
        question,
        costs=options.costs,
        weights=options.weights,
        unicost=options.unicost,
    )
    return options.restrict(problem)


def _ask(
    options: Options,
    problem: CoverProblem,
    clock: Clock,
    report: Progress,
) -> tuple[Cover, SmallestEpsilon | None]:
    """Return a cover, and the smallest tolerance of a budget if that is asked for."""
    seed = options.seed
    leave_out = options.unservable == "leave-out"
    if options.is_mean:
        assert options.budget is not None
        cover = problem.least_mean(
            options.budget,
            epsilon=options.epsilon,
            leave_out=leave_out,
            time_limit=clock.left,
            progress=search_progress(report, clock.left, "mean in [{:.4g}, {:.4g}]"),
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
        )
        return cover, None
    assert options.budget is not None
    least = problem.smallest_tolerance(
        options.budget,
        leave_out=leave_out,
        time_limit=clock.left,
        seed=seed,
        progress=search_progress(report, clock.left, "ε in [{:.4g}, {:.4g}]"),
    )
    return problem.cover_within(least), least


def _find_error(options: Options, problem: CoverProblem) -> Answer:
    """Return the largest error that some sources stand."""
    included, question = problem.include, problem.question
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
    targets, unserved = problem.study.targets, largest.unserved

    def show() -> None:
        console.print(shown(largest.words))
        if len(unserved) and targets is not None:
            first = targets.context(int(unserved[0]))
            place = ", ".join(f"{name} = {value:g}" for name, value in first.items())
            more = f" and {len(unserved) - 1} more" if len(unserved) > 1 else ""
            console.print(shown(f"From there on none of them serves {place}{more}."))

    return Answer(
        lambda: {**question.to_dict(), "largest_error": largest.to_dict()}, show
    )


def _write(
    options: Options,
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
    options: Options,
    reading: Reading,
    problem: CoverProblem,
    answer: CoverAnswer,
    least: SmallestEpsilon | None,
) -> None:
    """Print the answer, and the next command."""
    show_notes(problem.notes)
    if least is not None:
        console.print(shown(least.say(scope=answer.scope)))
    weight = problem.served_weight(answer.cover)
    if weight is not None:
        console.print(f"{percent(weight)} of the weight is served.")
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


def _ask_more(
    options: Options,
    problem: CoverProblem,
    cover: Cover,
    least: SmallestEpsilon | None,
    clock: Clock,
    report: Progress,
) -> More:
    """Return what unmeasured cells leave open, what sources add, what is chance."""
    holes = values = resampled = None
    study, question = problem.study, problem.question
    if options.is_mean or options.seeks_epsilon:
        study = None
    if study and question and unknown_cells(study) is not None:
        holes = cover_with_holes(
            study,
            question,
            costs=problem.costs,
            time_limit=clock.left / 2,
            seed=options.seed,
            include=problem.include,
            exclude=problem.exclude,
        )
    if options.values:
        values = _ask_values(options, problem, cover, least, clock, report)
    if options.resample is not None:
        if study is None or question is None:
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
    trials = _judge(options, problem, cover) if options.rules else None
    return More(holes, values, options.measure, resampled, trials)


def _ask_values(
    options: Options,
    problem: CoverProblem,
    cover: Cover,
    least: SmallestEpsilon | None,
    clock: Clock,
    report: Progress,
) -> list[SourceValue]:
    """Return what each source adds: the same question without it, or with it."""
    proven = replace(options, method="minimum")

    def solve(include: list[int], exclude: list[int], seconds: float) -> Best:
        restricted = replace(problem, include=include, exclude=exclude)
        answer = _ask(proven, restricted, Clock(seconds), silent)
        return best_of(*answer, problem.weights)

    return source_values(
        cover,
        solve,
        own=best_of(cover, least, problem.weights),
        time_limit=clock.left,
        progress=report,
    )


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


def _judge(options: Options, problem: CoverProblem, cover: Cover) -> list[RuleTrial]:
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
        cover.sources.tolist(),
        epsilon=question.epsilon,
        run_share=options.run_share,
        seed=options.seed,
        names=problem.source_names,
        axes=space.names,
    )
    return sorted(trials, key=lambda t: -(t.served_bound or t.good_bound or 0.0))
