"""Lines and small tables in a terminal, for every command."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def printable(text: str) -> str:
    """A text without terminal control codes, which names of files and folders may hold."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in text)


def say(text: str, console: Console | None = None) -> None:
    """Print a line as it is, without terminal control codes."""
    (console or Console()).print(printable(text), highlight=False, soft_wrap=True, markup=False)


def warn(warnings: Sequence[str]) -> None:
    """Print warnings on stderr, one line each."""
    console = Console(stderr=True)
    for warning in warnings:
        say(f"warning: {warning}", console)


def cell(text: str) -> str:
    """A text as a cell of a table, without markup."""
    return escape(printable(text))


class Pulse:
    """Reports on one long piece of work: the first after two seconds, then less and less often."""

    FIRST = 2.0
    """[s]; nobody should wait longer without knowing for what"""

    def __init__(
        self, report: Callable[[float], None], first: float = FIRST, clock: Callable[[], float] = time.monotonic
    ):
        """report: called with the seconds that the work has taken; first: after how many seconds [s]."""
        self.report, self.clock = report, clock
        self.began, self.next = clock(), first

    def beat(self) -> None:
        """To be called often."""
        passed = self.clock() - self.began
        if passed >= self.next:
            self.report(passed)
            self.next = max(5 * self.FIRST, 2 * self.next)


@contextlib.contextmanager
def busy(what: str, *, counting: bool = True, report: Callable[[str], None] | None = None) -> Iterator[None]:
    """Show on stderr what a command is working on and for how long, if it takes long.

    In a terminal a line counts the seconds and goes away at the end, unless `counting` is turned off because there is
    another display; elsewhere a line is printed from time to time, or given to `report`.
    """
    stream, done = sys.stderr, threading.Event()
    terminal = report is None and stream.isatty()

    def put(text: str) -> None:
        stream.write(text)
        stream.flush()

    tell = report or (lambda line: put(f"{line}\n"))
    pulse = Pulse(lambda passed: tell(f"{what} ... {passed:.0f} s"))

    def count() -> None:
        if not done.wait(Pulse.FIRST):
            while not done.wait(0.5):
                put(f"\r{what} ... {pulse.clock() - pulse.began:.0f} s")
            put("\r\x1b[K")

    def remind() -> None:
        while not done.wait(0.5):
            pulse.beat()

    if terminal and not counting:
        yield
        return
    thread = threading.Thread(target=count if terminal else remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def show_pairs(title: str | None, pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values as a table, under a title if there is one."""
    console = console_for_tables()
    if title is not None:
        say(title, console)
    table = Table(box=None, show_header=False)
    for name, value in pairs:
        table.add_row(name, cell(value))
    console.print(table)


def console_for_tables() -> Console:
    """A console as wide as the terminal, or wide enough for whole names where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=200)
