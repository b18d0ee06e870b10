"""Commands in processes of their own, several at the same time: the runs of a sweep or a study on this computer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vsr.compute.gpu.language import PROCESSES
from vsr.experiments.console import say
from vsr.experiments.formatting import clock
from vsr.experiments.stopping import graceful_shutdown

INTERVAL = 0.05
"""How often processes are looked after [s]."""
MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"
"""How JAX takes memory of a GPU: unless the user has set one of these, processes at the same time share it."""


@dataclass(frozen=True)
class Work:
    """One process."""

    command: Sequence[str]
    log: Path
    """where its output goes"""
    before: Callable[[], object] = lambda: None
    """what is done just before it starts"""


def run_processes(works: Mapping[str, Work], jobs: int) -> tuple[dict[str, int], bool]:
    """Run everything; jobs: how many at once; returns exit codes, and whether the user has stopped it."""
    waiting, codes = deque(works), {}
    running: dict[str, tuple[subprocess.Popen, float]] = {}
    environment, signalled = _environment(min(jobs, len(works))), False
    try:
        with graceful_shutdown() as stop:
            while running or (waiting and not stop):
                while waiting and len(running) < jobs and not stop:
                    name = waiting.popleft()
                    number = f"{len(works) - len(waiting)} of {len(works)}"
                    say(f"{name}: begins ({number}); its output is in {works[name].log}")
                    running[name] = _start(works[name], environment), time.monotonic()
                if stop and not signalled:
                    signalled = True
                    for process, _ in running.values():
                        process.send_signal(signal.SIGTERM)
                for name in [name for name, (process, _) in running.items() if process.poll() is not None]:
                    process, began = running.pop(name)
                    codes[name] = process.returncode
                    ended = _exit_text(works[name].log, process.returncode)
                    say(f"{name}: {ended} after {clock(time.monotonic() - began)}")
                time.sleep(INTERVAL)
            return codes, bool(stop)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()


def _environment(at_once: int) -> dict[str, str]:
    if at_once < 2:
        return dict(os.environ)
    memory = {} if any(name in os.environ for name in MEMORY) else {MEMORY[0]: f"{0.9 / at_once:.3f}"}
    return {PROCESSES: str(at_once), **os.environ, **memory}


def _start(work: Work, environment: Mapping[str, str]) -> subprocess.Popen:
    work.before()
    # In a session of its own, so that Ctrl-C comes here only, and reaches every run just once.
    with work.log.open("ab") as log:
        return subprocess.Popen(
            work.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )


def _exit_text(log: Path, code: int) -> str:
    if code == 0:
        return "finished"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"ended with exit code {code} ({lines[-1] if lines else 'no output'})"
