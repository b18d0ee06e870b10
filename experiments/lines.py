"""Lines of statistics without a fault as columns of numbers, read by several processes where there are many.

Nothing heavy is imported here: a command begins to read (`begin`) before it loads the rest, and processes that read are
there in a tenth of a second.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

BYTES_AT_ONCE = 2**16
"""Of a file; more would not stay in a cache."""
BYTES_FOR_A_PROCESS = 2**25
"""Of a file; for fewer another process does not pay."""
MOST_PROCESSES = 8
UNUSUAL = 3
"""Exit code of a process that met a line that is not as expected."""
LINE = re.compile(
    rb'\{"generation": (\d+), "seed": (\d+), "best": ([^,]+), "median": ([^,]+), "failed": (\d+), "failures": '
    rb'\{([^}]*)\}, "evaluations": \d+, "best_id": -?\d+, "spread": ([^,]+), "bodies": (\d+|null), '
    rb'"seconds": ([^,}]+)\}\n'
)
"""As runs write them (vsr.experiments.runs)."""
GROUPS = ("generation", "seed", "best", "median", "failed", "failures", "spread", "bodies", "seconds")
"""What is taken of a line."""
REPEATED = ("seed", "best", "failed", "bodies")
"""Of which many lines have the same."""
FAILURE = re.compile(rb'"(\w+)": (\d+)')

Columns = dict[str, np.ndarray]
"""By name; of failures one column for each reason, `failures.REASON`."""


@dataclass(frozen=True)
class Version:
    """A file as it is now."""

    path: str
    size: int
    changed: int
    """[ns]"""

    @staticmethod
    def of(file: Path) -> Version:
        """Raises OSError if there is none."""
        stat = file.stat()
        return Version(str(file), stat.st_size, stat.st_mtime_ns)


_begun: dict[Version, list[subprocess.Popen[bytes]]] = {}


def begin(files: Sequence[Path]) -> None:
    """Let other processes read large files, which `read_lines` will ask for."""
    for file in files:
        try:
            version = Version.of(file)
        except OSError:
            continue
        processes = min(MOST_PROCESSES, _cores(), version.size // BYTES_FOR_A_PROCESS)
        if processes > 0 and len(_begun) < MOST_PROCESSES and version not in _begun:
            ends = [version.size * number // processes for number in range(processes + 1)]
            _begun[version] = [_start(file, *part) for part in pairwise(ends)]


def read_lines(file: Path) -> Columns | None:
    """All lines, each column (lines,), null as not a number; None if any line is unusual, or there are none."""
    try:
        return _read(Version.of(file))
    except OSError:
        return None


@lru_cache(maxsize=1)
def _read(version: Version) -> Columns | None:
    """A file that is not read again while it stays as it is."""
    processes = _begun.pop(version, None)
    if processes is None:
        return read_part(Path(version.path), 0, version.size)
    pieces = [_received(process) for process in processes]
    whole = [piece for piece in pieces if piece is not None]
    return _joined(whole) if len(whole) == len(pieces) else None


def read_part(file: Path, start: int, end: int) -> Columns | None:
    """Lines that begin in a part of a file, from one byte up to another."""
    with file.open("rb") as content:
        content.seek(max(start - 1, 0))
        data = content.read(end - content.tell())
        data += content.readline() if data and not data.endswith(b"\n") else b""
    if start:
        data = data[data.find(b"\n") + 1 :]
    pieces, place = [], 0
    while place < len(data):
        upto = data.find(b"\n", min(place + BYTES_AT_ONCE, len(data) - 1)) + 1
        piece = _columns(data[place:upto]) if upto else None
        if piece is None:
            return None
        pieces.append(piece)
        place = upto
    return _joined(pieces)


def _joined(pieces: Sequence[Columns]) -> Columns | None:
    names = list(dict.fromkeys(name for piece in pieces for name in piece))
    return {
        name: np.concatenate([piece[name] if name in piece else np.zeros(len(piece["seed"])) for piece in pieces])
        for name in names
    } or None  # fmt: skip


def _columns(text: bytes) -> Columns | None:
    """Of whole lines; None if one is unusual."""
    rows = LINE.findall(text)
    if len(rows) != np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")):
        return None
    columns = dict(zip(GROUPS, zip(*rows, strict=True), strict=True))
    try:
        numbers = {name: _numbers(name, texts) for name, texts in columns.items() if name != "failures"}
        return {**numbers, **_failures(columns["failures"])}
    except ValueError:
        return None


def _numbers(name: str, texts: Sequence[bytes]) -> np.ndarray:
    if name in REPEATED:
        known = {text: _number(text) for text in set(texts)}
        return np.array([known[text] for text in texts])
    try:
        return np.fromiter(map(float, texts), float, len(texts))
    except ValueError:
        return np.fromiter(map(_number, texts), float, len(texts))


def _number(text: bytes) -> float:
    return np.nan if text == b"null" else float(text)


def _failures(texts: Sequence[bytes]) -> Columns:
    """How many for each reason that occurs; raises ValueError for what is not a number of each."""
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    found = [FAILURE.findall(text) for text in different]
    reasons = {reason: place for place, reason in enumerate(dict.fromkeys(name for one in found for name, _ in one))}
    table = np.zeros((len(different), len(reasons)))
    for text, row, one in zip(different, table, found, strict=True):
        if text != b", ".join(b'"%s": %s' % pair for pair in one):
            raise ValueError(text)
        for reason, number in one:
            row[reasons[reason]] = float(number)
    counts = table[[different[text] for text in texts]]
    return {f"failures.{reason.decode()}": counts[:, place] for reason, place in reasons.items()}


def _start(file: Path, start: int, end: int) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C ends this process alone, and the other at its next word.
    command = [sys.executable, "-P", "-m", "vsr.experiments.lines", str(file), str(start), str(end)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _received(process: subprocess.Popen[bytes]) -> Columns | None:
    """What another process has read; raises OSError if it did not come to its end."""
    data, _ = process.communicate()
    if process.returncode == UNUSUAL:
        return None
    if process.returncode:
        raise OSError(f"exit code {process.returncode}")
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(file: str, start: str, end: str) -> int:
    """The work of a process: a part of a file to standard output."""
    columns = read_part(Path(file), int(start), int(end))
    if columns is None:
        return UNUSUAL
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **columns)
    sys.stdout.buffer.write(packed.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
