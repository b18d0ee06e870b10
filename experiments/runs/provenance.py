"""How a run was made: all its starts, and the time they took."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.experiments.files import read_json_lines
from vsr.experiments.lines import read_lines
from vsr.experiments.runs.folder import META, STATISTICS, is_statistics


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
        return sum(start.get("compile_seconds", 0.0) for start in self.starts)


def making(run: Path) -> Making:
    """What a run folder tells about how it was made."""
    starts, fault = [], ""
    try:
        starts = [start for start in json.loads((run / META).read_text("utf-8"))["starts"] if isinstance(start, dict)]
    except (ValueError, KeyError, TypeError):
        fault = "damaged"
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
    if not starts:
        fault = (
            f"{run / META}: {fault or 'it tells of no start'}; versions, device and command of this run are not known"
        )
    return Making(tuple(starts), _seconds(run / STATISTICS), (fault,) if fault else ())


def _seconds(file: Path) -> float:
    """What all generations took together [s]; it stands in the lines of all seeds."""
    columns = read_lines(file)
    if columns is not None:
        _, first = np.unique(columns["generation"], return_index=True)
        return float(columns["seconds"][first].sum())
    rows = [row for _, row in read_json_lines(file) if row and is_statistics(row)]
    seconds = {row["generation"]: row.get("seconds", 0.0) for row in rows}
    return float(sum(seconds.values()))
