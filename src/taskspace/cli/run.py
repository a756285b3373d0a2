"""`taskspace run`: a whole experiment into a run directory."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    number,
    print_json,
    stage_progress,
)
from taskspace.runs import RunResult, load_experiment, run_experiment
from taskspace.runs.experiment import Experiment


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            help="A built-in experiment (msd, ...) or a TOML file.", metavar="NAME|FILE"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Run directory; runs/NAME by default.", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Replace a value, e.g. --set trainer.noise=0.2 or --set space.n=20.",
            metavar="KEY=VALUE",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes; 0 works in this one. By default what suits the system.",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler whose workers see the same files.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run an experiment: train, evaluate everywhere, cover, draw.

    Finished blocks are kept: run the same command again after an interruption and
    it goes on where it was.
    """
    loaded = load_experiment(experiment, overrides or ())
    path = out or _default_directory(loaded, bool(overrides))
    with stage_progress() as report:
        result = run_experiment(
            loaded, path, workers=workers, scheduler=scheduler, report=report
        )
        report("draw", 0, 1)
        figures = _figures(result, loaded.resolved())
        report("draw", 1, 1)
    if output == Format.JSON:
        covers = [without_assignment(cover) for cover in result.results["covers"]]
        print_json(
            {
                "run": str(result.path),
                "seconds": result.seconds,
                "covers": covers,
                "figures": [str(figure) for figure in figures],
            }
        )
        return
    done = "read from" if result.reused else "in"
    print_summary(
        result.path,
        loaded,
        result.results,
        figures,
        f"Run {done} {result.path} ({result.seconds:.1f} s)",
    )


def _default_directory(experiment: Experiment, changed: bool) -> Path:
    """`runs/NAME`, or `runs/NAME-xxxxxx` for a changed version of it."""
    if not changed:
        return Path("runs") / experiment.name
    digest = hashlib.sha256(experiment.resolved().to_toml().encode()).hexdigest()
    return Path("runs") / f"{experiment.name}-{digest[:6]}"


def _figures(result: RunResult, experiment: Experiment) -> list[Path]:
    folder = result.path / "figures"
    stored = sorted(folder.glob("*.png"))
    if result.reused and stored:
        return stored
    from taskspace.show import save_figures  # matplotlib takes a while to load

    return save_figures(experiment, result.results, folder)


def without_assignment(cover: dict[str, Any]) -> dict[str, Any]:
    """A cover record without its longest part, for printing."""
    return {key: value for key, value in cover.items() if key != "assignment"}


def print_summary(
    path: Path,
    experiment: Experiment,
    results: dict[str, Any],
    figures: list[Path],
    closing: str = "",
) -> None:
    """Print what a run found, for people.

    Args:
        path: the run or its archive.
        experiment: what was run.
        results: the answer to the experiment.
        figures: files that were drawn.
        closing: a line about the run itself.
    """
    spent = results["spent"]
    console.print(
        f"\n[bold]{experiment.name}[/bold]: {experiment.sources.size:,} sources x "
        f"{spent['trainings_per_source']} policies x "
        f"{experiment.target_space.size:,} targets, regret against the "
        f"{results['best_known_kind']}"
    )
    covers = results["covers"]
    questions = dict.fromkeys(
        (cover["criterion"], cover["family"], cover["epsilon"]) for cover in covers
    )
    for question in questions:
        mine = [
            cover
            for cover in covers
            if (cover["criterion"], cover["family"], cover["epsilon"]) == question
        ]
        _summarise_covers(mine, spent)
    console.print(
        "worst regret: what the cover really leaves. trained: policies that had to be "
        "trained before it could be chosen."
    )
    home = results["home"]
    if home and home["n_failed"]:
        console.print(
            f"[red]![/red] {home['n_failed']} of {home['n_policies']} policies score "
            f"below {home['solved_return']:g} at their own source (the worst "
            f"{home['worst']:.4g}). The signed criterion is blind to that: such a "
            "policy has little to lose, so its tolerance set is large."
        )
    elif home:
        console.print(
            f"All {home['n_policies']} policies reach {home['solved_return']:g} at "
            "their own source."
        )
    if closing:
        console.print(closing)
    for figure in figures:
        console.print(f"Figure {figure}")
    console.print(
        f"Next: taskspace cover {path} --epsilon "
        f"{number(2 * covers[-1]['epsilon'])} --method minimum"
    )


def _summarise_covers(covers: list[dict[str, Any]], spent: dict[str, Any]) -> None:
    """A table of the covers that answer one question, and a warning if need be."""
    first = covers[0]
    epsilon = first["epsilon"]
    lower = max(cover["lower_bound"] or 0 for cover in covers)
    upper = min(cover["size"] for cover in covers)
    answer = f"{upper}, proven" if upper == lower else f"in [{lower:g}, {upper}]"
    n_lost, n_targets = len(first["uncoverable"]), first["n_targets"]
    if n_lost:
        answer += f", for the {n_targets - n_lost:,} targets that can be served"
    table = Table(
        title=(
            f"{first['criterion']} ≤ {epsilon:g} by {first['family']} of a family: "
            f"complexity {answer}"
        ),
        title_justify="left",
    )
    table.add_column("method")
    for name in ("sources", "covered", "worst regret", "trained"):
        table.add_column(name, justify="right", no_wrap=True)
    misleading = None
    for cover in covers:
        oracle = cover["method"] in spent["oracle_methods"]
        size, n_selected = str(cover["size"]), cover["size"]
        if "sizes" in cover:
            spread = cover["sizes"]
            size = f"{spread['mean']:.0f} ({spread['least']}–{spread['most']})"
            n_selected = round(spread["mean"])
        trained = (
            spent["trainings"] if oracle else n_selected * spent["trainings_per_source"]
        )
        regret = cover["worst_regret"]
        too_much = first["criterion"] == "signed" and (
            regret is None or regret > epsilon
        )
        if too_much and (misleading is None or regret is None or regret > misleading):
            misleading = regret if regret is not None else float("inf")
        table.add_row(
            cover["method"],
            size,
            f"{100 * cover['coverage']:.4g} %",
            f"[red]{number(regret)} ![/red]" if too_much else number(regret),
            f"{trained:,}",
        )
    console.print(table)
    if n_lost:
        console.print(
            f"[red]![/red] No source serves {n_lost} of the {n_targets:,} targets "
            f"within ε = {epsilon:g}."
        )
    if misleading is not None:
        console.print(
            f"[red]![/red] A signed cover within ε = {epsilon:g} leaves a regret of up "
            f"to {number(misleading)}: it compares each policy with its own score at "
            "home, so a poor policy covers much. Use the regret criterion to deploy."
        )
