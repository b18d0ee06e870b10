"""The server of `vsr watch`: a handful of known paths, for this computer alone, for reading alone."""

from __future__ import annotations

import errno
import json
import shlex
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from vsr.experiments.config.problems import UserError
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
"""Host names of this server. Requests under another name are refused: they come from a page of another site."""
ASSETS = Path(__file__).parent / "assets"
FILES = {
    "/": ("watch.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
    "/curve.js": ("curve.js", "text/javascript; charset=utf-8"),
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
ROBOT_POLICY = "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
"""Of the robot's page, which has a stricter one about loading inside."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NEXT_PORTS = 200
"""How many are tried to find a free one."""
Answer = tuple[HTTPStatus, str, bytes]
"""Status, kind and content."""


class WatchServer(ThreadingHTTPServer):
    """Serves one run."""

    daemon_threads = True
    block_on_close = False  # a browser's open connection must not keep the command from ending

    def __init__(self, port: int, follower: Follower, portrait: Portrait):
        """port: 0 for any that is free."""
        self.follower, self.portrait = follower, portrait
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request, client_address) -> None:
        """A browser that went away in the middle of an answer is nobody's fault."""


def open_server(port: int, follower: Follower, portrait: Portrait) -> WatchServer:
    """Raises UserError, with the next free port, if this one is taken."""
    try:
        return WatchServer(port, follower, portrait)
    except OSError as error:
        fault = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror or error}"
        free = _free_port(max(port + 1, 1024))
        instead = f"vsr watch {shlex.quote(str(follower.path))} --port {free}" if free else "give another one"
        raise UserError(f"--port {port}: it {fault}; instead: {instead}") from None


def _free_port(first: int) -> int | None:
    """The next one that is free at this moment."""
    for port in range(first, min(first + NEXT_PORTS, 65536)):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError:
                continue
            return port
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # every connection ends with its answer, so nothing holds up the end
    timeout = 60  # s; connections that nobody uses are closed
    server: WatchServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def _refuse(self) -> None:
        self.close_connection = True  # what was sent along is not read
        self._send((HTTPStatus.METHOD_NOT_ALLOWED, *_words("only GET and HEAD")), True, {"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _answer(self, with_content: bool) -> None:
        if not _is_ours(self.headers.get("Host", "")):
            refused = "this page is for 127.0.0.1 and localhost"
            self._send((HTTPStatus.FORBIDDEN, *_words(refused)), with_content)
            return
        asked = urlsplit(self.path)
        paths: dict[str, Callable[[], Answer]] = {"/state.json": self._state, "/robot.html": self._robot}
        policy = ROBOT_POLICY if asked.path == "/robot.html" else PAGE_POLICY
        if asked.path in FILES:
            name, kind = FILES[asked.path]
            answer = HTTPStatus.OK, kind, (ASSETS / name).read_bytes()
        elif asked.path in paths:
            answer = paths[asked.path]()
        else:
            answer = HTTPStatus.NOT_FOUND, *_words("there is nothing here")
        self._send(answer, with_content, {"Content-Security-Policy": policy})

    def _state(self) -> Answer:
        known = parse_qs(urlsplit(self.path).query).get("known", [""])[0]
        portrait = self.server.portrait
        portrait.request()
        try:
            state = self.server.follower.look(known)
        except (UserError, OSError) as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, *_words(str(error))
        state |= {
            "robot": {
                "coming": portrait.is_coming,
                "version": portrait.version,
                "caption": portrait.caption,
                "busySeconds": portrait.busy_seconds,
                "trouble": portrait.trouble,
            }
        }
        return HTTPStatus.OK, "application/json", json.dumps(state, allow_nan=False).encode()

    def _robot(self) -> Answer:
        text = self.server.portrait.text
        if not text:
            return HTTPStatus.NOT_FOUND, *_words("there is no robot yet")
        return HTTPStatus.OK, "text/html; charset=utf-8", text.encode()

    def _send(self, answer: Answer, with_content: bool, more: dict[str, str] | None = None) -> None:
        status, kind, content = answer
        self.send_response(status)
        for name, value in {**HEADERS, **(more or {}), "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def version_string(self) -> str:
        return "vsr"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line."""


def _is_ours(host: str) -> bool:
    """Whether a request was meant for this computer, by whichever port (ssh may lead another one here)."""
    name, _, port = host.partition(":")
    return name.lower() in NAMES and (not port or port.isdigit())


def _words(text: str) -> tuple[str, bytes]:
    return "text/plain; charset=utf-8", f"{text}\n".encode()
