"""The command line. A new command is one file in `commands` and one line here.

Only the command that is called is imported, so a small one answers at once.
"""

import ast
import errno
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from taskspace import __version__
from taskspace.cli.signals import Interrupted, leave, signal_behind, signals_heard
from taskspace.errors import InvalidInputError, MissingExtraError, TaskspaceError

__all__ = ["app", "main"]

GROUPS = {
    "Ask: how many policies, and which": ("cover", "profile", "schedule"),
    "Train and design": ("run", "select", "design", "init", "doctor"),
    "Prove": ("certify", "verify"),
    "Deploy": ("export", "evaluate"),
    "Look": ("explore",),
}
"""Commands by purpose, each the function of its name in the module of its name. The
module also has its `EXAMPLES`."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

FORMER_COMMANDS = {
    "archive": "zip the run directory, every command opens the zip file as the run",
    "plot": "use --plot FILE of cover and profile, or ts.show in Python",
    "report": "run it again, taskspace run RUN/experiment.toml --out RUN",
    "systems": "use taskspace init without a name",
}
"""Commands of former versions, and what to use instead of each."""

FORMER_OPTIONS = {
    "--epsilon": "--ask 'regret <= 0.2'",
    "--criterion": "--ask 'ratio <= 5 %'",
    "--judge": "--ask 'regret <= 0.2 best'",
    "--measure": "--ask 'disk_margin >= 0.5'",
    "--and": "--ask 'ratio <= 5 % and disk_margin >= 0.5'",
    "--error": "--ask 'regret <= 0.2 with mass=3 %'",
    "--lower-is-better": "--read lower_is_better",
    "--higher-is-better": "--read 'lower_is_better=false'",
    "--contexts": "--read 'contexts=\"FILE\"'",
    "--targets": '--read \'targets=["a", "b"]\'',
    "--ignore": '--read \'ignore=["a", "b"]\'',
    "--missing": "--read 'missing=\"not served\"'",
    "--figures": "--plot FILE",
    "--header": "--read 'header=false'",
    "--row-names": "--read 'row_names=false'",
    "--long": '--read \'long=["source", "target", "value"]\'',
}
"""Options of former versions, and what to write instead of each."""

FULL_OR_FORBIDDEN = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO,
    errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.ESTALE,
}  # fmt: skip
"""What a disk may say that no one here can mend."""


class _Command(TyperCommand):
    """A command that tells a former option from a misspelt one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command's name."""
        known = {name for param in self.params for name in param.opts}
        for word in args[: args.index("--") if "--" in args else None]:
            name = word.partition("=")[0]
            new = FORMER_OPTIONS.get(name, "")
            if name not in known and new.partition(" ")[0] in known:
                raise InvalidInputError(
                    f"{name} is no option of taskspace {self.name} any more: say {new}."
                )
        return super().parse_args(ctx, args)


class _Commands(TyperGroup):
    """The commands, each imported when it is called or asked for help."""

    lists_only = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, by purpose."""
        del ctx
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the first sentence of every command."""
        self.lists_only = True  # so none has to be imported
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called; a former one is refused."""
        if instead := FORMER_COMMANDS.get(args[0]):
            raise InvalidInputError(
                f"taskspace {args[0]} is no command any more: {instead}."
            )
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, None for one that does not exist."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        purpose = next(p for p, names in GROUPS.items() if cmd_name in names)
        if self.lists_only:
            return TyperCommand(
                cmd_name, help=_summary(cmd_name), rich_help_panel=purpose
            )
        module = importlib.import_module(f"taskspace.cli.commands.{cmd_name}")
        one = typer.Typer(
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode="rich",
        )
        examples = "\n\n".join(["[bold]Examples[/bold]", *map(escape, module.EXAMPLES)])
        declare = one.command(
            cmd_name, cls=_Command, rich_help_panel=purpose, epilog=examples
        )
        declare(getattr(module, cmd_name))
        built = get_command(one)
        built.name = cmd_name
        return built

    def invoke(self, ctx: Any) -> Any:
        """Carry a command out; Ctrl-C is for `main`, not for the library."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


def _summary(name: str) -> str:
    """Return the first sentence of a command, without importing it."""
    file = Path(__file__).parent / "commands" / f"{name}.py"
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


app = typer.Typer(
    cls=_Commands,
    help="How many policies does a task range need, which ones, and what is proven?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        print(f"taskspace {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; a bad input is one sentence and exit code 2."""
    errors = Console(stderr=True, soft_wrap=True, emoji=False, highlight=False)
    with signals_heard():
        try:
            app()
        except BaseException as error:
            if number := signal_behind(error):
                what = "Interrupted" if number == signal.SIGINT else "Terminated"
                errors.print(f"{what}. Run the same command to go on.")
                leave(128 + number)
            if (sentence := _sentence(error)) is None:
                raise
            from taskspace.cli.output import shown  # help needs none of its imports

            errors.print("[bold red]Error:[/bold red]", escape(shown(sentence)))
            sys.exit(2)


def _sentence(error: BaseException) -> str | None:
    """Return what to say of an error, None where only a traceback helps."""
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, TaskspaceError):
        error = MissingExtraError.of(error, "This command") or error
    if isinstance(error, TaskspaceError):
        return str(error)
    if isinstance(error, OSError) and error.errno in FULL_OR_FORBIDDEN:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}. Everything finished before is kept."
    if isinstance(error, MemoryError):
        return "There is not enough memory. Everything finished before is kept."
    if isinstance(error, RecursionError):
        return "The input is nested too deeply to be read."
    return None
