"""`taskspace doctor`: is a system sound, before hours are spent on it?"""

from collections import Counter
from dataclasses import dataclass

from taskspace.cli.options import TrustOption, argument, as_command, option
from taskspace.cli.output import Answer, console, show_table, shown
from taskspace.runs.code import build_trainer
from taskspace.runs.experiment import named_system
from taskspace.testing import Check, system_checks

EXAMPLES = (
    "taskspace doctor msd-v1",
    "taskspace doctor my_package.my_module:MySystem",
)

STATES = {True: "ok", False: "failed", None: "skipped"}
COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


@dataclass(frozen=True)
class Options:
    """What `taskspace doctor` may be told."""

    system: str = argument(
        "A system (msd-v1, gymnasium:Acrobot-v1, ...), package.module:object, or an "
        "experiment.",
        metavar="SYSTEM",
    )
    trainer: str | None = option(
        "A trainer to try with it: an id, or package.module:object."
    )
    trust: TrustOption = False


@as_command
def doctor(options: Options) -> Answer:
    """Check that every axis is alive, and that J is sound and repeatable.

    Exit code 1 if a check fails. A check that needs what was not given (a trainer,
    examples) is skipped and counted as such; its `ok` in JSON is null.
    """
    system, experiment = named_system(options.system, trust=options.trust)
    trainer, context = None, None
    if experiment is not None:
        trainer = experiment.built_trainer
        rows = system.contexts(experiment.sources)
        context = rows[len(rows) // 2]
    if options.trainer is not None:
        trainer = build_trainer({"id": options.trainer})
    checks = system_checks(system, trainer, context=context)
    has_failed = any(check.ok is False for check in checks)
    return Answer(lambda: checks, lambda: _show(checks), has_failed)


def _show(checks: list[Check]) -> None:
    """Print the checks, and the next command."""
    columns = ("check", "", "what was found")
    states = [STATES[check.ok] for check in checks]
    rows = [
        (check.check, f"[{COLOURS[state]}]{state}[/]", shown(check.detail))
        for check, state in zip(checks, states, strict=True)
    ]
    show_table(columns, rows, texts=columns)
    counts = Counter(states)
    summary = f"{len(checks)} checks: " + ", ".join(
        f"{counts[state]} {state}" for state in COLOURS if counts[state]
    )
    if counts["failed"]:
        console.print(f"[red]![/red] {summary}.")
    else:
        console.print(f"{summary}. Next: taskspace init, taskspace run FILE.toml")
