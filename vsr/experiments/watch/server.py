"""The server of `vsr watch`: one run, for reading alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from vsr.experiments.config.problems import UserError
from vsr.experiments.serving import JSON, ROBOT, Answer, LocalServer, open_on, page_of, words
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait

ASSETS = Path(__file__).parent / "assets"
FILES = {
    "/": (ASSETS / "watch.html", "text/html; charset=utf-8"),
    "/watch.css": (ASSETS / "watch.css", "text/css; charset=utf-8"),
    "/watch.js": (ASSETS / "watch.js", "text/javascript; charset=utf-8"),
    "/curve.js": (ASSETS / "curve.js", "text/javascript; charset=utf-8"),
}


class WatchServer(LocalServer):
    """Serves one run."""

    files = FILES

    def __init__(self, port: int, follower: Follower, portrait: Portrait):
        """port: 0 for any that is free."""
        self.follower, self.portrait = follower, portrait
        super().__init__(port)

    @property
    def answers(self) -> Mapping[str, Callable[[str], Answer]]:
        return {"/state.json": self._state, ROBOT: self._robot}

    def _state(self, query: str) -> Answer:
        portrait = self.portrait
        portrait.request()
        try:
            state = self.follower.look(parse_qs(query).get("known", [""])[0])
        except (UserError, OSError) as error:
            return words(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        state |= {
            "robot": {
                "coming": portrait.is_coming,
                "version": portrait.version,
                "caption": portrait.caption,
                "busySeconds": portrait.busy_seconds,
                "trouble": portrait.trouble,
            }
        }
        return HTTPStatus.OK, JSON, json.dumps(state, allow_nan=False).encode()

    def _robot(self, query: str) -> Answer:
        text = self.portrait.text
        return page_of(text) if text else words(HTTPStatus.NOT_FOUND, "there is no robot yet")


def open_server(port: int, follower: Follower, portrait: Portrait) -> WatchServer:
    """Raises UserError, with the next free port, if this one is taken."""
    command = f"vsr watch {shlex.quote(str(follower.path))}"
    return open_on(port, lambda free: WatchServer(free, follower, portrait), command)
