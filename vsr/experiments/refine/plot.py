"""Fitness over refinement as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vsr.experiments.refine.robustness import Robustness
from vsr.experiments.storage.files import replacing


def _lost(share: float) -> str:
    """For the legend: failed trials have no place in the figure."""
    return f", {100 * share:.0f} % of trials lost" if share > 0 else ""


def plot_robustness(names: Sequence[str], found: Robustness, measure: str, target: Path) -> None:
    """Median over trials of every robot, with the range of its trials; a cross for every trial that is lost."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for i, name in enumerate(names):
        values = found.refined[i]
        medians = [found.at(factor)[i] for factor in found.factors]
        (line,) = axes.plot(found.factors, medians, marker="o", markersize=3, label=name + _lost(found.lost[i, -1]))
        known = np.isfinite(values).any(1)
        low, high = (edge(values[known], 1) for edge in (np.nanmin, np.nanmax))
        factors = np.array(found.factors)[known]
        axes.fill_between(factors, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        steps = np.broadcast_to(np.array(found.factors)[:, None], values.shape)
        axes.plot(steps[found.is_lost[i]], values[found.is_lost[i]], "x", color=line.get_color(), markersize=4)
    axes.set_xscale("log", base=2)
    axes.set_xticks(found.factors, [f"{factor}" for factor in found.factors])
    axes.set(xlabel="steps, times finer", ylabel=measure.replace("_", " "))
    if len(names) <= 10:
        axes.legend(fontsize="x-small")
    with replacing(target) as partial:
        figure.savefig(partial, format=target.suffix[1:])
