"""Statistics without a fault as arrays, quickly: a million generations in seconds.

Whatever is unusual about a file (torn lines, generations twice or out of order, lines of older versions) is left to the
reading line by line, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vsr.experiments.files import write_arrays
from vsr.experiments.lines import KEPT, Columns, kept_beside, read_lines
from vsr.physics.failure import REASONS

LONG = 2**24
"""Bytes of a file from which its columns are kept beside it: a second of reading."""


def keep_columns(file: Path) -> None:
    """Write a long file's columns beside it, for whoever reads it next. Raises OSError."""
    size = file.stat().st_size
    columns = read_lines(file) if size >= LONG else None
    if columns is not None and file.stat().st_size == size:  # else someone has gone on with the run meanwhile
        arrays, label = kept_beside(file, size, columns)
        write_arrays(file.with_suffix(KEPT), arrays, label, compressed=False)


def read_columns(file: Path, seeds: Sequence[int], run: str | None = None) -> Columns | None:
    """Numbers by name, and `failures.REASON` of every reason, each (seeds, generations), null as not a number.

    run: of which lines are to be (`run_tag`). None if any line is unusual.
    """
    columns = read_lines(file)
    if columns is None:
        return None
    count = len(columns["seed"]) // len(seeds)
    expected = np.repeat(np.arange(count), len(seeds)), np.tile(seeds, count)
    found = columns["generation"], columns["seed"]
    known = {f"failures.{reason.name}" for reason in REASONS}
    strange = {name for name in columns if name.startswith("failures.")} - known
    runs = columns.pop("run") if "run" in columns else np.zeros(0)
    if run is not None and (runs[np.isfinite(runs)] != int(run, 16)).any():
        return None
    if strange or not all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True)):
        return None
    nothing = dict.fromkeys(known, np.zeros(len(columns["seed"])))
    return {name: column.reshape(count, len(seeds)).T for name, column in {**nothing, **columns}.items()}
