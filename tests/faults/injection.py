"""Faults of a computer in one process: a disk that fails, a clock that goes backwards, no network.

Operations that change files under a folder are counted: opening for writing, each write that reaches the operating
system, syncing, renaming, removing, making folders. The one of a chosen number fails, and all later ones if it lasts.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

FULL_DISK_ALLOWS = ("unlink", "replace", "rename", "fsync")
"""Operations that still work when no space is left."""
LOCAL = ("127.0.0.1", "localhost", "::1")
CLOCK_JUMP = 3600.0
"""How far the clock jumps back [s]."""
CLONE_NEWNS, CLONE_NEWUSER, MS_PRIVATE, MS_REC = 0x00020000, 0x10000000, 1 << 18, 1 << 14


@dataclass(frozen=True)
class Fault:
    """What goes wrong; by default nothing."""

    folder: str = ""
    """in which file operations are counted"""
    at: int | None = None
    """the number of the operation that fails, from 0; None for none"""
    error: str = "ENOSPC"
    """its name in `errno`"""
    lasts: bool = True
    """whether later operations fail too"""
    clock_jumps_at: int | None = None
    """how often the time of day is asked for until the clock jumps back"""
    offline: bool = False
    """whether any connection to another computer is an error, for the rest of the process's life"""


@dataclass
class Record:
    """File operations that happened."""

    operations: list[str] = field(default_factory=list)
    """each as `write best/seed-0.yaml`"""
    complete: dict[str, tuple[int, str]] = field(default_factory=dict)
    """size [bytes] and digest of every file that was complete when the fault came, by its path in the folder"""


@contextlib.contextmanager
def injected(fault: Fault) -> Iterator[Record]:
    """While it is open, this process has the fault."""
    record = Record()
    with contextlib.ExitStack() as patches:
        if fault.folder:
            _FailingDisk(fault, record).install(patches)
        if fault.clock_jumps_at is not None:
            _install_clock(fault.clock_jumps_at, patches)
        if fault.offline:
            sys.addaudithook(refuse_network)
        yield record


class _FailingDisk:
    """Stands between this process and the files of a folder."""

    def __init__(self, fault: Fault, record: Record):
        self.fault, self.record = fault, record
        self.folder = os.path.realpath(fault.folder)
        self.busy = False
        self.opened: dict[str, tuple[int, str]] = {}
        """files as they were before they were opened under their own names, which empties them"""
        self.open, self.fsync = io.open, os.fsync

    def install(self, patches: contextlib.ExitStack) -> None:
        for module in (io, builtins):
            patches.enter_context(patch.object(module, "open", self._open))
        patches.enter_context(patch.object(os, "fsync", self._fsync))
        for name in ("replace", "rename", "unlink", "mkdir"):
            patches.enter_context(patch.object(os, name, self._counted(name, getattr(os, name))))

    def error_of(self, operation: str, file: Any) -> int | None:
        """Count an operation; the number of its error if it is to fail."""
        path = self._path(file)
        if path is None or self.busy:
            return None
        number, fault = len(self.record.operations), self.fault
        self.record.operations.append(f"{operation} {path}")
        if fault.at is None or number < fault.at or (number > fault.at and not fault.lasts):
            return None
        if number > fault.at and fault.error == "ENOSPC" and operation in FULL_DISK_ALLOWS:
            return None
        if number == fault.at:
            self.record.complete.update(self._complete() | self.opened)
        return getattr(errno, fault.error)

    def check(self, operation: str, file: Any) -> None:
        number = self.error_of(operation, file)
        if number is not None:
            raise OSError(number, os.strerror(number), None if isinstance(file, int) else os.fspath(file))

    def _complete(self) -> dict[str, tuple[int, str]]:
        """Size and digest of every file that has its final name."""
        self.busy = True
        try:
            files = [file for file in Path(self.folder).rglob("*") if file.is_file() and ".partial" not in file.name]
            contents = {str(file.relative_to(self.folder)): file.read_bytes() for file in files}
            return {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
        finally:
            self.busy = False

    def _path(self, file: Any) -> str | None:
        """Of a file in the folder, None outside."""
        try:
            name = os.readlink(f"/proc/self/fd/{file}") if isinstance(file, int) else os.fsdecode(file)
            path = os.path.realpath(name)
        except (OSError, TypeError, ValueError):
            return None
        return os.path.relpath(path, self.folder) if f"{path}/".startswith(f"{self.folder}/") else None

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, encoding=None, errors=None, newline=None,
              closefd: bool = True, opener=None) -> Any:  # fmt: skip
        path = None if isinstance(file, int) or not set(mode) & set("wax+") else self._path(file)
        if path is None:
            return self.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        self.check("open", file)
        self.opened |= {name: found for name, found in self._complete().items() if name == path}
        raw = _FailingFile(self, file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def _fsync(self, descriptor: int) -> None:
        self.check("fsync", descriptor)
        self.fsync(descriptor)

    def _counted(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(path: Any, *arguments: Any, **options: Any) -> Any:
            self.check(name, path)
            return original(path, *arguments, **options)

        return operation


class _FailingFile(io.FileIO):
    """A file whose writes are counted; the one that fails puts half of its bytes on the disk."""

    def __init__(self, disk: _FailingDisk, file: Any, mode: str):
        super().__init__(file, mode)
        self._disk, self._file = disk, file

    def write(self, data: Any, /) -> int:
        number = self._disk.error_of("write", self._file)
        if number is not None:
            view = memoryview(data).cast("B")
            super().write(view[: len(view) // 2])
            raise OSError(number, os.strerror(number))
        return super().write(data)


def _install_clock(jumps_at: int, patches: contextlib.ExitStack) -> None:
    """The time of day jumps back; the monotonic clock, which measures durations, cannot."""
    asked = 0
    seconds, nanoseconds = time.time, time.time_ns

    def behind() -> float:
        nonlocal asked
        asked += 1
        return CLOCK_JUMP if asked > jumps_at else 0.0

    patches.enter_context(patch.object(time, "time", lambda: seconds() - behind()))
    patches.enter_context(patch.object(time, "time_ns", lambda: nanoseconds() - int(1e9 * behind())))


def refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: Python calls it before it connects anywhere or looks up a name."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.bind") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if host not in LOCAL:
        raise PermissionError(f"{event} to {host}: nothing is fetched")


def mount_tmpfs(folder: str, size: int) -> None:
    """Mount a file system of a size [bytes] that only this process sees. Raises OSError where that is not permitted."""
    library = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if not hasattr(library, name) or getattr(library, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    call("unshare", CLONE_NEWNS | (0 if os.geteuid() == 0 else CLONE_NEWUSER))
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_PRIVATE | MS_REC), None)
    call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), f"size={size}".encode())
