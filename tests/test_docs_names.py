"""Names in the documents exist: of the package, of commands and of their options."""

import ast
import builtins
import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import taskspace as ts
from taskspace.cli import COMMANDS
from tests.helpers import command_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAGES.remove(ROOT / "CHANGELOG.md")  # it also names what is gone
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
DOTTED = re.compile(r"(?<![\w./-])(ts|taskspace)((?:\.[A-Za-z_]\w*)+)(?![\w/])")
FOREIGN_OPTIONS = {
    "--live",  # of benchmarks/bench_cartpole_select.py
}  # fmt: skip
FILE_NAMES = {"json", "npz", "toml", "html", "md"}


def resolves(path: str) -> bool:
    """Return whether `taskspace.a.b` leads to an object."""
    value: object = ts
    walked = "taskspace"
    for name in path.split("."):
        walked += f".{name}"
        if hasattr(value, name) or name in getattr(value, "__annotations__", ()):
            value = getattr(value, name, None)
            continue
        try:
            value = importlib.import_module(walked)
        except ModuleNotFoundError:
            return False
    return True


def dotted(text: str) -> list[str]:
    return [m[2][1:] for m in DOTTED.finditer(text) if m[2][1:] not in FILE_NAMES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_of_the_package_resolve(page):
    for path in dotted(page.read_text().replace(".KIND", "")):
        assert resolves(path), f"{page.name}: taskspace.{path}"


def test_a_name_that_is_gone_would_be_found():
    text = "See `taskspace.select.interpolated.frozen`, `ts.certify` and ts.open_run."
    paths = dotted(text)
    assert [resolves(path) for path in paths] == [False, True, False]


@cache
def words_of_the_package() -> set[str]:
    """Return all names that the source defines: classes, functions, fields."""
    words = {*dir(builtins), "None", "Inf", "NaN"}
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                words.add(node.name)
            elif isinstance(node, ast.Name):
                words.add(node.id)
            elif isinstance(node, ast.arg):
                words.add(node.arg)
            elif isinstance(node, ast.alias):
                words.add((node.asname or node.name).rpartition(".")[2])
            elif isinstance(node, ast.Attribute):
                words.add(node.attr)
    return words


CALLED = re.compile(r"^(?!.*\(s\)|NAME)([A-Za-z_]\w*(?:\.[a-z_]\w*)*)(?:\(.*\)?)?$")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_classes_and_calls_in_the_text_exist(page):
    """`LinearFamily`, `Cover.save` and `library.select(...)` are in the source."""
    own = page.read_text()
    for span in SPAN.findall(own):
        match = CALLED.match(span)
        is_camel = re.match(r"[A-Z][a-z]+[A-Za-z]*(\.\w+)?$", span)
        if match is None or not ("(" in span or is_camel):
            continue
        for word in match[1].split("."):
            is_defined = re.search(
                rf"(?:\b{word} *=|(?:def|class|import) .*\b{word}\b)", own
            )
            assert word in words_of_the_package() or is_defined, f"{page.name}: {span}"


def options_of(name: str) -> set[str]:
    return {
        option
        for p in command_of(name).params
        for option in (*p.opts, *p.secondary_opts)
    }


def commands_in(text: str) -> list[str]:
    """Return the lines of blocks and the spans that call taskspace."""
    lines = [line for _, block in BLOCK.findall(text) for line in block.splitlines()]
    lines = [line.removeprefix("$ ").split("  #")[0] for line in lines]
    spans = SPAN.findall(BLOCK.sub("", text))
    return [c for c in (*lines, *spans) if re.match(r"taskspace [a-z]", c)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_their_options_exist(page):
    for text in commands_in(page.read_text()):
        _, name, *words = shlex.split(text.replace("…", ""))
        assert name in COMMANDS, f"{page.name}: {text}"
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= {*options_of(name), "--help"}, f"{page.name}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_in_the_text_exist(page):
    """An option that stands alone belongs to some command."""
    known = set.union(*(options_of(name) for name in COMMANDS))
    known |= {"--help", "--version", "--install-completion", "--show-completion"}
    text = BLOCK.sub("", page.read_text())
    for span in SPAN.findall(text):
        if span.startswith(("pip ", "python ", "make ", "benchmarks/")):
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span):
            assert option in known | FOREIGN_OPTIONS, f"{page.name}: {span}"
