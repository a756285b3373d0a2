"""`taskspace archive`: one compact file for a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    print_json,
    shown,
    writable,
)
from taskspace.runs import RunStore
from taskspace.runs.archive import KEPT_POLICIES, write_archive

EXAMPLES = (
    "taskspace archive runs/msd-lqr msd-lqr.npz",
    "taskspace archive runs/cartpole cartpole.npz --policies all",
)


def archive(
    run: Annotated[Path, typer.Argument(help="A finished run directory.")],
    file: Annotated[Path, typer.Argument(help="The file to write, ending in .npz.")],
    policies: Annotated[
        str,
        typer.Option(
            help="Whose policies come along: all sources, those of the stored covers, "
            "none; auto takes all up to 8 MB.",
            metavar="|".join(KEPT_POLICIES),
        ),
    ] = "auto",
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a run's table, experiment and policies into one compact file.

    Every command that reads a run takes it in place of the run.
    """
    writable(file)
    written = write_archive(RunStore.open(run), file, policies=policies)
    size = written.stat().st_size
    if output == Format.JSON:
        print_json({"file": str(written), "bytes": size})
        return
    console.print(f"{shown(written)}: {size / 1e6:.2f} MB")
    console.print(f"Next: taskspace report {shown(written)}")
