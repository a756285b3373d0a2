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
        covers = [_without_assignment(cover) for cover in result.results["covers"]]
        print_json(
            {
                "run": str(result.path),
                "seconds": result.seconds,
                "covers": covers,
                "figures": [str(figure) for figure in figures],
            }
        )
        return
    _summarise(result, loaded, figures)


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


def _without_assignment(cover: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cover.items() if key != "assignment"}


def _criterion(cover: dict[str, Any]) -> str:
    return f"{cover['criterion']} ≤ {cover['epsilon']:g}, {cover['family']}"


def _summarise(result: RunResult, experiment: Experiment, figures: list[Path]) -> None:
    spent = result.results["spent"]
    title = (
        f"{experiment.name}: {experiment.sources.size:,} sources x "
        f"{spent['trainings_per_source']} policies x "
        f"{experiment.target_space.size:,} targets"
    )
    table = Table(title=title, title_justify="left")
    for name in ("criterion", "method"):
        table.add_column(name)
    for name in ("sources", "proven ≥", "covered", "regret", "trained"):
        table.add_column(name, justify="right", no_wrap=True)
    proven: dict[str, float] = {}
    for cover in result.results["covers"]:
        key = _criterion(cover)
        proven[key] = max(proven.get(key, 0.0), cover["lower_bound"] or 0.0)
    warnings = []
    for cover in result.results["covers"]:
        oracle = cover["method"] in spent["oracle_methods"]
        trained = (
            spent["trainings"]
            if oracle
            else cover["size"] * spent["trainings_per_source"]
        )
        size = str(cover["size"])
        if "sizes" in cover:
            spread = cover["sizes"]
            size = f"{spread['mean']:.0f} ({spread['least']}–{spread['most']})"
        regret = cover["worst_regret"]
        misleading = cover["criterion"] == "signed" and (
            regret is None or regret > cover["epsilon"]
        )
        table.add_row(
            _criterion(cover),
            cover["method"],
            size,
            number(proven[_criterion(cover)]),
            f"{100 * cover['coverage']:.4g} %",
            f"[red]{number(regret)} !" if misleading else number(regret),
            f"{trained:,}",
        )
        if misleading and cover["method"] == "greedy":
            warnings.append((cover["epsilon"], regret))
    console.print(table)
    console.print(
        "regret: the worst that the cover really leaves. trained: policies that had to "
        "be trained to choose it."
    )
    for epsilon, regret in warnings:
        console.print(
            f"[red]![/red] A signed cover within ε = {epsilon:g} leaves a regret of "
            f"{number(regret)}: it compares each policy with its own score at home, "
            "so a poor policy covers much. Use the regret criterion to deploy."
        )
    home = result.results["home"]
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
    covers = result.results["covers"]
    lost = max((len(c["uncoverable"]) for c in covers), default=0)
    if lost:
        console.print(f"[red]![/red] Up to {lost} targets are served by no source.")
    done = "read from" if result.reused else "in"
    console.print(f"Run {done} {result.path} ({result.seconds:.1f} s)")
    for figure in figures:
        console.print(f"Figure {figure}")
    console.print(
        f"Next: taskspace cover {result.path} --epsilon "
        f"{number(2 * covers[-1]['epsilon'])} --method minimum"
    )
