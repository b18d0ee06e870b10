"""Files of arrays that vouch for themselves: plain npz with a label and a check sum in the comment that ends a zip.

The check sum (SHA-256) is of all bytes before it, so that damage is found before anything in the file is believed, in
whatever form it comes. Files of older versions have no comment; of these the zip's own check sums (CRC-32) must fit.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MOST_OF_A_COMMENT = 2**16 - 1
END_OF_ZIP, END_LENGTH = b"PK\x05\x06", 22
"""How the last record of a zip file begins, and its length without a comment [bytes]."""
BEFORE_LABEL, BEFORE_DIGEST, DIGEST_LENGTH = b"vsr ", b" sha256 ", 64


class Damaged(Exception):
    """A file that is missing, not whole, or not as it was written, for whatever reason."""

    def __init__(self, path: Path | str, reason: str | OSError):
        if isinstance(reason, OSError):
            reason = "missing" if isinstance(reason, FileNotFoundError) else reason.strerror or str(reason)
        super().__init__(f"{path}: missing" if reason == "missing" else f"{path}: damaged ({reason})")


@dataclass(frozen=True)
class Stored:
    """What a file holds."""

    arrays: dict[str, np.ndarray]
    label: dict[str, Any] = field(default_factory=dict)
    """what its writer said of it"""
    digest: str | None = None
    """its check sum; None in a file of an older version"""


def packed(
    arrays: dict[str, np.ndarray], label: dict[str, Any] | None = None, *, compressed: bool = True
) -> tuple[bytes, str]:
    """The bytes of an npz file and their check sum; label: what is to be known of it, of plain values, a few only."""
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
    """All of a file, verified; raises Damaged."""
    return unpacked(_read(path), path)


def unpacked(data: bytes, path: Path | str) -> Stored:
    """The same of a file's bytes; path: what to call it."""
    label, digest = _verified(path, data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:  # its own check sums are compared as members are read
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}
        if len(arrays) != _member_count(data):
            raise ValueError("some of its arrays are missing")
    except Exception as error:  # zipfile and zlib raise all kinds of errors at damaged files
        raise Damaged(path, f"{type(error).__name__}: {error}") from error
    return Stored(arrays, label, digest)


def read_label(path: Path | str) -> tuple[dict[str, Any], str | None]:
    """Label and check sum of a file, verified; nothing and None for one of an older version. Raises Damaged."""
    return _verified(path, _read(path))


def _read(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Damaged(path, error) from None


def _verified(path: Path | str, data: bytes) -> tuple[dict[str, Any], str | None]:
    if not data:
        raise Damaged(path, "empty")
    signed, digest = data[:-DIGEST_LENGTH], data[-DIGEST_LENGTH:]
    if not signed.endswith(BEFORE_DIGEST):
        end = data[-END_LENGTH:]
        if end.startswith(END_OF_ZIP) and end.endswith(b"\0\0"):
            return {}, None
        raise Damaged(path, "its end is missing or changed")
    if hashlib.sha256(signed).hexdigest().encode("ascii") != digest:
        raise Damaged(path, "its check sum does not fit its content")
    label = signed[signed.rindex(END_OF_ZIP) + END_LENGTH :].removeprefix(BEFORE_LABEL).removesuffix(BEFORE_DIGEST)
    return json.loads(label), digest.decode("ascii")


def _member_count(data: bytes) -> int:
    """As a zip's last record tells it."""
    place = data.rindex(END_OF_ZIP) + 10
    return int.from_bytes(data[place : place + 2], "little")


def _array(data: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
