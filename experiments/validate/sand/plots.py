"""Figures of the sand suite, from the curves of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.plot.figures import paper_style

CURVES = {
    "silo": ("weight", "floor", "weight of the grains [N/m]", "load on the floor [N/m]", False),
    "hourglass": ("hole", "rate", "width of the hole [diameters]", "grains a second", True),
    "plate": ("load", "sinkage", "mass of the plate [kg]", "sinkage [m]", False),
    "drag": ("depth", "force", "depth of the plate [diameters]", "force [N/m]", True),
}
"""What is drawn over what, and whether on logarithmic axes."""


def draw_figures(series: dict[str, Any], folder: Path) -> list[Path]:
    """Every figure there are curves for; named sand_*.png."""
    folder.mkdir(exist_ok=True)
    drawn = []
    with paper_style():
        for name, (x, y, across, up, logarithmic) in CURVES.items():
            if name not in series:
                continue
            figure = Figure(figsize=(4, 3), layout="constrained")
            panel = figure.subplots()
            panel.plot(series[name][x], series[name][y], "o-")
            panel.set(xlabel=across, ylabel=up)
            if logarithmic:
                panel.set(xscale="log", yscale="log")
            else:
                panel.set(xlim=(0, None), ylim=(0, None))
            path = folder / f"sand_{name}.png"
            figure.savefig(path, dpi=110)
            drawn.append(path)
    return drawn
