"""Results that were copied without their runs (`vsr reproduce --copy`), read again: so a page can be remade from them.

Curves have seven digits, and only what the page needs is read; such a run cannot be continued or verified.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vsr.arrays import CorruptFileError
from vsr.evidence.reproduce.exchange import STORED
from vsr.evidence.reproduce.tables import CURVES
from vsr.experiments.config import load_experiment
from vsr.experiments.storage.files import read_checked_json
from vsr.experiments.storage.robots import BEST
from vsr.experiments.storage.runs import Run
from vsr.experiments.storage.settings import RunSettings
from vsr.experiments.storage.statistics import header_of

KNOWN = ("experiment", "seed", "generation", "evaluations", "best", "search_best", "population_median", "failed")


def read_copied(home: Path, name: str) -> Run | None:
    """The run of an experiment from the settings and curves in a folder of results; None if they are not there."""
    settings = home / f"{name}.yaml"
    if not (settings.is_file() and (home / CURVES).is_file()):
        return None
    with lzma.open(home / CURVES, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["experiment"] == name]
    if not rows:
        return None
    experiment = load_experiment(settings)
    shape = len(experiment.seeds), -1

    def column(title: str) -> np.ndarray:
        return np.array([float(row[title] or "nan") for row in rows]).reshape(shape)

    best = column("best")
    search_best = column("search_best") if "search_best" in rows[0] else best.copy()
    exact = next((final for final in _finals(home, name) if len(final) == len(best)), None)
    if exact is not None and np.allclose(best[:, -1], exact, rtol=1e-6, equal_nan=True):
        is_search = np.array_equal(best[:, -1], search_best[:, -1], equal_nan=True)
        best[:, -1] = exact
        search_best[:, -1] = exact if is_search else search_best[:, -1]
    unknown = np.full(best.shape, np.nan)
    return Run(
        path=home / name,
        header=header_of(experiment, ""),
        best=best,
        search_best=search_best,
        quartiles=np.full((2, shape[0]), np.nan),
        median=column("population_median"),
        best_id=unknown,
        failed=column("failed"),
        failures={title: column(title) for title in rows[0] if title not in KNOWN},
        spread=unknown,
        bodies=unknown,
        seconds=unknown[0],
        settings=RunSettings(settings, experiment, {}, {}),
    )


def _finals(home: Path, name: str) -> Iterator[np.ndarray]:
    """The measures of the last bests with all digits, by which stored repeats are recognized as those of this run."""
    for file, where in ((home / BEST / f"{name}.json", ()), (home / STORED, ("runs", name))):
        try:
            stored = read_checked_json(file)
            for key in where:
                stored = stored[key]
            yield np.array(stored["final"], float)
        except (CorruptFileError, KeyError, TypeError):
            continue
