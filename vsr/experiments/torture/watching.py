"""The page that follows a run, asked once."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any

from vsr.experiments.devices import prepare
from vsr.experiments.runs.folder import check_run
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import open_server

SECONDS = 0.2
"""How long an episode of the best robot is [s]."""
CHANGING = ("quiet", "busySeconds")
"""What of the state is different from one moment to the next."""


def watch_answers(run: str) -> dict[str, Any]:
    """The state that the page shows, and whether there is a robot; raises as `vsr watch` does."""
    path = Path(run)
    check_run(path)
    follower = Follower(path)
    follower.look()
    prepare("cpu")
    portrait = Portrait(follower, SECONDS)
    with open_server(0, follower, portrait) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            _get(server.server_port, "/state.json")  # someone is watching
            portrait.look()
            status, text = _get(server.server_port, "/state.json")
            robot, _ = _get(server.server_port, "/robot.html")
        finally:
            server.shutdown()
    state = json.loads(text) if status == 200 else {"refused": text}
    return {"status": status, "robot": robot, "state": _lasting(state)}


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8")
    finally:
        connection.close()


def _lasting(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _lasting(value) for name, value in state.items() if name not in CHANGING}
    return state
