"""`taskspace cover`: the fewest sources that serve all targets."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr
from numpy.typing import NDArray
from rich.table import Table

from taskspace import _memory
from taskspace._files import write_atomically
from taskspace.cli.budget import (
    cover_at,
    smallest,
    smallest_record,
    smallest_sentence,
)
from taskspace.cli.inputs import is_set_cover, load_set_cover, load_table
from taskspace.cli.kernels import compile_kernels, method_kernels
from taskspace.cli.numbers import load_numbers, source_places
from taskspace.cli.options import (
    ContextsOption,
    CriterionOption,
    FamilyOption,
    IgnoreOption,
    JudgeOption,
    LowerIsBetterOption,
    MemoryOption,
    MissingOption,
    SeedOption,
    TargetsOption,
    asked,
    question_options,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    figure_file,
    number,
    print_json,
    shown,
    stage_progress,
    writable,
)
from taskspace.cover import METHODS, Cover, CoverAnswer, find_cover
from taskspace.cover.answer import source_names, target_names
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.performance import target_space

SHOWN_SOURCES = 12
SHOWN_TARGETS = 30


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
    criterion: CriterionOption = "regret",
    judge: JudgeOption = "worst",
    family: FamilyOption = None,
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")] = "greedy",
    time_limit: Annotated[
        float, typer.Option(help="Seconds until a search ends, loading included.")
    ] = 60.0,
    seed: SeedOption = 0,
    lower_is_better: LowerIsBetterOption = False,
    contexts: ContextsOption = None,
    targets: TargetsOption = None,
    ignore: IgnoreOption = None,
    missing: MissingOption = "error",
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
            help="Sources that must be in, for the smallest ε: a,b,3.",
            show_default=False,
        ),
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(
            help="Sources that must not be in, for the smallest ε.", show_default=False
        ),
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
            "--require-full", help="Exit with code 3 unless every target is served."
        ),
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    clock = Clock(time_limit)
    _memory.limit(memory)
    for file in (save, assignment):
        writable(file)
    figure_file(plot)
    question = None
    if epsilon is not None:
        question = asked(criterion, judge, family, epsilon)
    elif budget is not None and not is_set_cover(path):
        question = asked(criterion, judge, family, 0.0)
    seeks_epsilon = question is not None and epsilon is None
    _check_options(
        seeks_epsilon, method, {"share": share, "weights": weights, "costs": costs},
        {"include": include, "exclude": exclude},
    )  # fmt: skip
    if plot is not None and question is None:
        raise InvalidInputError("--plot needs a run or a matrix, not a set-cover file.")
    with stage_progress() as report:
        report("load", 0, 1)
        table, shape, notes, least = None, None, [], None
        if question is None:
            problem = load_set_cover(path, unicost=unicost)
            sets, of_sources = problem.sets, problem.costs
        else:
            loaded = load_table(
                path,
                lower_is_better=lower_is_better,
                contexts=contexts,
                targets=targets,
                ignore=ignore,
                missing=missing,
            )
            table, shape, notes = loaded.table, loaded.shape, loaded.notes
            sets, of_sources = None, None
        report("load", 1, 1)
        left = clock.left
        names = method_kernels(["minimum" if seeks_epsilon else method])
        if compile_kernels(report, names):
            clock = Clock(left)
        of_targets = None
        if seeks_epsilon:
            assert question is not None
            assert table is not None
            assert budget is not None
            least = smallest(
                table,
                question,
                budget,
                include=source_places(include, table),
                exclude=source_places(exclude, table),
                time_limit=clock.left,
                seed=seed,
                report=report,
            )
            question = question.at(least.upper)
            found = cover_at(least, question, table)
        else:
            if question is not None and table is not None:
                sets = question.sets(table)
            assert sets is not None
            if costs is not None:
                labels = source_names(table) if table is not None else None
                of_sources = load_numbers(costs, labels, sets.n_sources, "source")
            if weights is not None:
                labels = target_names(table) if table is not None else None
                of_targets = load_numbers(weights, labels, sets.n_targets, "target")
            found = find_cover(
                sets,
                method,
                shape=shape,
                costs=of_sources,
                share=share,
                target_weights=of_targets,
                budget=budget,
                time_limit=clock.left,
                seed=seed,
                progress=lambda p: report(
                    "search",
                    int(p.seconds),
                    int(time_limit),
                    f"[{p.lower_bound:g}, {p.best:g}] {p.phase}",
                ),
            )
    answer = CoverAnswer(found)
    if question is not None and table is not None:
        answer = CoverAnswer.of(found, question, table)
    if save is not None:
        found.save(
            save,
            question={
                "path": str(path),
                **(question.record() if question else {"epsilon": None}),
                "lower_is_better": lower_is_better,
                "contexts": None if contexts is None else str(contexts),
                "targets": targets,
                "ignore": ignore,
                "missing": missing,
                "unicost": unicost,
                "costs": None if costs is None else str(costs),
                "weights": None if weights is None else str(weights),
            },
        )
    if assignment is not None:
        write_atomically(assignment, _assignment_csv(answer, table))
    if plot is not None and table is not None:
        from taskspace.show.maps import map as draw_map  # matplotlib loads slowly

        draw_map(table, found, question).savefig(plot, dpi=200)
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
            console.print(smallest_sentence(least, answer.scope))
        if served_weight is not None:
            console.print(f"{100 * served_weight:.4g} % of the weight is served.")
        _show(
            answer,
            table,
            path,
            save,
            weighted=weights is not None,
            suggests=least is None and budget is None,
        )
        if plot is not None:
            console.print(f"Figure {shown(plot)}")
    if require_full and found.coverage < 1.0:
        raise typer.Exit(3)


def _check_options(
    seeks_epsilon: bool, method: str, given: dict[str, Any], forced: dict[str, Any]
) -> None:
    """Refuse options that the question asked would leave without effect."""
    if seeks_epsilon:
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
        return
    for name, value in forced.items():
        if value is not None:
            raise InvalidInputError(
                f"--{name} is for the smallest ε of a table: give --budget and leave "
                "--epsilon out."
            )


def _served_share(found: Cover, weights: NDArray[np.float64]) -> float:
    total = weights.sum()
    return float(weights[found.assignment >= 0].sum() / total) if total else 1.0


def _label(names: list[str] | None, place: int) -> str:
    return shown(names[place]) if names else f"{place:,}"


def _claim(found: Cover, scope: str, weighted: bool) -> str:
    """What is known of a cover beside its size."""
    if found.coverage_bound is not None:
        if found.optimal:
            return f"proven that no {found.size} sources serve more{scope}"
        unit = " of the weight" if weighted else ""
        return (
            f"no {found.size} sources serve more than "
            f"{100 * found.coverage_bound:.4g} %{unit}{scope}"
        )
    if found.optimal:
        return f"proven optimal{scope}"
    return (
        rf"\[{number(found.lower_bound)}, {number(found.cost)}] by the "
        f"{found.lower_bound_kind} bound{scope}"
    )


def _show(
    answer: CoverAnswer,
    table: xr.Dataset | None,
    path: Path,
    save: Path | None,
    *,
    weighted: bool,
    suggests: bool,
) -> None:
    found, question = answer.cover, answer.question
    scope = f" {answer.scope}" if answer.scope else ""
    some = "source" if found.size == 1 else "sources"
    console.print(
        f"[bold]{found.size} {some}[/bold] of {found.n_sources:,} cover "
        f"{100 * found.coverage:.4g} % of {found.n_targets:,} targets: "
        f"{_claim(found, scope, weighted)}."
    )
    if question is not None:
        console.print(f"Asked: {question.statement}.")
    if found.cost != found.size:
        console.print(f"Total cost {number(found.cost, 8)}.")
    names = target_names(table) if table is not None else None
    if len(found.uncoverable):
        first = ", ".join(_label(names, int(t)) for t in found.uncoverable[:5])
        more = ", ..." if len(found.uncoverable) > 5 else ""
        console.print(
            f"[red]![/red] {len(found.uncoverable)} targets are served by no source: "
            f"{first}{more}."
        )
    if question is not None:
        _show_losses(answer)
    _show_sources(answer)
    if table is not None and found.n_targets <= SHOWN_TARGETS and found.size > 0:
        _show_assignment(answer, table)
    console.print(f"{found.method}, {found.stop_reason}, {found.seconds:.2f} s")
    if save is not None:
        console.print(
            f"Saved {shown(save)}; check it with: taskspace verify {shown(save)} "
            f"{shown(path)}"
        )
    if suggests and found.method != "minimum" and not found.optimal:
        options = f" {question_options(question)}" if question else ""
        console.print(f"Next: taskspace cover {shown(path)}{options} --method minimum")


def _show_losses(answer: CoverAnswer) -> None:
    question = answer.question
    assert question is not None
    if question.criterion != "regret":
        console.print(
            f"Worst {question.criterion} over the targets served: "
            f"{number(answer.worst_loss)} (in {question.rule.unit})."
        )
    console.print(
        f"Worst regret over the targets served: {number(answer.worst_regret)} (in "
        "performance)."
    )
    if answer.misleads:
        console.print(
            f"[red]![/red] That exceeds ε = {question.epsilon:g}: the signed criterion "
            "compares each policy with its own score at home, so a poor policy covers "
            "much. Use --criterion regret to deploy."
        )


def _show_sources(answer: CoverAnswer) -> None:
    found = answer.cover
    table = Table("source", "serves")
    names = list(answer.contexts[0]) if answer.contexts else []
    for name in names:
        table.add_column(shown(name), justify="right")
    for place, source in enumerate(found.sources[:SHOWN_SOURCES].tolist()):
        label = shown(answer.names[place]) if answer.names else str(source)
        served = int((found.assignment == source).sum())
        values = answer.contexts[place] if answer.contexts else {}
        table.add_row(label, f"{served:,}", *(number(values[n]) for n in names))
    console.print(table)
    if found.size > SHOWN_SOURCES:
        console.print(
            f"... and {found.size - SHOWN_SOURCES} more; all with --format json."
        )


def _show_assignment(answer: CoverAnswer, table: xr.Dataset) -> None:
    view = Table("target", "served by", "loss")
    for target, source, loss in _assigned(answer, table):
        view.add_row(shown(target), shown(source) if source else "–", number(loss))
    console.print(view)


def _assigned(
    answer: CoverAnswer, table: xr.Dataset | None
) -> list[tuple[str, str, float | None]]:
    """For each target its name, the name of its source, and what it loses."""
    found = answer.cover
    names = target_names(table) if table is not None else None
    sources = source_names(table) if table is not None else None
    left = None
    if answer.question is not None and table is not None:
        left = answer.question.left(table, found.assignment)
    rows = []
    for target, source in enumerate(found.assignment.tolist()):
        rows.append(
            (
                names[target] if names else str(target),
                "" if source < 0 else (sources[source] if sources else str(source)),
                None if left is None or source < 0 else float(left[target]),
            )
        )
    return rows


def _assignment_csv(answer: CoverAnswer, table: xr.Dataset | None) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    space = target_space(table) if table is not None else None
    axes = list(space.names) if space is not None else []
    writer.writerow(["target", *axes, "source", "loss"])
    for place, (target, source, loss) in enumerate(_assigned(answer, table)):
        values = space.points[place].tolist() if space is not None else []
        # A cell that a spreadsheet would take for a formula gets an apostrophe.
        cells = [f"'{c}" if c[:1] in "=+-@" and c else c for c in (target, source)]
        writer.writerow([cells[0], *values, cells[1], "" if loss is None else loss])
    return out.getvalue()
