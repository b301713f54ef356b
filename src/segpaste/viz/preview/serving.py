"""HTTP server of the page, bound to the loopback address of this machine.

`respond` is the server without its socket: a pure function of a request. It answers its own page only: the ``Host``
header must name this machine, which prevents DNS rebinding, and the ``Origin`` header must name the page.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from segpaste.viz.preview.preview_source import PreviewSource
from segpaste.viz.preview.rendering import render, setup_of

HOST = "127.0.0.1"
_NAMES = {"127.0.0.1", "localhost", "::1"}
_LARGEST_REQUEST = 1 << 20
_SECONDS_TO_SEND = 30
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES = {
    "/": ("page.html", "text/html"),
    "/preview.css": ("preview.css", "text/css"),
    "/preview.js": ("preview.js", "text/javascript"),
    "/options.js": ("options.js", "text/javascript"),
    "/report.js": ("report.js", "text/javascript"),
}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request.

    Attributes:
        method: such as ``GET``.
        path: without the query.
        headers: by their names in lower case.
        body: of a POST.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response.

    Attributes:
        status: of HTTP.
        kind: media type of the body.
        body: content.
    """

    status: HTTPStatus
    kind: str = "text/plain"
    body: bytes = b""


def respond(source: PreviewSource, asked: PageRequest) -> Reply:
    """Answer one request: a file of the page, its data (``/setup``), or a picture (``/render``)."""
    if (refusal := _refusal(asked)) is not None:
        return refusal
    if asked.method == "GET" and asked.path in _FILES:
        name, kind = _FILES[asked.path]
        return Reply(HTTPStatus.OK, kind, _file(name))
    if asked.method == "GET" and asked.path == "/setup":
        return _json(setup_of(source))
    if asked.method == "GET" and asked.path == "/favicon.ico":
        return Reply(HTTPStatus.NO_CONTENT)
    if asked.method == "POST" and asked.path == "/render":
        try:
            wanted = json.loads(asked.body)
        except (ValueError, RecursionError):
            wanted = None
        if not isinstance(wanted, dict):
            return _plain(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return _json(render(source, wanted))
    return _plain(HTTPStatus.NOT_FOUND, "expected an address of the page")


def make_server(source: PreviewSource, port: int) -> ThreadingHTTPServer:
    """Return the server, bound to a port of this machine, or to any free one for 0; ``serve_forever`` runs it.

    Raises:
        OSError: the port is taken, or may not be used.
    """
    lock = threading.Lock()  # one picture at a time, each with all cores

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _SECONDS_TO_SEND

        def do_GET(self) -> None:
            self._reply(b"")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _LARGEST_REQUEST:
                self.close_connection = True
                self._send(_plain(HTTPStatus.BAD_REQUEST, f"expected a body of up to {_LARGEST_REQUEST} bytes"))
                return
            self._reply(self.rfile.read(int(length)))

        def _reply(self, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                reply = respond(source, PageRequest(self.command, urlsplit(self.path).path, headers, body))
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            if reply.status != HTTPStatus.NO_CONTENT:
                self.send_header("Content-Type", f"{reply.kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing: the page shows its own state."""

    return _Server((HOST, port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, except those of a browser that closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _refusal(asked: PageRequest) -> Reply | None:
    """Return the refusal of a request from another page; None for requests of our own page."""
    host, origin = asked.headers.get("host", ""), asked.headers.get("origin")
    if _hostname(host) not in _NAMES:
        return _plain(HTTPStatus.FORBIDDEN, "expected a Host header that names this machine, such as localhost")
    if origin is not None and origin != f"http://{host}":
        return _plain(HTTPStatus.FORBIDDEN, "expected a request of the page itself")
    if asked.method == "POST" and asked.headers.get("content-type", "").partition(";")[0] != "application/json":
        return _plain(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
    return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


@cache
def _file(name: str) -> bytes:
    return resources.files("segpaste.viz.preview").joinpath(name).read_bytes()


def _json(values: Mapping[str, Any]) -> Reply:
    return Reply(HTTPStatus.OK, "application/json", json.dumps(values).encode())


def _plain(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, body=f"{text}\n".encode())
