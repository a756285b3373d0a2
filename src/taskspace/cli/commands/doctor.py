"""`taskspace doctor`: is a system sound, before hours are spent on it?"""

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from taskspace.cli.options import TrustOption
from taskspace.cli.output import Format, FormatOption, console, print_json
from taskspace.errors import InvalidInputError
from taskspace.runs.experiment import named_system
from taskspace.runs.objects import build_trainer
from taskspace.testing import Check, check_system

EXAMPLES = (
    "taskspace doctor msd-v1",
    "taskspace doctor my_package.my_module:MySystem",
)

MARKS = {
    "ok": "[green]ok[/green]",
    "warning": "[yellow]warning[/yellow]",
    "failed": "[red]failed[/red]",
    "skipped": "[yellow]skipped[/yellow]",
}


def doctor(
    system: Annotated[
        str,
        typer.Argument(
            help="A system (msd-v1, gymnasium:Acrobot-v1, ...), package.module:object, "
            "or an experiment.",
            metavar="SYSTEM",
        ),
    ],
    trainer: Annotated[
        str | None,
        typer.Option(
            help="A trainer to try with it: an id, or package.module:object.",
            show_default=False,
        ),
    ] = None,
    sources: Annotated[
        int, typer.Option(help="Sources of the run whose time is estimated.")
    ] = 400,
    targets: Annotated[
        int, typer.Option(help="Targets of the run whose time is estimated.")
    ] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the trials.")] = 0,
    trust: TrustOption = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Check that every axis is alive, J is sound and repeatable, and what it costs.

    Exit code 1 if a check fails. A check that needs what was not given (a trainer,
    examples) is skipped and counted as such; its `ok` in JSON is null.
    """
    if sources < 1 or targets < 1:
        raise InvalidInputError(
            f"sources >= 1 and targets >= 1 must hold, but got {sources} and {targets}."
        )
    built, experiment = named_system(system, trust=trust)
    chosen, context = None, None
    if experiment is not None:
        chosen = experiment.built_trainer
        sources, targets = experiment.sources.size, experiment.target_space.size
        rows = built.contexts(experiment.sources)
        context = rows[len(rows) // 2]
    if trainer is not None:
        chosen = build_trainer({"id": trainer})
    checks = check_system(
        built, chosen, seed=seed, n_sources=sources, n_targets=targets, context=context
    )
    if output == Format.JSON:
        print_json([asdict(check) for check in checks])
    else:
        _show(checks)
    if any(check.state == "failed" for check in checks):
        raise typer.Exit(1)


def _show(checks: list[Check]) -> None:
    """Print the checks, and the next command."""
    table = Table("check", "", "what was found")
    for check in checks:
        table.add_row(check.check, MARKS[check.state], escape(check.detail))
    console.print(table)
    counts = Counter(check.state for check in checks)
    said = f"{len(checks)} checks: " + ", ".join(
        f"{counts[state]} {state}" for state in MARKS if counts[state]
    )
    if counts["failed"]:
        console.print(f"[red]![/red] {said}.")
    else:
        console.print(f"{said}. Next: taskspace init, taskspace run FILE.toml")
