"""Ctrl-C as a wish that is heard at the next good moment."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def stopping_politely() -> Iterator[list[int]]:
    """While it is open, the first Ctrl-C (or a cluster's SIGTERM) is only noted; the second one ends at once."""
    noted: list[int] = []

    def note(number: int, _: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, note) for number in signals]
    except ValueError:  # not in the main thread, where signals do not come
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
