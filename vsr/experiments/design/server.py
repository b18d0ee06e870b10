"""The server of `vsr design`: it checks, simulates and writes down what the page describes. It stores nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from vsr.drawing.painter import Look
from vsr.experiments.config.problems import UserError
from vsr.experiments.design.documents import as_yaml, catalog, measures_of, problems_of, read, scene_of
from vsr.experiments.play.page import page
from vsr.experiments.play.recordings import RecordedRobot, Source, record_robot
from vsr.experiments.serving import JSON, ROBOT, Answer, LocalServer, open_on, page_of, words
from vsr.experiments.storage.files import without_nan

ASSETS = Path(__file__).parent / "assets"
FILES = {
    "/": (ASSETS / "design.html", "text/html; charset=utf-8"),
    "/design.css": (ASSETS / "design.css", "text/css; charset=utf-8"),
    "/design.js": (ASSETS / "design.js", "text/javascript; charset=utf-8"),
}
EMPTY = "Draw a robot and press Play."


class DesignServer(LocalServer):
    """Serves one drawing board."""

    files = FILES

    def __init__(
        self,
        port: int,
        first: dict[str, Any],
        simulate: Callable[[Source, float], RecordedRobot] = record_robot,
    ):
        """port: 0 for any that is free; first: the document to begin with."""
        self.first, self._simulate = first, simulate
        self.version, self._robot = 0, ""
        """how many robots were simulated, and the page of the last one"""
        self.busy = False
        self._turn = threading.Lock()
        super().__init__(port)

    @property
    def answers(self) -> Mapping[str, Callable[[str], Answer]]:
        return {"/catalog.json": lambda query: _json({**catalog(), "first": self.first}), ROBOT: self._page}

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Answer]]:
        return {
            "/read": _asked(self._read),
            "/check": _asked(self._check),
            "/save": _asked(self._save),
            "/play": _asked(self._play),
        }

    def _page(self, query: str) -> Answer:
        return page_of(self._robot) if self._robot else words(HTTPStatus.NOT_FOUND, EMPTY)

    def _read(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A file's text as a document."""
        return {"document": read(str(asked.get("text", "")), str(asked.get("name", "file")))}

    def _check(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Nothing but the faults of a document, which are the answer to any question about it."""
        scene_of(asked.get("document"))
        return {}

    def _save(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The document as YAML."""
        return {"yaml": as_yaml(asked.get("document"), asked.get("as") == "experiment")}

    def _play(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Simulate a document; its page then waits at /robot.html."""
        scene = scene_of(asked.get("document"))
        with self._turn:  # one at a time: they would only slow each other down
            self.busy, began = True, time.monotonic()
            try:
                robot = self._simulate(Source(str(asked.get("name") or "drawing"), scene), scene.task.duration)
                self._robot = page([robot], Look(), repeat=True)
                self.version += 1
            finally:
                self.busy = False
            seconds = time.monotonic() - began
        return {
            "version": self.version,
            "measures": measures_of(robot),
            "failed": robot.recording.failed,
            "seconds": seconds,
            "simulated": scene.task.duration,
        }


def open_server(port: int, first: dict[str, Any]) -> DesignServer:
    """Raises UserError, with the next free port, if this one is taken."""
    return open_on(port, lambda free: DesignServer(free, first), "vsr design")


def _asked(work: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[bytes], Answer]:
    """An answer to a question in JSON: what was asked for, or all faults of what was sent."""

    def answer(sent: bytes) -> Answer:
        try:
            asked = json.loads(sent)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            return words(HTTPStatus.BAD_REQUEST, "this is no JSON object")
        try:
            return _json({**work(asked), "problems": []})
        except UserError as error:
            return _json({"problems": problems_of(error)})
        except (ValueError, RuntimeError, OSError) as error:
            return _json({"problems": [{"path": "", "message": str(error) or type(error).__name__}]})

    return answer


def _json(plain: Any) -> Answer:
    return HTTPStatus.OK, JSON, json.dumps(without_nan(plain), allow_nan=False).encode()
