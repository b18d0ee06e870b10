"""How a run was made: all its starts, and the time they took."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.arrays import Damaged
from vsr.experiments.runs.settings import META, read_meta
from vsr.experiments.runs.statistics import STATISTICS, read_statistics


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
    """Of all generations together [s]."""
    try:
        return float(np.nansum(read_statistics(file).seconds))
    except Damaged:
        return 0.0
