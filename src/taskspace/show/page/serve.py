"""A small server for a page: rows that are not in it, any trajectory, live news.

It answers a fixed list of questions and never opens a file that a request names. On
this machine it needs no token; at any other address each request must bring one.
Requests of foreign pages are refused by their origin and by the host they name.
"""

import base64
import hmac
import ipaddress
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.runs.opening import is_run
from taskspace.runs.store import RunStore
from taskspace.show.page.data import PageData
from taskspace.show.page.encode import Blobs
from taskspace.show.page.html import render, waiting
from taskspace.show.page.library import LibrarySubject
from taskspace.show.page.scenes import Stage
from taskspace.show.page.subject import Reader, Subject

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Live:
    """The page of a path that may still grow.

    Args:
        reader: reads the page's data.
        every: seconds between two looks at the path.
    """

    def __init__(self, reader: Reader, every: float = 1.0):
        self.reader, self.every = reader, every
        self.number = 0
        self.html: str | None = None
        self.page: PageData | None = None
        self.subject: Subject | LibrarySubject | None = None
        self.trouble = ""
        self._seen: Any = None
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def follow(self) -> None:
        """Look at the path until `close`, and make the page anew when it changes."""
        while not self._stop.is_set():
            began = time.monotonic()
            self.refresh()
            # A run in progress needs the processors more than its page does.
            self._stop.wait(max(self.every, 3 * (time.monotonic() - began)))

    def close(self) -> None:
        """End `follow`."""
        self._stop.set()

    def refresh(self) -> None:
        """Make the page anew if the path has changed."""
        state = self.state()
        if state == self._seen:
            return
        try:
            subject = self.reader.subject()
            page = subject.collect(self.reader.questions, **self.reader.options)
        except (TaskspaceError, OSError, ValueError, KeyError) as error:
            # What is being written may be half there; the next look is a new one.
            self.trouble = str(error)
            self._seen = state
            return
        page.header["live"] = {"number": self.number + 1}
        html = render(page, serve=True)
        with self._lock:
            self.subject, self.page, self.html = subject, page, html
            self.number += 1
            self._seen = state
            self.trouble = ""

    def state(self) -> Any:
        """Return something that changes when the path does."""
        path = self.reader.path
        # A run's own folder also changes when a page is written into it.
        names = ["results.json", "selection.jsonl", "library.json"]
        files = [path / name for name in names] + ([] if is_run(path) else [path])
        stamps = [f.stat().st_mtime_ns if f.exists() else None for f in files]
        return self.progress(), stamps

    def progress(self) -> dict[str, list[int]]:
        """Return finished pieces of a run and how many there are, by stage.

        Of a selection: the targets that are covered.
        """
        path = self.reader.path
        try:
            run = RunStore.open(path) if is_run(path) else None
        except TaskspaceError:
            run = None
        if run is None:
            return {}
        store = run.trainings
        n_sources = len(store.sources)
        if run.log is not None:
            if not run.log.steps:
                return {"covered": [0, 1]}
            last, n_targets = run.log.steps[-1], store.header.layout.n_targets
            word = "trainings" if last.trainings != 1 else "training"
            covered = [round(last.coverage * n_targets), n_targets]
            return {f"{last.trainings} {word}, targets covered": covered}
        stages = {"train": [int(store.trained.sum()), n_sources]}
        if not store.header.layout.is_computed:
            stages["evaluate"] = [int(store.evaluated.sum()), n_sources]
        return stages

    def news(self) -> dict[str, Any]:
        """Return what a page asks for every second."""
        return {
            "number": self.number,
            "progress": self.progress(),
            "trouble": self.trouble,
        }

    def view(
        self, key: str, step: int, sources: list[int], pick: int
    ) -> dict[str, Any]:
        """Return who serves whom by any sources, also those that are not in the page.

        Args:
            key: criterion and judge.
            step: number of the tolerance.
            sources: the selection.
            pick: target whose losses are wanted, −1 for none.
        """
        with self._lock:
            page = self.page
        if page is None:
            raise InvalidInputError("There is no page yet.")
        layer = next((one for one in page.layers if one.key == key), None)
        if layer is None or not 0 <= step < len(layer.steps):
            raise InvalidInputError("There is no such criterion or step.")
        n_sources, n_targets = layer.first.shape
        if any(not 0 <= s < n_sources for s in sources) or not -1 <= pick < n_targets:
            raise InvalidInputError("There is no such source or target.")
        assignment = layer.assignment(sources, step)
        place = np.full(n_sources + 1, -1, np.int32)
        place[sources] = np.arange(len(sources))
        return {
            "who": base64.b64encode(place[assignment].astype("<i4").tobytes()).decode(),
            "sizes": [int((layer.first[s] <= step).sum()) for s in sources],
            "losses": [
                None if pick < 0 or not np.isfinite(layer.losses[s, pick])
                else float(layer.losses[s, pick])
                for s in sources
            ],
        }  # fmt: skip

    def play(self, source: int, target: int, judge: str) -> dict[str, Any]:
        """Return trajectories of any source at any target.

        Args:
            source: number of the source.
            target: number of the target.
            judge: which policy of the family counts.
        """
        with self._lock:
            subject = self.subject
        stage = None if subject is None else subject.stage
        if not isinstance(subject, Subject) or not isinstance(stage, Stage):
            why = stage or "This path has no policies that can be played."
            raise InvalidInputError(why)
        sizes = subject.table.sizes
        if not (0 <= source < sizes["source"] and 0 <= target < sizes["target"]):
            raise InvalidInputError("There is no such source or target.")
        if judge not in ("worst", "best"):
            raise InvalidInputError("The judge is worst or best.")
        pair = np.array([source]), np.array([target])
        record = stage.record(subject.table, judge, *pair)
        blobs = Blobs()
        for name in ("away", "home"):
            about = blobs.add(record[name])
            record[name] = about | {"text": blobs.texts[about["blob"]]}
        return record


class _Server(ThreadingHTTPServer):
    """Ends with the program, whatever is still connected."""

    daemon_threads = True

    def __init__(self, live: Live, host: str, port: int, token: str):
        self.live, self.host, self.token = live, host, token
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)


def make_server(
    live: Live, *, host: str = "127.0.0.1", port: int = 0
) -> tuple[ThreadingHTTPServer, str]:
    """Return a server that is not running yet, and its address.

    Args:
        live: what it shows.
        host: where it listens; another machine can reach only what is not loopback.
        port: its port, 0 for a free one.

    Returns:
        The server and the address to open, with the token where one is needed.
    """
    needs_token = not _is_loopback(host)
    token = secrets.token_urlsafe(24) if needs_token else ""
    try:
        server = _Server(live, host, port, token)
    except (OSError, OverflowError) as error:
        raise InvalidInputError(
            f"Nothing can be served at {host} port {port}: {error}."
        ) from error
    query = f"?token={token}" if token else ""
    name = f"[{host}]" if ":" in host else host
    return server, f"http://{name}:{server.server_address[1]}/{query}"


def run_server(
    reader: Reader,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a page until it is interrupted.

    Args:
        reader: reads the page's data.
        host: where to listen.
        port: its port, 0 for a free one.
        announce: told the address.
    """
    live = Live(reader)
    server, address = make_server(live, host=host, port=port)
    threading.Thread(target=live.follow, daemon=True).start()
    announce(address)
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        live.close()
        server.server_close()


def _is_loopback(host: str) -> bool:
    try:
        return host in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    """Answers a fixed list of questions."""

    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds that a silent connection is kept
    server_version = "taskspace"
    sys_version = ""
    server: Any  # a `_Server`

    def do_GET(self) -> None:
        if {"Content-Length", "Transfer-Encoding"} & set(self.headers):
            # A body would be taken for the next request.
            self.close_connection = True
        try:
            parts = urlsplit(self.path)
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
        except ValueError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            return
        refusal = self._refusal(query)
        if refusal:
            self._send(HTTPStatus.FORBIDDEN, {"error": refusal})
            return
        try:
            self._answer(parts.path, query)
        except (TaskspaceError, KeyError, ValueError) as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _refusal(self, query: dict[str, str]) -> str:
        host, token = self.server.host, self.server.token
        port = self.server.server_address[1]
        named = self.headers.get("Host", "")
        allowed = {f"{name}:{port}" for name in (*LOOPBACK, "[::1]", host, f"[{host}]")}
        if not token and named not in allowed:
            return "This server is not known by that name."
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{named}":
            return "Requests of other pages are not answered."
        if self.headers.get("Sec-Fetch-Site", "none") not in (
            "none",
            "same-origin",
        ):
            return "Requests of other pages are not answered."
        secret = query.get("token", "")
        if token and not hmac.compare_digest(secret.encode(), token.encode()):
            return "The token is missing or wrong; use the address as printed."
        return ""

    def _answer(self, path: str, query: dict[str, str]) -> None:
        live = self.server.live
        if path == "/":
            html = live.html
            if html is None:
                html = waiting(live.news())
            self._send_bytes(HTTPStatus.OK, html.encode(), "text/html; charset=utf-8")
        elif path == "/api/news":
            self._send(HTTPStatus.OK, live.news())
        elif path == "/api/view":
            sources = [int(s) for s in query.get("sources", "").split(".") if s]
            answer = live.view(
                query["key"], int(query["step"]), sources, int(query["pick"])
            )
            self._send(HTTPStatus.OK, answer)
        elif path == "/api/play":
            answer = live.play(
                int(query["source"]), int(query["target"]), query["judge"]
            )
            self._send(HTTPStatus.OK, answer)
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "There is nothing here."})

    def _send(self, status: HTTPStatus, value: Any) -> None:
        text = json.dumps(value, allow_nan=False)
        self._send_bytes(status, text.encode(), "application/json")

    def _send_bytes(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args
