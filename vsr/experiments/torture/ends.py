"""What a run came to, read without the code under test, and how two ends differ."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

TIMES = ("seconds", "compile_seconds", "crc32")
"""What of the statistics depends on how busy the computer was, check sums of it included."""
NUMBERED = "[0-9]" * 8 + ".npz"
"""Names of checkpoints and of pieces of lineage."""


@dataclass(frozen=True)
class End:
    """All of a finished run that must not depend on what happened on the way."""

    generations: int = 0
    """that the last checkpoint counts"""
    searches: dict[str, np.ndarray] = field(default_factory=dict)
    """the arrays of the last checkpoint"""
    statistics: list[dict[str, Any]] = field(default_factory=list)
    """without times"""
    lineage: dict[str, np.ndarray] = field(default_factory=dict)
    """all pieces that can be read, joined along generations"""
    best: dict[str, str] = field(default_factory=dict)
    """the files of the best robots"""


def read_end(run: Path) -> End:
    """Of a run folder that nobody is writing."""
    checkpoint = max((run / "checkpoints").glob(NUMBERED))
    with np.load(checkpoint, allow_pickle=False) as stored:
        searches = {name: stored[name] for name in stored.files}
    return End(int(checkpoint.stem), searches, _statistics(run), _lineage(run), _best(run))


def different(end: End, other: End) -> list[str]:
    """What of one end is not, bit for bit, as in the other."""
    found = []
    if end.generations != other.generations:
        found.append(f"{end.generations} generations, not {other.generations}")
    for what, mine, others in (
        ("checkpoint", end.searches, other.searches),
        ("lineage", end.lineage, other.lineage),
    ):
        for name in sorted({*mine, *others}):
            if name not in mine or name not in others or not _same(mine[name], others[name]):
                found.append(f"{what}: {name} differs")
    if end.statistics != other.statistics:
        found.append("the statistics differ")
    for name in sorted({*end.best, *other.best}):
        if end.best.get(name) != other.best.get(name):
            found.append(f"best/{name} differs")
    return found


def _same(mine: np.ndarray, others: np.ndarray) -> bool:
    return mine.dtype == others.dtype and mine.shape == others.shape and mine.tobytes() == others.tobytes()


def _statistics(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "statistics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def _lineage(run: Path) -> dict[str, np.ndarray]:
    pieces = []
    for file in sorted((run / "lineage").glob(NUMBERED)):
        try:
            with np.load(file, allow_pickle=False) as stored:
                piece = {name: stored[name] for name in stored.files}
            if {"id", "parents"} <= set(piece) and all(array.ndim > 1 for array in piece.values()):
                pieces.append(piece)
        except Exception:  # damaged, in one of many ways: then it lacks something that an undisturbed run has
            continue
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in (pieces or [{}])[0]}


def _best(run: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted((run / "best").glob("*.yaml"))}
