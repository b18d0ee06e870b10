"""How a run was made: all its starts, and the time they took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.experiments.files import read_json_lines
from vsr.experiments.lines import read_lines
from vsr.experiments.runs.rows import STATISTICS, is_statistics
from vsr.experiments.runs.settings import META, read_meta


@dataclass(frozen=True)
class Making:
    """How a run was made."""

    starts: tuple[dict[str, Any], ...]
    """as the run folder tells them"""
    seconds: float
    """all generations together, without compiling and without what was lost in kills [s]"""
    warnings: tuple[str, ...] = ()
    """what could not be read"""

    @property
    def compiling(self) -> float:
        """All starts together [s]; a start that was killed while it compiled is not counted."""
        known = (start.get("compile_seconds") for start in self.starts)
        return sum(seconds for seconds in known if isinstance(seconds, int | float))


def making(run: Path) -> Making:
    """What a run folder tells about how it was made."""
    meta, fault = read_meta(run)
    starts = meta["starts"]
    if not starts:
        fault = (
            f"{fault or f'{run / META}: it tells of no start'}; versions, device and command of this run are not known"
        )
    return Making(tuple(starts), _seconds(run / STATISTICS), (fault,) if fault else ())


def _seconds(file: Path) -> float:
    """What all generations took together [s]; it stands in the lines of all seeds."""
    columns = read_lines(file)
    if columns is not None:
        _, first = np.unique(columns["generation"], return_index=True)
        return float(columns["seconds"][first].sum())
    rows = [row for _, row in read_json_lines(file) if row and is_statistics(row)]
    seconds = {row["generation"]: row.get("seconds") or 0.0 for row in rows}
    return float(sum(seconds.values()))
