"""A run's statistics as they grow: each look reads only what is new, and whole lines only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vsr.experiments.files import parse_json_line
from vsr.experiments.runs.rows import is_statistics


class GrowingStatistics:
    """The lines of a run's statistics by seed. Opened for reading alone, and only for the length of a look."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: dict[int, list[dict[str, Any]]] = {}
        """by seed, a line per generation from 0"""
        self.beginnings = 0
        """how often the file was read from its start: a run that goes on rewrites it"""
        self.damaged: list[int] = []
        """numbers of lines that could not be read, from 1"""
        self._inode, self._place, self._lines = -1, 0, 0

    def look(self) -> None:
        """Take in what was written since the last time."""
        try:
            with self.path.open("rb") as file:
                self._read(file)
        except OSError:  # not there yet, or a folder in its place
            if self._inode != -1:
                self._begin(-1)

    def _read(self, file: Any) -> None:

        stat = os.fstat(file.fileno())
        if stat.st_ino != self._inode or stat.st_size < self._place:
            self._begin(stat.st_ino)
        file.seek(self._place)
        text = file.read()
        whole = text.rfind(b"\n") + 1  # what follows is still being written
        self._place += whole
        for line in text[:whole].split(b"\n")[:-1]:
            self._lines += 1
            if not self._take(line):
                self.damaged.append(self._lines)

    def _begin(self, inode: int) -> None:
        self.rows, self.damaged, self._inode, self._place, self._lines = {}, [], inode, 0, 0
        self.beginnings += 1

    def _take(self, line: bytes) -> bool:
        """Add one line, but for what comes after a gap, as `read_run` does; False if it is damaged."""
        row = parse_json_line(line)
        if row is None or not is_statistics(row):
            return False
        known = self.rows.setdefault(row["seed"], [])
        if row["generation"] == len(known):
            known.append(row)
        elif 0 <= row["generation"] < len(known):
            known[row["generation"]] = row
        return True
