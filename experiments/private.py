"""Folders and files that nobody but this user can have written: for what is run when it is read, as compiled programs.

A folder belongs to this user and is closed to all others. A file in it is signed with a key that lies there too
(HMAC-SHA-256 of its name and content), and nothing of it is used before the signature is verified. Where any of this
does not hold, there is no folder or no file: that costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import stat
from pathlib import Path

from vsr.experiments.files import write_atomically

KEY, KEY_LENGTH, SIGNATURE_LENGTH = "key", 32, 32
FOR_OTHERS, WRITING_BY_OTHERS = 0o077, 0o022
"""Rights of those who are not the owner: all of them, and those to write."""


def private_folder(path: Path) -> Path | None:
    """The folder, made if need be and closed to others; None if it is a link, somebody else's, or cannot be made.

    What is in a folder that others could write to is removed: it is a store of what can be made again.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if found.st_mode & FOR_OTHERS:
            path.chmod(0o700)
        if found.st_mode & WRITING_BY_OTHERS:
            _empty(path)
        return path
    except OSError:
        return None


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def write_signed(path: Path, data: bytes) -> None:
    """A file in a private folder, whole or not at all; raises OSError."""
    key = _key(path.parent)
    if key is None:
        raise PermissionError(f"{path.parent / KEY}: it is not this user's alone")
    _write_private(path, _signature(key, path, data) + data)


def read_signed(path: Path) -> bytes | None:
    """What this user has written there; None if there is nothing, or anything that somebody else may have written."""
    key, whole = _read_private(path.parent / KEY), _read_private(path)
    if key is None or whole is None or len(key) != KEY_LENGTH:
        return None
    signature, data = whole[:SIGNATURE_LENGTH], whole[SIGNATURE_LENGTH:]
    return data if hmac.compare_digest(signature, _signature(key, path, data)) else None


def _signature(key: bytes, path: Path, data: bytes) -> bytes:
    """The name is part of it, so that no file can stand in for another."""
    return hmac.new(key, path.name.encode() + b"\0" + data, hashlib.sha256).digest()


def _key(folder: Path) -> bytes | None:
    """The folder's key, made if there is none that can be used; None if that cannot be."""
    file = folder / KEY
    key = _read_private(file)
    if key is None or len(key) != KEY_LENGTH:
        file.unlink(missing_ok=True)
        _write_private(file, secrets.token_bytes(KEY_LENGTH))
        key = _read_private(file)  # that of another process, if both made one
    return key


def _write_private(path: Path, data: bytes) -> None:
    def write(file) -> None:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)

    write_atomically(path, write)


def _read_private(path: Path) -> bytes | None:
    """A plain file of this user's that others may neither read nor write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # nor wait for somebody's pipe
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & FOR_OTHERS:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(descriptor)
