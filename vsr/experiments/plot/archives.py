"""Maps of archives, with the body of every elite in its cell, and Pareto fronts."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from vsr.drawing.colors import MATERIALS
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit
from vsr.experiments.storage.archives import ArchiveRead, FrontRead, read_archives, read_front
from vsr.experiments.storage.runs import Run

if TYPE_CHECKING:  # it takes a second to load
    from matplotlib.axes import Axes

SIDE = 4.2
"""Of one map [inches]."""
MOST_BODIES = 1200
"""Elites whose bodies are drawn; in larger archives they would be specks."""
SHARE = 0.72
"""Of a cell that a body may take."""


def plot_archives(run: Run, seed: int, target: Path) -> None:
    """Draw the archives or the front of the seed of this index; raises UserError if its search has none."""
    from matplotlib.figure import Figure

    archives = read_archives(run.path, run.experiment, seed)
    front = read_front(run.path, run.experiment, seed)
    if not archives and front is None:
        raise UserError(f"{run.path}: its search ({run.experiment.optimizer.type}) keeps no archive and no front")
    with paper_style():
        pairs = [] if front is None else list(combinations(range(len(front.names)), 2))
        count = len(archives) or len(pairs)
        figure = Figure((count * SIDE + 0.4, SIDE * 0.9), layout="constrained")
        axes = figure.subplots(1, count, squeeze=False)[0]
        for place, archive in zip(axes, archives, strict=False):
            draw_map(place, archive, run.experiment)
        if front is not None:
            for place, pair in zip(axes, pairs, strict=True):
                draw_front(place, front, *pair)
        save_figure(figure, target)


def draw_map(axes: Axes, archive: ArchiveRead, experiment: Experiment, as_pixels: bool = False) -> None:
    """Fitness over the first two axes of an archive: of cells that differ in further ones only, the fittest.

    as_pixels: whether thousands of voxels are a picture within the drawing, which else would be large.
    """
    sign, settings = experiment.fitness.sign, archive.settings
    shown = _fittest_in_view(archive)
    names = [with_unit(axis.measure) for axis in settings.axes]
    (left, right), (low, high) = _view(archive)
    values = sign * archive.fitness[shown]
    x, y = archive.centers[shown, 0], archive.centers[shown, 1] if len(names) > 1 else np.full(len(shown), 0.5)
    if settings.is_regular:
        cells = settings.shape[:2] if len(names) > 1 else (settings.shape[0], 1)
        grid = np.full(cells, np.nan)
        column = np.clip(((x - left) / (right - left) * cells[0]).astype(int), 0, cells[0] - 1)
        row = np.clip(((y - low) / (high - low) * cells[1]).astype(int), 0, cells[1] - 1)
        grid[column, row] = values
        drawn: Any = axes.imshow(grid.T, origin="lower", extent=(left, right, low, high), aspect="auto", cmap="viridis")
        size = np.array([(right - left) / cells[0], (high - low) / cells[1]])
    else:
        size = np.array([right - left, high - low]) / np.sqrt(len(archive.centers))
        drawn = _draw_regions(axes, archive, shown, values, np.stack([x, y], 1), size)
        axes.set(xlim=(left, right), ylim=(low, high))
    if experiment.robot.body.gene_count and experiment.robot.body.dimension == 2 and len(shown) <= MOST_BODIES:
        _draw_bodies(axes, archive, experiment, shown, np.stack([x, y], 1), size, as_pixels)
    share = len(archive.filled) / len(archive.centers)
    axes.set(title=f"{archive.name}: {100 * share:.0f} % of {len(archive.centers)} cells", xlabel=names[0])
    axes.set_ylabel(names[1] if len(names) > 1 else "")
    axes.figure.colorbar(drawn, ax=axes, label=with_unit(experiment.fitness.measure))


def _draw_regions(
    axes: Axes, archive: ArchiveRead, shown: np.ndarray, values: np.ndarray, middle: np.ndarray, size: np.ndarray
) -> Any:
    """Cells of a CVT in the color of their fitness: with two axes as they are, else squares around their centers."""
    from matplotlib.collections import PolyCollection

    if len(archive.settings.axes) == 2:
        whole = regions(archive.centers, np.array(_view(archive)).T)
        outlines = [whole[cell] for cell in shown]
    else:
        outlines = list(middle[:, None] + size * (np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) - 0.5))
    drawn = PolyCollection(outlines, array=values, cmap="viridis", edgecolors="white", linewidths=0.3)
    return axes.add_collection(drawn)


def regions(centers: np.ndarray, box: np.ndarray) -> list[np.ndarray]:
    """Corners of what is nearest to each center within a box, distances in units of its sides; box: (2, 2), low first.

    Mirror images of the centers beyond all four sides make the sides bounds of cells.
    """
    from scipy.spatial import Voronoi

    low, side = box[0], box[1] - box[0]
    inside = (centers - low) / side
    images = [inside * (-1, 1), inside * (1, -1), inside * (-1, 1) + (2, 0), inside * (1, -1) + (0, 2)]
    found = Voronoi(np.concatenate([inside, *images]))
    return [low + side * found.vertices[found.regions[place]] for place in found.point_region[: len(centers)]]


def draw_front(axes: Axes, front: FrontRead, first: int, second: int) -> None:
    """Two of the objectives against each other, the Pareto front in full color."""
    best = front.front == 0
    x, y = front.values[:, first], front.values[:, second]
    axes.plot(x[~best], y[~best], "o", color="0.7", markersize=3, label="dominated")
    axes.plot(x[best], y[best], "o", markersize=4, label="front")
    axes.set(xlabel=with_unit(front.names[first]), ylabel=with_unit(front.names[second]))
    axes.legend()


def _view(archive: ArchiveRead) -> tuple[tuple[float, float], tuple[float, float]]:
    ranges = [axis.range for axis in archive.settings.axes]
    return ranges[0], ranges[1] if len(ranges) > 1 else (0.0, 1.0)


def _fittest_in_view(archive: ArchiveRead) -> np.ndarray:
    """Filled cells, of those that share a place on the first two axes of a grid the fittest."""
    filled, settings = archive.filled, archive.settings
    if not settings.is_regular or len(settings.axes) < 3:
        return filled
    places = np.stack(np.unravel_index(filled, settings.shape), 1)[:, :2]
    order = np.argsort(-archive.fitness[filled], kind="stable")
    _, first = np.unique(places[order], axis=0, return_index=True)
    return np.sort(filled[order[first]])


def _draw_bodies(
    axes: Axes,
    archive: ArchiveRead,
    experiment: Experiment,
    shown: np.ndarray,
    middle: np.ndarray,
    size: np.ndarray,
    as_pixels: bool,
) -> None:
    """Every elite's body in its cell; size: of a cell."""
    from matplotlib.collections import PolyCollection

    bodies = np.asarray(jax.jit(jax.vmap(experiment.robot.body.decode))(archive.genes["body"][shown]))
    colors, outlines, fills = MATERIALS["original"], [], []
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
    for cells, place in zip(bodies, middle, strict=True):
        rows, columns = np.nonzero(cells >= 0)
        if not rows.size:
            continue
        low = np.array([columns.min(), rows.min()])
        extent = np.array([np.ptp(columns), np.ptp(rows)]) + 1
        scale = SHARE * size / extent.max()  # as wide as high on the map's own axes
        for row, column in zip(rows, columns, strict=True):
            outlines.append(place + (square + np.array([column, row]) - low - extent / 2) * scale)
            fills.append(colors[int(cells[row, column]) % len(colors)])
    voxels = PolyCollection(outlines, facecolors=fills, edgecolors="white", linewidths=0.15)
    voxels.set_rasterized(as_pixels)
    axes.add_collection(voxels)
