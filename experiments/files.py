"""Writing files so that a crash never leaves half of one: temporary file, fsync, rename."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from vsr.arrays import packed
from vsr.experiments.config.problems import UserError
from vsr.experiments.stopping import removed_if_stopped

TEMPORARY = ".partial"
"""How the name of a file that is still being written ends."""


def target_file(option: str, given: str, suffixes: Sequence[str] = ()) -> Path:
    """Where a result is to go; raises UserError before any work is done if it could not."""
    target = Path(given)
    if suffixes and target.suffix.lower() not in suffixes:
        raise UserError(f"{option} {given}: the name should end in {' or '.join(suffixes)}")
    if not target.parent.is_dir():
        raise UserError(f"{option} {given}: there is no folder {target.parent}")
    if target.is_dir():
        raise UserError(f"{option} {given}: this is a folder; give a file")
    return target


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Let `write` fill a file that appears under its name only when it is whole and on disk."""
    partial = path.with_name(path.name + TEMPORARY)
    try:
        with removed_if_stopped(partial):
            with partial.open("wb") as file:
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
def replacing(target: Path) -> Iterator[Path]:
    """Another name to write under, with the same ending; the file gets its own when it is whole.

    For what others write; raises UserError if the disk is full or may not be written to.
    """
    partial = target.with_name(f".{target.stem}.partial{target.suffix}")
    try:
        with removed_if_stopped(partial):
            yield partial
            partial.replace(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A whole text, or nothing."""
    write_atomically(path, lambda file: _put(file, text.encode()))


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


def write_arrays(path: Path, arrays: dict[str, np.ndarray], label: dict[str, Any] | None = None) -> str:
    """A whole npz file, or nothing; label: what `vsr.arrays.read_arrays` is to tell of it. Returns its check sum."""
    data, digest = packed(arrays, label)
    write_atomically(path, lambda file: _put(file, data))
    return digest


def read_json_lines(path: Path) -> Iterator[tuple[int, dict | None]]:
    """Line number (from 1) and content of every line; None for one that is torn or not JSON."""
    if not path.exists():
        return
    text = path.read_bytes()
    lines = text.split(b"\n")
    for number, line in enumerate(lines, 1):
        last = number == len(lines)
        if last and not line:
            return
        try:
            value = None if last else json.loads(line)  # a line without its end was being written
        except ValueError:
            value = None
        yield number, value if isinstance(value, dict) else None


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
