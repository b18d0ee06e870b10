"""The figure of `vsr bench growth`: a panel for each of voxels, robots and substeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from vsr.evidence.bench.formatting import duration, fixed_shown, slope_shown
from vsr.experiments.plot.figures import paper_style, save_figure

LABELS = {"voxels": "voxels per robot", "robots": "robots", "substeps": "substeps per time step"}


def plot_growth(growth: Sequence[dict[str, Any]], title: str, target: Path) -> None:
    """Draw all series into a PNG, PDF or SVG."""
    first = growth[0]
    with paper_style():
        figure = Figure(figsize=(2.8 * len(growth) + 0.5, 3.5), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, len(growth), sharey=True))
        for number, (axes, series) in enumerate(zip(panels, growth, strict=True)):
            _draw(axes, series, f"C{number}")
        panels[0].set_ylabel("computing time per simulated second [s]")
        costs = [cost for series in growth for cost in series["s_per_simulated_s"]]
        panels[0].set_ylim(min(costs) / 2, max(costs) * 1.5)
        panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(costs) < 100 * min(costs) else (1,)))
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panels[0].yaxis.set_minor_formatter(NullFormatter())
        panels[0].legend(loc="best", fontsize="small")
        how = f"{first['implementation']}, median of {first['repeats']} with fastest and slowest"
        figure.suptitle(f"{title}: {how}", fontsize="medium", x=0.01, ha="left")
        save_figure(figure, target)


def _draw(axes: Axes, series: dict[str, Any], color: str) -> None:
    x, cost, simulated = (np.asarray(series[name]) for name in ("x", "s_per_simulated_s", "simulated_s"))
    extremes = [np.abs(np.asarray(series[name]) / simulated - cost) for name in ("fastest_s", "slowest_s")]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(x, cost[-1] * x / x[-1], color="0.6", lw=1, ls=(0, (4, 3)), label="in proportion", zorder=1)
    axes.errorbar(x, cost, extremes, color=color, marker="o", ms=4.5, mec="white", mew=0.7, capsize=2, clip_on=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(x, [f"{value:g}" for value in series["x"]])
    axes.set_xlabel(LABELS[series["over"]])
    steps = " to ".join(duration(series["s_per_voxel_step"][end]) for end in (0, -1))
    title = f"{fixed_shown(series)}\nslope {slope_shown(series)}\n{steps} per voxel step"
    axes.set_title(title, fontsize="small", loc="left", linespacing=1.4)
