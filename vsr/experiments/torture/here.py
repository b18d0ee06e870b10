"""The `vsr` command in this process, as often as one likes: what is compiled once serves all that follows."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMMAND_MODULE = "vsr"
"""What `python -m vsr` runs."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """its exit code; minus the number of the signal that ended it"""
    output: str
    """all that it printed"""
    seconds: float
    """how long it took [s]"""
    memory: int = 0
    """the most it had [bytes], where it was a process of its own"""

    @property
    def traceback(self) -> str:
        """The last line of a traceback, if it printed one."""
        if "Traceback (most recent call last)" not in self.output:
            return ""
        after = self.output.rsplit("Traceback (most recent call last)", 1)[1]
        lines = [line for line in after.splitlines()[1:] if line and not line.startswith((" ", "|", "+"))]
        return lines[0] if lines else "Traceback"


def run_here(arguments: Sequence[str], folder: Path) -> Ended:
    """`vsr ARGUMENTS` in a folder."""
    with _named(arguments):
        return call_here(lambda: importlib.import_module("vsr.cli").main(list(arguments), "vsr"), folder)


def call_here(work: Callable[[], object], folder: Path) -> Ended:
    """Anything, with what it prints kept; an exception counts as a traceback."""
    results = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    messages = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    began, code = time.monotonic(), 0
    with _in_folder(folder), _as_before(), contextlib.redirect_stdout(results), contextlib.redirect_stderr(messages):
        try:
            work()
        except SystemExit as ended:
            code = exit_code(ended)
        except BaseException:
            traceback.print_exc()
            code = 1
    output = "".join(one.detach().getvalue().decode("utf-8") for one in (results, messages))
    return Ended(code, output, time.monotonic() - began)


def exit_code(ended: SystemExit) -> int:
    """As the shell sees it."""
    return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1


def run_command(arguments: Sequence[str]) -> None:
    """As a process of its own does it, Ctrl-C and all; ends with SystemExit."""
    with _named(arguments):
        runpy.run_module(COMMAND_MODULE, run_name="__main__", alter_sys=True)


@contextlib.contextmanager
def _named(arguments: Sequence[str]) -> Iterator[None]:
    """Runs keep the command line they were made with."""
    before = sys.argv
    sys.argv = ["vsr", *arguments]
    try:
        yield
    finally:
        sys.argv = before


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Commands may load plugins, of which another trial may have others of the same name."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in _plugins(modules):
            del sys.modules[name]


def _plugins(before: set[str]) -> list[str]:
    """Modules that came from beside a file of the user's: another trial may have another of the same name."""
    here = str(Path.cwd())
    return [
        name
        for name, module in list(sys.modules.items())
        if name not in before and str(getattr(module, "__file__", None) or "").startswith(here)
    ]
