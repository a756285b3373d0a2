"""One HTML file from the front end's modules, a JSON header and binary arrays.

Arrays are filtered, deflated and written as base64; `web/data.js` turns them back.
"""

import base64
import hashlib
import html
import json
import os
import re
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+)\.js";\n', re.MULTILINE)

FAILED = 65535
"""Code of an infinite loss in a quantised row."""


class Blobs:
    """The binary part of a page; equal arrays are stored once.

    Arrays are deflated in other threads while the next ones are made.
    """

    def __init__(self):
        self._jobs: list[Future[str]] = []
        self._known: dict[bytes, int] = {}
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)

    @property
    def texts(self) -> list[str]:
        """Deflated arrays as base64, in the order of their numbers."""
        return [job.result() for job in self._jobs]

    def add(self, array: NDArray[Any], *, width: int = 0) -> dict[str, Any]:
        """Store an array and return what a reader needs to know about it.

        Args:
            array: numbers; integers of up to 16 bits may be filtered.
            width: length of a line of cells that are neighbours in a picture. With
                it each cell is stored as its difference to what its left, upper and
                upper left neighbours predict: smooth fields become runs of zeros.

        Returns:
            `blob`, `type`, `shape`, and `width` where the array was filtered.
        """
        array = np.ascontiguousarray(array)
        about: dict[str, Any] = {
            "type": array.dtype.newbyteorder("<").str.lstrip("<|"),
            "shape": list(array.shape),
        }
        if width:
            about["width"] = width
            raw = _predicted(array, width).tobytes()
        else:
            raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        key = hashlib.blake2b(raw + repr(about).encode()).digest()
        if key not in self._known:
            self._known[key] = len(self._jobs)
            self._jobs.append(self._pool.submit(_packed, raw))
        return {"blob": self._known[key], **about}


def _packed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 6)).decode()


def _predicted(array: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return zigzags of differences to the prediction, low bytes first."""
    cells, zero = array.reshape(len(array), -1, width), array.dtype.type(0)
    rest = np.diff(np.diff(cells, axis=2, prepend=zero), axis=1, prepend=zero)
    # Unsigned numbers wrap; as signed ones small differences are small.
    signed = rest.view(f"i{array.itemsize}")
    zigzag = (signed << 1) ^ (signed >> (8 * array.itemsize - 1))
    return np.moveaxis(zigzag[..., None].view(np.uint8), -1, 0)


def quantise(
    losses: NDArray[np.float64], scale: float
) -> tuple[NDArray[np.uint16], dict[str, float]]:
    """Return losses as 16 bits, for colours and approximate labels only.

    Even steps in asinh(loss / scale): a relative error of some 1e-4 for losses far
    above `scale`, an absolute one below.

    Args:
        losses: any numbers, also infinite.
        scale: about the smallest loss that matters, `> 0`.

    Returns:
        Codes, `FAILED` for an infinite loss, and `low`, `step`, `scale` with which
        `loss = scale * sinh(low + step * code)`.
    """
    bent = np.arcsinh(losses / scale)
    finite = np.isfinite(bent)
    low = float(bent[finite].min()) if finite.any() else 0.0
    high = float(bent[finite].max()) if finite.any() else 1.0
    step = (high - low) / (FAILED - 1) or 1.0
    codes = np.full(losses.shape, FAILED, np.uint16)
    codes[finite] = np.round((bent[finite] - low) / step).astype(np.uint16)
    return codes, {"low": low, "step": step, "scale": scale}


def render(header: dict[str, Any], blobs: Blobs) -> str:
    """Return the page as HTML: nothing outside of it is ever asked for.

    Args:
        header: plain JSON values; arrays are `{"blob": number, ...}`.
        blobs: the arrays.
    """
    script = bundle("main")
    # "<" as an escape: no text of a user can end the element that holds it.
    text = json.dumps(header, allow_nan=False).replace("<", "\\u003c")
    parts = [f'<script type="application/json" id="header">{text}</script>']
    parts += [
        f'<script type="text/plain" id="blob-{number}">{text}</script>'
        for number, text in enumerate(blobs.texts)
    ]
    digest = base64.b64encode(
        hashlib.sha256(f"\n{script}\n".encode()).digest()
    ).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    slots = {
        "policy": policy,
        "title": html.escape(str(header["about"]["title"])),
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
