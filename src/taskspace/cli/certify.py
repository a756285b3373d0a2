"""`taskspace certify`: what is proven around and between the grid points."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from taskspace.certificates._old import check_criterion, check_epsilon
from taskspace.certificates.base import Certificate, plain
from taskspace.certificates.report import CertifyResult
from taskspace.certificates.report import certify as certify_table
from taskspace.cli.inputs import TableInput, load_table
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
    progress_console,
)

MARKS = {"proof": "green", "estimate": "yellow", "vacuous": "dim"}


def certify(
    path: Annotated[Path, typer.Argument(help="A run directory or a matrix file.")],
    epsilon: Annotated[float, typer.Option(help="Tolerance.")],
    criterion: CriterionOption = "regret",
    family: FamilyOption = "all",
    radius: Annotated[
        float | None,
        typer.Option(
            help="Radius r of the loss rates; a tenth of the diameter by default.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="A Lipschitz constant of the loss that you know: once, or once for "
            "each axis.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for the search of covers and bounds.")
    ] = 20.0,
    seed: SeedOption = 0,
    figures: Annotated[
        Path | None,
        typer.Option(help="Write figures and their data into this directory."),
    ] = None,
    lower_is_better: LowerIsBetterOption = False,
    contexts: ContextsOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Certify: loss rates, balls, bounds, and a cover of the whole box.

    For the mass-spring-damper the last line is about every context of the box, not
    only the grid, by interval arithmetic.
    """
    check_criterion(criterion, family)
    check_epsilon(epsilon, criterion)
    with progress_console.status("load") as status:
        loaded = load_table(path, lower_is_better=lower_is_better, contexts=contexts)
        result = certify_table(
            loaded.table,
            epsilon,
            criterion=criterion,
            family=family,
            radius=radius,
            rates=_rates(rate),
            time_limit=time_limit,
            seed=seed,
            progress=status.update,
            **_of_run(loaded),
        )
        written = []
        if figures is not None:
            from taskspace.show.certificates import (  # matplotlib loads slowly
                save_certificate_figures,
            )

            status.update("draw")
            written = save_certificate_figures(result, loaded.table, figures)
    if output == Format.JSON:
        print_json(
            {
                "path": str(path),
                "epsilon": plain(epsilon),
                "criterion": criterion,
                "family": family,
                "certificates": [c.to_dict() for c in result.certificates],
                "figures": [str(file) for file in written],
            }
        )
        return
    _show(result)
    for file in written:
        console.print(f"Figure {file}")


def _rates(given: list[float] | None) -> float | list[float] | None:
    if not given:
        return None
    return given[0] if len(given) == 1 else given


def _of_run(loaded: TableInput) -> dict[str, Any]:
    if loaded.run is None:
        return {}
    experiment = loaded.run.experiment
    trained, _ = loaded.run.read_policies(slice(0, experiment.sources.size))
    return {
        "system": experiment.built_system,
        "policies": trained.policies,
        "sources": experiment.sources,
        "targets": experiment.target_space,
    }


def _show(result: CertifyResult) -> None:
    bounds = Table(
        title=f"How many sources? cover: for {result.criterion} on the grid; volume: "
        "for signed",
        title_justify="left",
    )
    for name in ("bound", "side", "value", "kind", "why"):
        bounds.add_column(name, justify="right" if name == "value" else "left")
    other = Table(title="Certificates", title_justify="left")
    for name in ("certificate", "holds", "kind", "why"):
        other.add_column(name)
    for item in result.certificates[:-1]:
        kind = f"[{MARKS[item.kind]}]{item.kind}[/]"
        if "side" in item.values:
            value = number(item.values["value"])
            bounds.add_row(item.name, item.values["side"], value, kind, item.why)
        else:
            holds = "[green]yes[/]" if item.holds else "no"
            other.add_row(item.name, holds, kind, item.why + _numbers(item))
    console.print(bounds)
    console.print(other)
    last = result.certificates[-1]
    colour = "green" if last.holds and last.kind == "proof" else "yellow"
    console.print(f"[bold {colour}]{last.kind}[/]: {last.why}")
    if last.holds and "lower_bound" in last.values and not last.values["optimal"]:
        console.print(_how_few(last.values))


def _how_few(values: dict[str, Any]) -> str:
    text = f"At least {values['lower_bound']} of {values['n_candidates']:,} candidates"
    if values["n_candidates"] < values["n_sources"]:
        lower = number(values["grid_lower_bound"])
        text += f" (and {lower} of all {values['n_sources']:,} sources)"
    return f"{text} are needed."


def _numbers(item: Certificate) -> str:
    shown = {
        "loss rates": ("radius", "largest", "largest_slope", "largest_bound"),
        "inner balls": ("smallest_inner", "largest_inner", "captured_share"),
    }.get(item.name, ())
    parts = [
        f"{name} {number(item.values[name])}" for name in shown if name in item.values
    ]
    return f" ({', '.join(parts)})" if parts else ""
