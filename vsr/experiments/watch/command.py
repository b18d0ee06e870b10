"""The work of `vsr watch`: serve a page that follows a run, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say, warn
from vsr.experiments.devices import prepare
from vsr.experiments.options import WatchOptions
from vsr.experiments.serving import serve
from vsr.experiments.storage.run_folder import check_run, is_free
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import open_server


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
    server = open_server(options.port, follower, portrait)

    def begin() -> None:
        portrait.start()
        if follower.left_out:
            say(f"its robots are not shown: {follower.left_out}")

    serve(
        server,
        f"watching {path} at {server.address}",
        open_page=options.open_page,
        begin=begin,
        end=portrait.stop,
        busy=lambda: portrait.busy_seconds is not None,
    )
