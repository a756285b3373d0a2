"""`taskspace doctor`: is a system sound, before hours are spent on it?"""

from collections import Counter
from dataclasses import dataclass

from taskspace.cli.options import TrustOption, argument, as_command, option
from taskspace.cli.output import Answer
from taskspace.runs.code import build_trainer
from taskspace.runs.experiment import named_system
from taskspace.testing import Check, system_checks

EXAMPLES = (
    "taskspace doctor msd-v1",
    "taskspace doctor my_package.my_module:MySystem",
)

STATES = {True: "ok", False: "failed", None: "skipped"}


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
    return Answer(checks, _words(checks), code=int(has_failed))


def _words(checks: list[Check]) -> str:
    """Return how many checks passed, each check, and the next command."""
    counts = Counter(STATES[check.ok] for check in checks)
    found = [f"{counts[state]} {state}" for state in STATES.values() if counts[state]]
    lines = [f"{len(checks)} checks: {', '.join(found)}."]
    lines += [f"{STATES[c.ok]:<8} {c.check}: {c.detail}" for c in checks]
    if not counts["failed"]:
        lines.append("Next: taskspace init, taskspace run FILE.toml")
    return "\n".join(lines)
