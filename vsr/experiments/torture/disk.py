"""A disk of a process's own: a small tmpfs that nobody else sees, where the computer permits one."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NEW_NAMESPACE, NEW_USER = 0x00020000, 0x10000000
"""CLONE_NEWNS, CLONE_NEWUSER"""
PRIVATE, RECURSIVE = 1 << 18, 1 << 14
"""MS_PRIVATE, MS_REC"""
PAGE = 4096
"""What a tmpfs is made of [bytes]."""


@functools.cache
def is_possible() -> bool:
    """Whether a process here may have a disk of its own; another one tries it, as there is no way back."""
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([sys.executable, __file__, folder], capture_output=True)
    return tried.returncode == 0


def mount(folder: str, size: int) -> None:
    """Give this process a disk of its own of a size [bytes]; nobody else sees it. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if not hasattr(library, name) or getattr(library, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    call("unshare", NEW_NAMESPACE | (0 if os.geteuid() == 0 else NEW_USER))
    call("mount", b"none", b"/", None, ctypes.c_ulong(PRIVATE | RECURSIVE), None)
    options = f"size={size}".encode()
    call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), options)


def rescue(folder: str) -> None:
    """Copy what is on the small disk to where it stays when the process ends."""
    shutil.copytree(folder, Path(folder).with_name("copy"))


if __name__ == "__main__":
    mount(sys.argv[1], 16 * PAGE)
