"""The map of a landscape: fitness by size and by materials, its distribution, and the best bodies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vsr.drawing.colors import MATERIALS
from vsr.experiments.formatting import count, number
from vsr.experiments.landscape.table import Table
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit

if TYPE_CHECKING:  # it takes a second to load
    from matplotlib.axes import Axes

DRAWN = 3, 6
"""Rows and columns of best bodies."""
BINS = 6
"""Of shares of a material."""
LEAST = 5
"""Bodies of which quartiles are drawn."""
COLORS = MATERIALS["original"]


def plot_landscape(table: Table, target: Path) -> None:
    """Four panels into a PNG, PDF or SVG."""
    from matplotlib.figure import Figure

    with paper_style():
        figure = Figure((9.6, 7.2), layout="constrained")
        (upper_left, upper_right), (lower_left, lower_right) = figure.subplots(2, 2)
        draw_sizes(upper_left, table)
        draw_shares(upper_right, table)
        draw_distribution(lower_left, table)
        draw_best(lower_right, table)
        tried = f"{count(table.size)} of {count(table.total)} bodies, {table.landscape.controllers} controllers each"
        figure.suptitle(tried, fontsize="small", x=0.01, ha="left")
        save_figure(figure, target)


def draw_sizes(axes: Axes, table: Table) -> None:
    """Boxes of the best measure for every number of voxels, whiskers from the 5th to the 95th percentile."""
    voxels, best, sound = _voxels(table), table.best, np.isfinite(table.best)
    sizes = np.unique(voxels[sound])
    groups = [best[sound & (voxels == size)] for size in sizes]
    axes.boxplot(groups, positions=sizes, whis=(5, 95), showfliers=False, widths=0.6)
    if groups:
        axes.plot(sizes, [group.max() for group in groups], "o", markersize=3, label="best body")
        axes.legend()
    axes.set(xlabel="voxels", ylabel=with_unit(table.landscape.fitness.measure), title="by size")


def draw_shares(axes: Axes, table: Table) -> None:
    """Median and quartiles of the best measure over the share of each material."""
    cells, voxels, sound = table.cells, _voxels(table), np.isfinite(table.best)
    for place, symbol in enumerate(table.landscape.symbols):
        share = (cells == place).sum((1, 2)) / voxels
        middles, quartiles = shares(share[sound], table.best[sound])
        color = COLORS[place % len(COLORS)]
        axes.plot(middles, quartiles[:, 1], "o-", color=color, markersize=3, label=symbol)
        axes.fill_between(middles, quartiles[:, 0], quartiles[:, 2], color=color, alpha=0.15, lw=0)
    axes.set(xlabel="share of a material", ylabel=with_unit(table.landscape.fitness.measure), xlim=(0, 1))
    axes.set_title("by material: median and quartiles")
    axes.legend()


def shares(share: np.ndarray, values: np.ndarray, least: int = LEAST) -> tuple[np.ndarray, np.ndarray]:
    """Mean shares of bodies in equal intervals of them, and the quartiles of their values, (intervals, 3).

    least: bodies that an interval must have.
    """
    interval = np.minimum((share * BINS).astype(int), BINS - 1)
    filled = [one for one in range(BINS) if (interval == one).sum() >= least]
    middles = np.array([share[interval == one].mean() for one in filled])
    found = [np.quantile(values[interval == one], (0.25, 0.5, 0.75)) for one in filled]
    return middles, np.array(found).reshape(-1, 3)


def draw_distribution(axes: Axes, table: Table) -> None:
    """How many bodies are how good, with their best and with a random controller."""
    sign = table.landscape.fitness.sign
    for values, name in ((table.best, "best controller"), (table.typical, "random controller (median)")):
        known = values[np.isfinite(values)]
        ordered = np.sort(known) if sign > 0 else -np.sort(-known)
        axes.plot(ordered, np.arange(1, known.size + 1) / max(known.size, 1), label=name)
    axes.set(
        xlabel=with_unit(table.landscape.fitness.measure), ylabel="share of bodies that are no better", ylim=(0, 1)
    )
    axes.set_title("distribution")
    axes.legend()


def draw_best(axes: Axes, table: Table) -> None:
    """The fittest bodies with their measure, row by row."""
    from matplotlib.collections import PolyCollection

    rows, columns = table.landscape.shape
    places = table.order[: DRAWN[0] * DRAWN[1]]
    square, outlines, fills = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float), [], []
    wide, high = columns + 1.2, rows + 1.8
    for order, place in enumerate(places):
        corner = np.array([order % DRAWN[1] * wide, -(order // DRAWN[1]) * high])
        cells = table.cells[place]
        for row, column in np.argwhere(cells >= 0):
            outlines.append(corner + square + np.array([column, row]))
            fills.append(COLORS[int(cells[row, column]) % len(COLORS)])
        x, y = corner
        axes.text(
            x + columns / 2, y - 0.25, number(float(table.best[place])), ha="center", va="top", fontsize="x-small"
        )
    axes.add_collection(PolyCollection(outlines, facecolors=fills, edgecolors="white", linewidths=0.5))
    axes.set(xlim=(-0.5, DRAWN[1] * wide), ylim=(-(DRAWN[0] - 1) * high - 1.5, rows + 0.5), aspect="equal")
    axes.set_title("best bodies")
    for place, symbol in enumerate(table.landscape.symbols):
        axes.plot([], [], "s", color=COLORS[place % len(COLORS)], label=symbol)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=len(table.landscape.symbols), fontsize="x-small")
    axes.axis("off")


def _voxels(table: Table) -> np.ndarray:
    return (table.cells >= 0).sum((1, 2))
