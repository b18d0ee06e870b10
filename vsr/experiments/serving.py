"""Servers for this computer alone: a handful of known paths, which pages of other sites cannot use."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.stopping import graceful_shutdown

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
"""Host names of servers. Requests under another name are refused: they come from a page of another site."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
ROBOT_POLICY = "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
"""Of a robot's page, which has a stricter one about loading inside."""
ROBOT = "/robot.html"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOK_AGAIN = 0.1
"""How often `serve` looks whether it is to stop [s]."""
NEXT_PORTS = 200
"""How many are tried to find a free one."""
MOST_SENT = 4 * 2**20
"""Of a request [bytes]."""
JSON = "application/json"
Answer = tuple[HTTPStatus, str, bytes]
"""Status, kind and content."""
Server = TypeVar("Server", bound="LocalServer")


class LocalServer(ThreadingHTTPServer):
    """Serves pages and answers to this computer."""

    daemon_threads = True
    block_on_close = False  # a browser's open connection must not keep the command from ending
    files: Mapping[str, tuple[Path, str]] = {}
    """what is sent as it is: file and kind, by path"""

    def __init__(self, port: int):
        """port: 0 for any that is free."""
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    @property
    def answers(self) -> Mapping[str, Callable[[str], Answer]]:
        """What is made when it is asked for, from the query, by path."""
        return {}

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Answer]]:
        """What is made of what a page sends, by path."""
        return {}

    def handle_error(self, request, client_address) -> None:
        """A browser that went away in the middle of an answer is nobody's fault."""


def open_on(port: int, make: Callable[[int], Server], command: str) -> Server:
    """A server on a port; raises UserError, with the next free one for the command, if this one is taken."""
    try:
        return make(port)
    except OSError as error:
        fault = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror or error}"
        free = _free_port(max(port + 1, 1024))
        instead = f"{command} --port {free}" if free else "give another one"
        raise UserError(f"--port {port}: it {fault}; instead: {instead}") from None


def serve(
    server: LocalServer,
    message: str,
    *,
    open_page: bool,
    begin: Callable[[], object] | None = None,
    end: Callable[[], object] | None = None,
    busy: Callable[[], bool],
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        message: what the user reads, before the way to stop.
        open_page: open a browser too.
        begin: called once the server answers.
        end: called when it has stopped.
        busy: whether a program is still being compiled or a robot simulated, which nobody will see.
    """
    with server, graceful_shutdown() as stop:
        threading.Thread(target=server.serve_forever, args=(LOOK_AGAIN,), daemon=True).start()
        if begin is not None:
            begin()
        say(f"{message} (Ctrl-C stops)")
        sys.stdout.flush()
        if open_page and not webbrowser.open(server.address):
            say("--open: there is no browser to open here")
        while not stop:
            time.sleep(LOOK_AGAIN)
        server.shutdown()
        if end is not None:
            end()
    say("stopped")
    if busy():
        sys.stdout.flush()
        os._exit(0)  # rather than wait for a robot, or tear XLA down while it compiles


def words(status: HTTPStatus, text: str) -> Answer:
    """An answer in plain text."""
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


def page_of(text: str) -> Answer:
    """A page as an answer."""
    return HTTPStatus.OK, "text/html; charset=utf-8", text.encode()


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
    server: LocalServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def do_POST(self) -> None:
        """JSON from the server's own page. Other sites can send no JSON here without being asked for their origin."""
        path, posts = urlsplit(self.path).path, self.server.posts
        if not posts:
            self._refuse()
            return
        self.close_connection = True
        size = self.headers.get("Content-Length", "")
        if not _is_ours(self.headers.get("Host", "")) or not self._is_own_page():
            answer = words(HTTPStatus.FORBIDDEN, "this page is for 127.0.0.1 and localhost")
        elif path not in posts:
            answer = words(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif self.headers.get_content_type() != JSON:
            answer = words(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
        elif not size.isdecimal() or int(size) > MOST_SENT:
            answer = words(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {MOST_SENT} bytes, and say how many")
        else:
            answer = posts[path](self.rfile.read(int(size)))
        self._send(answer, True, {"Content-Security-Policy": PAGE_POLICY})

    def _is_own_page(self) -> bool:
        """Whether the page that asks is of this server: browsers say where a page is from, other programs need not."""
        origin = self.headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == self.headers.get("Host", "")

    def _refuse(self) -> None:
        self.close_connection = True  # what was sent along is not read
        allowed = "GET and HEAD" if not self.server.posts else "GET, HEAD and POST"
        header = {"Allow": allowed.replace(" and", ",")}
        self._send(words(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}"), True, header)

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _answer(self, with_content: bool) -> None:
        if not _is_ours(self.headers.get("Host", "")):
            self._send(words(HTTPStatus.FORBIDDEN, "this page is for 127.0.0.1 and localhost"), with_content)
            return
        asked, server = urlsplit(self.path), self.server
        if asked.path in server.files:
            file, kind = server.files[asked.path]
            answer = HTTPStatus.OK, kind, file.read_bytes()
        elif asked.path in server.answers:
            answer = server.answers[asked.path](asked.query)
        else:
            answer = words(HTTPStatus.NOT_FOUND, "there is nothing here")
        policy = ROBOT_POLICY if asked.path == ROBOT else PAGE_POLICY
        self._send(answer, with_content, {"Content-Security-Policy": policy})

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
