"""The work of `vsr design`: serve a drawing board, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
import time
import webbrowser

from vsr.experiments.console import say
from vsr.experiments.design.documents import read, read_file
from vsr.experiments.design.server import open_server
from vsr.experiments.devices import prepare
from vsr.experiments.options import DesignOptions
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.stopping import graceful_shutdown

LOOK_AGAIN = 0.1
"""How often the command looks whether it is to stop [s]."""
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
    with open_server(options.port, first) as server, graceful_shutdown() as stop:
        threading.Thread(target=server.serve_forever, args=(LOOK_AGAIN,), daemon=True).start()
        say(f"draw at {server.address} (Ctrl-C stops)")
        sys.stdout.flush()
        if options.open_page and not webbrowser.open(server.address):
            say("--open: there is no browser to open here")
        while not stop:
            time.sleep(LOOK_AGAIN)
        server.shutdown()
    say("stopped")
    if server.busy:
        sys.stdout.flush()
        os._exit(0)  # rather than wait for a robot that nobody will see, or tear XLA down while it compiles
