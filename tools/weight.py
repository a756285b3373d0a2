"""Print what the project weighs, against the budget in pyproject.toml.

Lines of code are counted without blank lines, comments and docstrings. An option slot
is one pair of a command and an option, without --help.

    python tools/weight.py            # exit code 1 above the budget
"""

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

import typer
from typer.main import get_command

from taskspace.cli import COMMANDS, app

ROOT = Path(__file__).parents[1]
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE,
    tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(path: Path) -> int:
    """Count the lines of a module that are code.

    Args:
        path: a Python file.
    """
    text = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            head = node.body[0]
            lines.difference_update(range(head.lineno, (head.end_lineno or 0) + 1))
    return len(lines)


def option_slots() -> int:
    """Count the options of all commands."""
    group = get_command(app)
    context = typer.Context(group)
    return sum(
        parameter.param_type_name == "option" and parameter.name != "help"
        for name in COMMANDS
        for parameter in group.get_command(context, name).params  # type: ignore[attr-defined]
    )


def weights() -> dict[str, int]:
    """Return what the project weighs, by the names that the budget uses."""
    source, tests = ([*(ROOT / part).rglob("*.py")] for part in ("src", "tests"))
    pages = (ROOT / "docs").rglob("*.md")
    return {
        "lines": sum(map(code_lines, source)),
        "modules": len(source),
        "commands": len(COMMANDS),
        "options": option_slots(),
        "test-lines": sum(map(code_lines, tests)),
        "doc-words": sum(len(page.read_text().split()) for page in pages),
    }


def main() -> None:
    """Print each weight beside its budget; exit with 1 if one is above it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        budget = tomllib.load(file)["tool"]["taskspace"]["weight"]
    found = weights()
    for name, weight in found.items():
        over = "  above the budget" if weight > budget[name] else ""
        print(f"{name:<11} {weight:>7,} of {budget[name]:>7,}{over}")
    sys.exit(any(weight > budget[name] for name, weight in found.items()))


if __name__ == "__main__":
    main()
