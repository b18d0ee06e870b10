"""The work of `vsr design`: serve a drawing board, until Ctrl-C."""

from __future__ import annotations

from vsr.experiments.design.documents import read, read_file
from vsr.experiments.design.server import open_server
from vsr.experiments.devices import prepare
from vsr.experiments.options import DesignOptions
from vsr.experiments.serving import serve
from vsr.experiments.shipped import SCENE, find_config

FIRST = """
robot:
  body:
    shape: [aaaaa, a...a]
  controller:
    type: sine
    phase: [[0.0, 1.2, 2.4, 3.6, 4.8], [0.0, null, null, null, 4.8]]
task: {duration: 10}
"""
"""The drawing to begin with, if none is given."""


def design(options: DesignOptions) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    given = None if options.robot is None else find_config(options.robot, SCENE)
    first = read(FIRST) if given is None else read_file(given)
    prepare(options.device)
    server = open_server(options.port, first)
    serve(server, f"draw at {server.address}", open_page=options.open_page, busy=lambda: server.busy)
