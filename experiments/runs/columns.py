"""Statistics without a fault as arrays, quickly: a million generations in seconds.

Whatever is unusual about a file (torn lines, generations twice or out of order, lines of older versions) is left to the
reading line by line, which says what is wrong.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from vsr.physics.failure import REASONS

BYTES_AT_ONCE = 2**16
"""Of a file; more would not stay in a cache."""
LINE = re.compile(
    rb'(\{"generation": (\d+), "seed": (\d+), "best": ([^,]+), "median": ([^,]+), "failed": (\d+), "failures": '
    rb'\{([^}]*)\}, "evaluations": \d+, "best_id": -?\d+, "spread": ([^,]+), "bodies": (\d+|null), '
    rb'"seconds": ([^,}]+))(?:, "crc32": "([0-9a-f]{8})")?\}\n'
)
"""As runs write them (RunFolder.record), with a check sum of what comes before it."""
GROUPS = (
    "checked",
    "generation",
    "seed",
    "best",
    "median",
    "failed",
    "failures",
    "spread",
    "bodies",
    "seconds",
    "crc32",
)
"""What is taken of a line."""
REPEATED = ("seed", "best", "failed", "bodies")
"""Of which many lines have the same."""
FAILURE = re.compile(rb'"(\w+)": (\d+)')


def read_columns(file: Path, seeds: Sequence[int]) -> dict[str, np.ndarray] | None:
    """Numbers by name, and `failures.REASON`, each (seeds, generations), null as not a number; None if any line is
    unusual."""
    columns = read_lines(file)
    if columns is None:
        return None
    count = len(columns["seed"]) // len(seeds)
    expected = np.repeat(np.arange(count), len(seeds)), np.tile(seeds, count)
    found = columns["generation"], columns["seed"]
    if not all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True)):
        return None
    return {name: column.reshape(count, len(seeds)).T for name, column in columns.items()}


def read_lines(file: Path) -> dict[str, np.ndarray] | None:
    """The same line by line, each (lines,)."""
    try:
        stat = file.stat()
        return _read(file, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1)
def _read(file: Path, size: int, changed: int) -> dict[str, np.ndarray] | None:
    """A file of a size [bytes] and time [ns], which is not read again while it has them."""
    data = file.read_bytes()
    pieces, place = [], 0
    while place < len(data):
        end = data.find(b"\n", min(place + BYTES_AT_ONCE, len(data) - 1)) + 1
        piece = _columns(data[place:end]) if end else None
        if piece is None:
            return None
        pieces.append(piece)
        place = end
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]} if pieces else None


def _columns(text: bytes) -> dict[str, np.ndarray] | None:
    """Of whole lines, each (lines,); None if one is unusual."""
    rows = LINE.findall(text)
    if len(rows) != text.count(b"\n"):
        return None
    columns = dict(zip(GROUPS, zip(*rows, strict=True), strict=True))
    given, checked = columns.pop("crc32"), columns.pop("checked")
    if any(digits and int(digits, 16) != zlib.crc32(text) for digits, text in zip(given, checked, strict=True)):
        return None
    try:
        return {name: _numbers(name, texts) for name, texts in columns.items() if name != "failures"} | _failures(
            columns["failures"]
        )
    except (ValueError, KeyError):
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


def _failures(texts: Sequence[bytes]) -> dict[str, np.ndarray]:
    """How many for each reason; raises KeyError for one that is not known."""
    places = {reason.name.encode(): place for place, reason in enumerate(REASONS)}
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    table = np.zeros((len(different), len(REASONS)))
    for text, row in zip(different, table, strict=True):
        for reason, number in FAILURE.findall(text):
            row[places[reason]] = float(number)
    counts = table[[different[text] for text in texts]]
    return {f"failures.{reason.name}": column for reason, column in zip(REASONS, counts.T, strict=True)}
