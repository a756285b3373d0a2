"""`taskspace explore`: one page that explains, explores and travels."""

import time
from pathlib import Path
from typing import Annotated

import typer

from taskspace._util.files import inside, write_atomically
from taskspace.cli.groups import NO_ASKING, PLAIN, Asking, Reading, grouped
from taskspace.cli.options import (
    SeedOption,
)
from taskspace.cli.output import (
    Format,
    FormatOption,
    console,
    print_json,
    shown,
    stage_progress,
    writable,
)


@grouped
def explore(
    path: Annotated[
        Path,
        typer.Argument(
            help="A run, a selection, an archive, a matrix file or a library."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file; by default explore.html in a folder, NAME.html beside "
            "a file.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="A tolerance to show first, of --criterion and --judge.",
            show_default=False,
        ),
    ] = None,
    asking: Asking = NO_ASKING,
    rows: Annotated[
        int, typer.Option(help="Sources in the file beside those of the covers.")
    ] = 300,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for searches beyond greedy.")
    ] = 4.0,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Show what is certified between the contexts, for each question.",
        ),
    ] = False,
    certify_limit: Annotated[
        float, typer.Option(help="Seconds for the certificates of a question.")
    ] = 20.0,
    seed: SeedOption = 0,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Show it at a local address and follow what changes."
        ),
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to serve at; others than this get a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to serve at; 0 takes a free one.")
    ] = 0,
    reading: Reading = PLAIN,
    output: FormatOption = Format.TEXT,
) -> None:
    """Make one HTML file of a run, a matrix or a library: report and explorer in one.

    It opens from disk, needs no server and no network, and answers every tolerance.
    """
    from taskspace.show.page import Reader, render, run_server

    questions = []
    if epsilon is not None:
        questions.append(asking.question(path, epsilon))
    reader = Reader(
        path,
        questions=questions,
        reading=reading.options,
        trust=reading.trust,
        options={"more_rows": rows, "time_limit": time_limit, "seed": seed},
        certify=certify_limit if certify else 0.0,
    )
    if serve:
        run_server(reader, host=host, port=port, announce=_announce)
        return
    file = out or (path / "explore.html" if path.is_dir() else _beside(path))
    writable(file)
    if out is None and path.is_dir():
        inside(path, file)
    began = time.perf_counter()
    with stage_progress() as report:
        page = reader.read(progress=report)
        report("write", 0, 1)
        write_atomically(file, render(page))
        report("write", 1, 1)
    seconds, size = time.perf_counter() - began, file.stat().st_size
    if output == Format.JSON:
        print_json({"file": str(file), "bytes": size, "seconds": seconds})
        return
    console.print(f"{shown(file)}: {size / 1e6:.2f} MB, {seconds:.1f} s")
    console.print("Open it in a browser; it needs no server and no network.")


def _announce(address: str) -> None:
    console.print(f"Serving at {shown(address)} (Ctrl-C ends it)")


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}.html")
