"""The work of `vsr watch`: serve a page that follows a run, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
import time
import webbrowser
from pathlib import Path

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say, warn
from vsr.experiments.devices import prepare
from vsr.experiments.options import WatchOptions
from vsr.experiments.stopping import graceful_shutdown
from vsr.experiments.storage.run_folder import check_run, is_free
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import open_server

LOOK_AGAIN = 0.1
"""How often the command looks whether it is to stop [s]."""


def watch(options: WatchOptions) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    path = Path(options.run)
    if not options.wait and not path.exists():
        raise UserError(f"{path}: there is no such run folder; --wait waits for vsr evolve to make it")
    if not (options.wait and is_free(path)):
        check_run(path)
    follower = Follower(path, run_plugins=options.trust_plugins)
    follower.look()  # so that what cannot be read is reported at once
    warn(follower.warnings)
    prepare("cpu")  # a GPU is for the run
    portrait = Portrait(follower, options.seconds)
    with open_server(options.port, follower, portrait) as server, graceful_shutdown() as stop:
        threading.Thread(target=server.serve_forever, args=(LOOK_AGAIN,), daemon=True).start()
        portrait.start()
        if follower.left_out:
            say(f"its robots are not shown: {follower.left_out}")
        say(f"watching {path} at {server.address} (Ctrl-C stops)")
        sys.stdout.flush()
        if options.open_page and not webbrowser.open(server.address):
            say("--open: there is no browser to open here")
        while not stop:
            time.sleep(LOOK_AGAIN)
        server.shutdown()
        portrait.stop()
    say("stopped watching")
    if portrait.busy_seconds is not None:
        sys.stdout.flush()
        os._exit(0)  # rather than wait for a robot that nobody will see, or tear XLA down while it compiles
