"""Files of arrays with an integrity check: plain npz with a label and a check sum in the comment that ends a zip.

The check sum (SHA-256) is of all bytes before it, so that corruption of any form is found before anything
in the file is used.

Files may come from anyone, so that only regular files are read, and sizes are known before anything is unpacked: from
the zip's directory, and from the header of each array.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MOST_OF_A_COMMENT = 2**16 - 1
END_OF_ZIP, END_LENGTH = b"PK\x05\x06", 22
"""How the last record of a zip file begins, and its length without a comment [bytes]."""
MOST_BYTES = 2**31
"""The largest file that is read, and the most that all its arrays may hold [bytes]."""
BEFORE_LABEL, BEFORE_DIGEST, DIGEST_LENGTH = b"vsr ", b" sha256 ", 64


class CorruptFileError(Exception):
    """A file that is missing, not whole, or not as it was written, for whatever reason."""

    def __init__(self, path: Path | str, reason: str | OSError):
        if isinstance(reason, OSError):
            reason = "missing" if isinstance(reason, FileNotFoundError) else reason.strerror or str(reason)
        super().__init__(f"{path}: missing" if reason == "missing" else f"{path}: corrupted ({reason})")


@dataclass(frozen=True)
class Stored:
    """What a file holds."""

    arrays: dict[str, np.ndarray]
    label: dict[str, Any] = field(default_factory=dict)
    """what its writer said of it"""
    digest: str = ""
    """its check sum"""


def packed(
    arrays: dict[str, np.ndarray], label: dict[str, Any] | None = None, *, compressed: bool = True
) -> tuple[bytes, str]:
    """The bytes of an npz file and their check sum; label: what is to be known of it, of plain values, a few only."""
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_BYTES:
        raise ValueError(f"arrays of {size} bytes; a file holds at most {MOST_BYTES}")
    target = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(target, **arrays)  # pyright: ignore[reportArgumentType]
    before = BEFORE_LABEL + json.dumps(label or {}).encode("ascii") + BEFORE_DIGEST
    length = len(before) + DIGEST_LENGTH
    if length > MOST_OF_A_COMMENT:
        raise ValueError(f"a label of {length} bytes; a zip file's comment has room for {MOST_OF_A_COMMENT}")
    signed = target.getvalue()[:-2] + length.to_bytes(2, "little") + before
    digest = hashlib.sha256(signed).hexdigest()
    return signed + digest.encode("ascii"), digest


def read_arrays(path: Path | str) -> Stored:
    """All of a file, verified; raises CorruptFileError."""
    return unpacked(read_regular(path), path)


def unpacked(data: bytes, path: Path | str) -> Stored:
    """The same of a file's bytes; path: what to call it."""
    label, digest = _verified(path, data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:  # its own check sums are compared as members are read
            size = sum(member.file_size for member in archive.infolist())
            if size > MOST_BYTES:
                raise ValueError(f"its arrays hold {size} bytes; at most {MOST_BYTES} are read")
            arrays = {one.filename.removesuffix(".npy"): _array(_content(archive, one)) for one in archive.infolist()}
        if len(arrays) != _member_count(data):
            raise ValueError("some of its arrays are missing")
    except Exception as error:  # zipfile and zlib raise all kinds of errors at corrupted files
        raise CorruptFileError(path, f"{type(error).__name__}: {error}") from error
    return Stored(arrays, label, digest)


def read_label(path: Path | str) -> tuple[dict[str, Any], str]:
    """Label and check sum of a file, verified; raises CorruptFileError."""
    return _verified(path, read_regular(path))


def read_regular(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """All of a regular file: never of a device or a pipe, which may have no end. Raises CorruptFileError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(found.st_mode):
                raise CorruptFileError(path, "not a regular file")
            if found.st_size > most:
                raise CorruptFileError(path, f"{found.st_size} bytes; at most {most} are read")
            return file.read(found.st_size)  # of more than that, as much would be set aside at once
    except OSError as error:
        raise CorruptFileError(path, error) from None


def _verified(path: Path | str, data: bytes) -> tuple[dict[str, Any], str]:
    if not data:
        raise CorruptFileError(path, "empty")
    signed, digest = data[:-DIGEST_LENGTH], data[-DIGEST_LENGTH:]
    if not signed.endswith(BEFORE_DIGEST):
        raise CorruptFileError(path, "its end is missing or changed")
    if hashlib.sha256(signed).hexdigest().encode("ascii") != digest:
        raise CorruptFileError(path, "its check sum does not fit its content")
    comment = signed[signed.rfind(END_OF_ZIP) + END_LENGTH :]
    try:
        label = json.loads(comment.removeprefix(BEFORE_LABEL).removesuffix(BEFORE_DIGEST).decode("ascii"))
    except (ValueError, RecursionError):
        label = None
    if not isinstance(label, dict):
        raise CorruptFileError(path, "its label is malformed")
    return label, digest.decode("ascii")


def _member_count(data: bytes) -> int:
    """As a zip's last record tells it."""
    place = data.rfind(END_OF_ZIP) + 10
    return int.from_bytes(data[place : place + 2], "little")


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """No more than the zip's directory says, whatever is packed there; then its check sum does not fit."""
    with archive.open(member) as file:
        return file.read(member.file_size)


def _array(data: bytes) -> np.ndarray:
    array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if array.nbytes > len(data):  # numbers of no bytes, as many as the header likes
        raise ValueError(f"a header of {array.size} numbers, {len(data)} bytes")
    return array
