"""Figures of the sand suite, from the curves of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsr.evidence.validate.sand.hourglass import EXPONENT, LOST
from vsr.experiments.plot.figures import paper_style

FIGURES = {
    "silo": ("weight", "floor", "weight of the grains", "load on the floor", False),
    "hourglass": ("hole", "rate", f"width of the hole [diameters] less {LOST:g}", "grains a second", True),
    "heap": ("friction", "slope", "friction", "slope [degrees]", False),
    "plate": ("load", "sinkage", "mass of the plate [kg]", "sinkage [radii]", False),
    "drag": ("depth", "force", "depth of the plate [diameters]", "force on it", True),
}
"""What is drawn over what, with which labels, and whether on logarithmic axes."""
UNITS = {"silo": {"2d": "N/m", "3d": "N"}, "drag": {"2d": "N/m", "3d": "N"}}
CASES = {"2d": "2-D", "3d": "3-D", "turning": "that turn", "still": "that do not"}


def draw_figures(series: dict[str, Any], folder: Path) -> list[Path]:
    """Every figure there are curves for, named sand_*.png: a panel for each dimension; bars: how packings differ."""
    folder.mkdir(exist_ok=True)
    drawn = []
    with paper_style():
        for name in FIGURES:
            curves = {key: curve for key, curve in series.items() if key.split("_")[0] == name}
            if not curves:
                continue
            dimensions = sorted({key.split("_")[1] for key in curves})
            figure = Figure(figsize=(3.6 * len(dimensions), 3), layout="constrained")
            for panel, dimension in zip(figure.subplots(1, len(dimensions), squeeze=False)[0], dimensions, strict=True):
                _draw(panel, name, dimension, {key: curve for key, curve in curves.items() if dimension in key})
            path = folder / f"sand_{name}.png"
            figure.savefig(path, dpi=110)
            drawn.append(path)
    return drawn


def _draw(panel: Axes, name: str, dimension: str, curves: dict[str, dict[str, Any]]) -> None:
    """Curves of one figure in one dimension."""
    x, y, across, up, logarithmic = FIGURES[name]
    unit = UNITS.get(name, {}).get(dimension)
    suffix = f" [{unit}]" if unit else ""
    for key, curve in sorted(curves.items(), reverse=True):
        case = key.split("_")[2:]
        places = np.array(curve[x]) - (LOST if name == "hourglass" else 0)
        label = f"grains {CASES[case[0]]}" if case else None
        panel.errorbar(places, curve[y], curve["spread"], fmt="o-", capsize=2, label=label)
        if name == "hourglass":
            power = EXPONENT[int(dimension[0])][0]
            middle = np.exp(np.mean(np.log(curve[y])) - power * np.mean(np.log(places)))
            panel.plot(places, middle * places**power, "k:", label=f"power {power:g} (Beverloo)")
    if name == "silo":
        most = max(max(curve[x]) for curve in curves.values())
        panel.plot([0, most], [0, most], "k:", label="all of it")
    panel.set(title=CASES[dimension], xlabel=across + (suffix if name == "silo" else ""), ylabel=up + suffix)
    if logarithmic:
        panel.set(xscale="log", yscale="log")
        places = sorted({place for curve in curves.values() for place in curve[x]})
        shift = LOST if name == "hourglass" else 0
        panel.set_xticks([place - shift for place in places], [f"{place - shift:g}" for place in places])
        panel.minorticks_off()
        low, high = panel.get_ylim()
        around = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
        shown = [value for value in around if low <= value <= high]
        panel.set_yticks(shown, [f"{value:,g}" for value in shown])
    else:
        panel.set(xlim=(0, None), ylim=(0, None))
    if panel.get_legend_handles_labels()[0]:
        panel.legend()
