"""`taskspace cover`: the fewest sources that serve all targets."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from taskspace.cli.inputs import load_set_cover, load_table
from taskspace.cli.options import (
    ContextsOption,
    CriterionOption,
    FamilyOption,
    LowerIsBetterOption,
    SeedOption,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    stage_progress,
)
from taskspace.cover import Cover
from taskspace.criteria import check_criterion, table_sets
from taskspace.runs.covers import cover_record, find_cover

SHOWN_SOURCES = 12


def cover(
    path: Annotated[
        Path,
        typer.Argument(
            help="A run, a matrix file (with --epsilon), or a set-cover file."
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Tolerance; not for set-cover files.", show_default=False),
    ] = None,
    criterion: CriterionOption = "regret",
    family: FamilyOption = "all",
    method: Annotated[
        str, typer.Option(help="greedy, local, minimum, uniform or random.")
    ] = "greedy",
    time_limit: Annotated[
        float, typer.Option(help="Seconds for local and minimum.")
    ] = 60.0,
    seed: SeedOption = 0,
    lower_is_better: LowerIsBetterOption = False,
    contexts: ContextsOption = None,
    unicost: Annotated[
        bool, typer.Option("--unicost", help="Ignore the costs of a set-cover file.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the cover here, for `taskspace verify`."),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Choose the fewest sources whose policies serve every target within ε.

    The answer names the sources and a lower bound: no selection with fewer exists.
    """
    check_criterion(criterion, family)
    with stage_progress() as report:
        report("load", 0, 1)
        if epsilon is None:
            instance = load_set_cover(path, unicost=unicost)
            sets, costs, shape, table = instance.sets, instance.costs, None, None
        else:
            loaded = load_table(
                path, lower_is_better=lower_is_better, contexts=contexts
            )
            table, costs, shape = loaded.table, None, loaded.shape
            sets = table_sets(table, criterion, family, epsilon)
        report("load", 1, 1)
        found = find_cover(
            sets,
            method,
            shape=shape,
            costs=costs,
            time_limit=time_limit,
            seed=seed,
            progress=lambda p: report(
                "search",
                int(p.seconds),
                int(time_limit),
                f"[{p.lower_bound:g}, {p.best:g}] {p.phase}",
            ),
        )
    record = cover_record(
        found,
        table=table,
        criterion=criterion if table is not None else None,
        family=family if table is not None else None,
        epsilon=epsilon,
    )
    if table is not None and "source" in table.coords:
        names = table.coords["source"].values[found.sources]
        record["names"] = [str(name) for name in names]
    if save is not None:
        found.save(
            save,
            question={
                "path": str(path),
                "criterion": record["criterion"],
                "family": record["family"],
                "epsilon": epsilon,
                "lower_is_better": lower_is_better,
                "contexts": None if contexts is None else str(contexts),
                "unicost": unicost,
            },
        )
    if output == Format.JSON:
        print_json(record)
        return
    _show(found, record, path, save)


def _show(found: Cover, record: dict[str, Any], path: Path, save: Path | None) -> None:
    exact = "proven optimal" if found.optimal else f"[{number(found.lower_bound)}, "
    if not found.optimal:
        exact += f"{number(found.cost)}] by the {found.lower_bound_kind} bound"
    console.print(
        f"[bold]{found.size} sources[/bold] of {found.n_sources:,} cover "
        f"{100 * found.coverage:.4g} % of {found.n_targets:,} targets: {exact}."
    )
    if found.cost != found.size:
        console.print(f"Total cost {number(found.cost, 8)}.")
    if len(found.uncoverable):
        console.print(
            f"[red]![/red] {len(found.uncoverable)} targets are served by no source, "
            f"the first is number {found.uncoverable[0]}."
        )
    epsilon, regret = record["epsilon"], record["worst_regret"]
    if epsilon is not None:
        console.print(f"Worst regret over the targets served: {number(regret)}.")
        if record["criterion"] == "signed" and (regret is None or regret > epsilon):
            console.print(
                f"[red]![/red] That exceeds ε = {epsilon:g}: the signed criterion "
                "compares each policy with its own score at home, so a poor policy "
                "covers much. Use --criterion regret to deploy."
            )
    table = Table("source", "serves")
    labels = record.get("names", record["sources"])
    contexts = record.get("contexts")
    names = list(contexts[0]) if contexts else []
    for name in names:
        table.add_column(name, justify="right")
    for i, source in enumerate(record["sources"][:SHOWN_SOURCES]):
        served = int((found.assignment == source).sum())
        values = [number(contexts[i][n]) for n in names] if contexts else []
        table.add_row(str(labels[i]), f"{served:,}", *values)
    console.print(table)
    if found.size > SHOWN_SOURCES:
        console.print(
            f"... and {found.size - SHOWN_SOURCES} more; all with --format json."
        )
    console.print(f"{found.method}, {found.stop_reason}, {found.seconds:.2f} s")
    if save is not None:
        console.print(f"Saved {save}; check it with: taskspace verify {save} {path}")
    if found.method != "minimum" and not found.optimal:
        options = "" if epsilon is None else f" --epsilon {epsilon:g}"
        if record["criterion"] not in (None, "regret"):
            options += f" --criterion {record['criterion']}"
        console.print(f"Next: taskspace cover {path}{options} --method minimum")
