"""The curve of a training: reward over generations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vsr.experiments.plot.figures import paper_style, save_figure


def plot_curve(curve: list[dict[str, Any]], target: Path) -> None:
    """Mean, best and the policy itself; failures leave gaps."""
    with paper_style():
        figure = Figure()
        axes = figure.add_subplot()
        generations = [row["generation"] for row in curve]
        for name, label in (("policy", "policy"), ("mean", "mean of the population"), ("best", "best of it")):
            values = [float("nan") if row[name] is None else row[name] for row in curve]
            axes.plot(generations, values, label=label)
        axes.set_xlabel("generation")
        axes.set_ylabel("reward per step")
        axes.legend()
        save_figure(figure, target)
