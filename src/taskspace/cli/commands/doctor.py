"""`taskspace doctor`: is a system sound, before hours are spent on it?"""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from taskspace.cli.options import TrustOption
from taskspace.cli.output import Format, FormatOption, console, print_json
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.runs import builtin_experiments, load_experiment
from taskspace.runs.objects import build_object, is_gymnasium, is_reference
from taskspace.systems import SYSTEMS, System, gymnasium_system
from taskspace.testing import Check, check_system
from taskspace.trainers import TRAINERS, Trainer

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
    context = None
    if Path(system).suffix == ".toml" or system in builtin_experiments():
        experiment = load_experiment(system, trust=trust)
        built: System = experiment.built_system
        chosen: Trainer | None = experiment.built_trainer
        sources, targets = experiment.sources.size, experiment.target_space.size
        rows = built.contexts(experiment.sources)
        context = rows[len(rows) // 2]
    else:
        built, chosen = _system(system), None
    if trainer is not None:
        chosen = _trainer(trainer)
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
    """The checks for people, and the next command."""
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


def _system(name: str) -> System:
    if is_reference(name):
        return build_object("system", name, {}, System)
    if is_gymnasium(name):
        return gymnasium_system(name.removeprefix("gymnasium:"))
    if name not in SYSTEMS:
        raise UnknownNameError("system", name, [*SYSTEMS, *builtin_experiments()])
    return SYSTEMS[name]()


def _trainer(name: str) -> Trainer:
    if is_reference(name):
        return build_object("trainer", name, {}, Trainer)
    if name not in TRAINERS:
        raise UnknownNameError("trainer", name, TRAINERS)
    return TRAINERS[name]()
