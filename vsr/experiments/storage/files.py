"""Writing files so that a crash never leaves half of one: temporary file, fsync, rename.

A folder may come from anyone, so that nothing is written or read through a link that lies in it (`refuse_links`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from vsr.arrays import CorruptFileError, packed, read_regular
from vsr.experiments.config.problems import UserError
from vsr.experiments.stopping import remove_on_interrupt

TEMPORARY = ".partial"
"""How the name of a file that is still being written ends."""
DEEPEST = 32
"""How deep folders in a run folder may be nested."""
MOST_JSON = 2**26
"""The largest JSON file that is read [bytes]."""
CHECK, BEFORE_CRC = "sha256", b', "crc32": "'
"""Where check sums stand: the key in a JSON file, and what comes before it in a line of JSON."""


def target_file(option: str, given: str, suffixes: Sequence[str] = ()) -> Path:
    """Where a result is to go; raises UserError before any work is done if it could not."""
    target = Path(given)
    if suffixes and target.suffix.lower() not in suffixes:
        raise UserError(f"{option} {given}: the name should end in {' or '.join(suffixes)}")
    if not target.parent.is_dir():
        raise UserError(f"{option} {given}: there is no folder {target.parent}")
    if target.is_dir():
        raise UserError(f"{option} {given}: this is a folder; give a file")
    require_writable(target.parent, f"{option} {given}")
    return target


STANDARD_OUTPUT = "-"
"""The file of `--json` that is standard output."""


@contextlib.contextmanager
def json_result(given: str | None) -> Iterator[Callable[[Any], None]]:
    """A function that writes a result where `--json` says: into a file, to standard output, or nowhere.

    It may be called again with a later state: a file always has the last one. On standard output that one stands alone:
    what else is printed there meanwhile is left out. Raises UserError before any work is done if it cannot be written.
    """
    if given != STANDARD_OUTPUT:
        target = None if given is None else target_file("--json", given, (".json",))
        yield lambda value: None if target is None else write_json(target, without_nan(value))
        return
    results: list[Any] = []
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield results.append
    for value in results[-1:]:
        sys.stdout.write(json.dumps(without_nan(value), indent=2, ensure_ascii=False) + "\n")


def require_writable(folder: Path, name: str | Path) -> None:
    """Raise UserError if no file can be made in a folder; name: what was to be written."""
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = "its file system is read-only" if _is_read_only(folder) else "no permission to write there"
        raise UserError(f"{name}: cannot be written to {folder}: {reason}; give another place")


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def refuse_links(folder: Path) -> None:
    """Raise UserError if anything in a folder, at any depth, is neither a regular file nor a folder.

    A link would lead reading and writing out of the folder, and a pipe or a device may have no end.
    """
    waiting = [(os.fspath(folder), 0)]
    while waiting:
        place, depth = waiting.pop()
        if depth > DEEPEST:
            raise UserError(f"{folder}: folders in it are nested more than {DEEPEST} deep; a run makes no such folders")
        try:
            with os.scandir(place) as found:
                entries = list(found)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        for entry in entries:
            if entry.is_symlink() or not (entry.is_file() or entry.is_dir() or not os.path.lexists(entry)):
                kind = "a link" if entry.is_symlink() else "no regular file"
                raise UserError(
                    f"{entry.path}: {kind}; a run folder holds regular files and folders only: remove it, or put a "
                    "copy of what is meant in its place"
                )
            if entry.is_dir():
                waiting.append((entry.path, depth + 1))


def open_new(path: Path) -> IO[bytes]:
    """A new file to write; anything that lies there, a link too, is taken away first."""
    path.unlink(missing_ok=True)
    return open(path, "xb")


def open_own(path: Path, mode: str) -> IO[Any]:
    """A file to lock or to add to, made if need be; raises OSError if it is a link or no regular file."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", name)
        return descriptor

    return open(path, mode, encoding=None if "b" in mode else "utf-8", opener=opener)


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Let `write` fill a file that appears under its name only when it is whole and on disk."""
    partial = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")  # another process may write the same file
    try:
        with remove_on_interrupt(partial):
            with open_new(partial) as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def replace_when_closed(target: Path) -> Iterator[Path]:
    """Another name to write under, with the same ending; the file gets its own when it is whole.

    For what others write; raises UserError if the disk is full or may not be written to.
    """
    partial = target.with_name(f".{target.stem}.{os.getpid()}.partial{target.suffix}")
    try:
        with remove_on_interrupt(partial):
            open_new(partial).close()
            yield partial
            partial.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A whole text, or nothing."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """The whole of it, or nothing."""
    write_atomically(path, lambda file: _put(file, data))


def write_json(path: Path, value: Any) -> None:
    """A whole JSON file, or nothing."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def without_nan(value: Any) -> Any:
    """The same with null for what is no finite number, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_arrays(
    path: Path, arrays: dict[str, np.ndarray], label: dict[str, Any] | None = None, *, compressed: bool = True
) -> str:
    """A whole npz file, or nothing; label: what `vsr.arrays.read_arrays` is to report it. Returns its check sum."""
    data, digest = packed(arrays, label, compressed=compressed)
    write_bytes(path, data)
    return digest


def write_checked_json(path: Path, value: dict[str, Any]) -> None:
    """A whole JSON file with a check sum of all else in it, or nothing."""
    write_json(path, {**value, CHECK: digest_of(value)})


def read_checked_json(path: Path) -> dict[str, Any]:
    """Contents of a file of `write_checked_json`; raises CorruptFileError."""
    data = read_regular(path, MOST_JSON)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptFileError(path, "this is not JSON" if data else "empty") from None
    if not isinstance(value, dict):
        raise CorruptFileError(path, "this is not a JSON object")
    if value.pop(CHECK, None) != digest_of(value):
        raise CorruptFileError(path, "its check sum does not fit its content")
    return value


def digest_of(value: Any) -> str:
    """A check sum of plain values, whatever the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def json_line(row: dict[str, Any]) -> str:
    """A line of JSON with a check sum of all before it."""
    text = json.dumps(row)[:-1]
    return f'{text}{BEFORE_CRC.decode()}{zlib.crc32(text.encode()):08x}"}}\n'


def parse_json_line(line: bytes) -> dict[str, Any] | None:
    """Contents of a line of `json_line`, without its end; None for a corrupted one."""
    text, mark, given = line.rpartition(BEFORE_CRC)
    if not mark or given != f'{zlib.crc32(text):08x}"}}'.encode():
        return None
    try:
        value = json.loads(text + b"}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def numbered_files(folder: Path) -> list[Path]:
    """The npz files of a folder that have numbers for names, in order; none if there is no such folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(folder / name for name in names if name.endswith(".npz") and _is_number(name.removesuffix(".npz")))


def _is_number(name: str) -> bool:
    """Whether a name is one that `f"{number:08d}"` gives."""
    return name.isascii() and name.isdecimal() and len(name) <= 10 and name == f"{int(name):08d}"


def remove_leftovers(folder: Path) -> None:
    """Take away what an interrupted write left behind."""
    for partial in folder.rglob("*" + TEMPORARY):
        partial.unlink(missing_ok=True)


def _put(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
