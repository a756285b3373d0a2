"""One HTML file from the front end's modules and the data of a page."""

import hashlib
import html
import json
import re
from base64 import b64encode
from importlib import resources

from taskspace.show.page.data import PageData

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+)\.js";\n', re.MULTILINE)


def render(data: PageData) -> str:
    """Return the page as HTML: nothing outside of it is ever asked for.

    Args:
        data: header and arrays.
    """
    script = bundle("main")
    # "<" as an escape: no text of a user can end the element that holds it.
    header = json.dumps(data.header, allow_nan=False).replace("<", "\\u003c")
    parts = [f'<script type="application/json" id="header">{header}</script>']
    parts += [
        f'<script type="text/plain" id="blob-{number}">{text}</script>'
        for number, text in enumerate(data.blobs.texts)
    ]
    digest = b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    slots = {
        "policy": policy,
        "title": html.escape(str(data.header["about"]["title"])),
        "style": _read("style.css"),
        "data": "\n".join(parts),
        "script": script,
    }
    template = _read("index.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: slots[found[1]], template)


def bundle(entry: str) -> str:
    """Join a module and all that it imports into one script, needed ones first.

    The modules are plain: named imports of neighbours, and names that differ between
    all of them, which a test holds.

    Args:
        entry: name of the module, without suffix.
    """
    done: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        text = _read(f"{name}.js")
        done[name] = ""  # a module that is being visited
        for needed in IMPORT.findall(text):
            visit(needed)
        del done[name]
        done[name] = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)

    visit(entry)
    return "\n".join(done.values())


def _read(name: str) -> str:
    folder = resources.files("taskspace.show.page") / "web"
    return (folder / name).read_text(encoding="utf-8")
