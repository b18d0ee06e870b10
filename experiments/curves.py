"""Fitness curves: the best robot's measure per generation, median over seeds with a band."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.config.problems import UserError
from experiments.runs import Run
from experiments.runs.files import write_atomically
from experiments.units import UNITS

FORMATS = (".png", ".pdf", ".svg")
Band = Literal["sigma", "quartiles"]
BAND_NAMES = {"sigma": "one standard deviation", "quartiles": "quartiles"}


def check_target(out: str) -> Path:
    """Where a figure goes, told before any work if it cannot."""
    target = Path(out)
    if target.suffix.lower() not in FORMATS:
        raise UserError(f"--out {out}: the name should end in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {target.parent}")
    return target


def plot_runs(runs: Sequence[Run], target: Path, band: Band = "sigma") -> None:
    """Draw one curve per run into a PNG, PDF or SVG."""
    with mpl.rc_context(fname=str(files("experiments") / "paper.mplstyle")):
        figure = Figure(figsize=(5.2, 3.4), layout="constrained")
        axes = figure.subplots()
        for run, label in zip(runs, labels(runs), strict=True):
            _draw(axes, run, label, band)
        measures = {run.experiment.fitness.measure for run in runs}
        axes.set(xlabel="generation", ylabel=" / ".join(map(_with_unit, sorted(measures))))
        if any(len(run.experiment.seeds) > 1 for run in runs):
            axes.set_title(f"median over seeds and {BAND_NAMES[band]}", fontsize="small", loc="left")
        axes.set_xlim(0, max(max(run.generations for run in runs) - 1, 1))
        if len(runs) > 1:
            axes.legend()
        kind = target.suffix[1:].lower()
        try:
            write_atomically(target, lambda file: figure.savefig(file, format=kind, metadata=_without_date(kind)))
        except OSError as error:
            raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None


def spread(values: np.ndarray, band: Band) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median over seeds, and the band's lower and upper edge; values: (seeds, generations)."""
    middle = np.nanmedian(values, axis=0)
    if band == "quartiles":
        return middle, np.nanquantile(values, 0.25, axis=0), np.nanquantile(values, 0.75, axis=0)
    sigma = np.nanstd(values, axis=0)
    return middle, middle - sigma, middle + sigma


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its folder's, or the whole path where folders share a name."""
    names = [run.name for run in runs]
    return [name if names.count(name) == 1 else str(run.path) for run, name in zip(runs, names, strict=True)]


def _draw(axes: Axes, run: Run, label: str, band: Band) -> None:
    known = np.isfinite(run.best).any(0)
    generation = np.flatnonzero(known)
    middle, low, high = spread(run.best[:, known], band)
    (line,) = axes.plot(generation, middle, label=label)
    if run.best.shape[0] > 1:
        axes.fill_between(generation, low, high, color=line.get_color(), alpha=0.2, lw=0)


def _with_unit(measure: str) -> str:
    unit = UNITS.get(measure, "")
    return measure.replace("_", " ") + (f" [{unit}]" if unit else "")


def _without_date(kind: str) -> dict[str, None]:
    """The same curves give the same file."""
    return {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
