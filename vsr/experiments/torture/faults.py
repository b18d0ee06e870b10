"""Faults of a computer, played to one process: a disk that fails at a chosen write, a clock that goes backwards.

Every operation that changes a file under a folder is counted: opening for writing, each write that reaches the
operating system, syncing, renaming, removing, making folders. The one of a chosen number fails, and if the fault lasts,
all that come after it.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from vsr.experiments.files import TEMPORARY

FULL_DISK_ALLOWS = ("unlink", "replace", "rename", "fsync")
"""What still works when no space is left."""
THIS_COMPUTER = ("127.0.0.1", "localhost", "::1")
BACKWARDS = 3600.0
"""How far the clock jumps back [s]."""


@dataclass(frozen=True)
class Fault:
    """What is to go wrong."""

    folder: str = ""
    """in which operations count"""
    at: int | None = None
    """the number of the operation that fails, from 0; None for none"""
    error: str = "ENOSPC"
    """the fault's name in `errno`"""
    lasts: bool = True
    """whether later operations fail too"""
    clock_jumps_at: int | None = None
    """how often the time of day is asked for until the clock jumps back by an hour"""
    offline: bool = False
    """whether any connection but to this computer itself is an error; for the rest of the process's life"""


def as_plain(fault: Fault | None) -> dict[str, Any] | None:
    return None if fault is None else asdict(fault)


def from_plain(plain: dict[str, Any] | None) -> Fault | None:
    return None if plain is None else Fault(**plain)


@dataclass
class Record:
    """What happened."""

    operations: list[str] = field(default_factory=list)
    """every operation that was counted, as `write best/seed-0.yaml`"""
    whole: dict[str, tuple[int, str]] = field(default_factory=dict)
    """size [bytes] and digest of every file that was complete when the fault came, by its place in the folder"""


@contextlib.contextmanager
def injected(fault: Fault | None) -> Iterator[Record]:
    """While it is open, this process has the fault."""
    record = Record()
    with contextlib.ExitStack() as patches:
        if fault is not None and fault.folder:
            _Disk(fault, record).put_in_place(patches)
        if fault is not None and fault.clock_jumps_at is not None:
            _put_clock_in_place(fault.clock_jumps_at, patches)
        if fault is not None and fault.offline:
            sys.addaudithook(_refuse_network)
        yield record


def whole_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and digest of every file that bears its final name."""
    found = {}
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file() and TEMPORARY not in file.name and ".partial" not in file.name:
            data = file.read_bytes()
            found[str(file.relative_to(folder))] = len(data), hashlib.sha256(data).hexdigest()
    return found


class _Disk:
    """Stands between this process and the files of a folder."""

    def __init__(self, fault: Fault, record: Record):
        self.fault, self.record = fault, record
        self.folder = os.path.realpath(fault.folder)
        self.busy = False
        self.opened: dict[str, tuple[int, str]] = {}
        """of files that were there when they were opened under their own names, which empties them: as they were"""
        self.open, self.fsync = io.open, os.fsync

    def put_in_place(self, patches: contextlib.ExitStack) -> None:
        for module in (io, builtins):
            patches.enter_context(patch.object(module, "open", self._opened))
        patches.enter_context(patch.object(os, "fsync", self._synced))
        for name in ("replace", "rename", "unlink", "mkdir"):
            patches.enter_context(patch.object(os, name, self._watched(name, getattr(os, name))))

    def count(self, operation: str, file: Any) -> int | None:
        """Note an operation; the number of the error if it is to fail."""
        place = self._place(file)
        if place is None or self.busy:
            return None
        number, fault = len(self.record.operations), self.fault
        self.record.operations.append(f"{operation} {place}")
        if fault.at is None or number < fault.at or (number > fault.at and not fault.lasts):
            return None
        if number > fault.at and fault.error == "ENOSPC" and operation in FULL_DISK_ALLOWS:
            return None
        if number == fault.at:
            self.record.whole.update(self._whole() | self.opened)
        return getattr(errno, fault.error)

    def fail(self, operation: str, file: Any) -> None:
        number = self.count(operation, file)
        if number is not None:
            raise OSError(number, os.strerror(number), os.fspath(file) if not isinstance(file, int) else None)

    def _whole(self) -> dict[str, tuple[int, str]]:
        self.busy = True
        try:
            return whole_files(Path(self.folder))
        finally:
            self.busy = False

    def _place(self, file: Any) -> str | None:
        """Where in the folder a file is; None outside."""
        if isinstance(file, int):
            try:
                file = os.readlink(f"/proc/self/fd/{file}")
            except OSError:
                return None
        try:
            path = os.path.realpath(os.fsdecode(file))
        except (TypeError, ValueError):
            return None
        return os.path.relpath(path, self.folder) if path == self.folder or path.startswith(self.folder + "/") else None

    def _opened(self, file: Any, mode: str = "r", buffering: int = -1, encoding=None, errors=None, newline=None,
                closefd: bool = True, opener=None) -> Any:  # fmt: skip
        writes = set(mode) & set("wax+")
        if isinstance(file, int) or not writes or self._place(file) is None:
            return self.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        self.fail("open", file)
        place = str(self._place(file))
        self.opened |= {name: found for name, found in self._whole().items() if name == place}
        raw = _Raw(self, file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def _synced(self, descriptor: int) -> None:
        self.fail("fsync", descriptor)
        self.fsync(descriptor)

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(path: Any, *arguments: Any, **options: Any) -> Any:
            self.fail(name, path)
            return original(path, *arguments, **options)

        return operation


class _Raw(io.FileIO):
    """A file whose writes are counted; the one that fails puts half of its bytes on the disk."""

    def __init__(self, disk: _Disk, file: Any, mode: str):
        super().__init__(file, mode)
        self._disk, self._path = disk, file

    def write(self, data: Any, /) -> int:
        number = self._disk.count("write", self._path)
        if number is not None:
            view = memoryview(data).cast("B")
            super().write(view[: len(view) // 2])
            raise OSError(number, os.strerror(number))
        return super().write(data)


def _put_clock_in_place(jumps_at: int, patches: contextlib.ExitStack) -> None:
    """The time of day goes back by an hour; the clock that measures durations cannot."""
    asked = 0
    seconds, nanoseconds = time.time, time.time_ns

    def behind() -> float:
        nonlocal asked
        asked += 1
        return BACKWARDS if asked > jumps_at else 0.0

    patches.enter_context(patch.object(time, "time", lambda: seconds() - behind()))
    patches.enter_context(patch.object(time, "time_ns", lambda: nanoseconds() - int(1e9 * behind())))


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Python asks this before it connects anywhere or looks up a name."""
    if event == "socket.getaddrinfo":
        asked = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.bind") and isinstance(arguments[1], tuple):
        asked = arguments[1][0]
    else:
        return
    if asked not in THIS_COMPUTER:
        raise PermissionError(f"{event} to {asked}: nothing is fetched")
