"""Lines and small tables in a terminal, for every command."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.table import Table


class Console(RichConsole):
    """A console that leaves it to the command what to do when nobody reads on."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def printable(text: str) -> str:
    """A text without commands to a terminal, which names of files and folders may hold."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in text)


def say(text: str, console: RichConsole | None = None) -> None:
    """A line as it is, with no terminal's commands in it."""
    (console or Console()).print(printable(text), highlight=False, soft_wrap=True, markup=False)


def warn(warnings: Sequence[str]) -> None:
    """One line each, apart from results."""
    console = Console(stderr=True)
    for warning in warnings:
        say(f"warning: {warning}", console)


def cell(text: str) -> str:
    """What stands in a table, as it is."""
    return escape(printable(text))


class Pulse:
    """Signs of life of one long piece of work: the first after two seconds, then ever more seldom."""

    FIRST = 2.0
    """[s]; nobody should have to wait longer without knowing for what"""

    def __init__(
        self, report: Callable[[float], None], first: float = FIRST, clock: Callable[[], float] = time.monotonic
    ):
        """tell: called with the seconds that the work has taken; first: when."""
        self.report, self.clock = report, clock
        self.began, self.next = clock(), first

    def beat(self) -> None:
        """To be called often."""
        passed = self.clock() - self.began
        if passed >= self.next:
            self.report(passed)
            self.next = max(5 * self.FIRST, 2 * self.next)


@contextlib.contextmanager
def busy(what: str, *, counting: bool = True) -> Iterator[None]:
    """Work of a command that may take long: whoever waits for it sees on stderr what it is and since when.

    In a terminal a line counts the seconds and goes away at the end, unless `counting` is turned off because there is
    another display; elsewhere there is a line now and then.
    """
    stream, done = sys.stderr, threading.Event()

    def put(text: str) -> None:
        stream.write(text)
        stream.flush()

    pulse = Pulse(lambda passed: put(f"{what} ... {passed:.0f} s\n"))

    def count() -> None:
        if not done.wait(Pulse.FIRST):
            while not done.wait(0.5):
                put(f"\r{what} ... {pulse.clock() - pulse.began:.0f} s")
            put("\r\x1b[K")

    def remind() -> None:
        while not done.wait(0.5):
            pulse.beat()

    if stream.isatty() and not counting:
        yield
        return
    thread = threading.Thread(target=count if stream.isatty() else remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def show_pairs(title: str | None, pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, under a title if there is one."""
    console = console_for_tables()
    if title is not None:
        say(title, console)
    table = Table(box=None, show_header=False)
    for name, value in pairs:
        table.add_row(name, cell(value))
    console.print(table)


def console_for_tables() -> Console:
    """As wide as the terminal; wide enough for whole names where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=200)
