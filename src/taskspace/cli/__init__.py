"""The command line. A new command is one file beside these and one line here."""

import sys

import typer
from rich.console import Console
from rich.markup import escape

from taskspace import __version__
from taskspace.cli.archive import archive
from taskspace.cli.certify import certify
from taskspace.cli.cover import cover
from taskspace.cli.doctor import doctor
from taskspace.cli.init import init
from taskspace.cli.profile import profile
from taskspace.cli.report import report
from taskspace.cli.run import run
from taskspace.cli.systems import systems
from taskspace.cli.verify import verify
from taskspace.errors import TaskspaceError

__all__ = ["app", "main"]

app = typer.Typer(
    help="How many policies does a task range need, which ones, and what is proven?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for command in (
    run,
    cover,
    profile,
    verify,
    certify,
    report,
    archive,
    systems,
    doctor,
    init,
):
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        print(f"taskspace {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; a bad input is one sentence and exit code 2."""
    try:
        app()
    except TaskspaceError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"[bold red]Error:[/bold red] {escape(str(error))}", highlight=False
        )
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted. Run the same command to go on.")
        sys.exit(130)
