"""Ctrl-C and SIGTERM, from a command's first moment to its last.

They end a command at once, with exit code 130 and a sentence about what is there and how to go on, or politely: while
`stopping_politely` is open the first one is only noted, and heard at the next good moment.

Nothing is raised, because an exception inside a callback of JAX is printed and forgotten, and the work goes on. A
thread does what is to be done, because Python's handlers have to wait while the main thread compiles or computes.
Nothing but the standard library may be imported here: it must be at work before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

EXIT_CODE = 130
"""As shells have it for Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTHING_BEGUN = "stopped; nothing is left half-written: to begin again, give the same command"
SHOW_CURSOR = b"\x1b[?25h"
"""To a terminal in which a display has hidden it."""

_listening = False
_noted: list[int] = []
_polite = 0
"""How many ask for politeness now."""
_situations = [NOTHING_BEGUN]
_unfinished: set[str] = set()


def listen() -> None:
    """Hear signals from now on, for a process that is one command; a signal that its parent ignores stays ignored."""
    global _listening
    if _listening or threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_follow, args=(reader,), name="signals", daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _take_signals()
    _listening = True


@contextlib.contextmanager
def graceful_shutdown() -> Iterator[list[int]]:
    """While it is open, the first Ctrl-C (or a cluster's SIGTERM) is only noted; the second one ends at once."""
    global _polite
    if not _listening:
        with _handled_here() as noted:
            yield noted
        return
    _take_signals()  # somebody may have taken them since
    _polite += 1
    try:
        yield _noted
    finally:
        _polite -= 1


@contextlib.contextmanager
def on_interrupt(sentence: str) -> Iterator[None]:
    """Message for a user who stops the command while this is open: the state of the work, and how to go on."""
    _situations.append(sentence)
    try:
        yield
    finally:
        _situations.remove(sentence)


def exit_if_interrupted() -> None:
    """End at once if a signal was noted while nobody could do anything about it."""
    if _noted:
        _leave()


def situation() -> str:
    """Message for a user who stops the command."""
    return _situations[-1]


@contextlib.contextmanager
def remove_on_interrupt(path: str | os.PathLike[str]) -> Iterator[None]:
    """A file that is no use before it is whole, while it is written."""
    name = os.fspath(path)
    _unfinished.add(name)
    try:
        yield
    finally:
        _unfinished.discard(name)


def _take_signals() -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _only_wake)


def _only_wake(number: int, frame: object) -> None:
    """A handler, so that Python writes the signal's number to the pipe."""


def _follow(reader: int) -> None:
    while True:
        for number in os.read(reader, 64):
            if number in SIGNALS:
                _hear(number)


def _hear(number: int) -> None:
    first = not _noted
    _noted.append(number)
    if not (_polite and first):
        _leave()


def _leave() -> None:
    """End the process where it is; past Python's buffers, which another thread may hold."""
    for name in tuple(_unfinished):
        with contextlib.suppress(OSError):
            os.unlink(name)
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, SHOW_CURSOR)
    with contextlib.suppress(OSError):
        os.write(2, f"\n{situation()}\n".encode() if os.isatty(2) else f"{situation()}\n".encode())
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def _handled_here() -> Iterator[list[int]]:
    """Politeness in somebody else's process, such as a notebook's or a test's: the second signal is an exception."""
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    try:
        before = [signal.signal(number, note) for number in SIGNALS]
    except ValueError:  # not in the main thread, where signals do not come
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
