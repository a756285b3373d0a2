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
from taskspace.runs.archive import write_archive


def archive(
    run: Annotated[Path, typer.Argument(help="A finished run directory.")],
    file: Annotated[Path, typer.Argument(help="The file to write, ending in .npz.")],
    output: FormatOption = Format.TEXT,
) -> None:
    """Write a run's table and experiment into one compact file.

    The commands cover, profile, certify and report take it in place of the run.
    """
    writable(file)
    written = write_archive(RunStore.open(run), file)
    size = written.stat().st_size
    if output == Format.JSON:
        print_json({"file": str(written), "bytes": size})
        return
    console.print(f"{shown(written)}: {size / 1e6:.2f} MB")
    console.print(f"Next: taskspace report {shown(written)}")
