"""`taskspace cover`: the fewest sources that serve all targets."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from taskspace._util import memory as _memory
from taskspace._util.files import write_atomically
from taskspace.cli.asked import has_questions
from taskspace.cli.budget import (
    cover_at,
    smallest,
    smallest_record,
)
from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.inputs import is_set_cover, load_set_cover
from taskspace.cli.kernels import compile_kernels, method_kernels
from taskspace.cli.numbers import load_numbers, source_places
from taskspace.cli.options import (
    MemoryOption,
    SeedOption,
    command_options,
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
from taskspace.cli.render.cover import assignment_csv, show_cover
from taskspace.cover import METHODS, Cover, CoverAnswer, find_cover, settle_ties
from taskspace.cover.answer import source_names, target_names
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError


@grouped
def cover(
    path: Annotated[
        Path,
        typer.Argument(
            help="A run or a matrix file (with --epsilon or --budget), or a "
            "set-cover file."
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Tolerance; not for set-cover files.", show_default=False),
    ] = None,
    asking: Asking = NO_ASKING,
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")] = "greedy",
    time_limit: Annotated[
        float, typer.Option(help="Seconds until a search ends, loading included.")
    ] = 60.0,
    seed: SeedOption = 0,
    memory: MemoryOption = None,
    unicost: Annotated[
        bool, typer.Option("--unicost", help="Ignore the costs of a set-cover file.")
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Sources at most: as many targets as they serve within --epsilon, or "
            "without it the smallest ε within which they serve all.",
            show_default=False,
        ),
    ] = None,
    include: Annotated[
        str | None,
        typer.Option(
            help="Sources that must be in, by name or number: a,b,3.",
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(help="Sources that must not be in, likewise.", show_default=False),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the targets that is enough, for greedy.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="A file with the weight of each target, for greedy.",
            show_default=False,
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="A file with the cost of each source, for greedy, local, minimum.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw who serves whom here: .png, .pdf or .svg.", show_default=False
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the cover here, for `taskspace verify`."),
    ] = None,
    assignment: Annotated[
        Path | None,
        typer.Option(help="Write who serves whom here, as CSV."),
    ] = None,
    require_full: Annotated[
        bool,
        typer.Option(
            "--require-full",
            help="Exit with code 3 unless every target is served.",
        ),
    ] = False,
    reading: Reading = PLAIN,
    output: FormatOption = Format.TEXT,
) -> None:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    clock = Clock(time_limit, began=began())
    _memory.limit(memory)
    for file in (save, assignment):
        writable(file)
    figure_file(plot)
    question = None
    seeks_epsilon = budget is not None and epsilon is None and not is_set_cover(path)
    if epsilon is not None or seeks_epsilon or has_questions(path):
        question = asking.question(path, epsilon, any_epsilon=seeks_epsilon)
    _check_options(
        seeks_epsilon, method, {"share": share, "weights": weights, "costs": costs}
    )
    if plot is not None and question is None:
        raise InvalidInputError("--plot needs a run or a matrix, not a set-cover file.")
    with stage_progress() as report:
        report("load", 0, 1)
        study, table, shape, notes, least = None, None, None, [], None
        if question is None:
            problem = load_set_cover(path, unicost=unicost)
            sets, of_sources = problem.sets, problem.costs
        else:
            study = reading.study(path)
            table = question.table_of(study)
            shape, notes = study.shape, study.notes
            sets, of_sources = None, None
        report("load", 1, 1)
        left = clock.left
        kernels = method_kernels(["minimum" if seeks_epsilon else method])
        if compile_kernels(report, kernels):
            clock = Clock(left)
        of_targets = None
        names = None
        if table is not None:
            names, n_sources = source_names(table), table.sizes["source"]
        else:
            assert sets is not None
            n_sources = sets.n_sources
        limits: dict[str, Any] = {
            "include": source_places(include, names, n_sources),
            "exclude": source_places(exclude, names, n_sources),
        }
        if seeks_epsilon:
            assert question is not None
            assert table is not None
            assert budget is not None
            least = smallest(
                table,
                question,
                budget,
                **limits,
                time_limit=clock.left,
                seed=seed,
                report=report,
            )
            question = question.at(least.upper)
            found = cover_at(least, question, table, **limits)
        else:
            if question is not None and table is not None:
                sets = question.sets(table)
            assert sets is not None
            if costs is not None:
                of_sources = load_numbers(costs, names, sets.n_sources, "source")
            if weights is not None:
                labels = target_names(table) if table is not None else None
                of_targets = load_numbers(weights, labels, sets.n_targets, "target")
            found = find_cover(
                sets,
                method=method,
                shape=shape,
                costs=of_sources,
                share=share,
                target_weights=of_targets,
                budget=budget,
                **limits,
                time_limit=clock.left,
                seed=seed,
                progress=search_progress(report, clock.left),
            )
            plain = method == "minimum" and of_sources is None  # each costs 1
            if study is not None and question is not None and plain:
                limit = clock.left / 4
                found = settle_ties(found, study, question, time_limit=limit, seed=seed)
    answer = CoverAnswer(found)
    if study is not None:
        answer = CoverAnswer.of(found, study)
    if save is not None:
        found.save(
            save,
            question={
                "path": str(path),
                **(question.to_dict() if question else {"epsilon": None}),
                **reading.record,
                "unicost": unicost,
                "costs": None if costs is None else str(costs),
                "weights": None if weights is None else str(weights),
            },
        )
    if assignment is not None:
        write_atomically(assignment, assignment_csv(answer, table))
    if plot is not None and table is not None:
        from taskspace.show.figures.map import (
            map as draw_map,  # matplotlib loads slowly
        )

        draw_map(table, found).savefig(plot, dpi=200)
    served_weight = None if of_targets is None else _served_share(found, of_targets)
    if output == Format.JSON:
        record = answer.record()
        if least is not None:
            record["smallest_epsilon"] = smallest_record(least)
        if served_weight is not None:
            record["weight_coverage"] = served_weight
        if notes:
            record["notes"] = notes
        print_json(record)
    else:
        for note in notes:
            console.print(f"Note: {shown(note)}")
        if least is not None:
            console.print(shown(least.say(scope=answer.scope)))
        if served_weight is not None:
            console.print(f"{100 * served_weight:.4g} % of the weight is served.")
        again = None
        if least is None and budget is None and share is None and weights is None:
            again = command_options(
                path,
                question,
                **reading.again,
                unicost=unicost,
                costs=costs,
                include=include,
                exclude=exclude,
            )
        show_cover(answer, table, path, save, weighted=weights is not None, again=again)
        if plot is not None:
            console.print(f"Figure {shown(plot)}")
    if require_full and not found.is_full:
        raise typer.Exit(3)


def _check_options(seeks_epsilon: bool, method: str, given: dict[str, Any]) -> None:
    """Refuse options that the question asked would leave without effect."""
    if not seeks_epsilon:
        return
    if method not in ("greedy", "minimum"):
        raise InvalidInputError(
            f"The smallest ε is found by minimum covers, so --method {method} "
            "needs --epsilon."
        )
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(
                f"--{name} needs --epsilon: the smallest ε is that of all targets, "
                "each counted alike."
            )


def _served_share(found: Cover, weights: NDArray[np.float64]) -> float:
    total = weights.sum()
    return float(weights[found.assignment >= 0].sum() / total) if total else 1.0
