"""Heat maps of robots in cases: a panel for every task and ground, robots down, faults across."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsr.experiments.evaluate.matrix import Matrix
from vsr.experiments.evaluate.sets import EvaluationSet
from vsr.experiments.numbers import number
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit

if TYPE_CHECKING:  # it takes a second to load
    from matplotlib.axes import Axes

MOST_NUMBERS = 120
"""Cells of a panel in which numbers are written."""
MOST_NAMES = 40
"""Robots that are named; of more the panels stand side by side."""
FEW_ROWS = 8
WIDE, HIGH = 0.46, 0.26
"""Of a cell [inches]."""


def plot_matrix(described: EvaluationSet, found: Matrix, target: Path) -> None:
    """Colours are the measure if there is one for all, else what is kept of each robot's first case."""
    from matplotlib.figure import Figure

    panels = panels_of(described, found)
    columns = max(len(cases) for _, cases, _ in panels)
    measures = set(found.measures[found.suits])
    values = found.taken if len(measures) == 1 else found.kept
    rows, below = len(found.robots), len(found.robots) <= FEW_ROWS
    scale: dict[str, float] = dict(zip(("vmin", "vmax"), _ends(values), strict=True))
    with paper_style({"axes.grid": False}):
        size = np.array([WIDE * columns + 0.3, min(HIGH * rows, 9) + 0.35]) * (
            (1, len(panels)) if below else (len(panels), 1)
        )
        figure = Figure((float(size[0]) + 2.4, float(size[1]) + 0.9), layout="constrained")
        places = figure.subplots(*((len(panels), 1) if below else (1, len(panels))), squeeze=False).reshape(-1)
        for axes, (title, cases, names) in zip(places, panels, strict=True):
            drawn = _panel(axes, values[:, cases], found.suits[:, cases], scale)
            axes.set_title(title, fontsize="small", loc="left")
            last = axes is places[-1] or not below
            axes.set_xticks(range(len(cases)), names if last else [""] * len(cases), rotation=45, ha="right")
            named = rows <= MOST_NAMES and (below or axes is places[0])
            axes.set_yticks(range(rows) if named else [], found.robots if named else [])
        label = with_unit(next(iter(measures))) if len(measures) == 1 else "share of the first case"
        figure.colorbar(drawn, ax=places.tolist(), label=label)
        save_figure(figure, target)


def panels_of(described: EvaluationSet, found: Matrix) -> list[tuple[str, list[int], list[str]]]:
    """Title, numbers of the cases and names of the columns of every panel with a case that suits someone."""
    axes = [
        axis for axis, names in enumerate((described.tasks, described.terrains, described.faults)) if len(names) > 1
    ]
    across = axes[-1] if axes else 2
    panels: dict[str, tuple[list[int], list[str]]] = {}
    for place, case in enumerate(described.cases):
        if found.suits[:, place].any():
            title = ", ".join(case[axis] for axis in axes if axis != across)
            numbers, names = panels.setdefault(title, ([], []))
            numbers.append(place)
            names.append(case[across])
    return [(title, numbers, names) for title, (numbers, names) in panels.items()]


def _ends(values: np.ndarray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _panel(axes: Axes, values: np.ndarray, suits: np.ndarray, scale: dict[str, Any]) -> Any:
    drawn = axes.imshow(np.ma.masked_invalid(values), aspect="auto", cmap="viridis", interpolation="nearest", **scale)
    axes.set_facecolor("0.9")
    if values.size <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if suits[row, column]:
                red, green, blue, _ = drawn.to_rgba(value) if np.isfinite(value) else (0.9, 0.9, 0.9, 1)
                colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
                text = f"{value:.2g}" if np.isfinite(value) else number(value)
                axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    return drawn
