"""The `vsr` command in this process, or in worker processes that get signals and faults.

Workers are forked from a server that has imported everything and computed nothing (multiprocessing's forkserver):
importing takes seconds, and a fork before JAX begins to compute is as good as a new process.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from faults.injection import Fault, injected, mount_tmpfs
from vsr.cli import main as cli
from vsr.experiments.installed import COMMAND

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["vsr.cli", "vsr.experiments.evolve.command", "vsr.experiments.plot.curves", "vsr.experiments.plot.comparison",
     "vsr.experiments.report.command", "vsr.experiments.terminal", "matplotlib.pyplot"]
)  # fmt: skip
SECONDS = 300.0
"""How long jobs may take together before they are killed, unless said otherwise [s]."""
POLL_INTERVAL = 0.001
"""How often workers are looked at [s]."""
PR_SET_PDEATHSIG = 1
CACHE = "XDG_CACHE_HOME"
"""Names the folder of compiled programs."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    """its exit code; minus the number of the signal that ended it"""
    output: str
    """all that it printed"""
    seconds: float = 0.0
    """wall-clock time [s]"""

    @property
    def traceback(self) -> str:
        """The last line of a traceback, if it printed one."""
        if "Traceback (most recent call last)" not in self.output:
            return ""
        after = self.output.rsplit("Traceback (most recent call last)", 1)[1]
        lines = [line for line in after.splitlines()[1:] if line and not line.startswith((" ", "|", "+"))]
        return lines[0] if lines else "Traceback"

    @property
    def last_line(self) -> str:
        """Of a traceback or of the output."""
        return self.traceback or (self.output.strip().splitlines() or ["(no output)"])[-1]


def run_here(arguments: Sequence[str], folder: Path) -> Result:
    """`vsr ARGUMENTS` in a folder, in this process."""
    with patch.object(sys, "argv", ["vsr", *arguments]):  # runs record the command line they were made with
        return call_here(lambda: cli(list(arguments), "vsr"), folder)


def call_here(function: Callable[[], object], folder: Path) -> Result:
    """Call a function in a folder with its output captured; an exception counts as a traceback."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    began, code = time.monotonic(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            function()
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
        except Exception:
            traceback.print_exc()
            code = 1
    output = "".join(stream.detach().getvalue().decode("utf-8") for stream in (out, err))
    return Result(code, output, time.monotonic() - began)


def passed_environment() -> dict[str, str]:
    """Variables that the server may have otherwise, as it was begun earlier."""
    return {name: os.environ[name] for name in (CACHE, "VSR_TRUST_PLUGINS") if name in os.environ}


@dataclass(frozen=True)
class Job:
    """A command in a worker process, and what happens to it."""

    arguments: tuple[str, ...]
    folder: Path
    """where it runs"""
    delay: float = 0.0
    """when it is spawned, after the first [s]"""
    fresh: bool = False
    """whether it imports everything itself, as a command does that somebody types"""
    signals: tuple[tuple[float, int], ...] = ()
    """which signals are sent to it, and when after its own start [s]"""
    fault: Fault = field(default_factory=Fault)
    tmpfs: int | None = None
    """size of the file system mounted on the subfolder `disk` [bytes]; its content is copied to `copy` at the end"""
    environment: Mapping[str, str] = field(default_factory=passed_environment)


class _Worker:
    """A running job."""

    def __init__(self, job: Job):
        self.signals = sorted(job.signals)
        descriptor, self.output = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=job.folder)
        os.close(descriptor)
        ready, sender = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=_worker_main, args=(job, self.output, sender), daemon=True)
        self.process.start()
        sender.close()
        with contextlib.suppress(EOFError):
            ready.recv()
        self.began, self.ended = time.monotonic(), 0.0

    def poll(self) -> bool:
        """Send the signals that are due; whether the job has ended."""
        if self.process.exitcode is not None:
            self.ended = self.ended or time.monotonic()
            return True
        while self.signals and time.monotonic() - self.began >= self.signals[0][0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid or 0, self.signals.pop(0)[1])
        return False

    def result(self) -> Result:
        assert self.process.exitcode is not None
        output = Path(self.output).read_text(encoding="utf-8", errors="replace")
        return Result(self.process.exitcode, output, self.ended - self.began)


def spawn(*jobs: Job, seconds: float = SECONDS) -> list[Result]:
    """Run jobs at the same time and wait for all."""
    began, workers = time.monotonic(), list[_Worker]()
    waiting = sorted(range(len(jobs)), key=lambda index: jobs[index].delay)
    order = list(waiting)
    while waiting or not all([worker.poll() for worker in workers]):
        now = time.monotonic() - began
        if waiting and now >= jobs[waiting[0]].delay:
            workers.append(_Worker(jobs[waiting.pop(0)]))
        if now > seconds:
            for worker in workers:
                worker.process.kill()
        time.sleep(POLL_INTERVAL)
    return [worker.result() for _, worker in sorted(zip(order, workers, strict=True), key=lambda pair: pair[0])]


def _worker_main(job: Job, output: str, ready: Any) -> None:
    """In the forked process; multiprocessing turns SystemExit and exceptions into the exit code."""
    with contextlib.suppress(AttributeError):  # the server ends with the tests, however these end; workers follow it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what they begin with & ignore it
    os.chdir(job.folder)
    os.environ.update(job.environment)
    if job.tmpfs is not None:
        mount_tmpfs("disk", job.tmpfs)
    ready.send(None)
    if job.fresh:
        os.execv(COMMAND[0], [*COMMAND, *job.arguments])
    try:
        with injected(job.fault), patch.object(sys, "argv", ["vsr", *job.arguments]):
            runpy.run_module("vsr", run_name="__main__", alter_sys=True)
    finally:
        if job.tmpfs is not None:
            shutil.copytree("disk", "copy")
