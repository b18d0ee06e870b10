"""Processes to run commands in: a nursery that bears one for each command, and a worker that runs them in itself."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vsr.experiments.torture.faults import Fault, Record, as_plain
from vsr.experiments.torture.here import Ended

PROGRAM = [sys.executable, "-P", "-m", "vsr.experiments.torture.nursery"]
SECONDS = 300.0
"""How long commands may take together before they are killed, unless said otherwise [s]."""


@dataclass(frozen=True)
class Process:
    """A command in a process of its own, and what happens to it."""

    arguments: tuple[str, ...]
    folder: Path
    """where it runs"""
    begin: float = 0.0
    """when, after the first [s]"""
    fresh: bool = False
    """whether it is to import everything itself, as a command does that somebody types"""
    signals: tuple[tuple[float, int], ...] = ()
    """when, after its own begin [s], which signals are sent to it"""
    fault: Fault | None = None
    small_disk: tuple[str, int] | None = None
    """a folder that is a disk of its own, and the size of that [bytes]; what is on it is copied to `copy` beside it"""
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return {
            "arguments": list(map(str, self.arguments)),
            "folder": str(self.folder),
            "begin": self.begin,
            "fresh": self.fresh,
            "signals": self.signals,
            "fault": as_plain(self.fault),
            "small_disk": self.small_disk,
            "environment": dict(self.environment),
        }


class _Server:
    """A process that answers orders, begun when the first comes."""

    arguments: tuple[str, ...] = ()

    def __init__(self, environment: Mapping[str, str]):
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start importing; orders wait for it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*PROGRAM, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,  # a Ctrl-C is for whoever began the campaign, who ends this
            )

    def order(self, order: dict[str, Any], seconds: float) -> Any | None:
        """The answer; None if there was none in time, or the process died: then the next order begins another."""
        self.begin()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                raise TimeoutError
            line = self._process.stdout.readline()
            if not line:
                raise BrokenPipeError
        except (OSError, TimeoutError):
            self.close()
            return None
        return json.loads(line)

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
            self._process = None


class Nursery(_Server):
    """Bears a process for each command."""

    def run(self, *processes: Process, seconds: float = SECONDS) -> list[Ended]:
        """All of them, waited for."""
        order = {"processes": [process.to_plain() for process in processes], "limit": seconds}
        answer = self.order(order, 2 * seconds)
        if answer is None:
            raise RuntimeError("the nursery died")
        for process, one in zip(processes, answer, strict=True):
            with (Path(process.folder) / OUTPUT).open("a", encoding="utf-8") as file:
                file.write(f"$ vsr {shlex.join(process.arguments)}  ({one['seconds']:.2f} s, code {one['code']})\n")
                file.write(one["output"])
        return [Ended(**one) for one in answer]


OUTPUT = "output.txt"
"""In a trial's folder: what its processes said."""
READING = 60.0
"""In which an answer about an input must come, or the reader is killed [s]; it stops itself much sooner."""
LOST = Ended(-9, "no answer in time, or the process died", 0.0)
"""Of a command that hung or took its process with it."""


class Worker(_Server):
    """Runs commands in itself."""

    arguments = ("worker",)

    def run(
        self, arguments: Sequence[str], folder: Path, *, fault: Fault | None = None, seconds: float = SECONDS
    ) -> tuple[Ended, Record]:
        """A command in a folder, maybe with a fault, and what the fault met."""
        order = {"order": "command", "arguments": list(map(str, arguments)), "folder": str(folder)}
        answer = self.order({**order, "fault": as_plain(fault)}, seconds)
        if answer is None:
            return LOST, Record()
        return Ended(**{k: v for k, v in answer.items() if k != "record"}), Record(**answer["record"])

    def watch(self, run: str, folder: Path, *, seconds: float = SECONDS) -> Ended:
        """What the page that follows a run would show."""
        answer = self.order({"order": "watch", "run": run, "folder": str(folder)}, seconds)
        return LOST if answer is None else Ended(**answer)


class Reader(Worker):
    """Reads inputs with little time and memory."""

    arguments = ("reader",)

    def read(self, target: str, file: str, arguments: Sequence[str], folder: Path) -> Ended:
        """One input, by the name of what reads it."""
        order = {"order": "input", "target": target, "file": file, "arguments": list(arguments), "folder": str(folder)}
        answer = self.order(order, READING)
        return LOST if answer is None else Ended(**answer)
