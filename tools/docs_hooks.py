"""Hooks of the documentation site: pages made from the code, and mathematics.

The command reference, the API reference and the pages of the examples are made when the
site is built, so they cannot say anything that the code does not.
"""

import ast
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

sys.path.insert(0, str(Path(__file__).parent))
from docs_figures import criteria_figures, layers_drawing

ROOT = Path(__file__).parents[1]
MATHEMATICS = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?=[^<]*</code>)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code.

    Args:
        files: the pages that are written by hand.
        config: the configuration of the site.
    """
    pages = {"reference/commands.md": command_page()}
    pages |= {f"reference/{name}.md": text for name, text in api_pages().items()}
    for example in sorted((ROOT / "examples").glob("*.py")):
        pages[f"examples/{example.stem}.md"] = example_page(example)
    for name, row in zoo_rows().items():
        pages[f"examples/zoo/{name}.md"] = zoo_page(name, row)
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        pages[f"{name.lower()}.md"] = text.replace("](docs/", "](")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for path, picture in criteria_figures().items():
        files.append(File.generated(config, path, content=picture))
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    named = [next(iter(entry.values())) for entry in reference]
    rooms = [p for p in pages if p.startswith("reference/") and p not in named]
    reference += [{f"taskspace.{Path(path).stem}": path} for path in sorted(rooms)]
    examples = sorted(path for path in pages if path.startswith("examples/"))
    config.nav.append({"Examples": examples})
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to examples lead to their pages, and put the drawing of layers in.

    Args:
        markdown: the text of a page.
    """
    if "<!-- layers -->" in markdown:
        markdown = markdown.replace("<!-- layers -->", layers_drawing())
    link = re.compile(r"\]\(\.\./((?:\.\./)?)examples/((?:zoo/)?\w+)\.py\)")
    return link.sub(r"](\1examples/\2.md)", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn LaTeX into MathML, and keep the names of options in one piece.

    Args:
        html: the text of a page.
    """

    def shown(match: re.Match[str]) -> str:
        latex = match[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return convert(latex, display="block" if match[1] == "div" else "inline")

    html = OPTION.sub(r'<span class="option">\1</span>', html)
    return MATHEMATICS.sub(shown, html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let the search work from disk without a network.

    Args:
        output: the page as HTML.
        page: where it is.
    """
    script = get_relative_url("assets/search-from-disk.js", page.url)
    output = output.replace("https://unpkg.com/iframe-worker/shim", script)
    if re.search(r'<script[^>]* src="http', output):
        raise PluginError(f"{page.url} loads a script from the network.")
    return output


def command_page() -> str:
    """Return the reference of all commands, from their help."""
    import typer
    from typer.cli import get_docs_for_click

    from taskspace.cli import app

    command = typer.main.get_command(app)
    context = typer.Context(command)
    text = get_docs_for_click(obj=command, ctx=context, name="taskspace")
    text = text.replace("# `taskspace`", "# Commands", 1)
    summaries = re.findall(r"^## `taskspace (\S+)`\n\n(.+)$", text, re.MULTILINE)
    for name, summary in summaries:  # typer cuts them off in the list
        line = re.compile(rf"^\* `{name}`: .*$", re.MULTILINE)
        text = line.sub(f"* `{name}`: {summary}", text, count=1)
    examples = re.compile(r"\[bold\]Examples\[/bold\]\n\n((?:taskspace .*\n+)+)")
    return examples.sub(
        lambda match: "**Examples**\n\n```\n{}\n```\n\n".format(
            match[1].strip().replace("\n\n", "\n")
        ),
        text,
    )


def api_pages() -> dict[str, str]:
    """Return one page per room, and one of the names at the top."""
    import taskspace

    names = [name for name in dir(taskspace) if not name.startswith("_")]
    members = {name: getattr(taskspace, name) for name in names}
    rooms = {n: value for n, value in members.items() if isinstance(value, ModuleType)}
    verbs = [n for n in names if n not in rooms]
    shown: set[str] = set()
    pages = {"taskspace": _page("taskspace", taskspace, verbs, shown)}
    for name, room in rooms.items():
        public = [n for n in getattr(room, "__all__", []) if not n.startswith("_")]
        pages[name] = _page(f"taskspace.{name}", room, public, shown)
    return pages


def _page(title: str, owner: ModuleType, names: list[str], shown: set[str]) -> str:
    """Return the page of some names; each object stands on one page only."""
    parts = [f"# {title}", inspect.cleandoc(owner.__doc__ or "")]
    for name in sorted(names, key=str.lower):
        value = getattr(owner, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        path = f"{value.__module__}.{value.__qualname__}"
        if path.startswith("taskspace") and path not in shown:
            parts.append(f"::: {path}")
            shown.add(path)
    return "\n\n".join(parts) + "\n"


def example_page(path: Path) -> str:
    """Return the page of an example: its docstring and its code.

    Args:
        path: the script.
    """
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or path.stem
    title, _, rest = said.partition("\n")
    return f"# {title.rstrip('.')}\n\n{rest.strip()}\n\n```python\n{text}```\n"


def zoo_rows() -> dict[str, list[str]]:
    """Return the cells of the table of docs/zoo.md by the name of the plant's file."""
    text = (ROOT / "docs/zoo.md").read_text(encoding="utf-8")
    line = re.compile(r"^\| \[.*?\]\(\S*/zoo/(\w+)\.py\), (.*) \|$", re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in line.findall(text)}


def zoo_page(name: str, row: list[str]) -> str:
    """Return the page of a plant of the zoo: its picture, its numbers, its code.

    Args:
        name: of its file in examples/zoo.
        row: the cells of the zoo's table; the first holds the range.
    """
    page = example_page(ROOT / "examples/zoo" / f"{name}.py")
    said, code = re.split(
        r'```python\n""".*?"""\n\n', page, maxsplit=1, flags=re.DOTALL
    )
    contexts, demand, in_use, constant, interpolated, design, proven = row
    return (
        f"{said}![Where its controllers are used](../../images/zoo-{name}.png)\n\n"
        f"In use: **{in_use}**. Constant: **{constant}**. Interpolated: "
        f"**{interpolated}**. Of any design: {design}. "
        f"Proven for every context: {proven}.\n\n"
        f"Range: {contexts}. Demand: {demand}. [All plants](../../zoo.md).\n\n"
        f"```python\n{code}"
    )
