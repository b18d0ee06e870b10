"""Lines of statistics without a fault as columns of numbers, read by several processes where there are many.

Of a long file the columns may lie beside it (`kept_beside`), made when its run ended. They are believed if they are
whole and the file still begins with the bytes that they were made of; lines after these are read.

Nothing heavy is imported here: a command begins to read (`begin`) before it loads the rest, and processes that read are
there in a tenth of a second.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Thread

import numpy as np

from vsr.arrays import MOST_BYTES, Damaged, read_arrays

BYTES_AT_ONCE = 2**16
"""Of a file; more would not stay in a cache."""
BYTES_TO_ADD = 2**22
"""To a check sum, at once; a thread waits for its turn after each."""
BYTES_FOR_A_PROCESS = 2**24
"""Of files; for fewer another process does not pay."""
MOST_PROCESSES = 8
KEPT = ".npz"
"""Suffix of the columns of a file."""
LINE = re.compile(
    rb'(\{"generation": (\d+), "seed": (\d+), "best": ([^,]+), "median": ([^,]+), "failed": (\d+), "failures": '
    rb'\{([^}]*)\}, "evaluations": \d+, "best_id": -?\d+, "spread": ([^,]+), "bodies": (\d+|null), '
    rb'"seconds": ([^,}]+)(?:, "figures": \{([^}]*)\})?(?:, "run": "([0-9a-f]{8})")?)'
    rb'(?:, "crc32": "([0-9a-f]{8})")?\}\n'
)
"""As runs write them (RunFolder.record), with a check sum of what comes before it."""
NAMES = ("generation", "seed", "best", "median", "failed", "failures", "spread", "bodies", "seconds", "figures")
GROUPS = ("checked", *NAMES, "run", "crc32")
"""What is taken of a line."""
USUAL = {*NAMES} - {"failures", "figures"}
"""Columns that all lines have."""
REPEATED = ("seed", "best", "failed", "bodies", "run")
"""Of which many lines have the same."""
FAILURE = re.compile(rb'"(\w+)": (\d+)')
FIGURES = "figures."
"""Before the names of columns with what searches tell of themselves."""

Columns = dict[str, np.ndarray]
"""By name; of failures one column for each reason, `failures.REASON`, of figures one for each, `figures.NAME`."""


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


Part = tuple[Path, int, int]
"""Of a file, from one byte up to another."""


class _Reader:
    """A process that reads parts of files."""

    def __init__(self, parts: Sequence[Part]):
        # In a session of its own, so that Ctrl-C ends this process alone, and the other at its next word.
        words = [str(word) for part in parts for word in part]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vsr.experiments.lines", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @cached_property
    def pieces(self) -> list[Columns | None]:
        """What it read of each part; raises OSError if it did not come to its end."""
        data, _ = self._process.communicate()
        if self._process.returncode:
            raise OSError(f"exit code {self._process.returncode}")
        return _unpacked(data)


_begun: dict[Version, list[tuple[_Reader, int]]] = {}
"""Files that are being read: by which processes, and the place of the file's part among those of each."""
_looked_at: dict[Version, Future[Columns | None]] = {}
"""Files whose columns beside them are being looked at."""


def begin(files: Sequence[Path]) -> None:
    """Let others read large files, or many, which `read_lines` will ask for: a thread what lies beside files, as that
    needs little Python, and processes the rest."""
    found: list[Version] = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(Version.of(file))
    beside = [version for version in found if Path(version.path).with_suffix(KEPT).exists()]
    if beside:
        _looked_at.update((version, Future()) for version in beside)
        Thread(target=_look, args=[{version: _looked_at[version] for version in beside}], daemon=True).start()
    _let_read([version for version in found if version not in _looked_at])


def _look(waiting: dict[Version, Future[Columns | None]]) -> None:
    """The work of a thread: columns beside files; those that have none of use are left to processes."""
    for version, future in waiting.items():
        try:
            kept = _kept(version)
            if kept is None:
                _let_read([version])
            future.set_result(kept)
        except Exception as error:  # for whoever asks for the file
            future.set_exception(error)


def _let_read(found: Sequence[Version]) -> None:
    """Begin processes that read files, as many as pay."""
    processes = min(MOST_PROCESSES, _cores(), sum(version.size for version in found) // BYTES_FOR_A_PROCESS)
    if not processes:
        return
    ends = [*accumulate((version.size for version in found), initial=0)]
    shares = [ends[-1] * number // processes for number in range(processes + 1)]
    for low, high in pairwise(shares):
        parts = [
            (version, max(low - start, 0), min(high, end) - start)
            for version, (start, end) in zip(found, pairwise(ends), strict=True)
            if start < high and end > low
        ]
        reader = _Reader([(Path(version.path), low_end, high_end) for version, low_end, high_end in parts])
        for place, (version, *_) in enumerate(parts):
            _begun.setdefault(version, []).append((reader, place))


def read_lines(file: Path) -> Columns | None:
    """All lines, each column (lines,), null as not a number; None if any line is unusual, or there are none."""
    try:
        return _read(Version.of(file))
    except OSError:
        return None


@lru_cache(maxsize=1)
def _read(version: Version) -> Columns | None:
    """A file that is not read again while it stays as it is."""
    looked_at = _looked_at.pop(version, None)
    kept = _kept(version) if looked_at is None else looked_at.result()
    if kept is not None:
        return kept
    readers = _begun.pop(version, None)
    if readers is None:
        return read_part(Path(version.path), 0, version.size) or None
    pieces = [reader.pieces[place] for reader, place in readers]
    whole = [piece for piece in pieces if piece is not None]
    return (_joined(whole) or None) if len(whole) == len(pieces) else None


def kept_beside(file: Path, size: int, columns: Columns) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Columns of a file's first bytes as small arrays, and what tells that they are of it: to be written beside it."""
    return {name: _small(column) for name, column in columns.items()}, {"size": size, "crc32": _sum_of(file, size)}


def _kept(version: Version) -> Columns | None:
    """All lines, with columns that lie beside their file; None if there are none, or they are of another file."""
    file = Path(version.path)
    try:
        stored = read_arrays(file.with_suffix(KEPT))
        size, known = stored.label["size"], stored.label["crc32"]
        if size > version.size or not stored.arrays.keys() >= USUAL or _sum_of(file, size) != known:
            return None
        lines = max(map(len, stored.arrays.values()))
        if 8 * lines * len(stored.arrays) > MOST_BYTES:
            return None
        whole = {name: np.broadcast_to(column.astype(float), lines) for name, column in stored.arrays.items()}
        further = read_part(file, size, version.size) if size < version.size else {}
    except (Damaged, OSError, KeyError, TypeError, ValueError):
        return None
    return None if further is None else _joined([whole, further])


def _small(column: np.ndarray) -> np.ndarray:
    """One number for a column that has but one, and integers as such."""
    if (column == column[0]).all():
        return column[:1]
    whole = np.isfinite(column).all() and (np.abs(column) < 2**31).all() and (column == np.round(column)).all()
    return column.astype(np.int32) if whole else column


def _sum_of(file: Path, size: int) -> int:
    """Of the first bytes."""
    found, left = 0, size
    with file.open("rb") as content:
        while left and (data := content.read(min(left, BYTES_TO_ADD))):
            found, left = zlib.crc32(data, found), left - len(data)
    return found


def read_part(file: Path, start: int, end: int) -> Columns | None:
    """Lines that begin in a part of a file, from one byte up to another; {} if none does, None if any is unusual."""
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


def _joined(pieces: Sequence[Columns]) -> Columns:
    pieces = [piece for piece in pieces if piece]
    names = list(dict.fromkeys(name for piece in pieces for name in piece))
    return {
        name: np.concatenate([piece[name] if name in piece else _absent(name, len(piece["seed"])) for piece in pieces])
        for name in names
    }


def _absent(name: str, size: int) -> np.ndarray:
    """Of a column that lines do not have: nobody failed for this reason, or the search told nothing."""
    return np.full(size, np.nan if name.startswith(FIGURES) else 0.0)


def _columns(text: bytes) -> Columns | None:
    """Of whole lines; None if one is unusual."""
    rows = LINE.findall(text)
    if len(rows) != np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")):
        return None
    columns: dict = dict(zip(GROUPS, zip(*rows, strict=True), strict=True))
    if not _fit(columns.pop("crc32"), columns.pop("checked")):
        return None
    try:
        told, failures = columns.pop("figures"), columns.pop("failures")
        columns["run"] = [str(int(text, 16)).encode() if text else b"null" for text in columns["run"]]
        numbers = {name: _numbers(name, texts) for name, texts in columns.items()}
        return {**numbers, **_failures(failures), **_figures(told)}
    except ValueError:
        return None


def _fit(sums: Sequence[bytes], texts: Sequence[bytes]) -> bool:
    """Whether check sums, where lines have one, are those of the texts before them."""
    if not all(sums):
        return all(not given or int(given, 16) == zlib.crc32(text) for given, text in zip(sums, texts, strict=True))
    given = np.frombuffer(bytes.fromhex(b"".join(sums).decode()), ">u4")
    return np.array_equal(given, np.fromiter(map(zlib.crc32, texts), np.uint32, len(texts)))


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


def _figures(texts: Sequence[bytes]) -> Columns:
    """What searches tell of themselves, not a number where they do not; all lines tell the same, or nothing."""
    first = next(filter(None, texts), b"")
    if not first:
        return {}
    names = re.findall(rb'"([^"\\]+)": ', first)
    line = re.compile(rb", ".join(rb'"%s": ([^,]+)' % re.escape(name) for name in names))
    found = [line.fullmatch(text) if text else None for text in texts]
    if any(text and not one for text, one in zip(texts, found, strict=True)):
        raise ValueError("lines that tell different things")
    values = [[np.nan] * len(names) if one is None else list(map(_number, one.groups())) for one in found]
    return {
        FIGURES + name.decode(): np.array(column) for name, column in zip(names, zip(*values, strict=True), strict=True)
    }


def _packed(pieces: Sequence[Columns | None]) -> bytes:
    """Pieces as one file, each column of all after the other: a thousand files of their own would take long."""
    whole = _joined([piece for piece in pieces if piece])
    lengths = [-1 if piece is None else len(piece["seed"]) if piece else 0 for piece in pieces]
    target = io.BytesIO()
    np.savez(target, lengths=np.array(lengths), **whole)  # pyright: ignore[reportArgumentType]
    return target.getvalue()


def _unpacked(data: bytes) -> list[Columns | None]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        columns = {name: stored[name] for name in stored.files}
    lengths = columns.pop("lengths")
    ends = np.cumsum(np.maximum(lengths, 0)).tolist()
    pieces = [{name: column[start:end] for name, column in columns.items()} for start, end in pairwise([0, *ends])]
    return [None if length < 0 else piece for length, piece in zip(lengths, pieces, strict=True)]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(words: Sequence[str]) -> None:
    """The work of a process: parts of files to standard output; words: file, first byte, end, and so on."""
    parts = zip(words[::3], words[1::3], words[2::3], strict=True)
    sys.stdout.buffer.write(_packed([read_part(Path(file), int(start), int(end)) for file, start, end in parts]))


if __name__ == "__main__":
    main(sys.argv[1:])
