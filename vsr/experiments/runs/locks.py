"""One process writes a run at a time; others may ask whether one does."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK = "lock"
LOCKS = Path("/proc/locks")
"""Linux lists the locks of this computer here, so that the run's need not be touched: a run that starts in the moment
in which another process tries its lock would be refused."""


def is_being_written(path: Path) -> bool:
    """Whether a process of this computer is at work on a run; False also where that is not known."""
    try:
        return _is_listed(path / LOCK) if LOCKS.exists() else _is_held(path / LOCK)
    except OSError:
        return False


def _is_listed(lock: Path) -> bool:
    stat = lock.stat()
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    return any(file in line.split() for line in LOCKS.read_text().splitlines() if "FLOCK" in line)


def _is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back when the file is closed
        except BlockingIOError:
            return True
    return False
