"""The figure of the fluid suite, from the curves of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vsr.experiments.plot.figures import paper_style


def draw_figures(series: dict[str, Any], folder: Path) -> list[Path]:
    """How errors of columns fall with their number, if there are curves; named fluid_columns.png."""
    folder.mkdir(exist_ok=True)
    if "columns" not in series:
        return []
    curves = series["columns"]
    path = folder / "fluid_columns.png"
    with paper_style():
        figure = Figure(figsize=(4, 3), layout="constrained")
        panel = figure.subplots()
        for name in ("volume", "load"):
            panel.loglog(curves["grid"], curves[name], "o-", label=name)
        second = [curves["load"][0] * (curves["grid"][0] / grid) ** 2 for grid in curves["grid"]]
        panel.loglog(curves["grid"], second, "k:", label="order 2")
        panel.set(xlabel="columns along each side", ylabel="relative error")
        panel.legend()
        figure.savefig(path, dpi=110)
    return [path]
