"""Runs of a sweep on this computer: each a process of its own, so that one that fails or dies harms no other."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence

from vsr.experiments.console import say
from vsr.experiments.formatting import clock
from vsr.experiments.installed import COMMAND
from vsr.experiments.stopping import graceful_shutdown
from vsr.experiments.sweep.folder import Sweep, evolve_arguments

LOOK_AGAIN = 0.05
"""How often processes are looked after [s]."""


def run_here(sweep: Sweep, names: Sequence[str], jobs: int, more: Sequence[str]) -> tuple[dict[str, int], bool]:
    """Run what is named; jobs: how many at once; returns exit codes, and whether the user has stopped it."""
    waiting, codes = deque(names), {}
    running: dict[str, tuple[subprocess.Popen, float]] = {}
    signalled = False
    try:
        with graceful_shutdown() as stop:
            while running or (waiting and not stop):
                while waiting and len(running) < jobs and not stop:
                    name = waiting.popleft()
                    number = f"{len(names) - len(waiting)} of {len(names)}"
                    say(f"{name}: begins ({number}); it says more in {sweep.log(name)}")
                    running[name] = _start(sweep, name, more), time.monotonic()
                if stop and not signalled:
                    signalled = True
                    for process, _ in running.values():
                        process.send_signal(signal.SIGTERM)
                for name in [name for name, (process, _) in running.items() if process.poll() is not None]:
                    process, began = running.pop(name)
                    codes[name] = process.returncode
                    say(f"{name}: {_ending(sweep, name, process.returncode)} after {clock(time.monotonic() - began)}")
                time.sleep(LOOK_AGAIN)
            return codes, bool(stop)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()


def _start(sweep: Sweep, name: str, more: Sequence[str]) -> subprocess.Popen:
    sweep.write_config(name)
    # In a session of its own, so that Ctrl-C comes here only, and reaches every run just once.
    with sweep.log(name).open("ab") as log:
        command = [*COMMAND, *evolve_arguments(sweep, name, [*more, "--processes", "1"])]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _ending(sweep: Sweep, name: str, code: int) -> str:
    if code == 0:
        return "finished"
    lines = sweep.log(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"ended with exit code {code} ({lines[-1] if lines else 'nothing said'})"
