"""`taskspace archive`: one compact file for a finished run."""

from dataclasses import dataclass
from pathlib import Path

from taskspace.cli.options import argument, as_command, option
from taskspace.cli.output import Answer, console, shown, writable
from taskspace.runs import RunStore
from taskspace.runs.archive import KEPT_POLICIES, write_archive

EXAMPLES = (
    "taskspace archive runs/msd-lqr msd-lqr.npz",
    "taskspace archive runs/cartpole cartpole.npz --policies all",
)


@dataclass(frozen=True)
class Options:
    """What `taskspace archive` may be told."""

    run: Path = argument("A finished run directory.")
    file: Path = argument("The file to write, ending in .npz.")
    policies: str = option(
        "Whose policies come along: all sources, those of the stored covers, none; "
        "auto takes all up to 8 MB.",
        "auto",
        metavar="|".join(KEPT_POLICIES),
    )


@as_command
def archive(options: Options) -> Answer:
    """Write a run's table, experiment and policies into one compact file.

    Every command that reads a run takes it in place of the run.
    """
    writable(options.file)
    run = RunStore.open(options.run)
    file = write_archive(run, options.file, policies=options.policies)
    size = file.stat().st_size

    def show() -> None:
        console.print(f"{shown(file)}: {size / 1e6:.2f} MB")
        console.print(f"Next: taskspace report {shown(file)}")

    return Answer(lambda: {"file": str(file), "bytes": size}, show)
