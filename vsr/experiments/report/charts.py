"""The charts of a report. All but that of chambers have generations along x, counted from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vsr.drawing.chambers import KILO, RecordedChambers
from vsr.drawing.colors import MATERIALS
from vsr.drawing.outlines import BRIGHTNESS, RECEDES
from vsr.experiments.formatting import count
from vsr.experiments.plot.curves import draw_curves, goal, thin
from vsr.experiments.plot.figures import with_unit
from vsr.experiments.ranks import middle
from vsr.experiments.report.markup import INK, SERIES, Markup, inline, page_style, tag
from vsr.experiments.storage.lineage import Descent
from vsr.experiments.storage.runs import Run
from vsr.robot import Body

COLORS = MATERIALS["original"]
MARGIN = 0.06
"""Around the drawing [voxels]."""


def draw_body(body: Body, meaning: str, room: tuple[float, float]) -> Markup:
    """The body as an element, standing at the bottom of a room [voxels]; meaning: for those who cannot see it."""
    outlines = polygons(body)
    low = np.concatenate([polygon for polygon, _, _ in outlines]).min(0)
    width, height = room[0] + 2 * MARGIN, room[1] + 2 * MARGIN
    drawn = [
        tag(
            "polygon",
            points=" ".join(f"{x + MARGIN:.3f},{height - MARGIN - y:.3f}" for x, y in polygon - low),
            fill=COLORS[material % len(COLORS)],
            style=f"filter:brightness({bright:g})" if bright < 1 else None,
        )
        for polygon, material, bright in outlines
    ]
    box = f"0 0 {width:.3f} {height:.3f}"
    return tag(
        "svg", *drawn, viewBox=box, preserveAspectRatio="xMinYMax", role="img", aria_label=meaning, class_="body"
    )


def room_for(bodies: Iterable[Body]) -> tuple[float, float]:
    """Width and height that all of them fit in [voxels], so that all are drawn to the same scale."""
    sizes = [np.ptp(np.concatenate([polygon for polygon, _, _ in polygons(body)]), axis=0) for body in bodies]
    width, height = np.max(sizes, axis=0)
    return float(width), float(height)


def polygons(body: Body) -> list[tuple[np.ndarray, int, float]]:
    """Outline [voxels], material and brightness of what is seen of every voxel, the furthest first."""
    return list(_squares(body.cells) if body.dimension == 2 else _cubes(body.cells))


def materials_key(body: Body) -> Markup:
    """Which color is which material."""
    swatches = [
        tag("li", tag("span", class_="swatch", style=f"background:{COLORS[index % len(COLORS)]}"), symbol)
        for index, symbol in enumerate(body.materials)
    ]
    return tag("ul", *swatches, class_="key", aria_label="materials")


def _squares(cells: np.ndarray) -> Iterator[tuple[np.ndarray, int, float]]:
    """Outline, material and brightness of every voxel; cells: (rows, columns), the lowest first."""
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)
    for row, column in np.argwhere(cells >= 0).tolist():
        yield square + np.array([column, row]), int(cells[row, column]), 1.0


def _cubes(cells: np.ndarray) -> Iterator[tuple[np.ndarray, int, float]]:
    """Faces that can be seen, the furthest first; cells: (levels, rows, columns), the lowest first."""
    faces = {
        0: ((1, 0, 0), np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1]], float)),
        1: ((0, -1, 0), np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]], float)),
        2: ((0, 0, 1), np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], float)),
    }
    taken = {(x, y, z): int(cells[z, y, x]) for z, y, x in np.argwhere(cells >= 0).tolist()}
    for x, y, z in sorted(taken, key=lambda place: (-place[1], place[2], place[0])):
        for axis, (way, corners) in faces.items():
            if (x + way[0], y + way[1], z + way[2]) not in taken:
                placed = corners + np.array([x, y, z])
                yield placed[:, [0, 2]] + RECEDES * placed[:, 1:2], taken[x, y, z], BRIGHTNESS[axis]


MARKS = {"founder": "s", "mutation": "^", "crossover": "o"}
"""How a robot was made."""
BEST, POPULATION, ALL, DESCENT = SERIES[0], SERIES[1], SERIES[2], SERIES[3]
MOST_SEEDS = 30
"""Drawn as lines of their own."""
MOST_CHAMBERS = 9
"""That are named beside a chart."""


def overlaid_curves(runs: Sequence[Run], names: Sequence[str]) -> Markup:
    """Every run's best, median over seeds with a band."""
    with page_style():
        figure, axes = _chart(1.15)
        draw_curves(axes, runs, names)
        axes.set_ylabel(goal(runs[0]))
        _finish(axes, max(run.generations for run in runs))
        return inline(figure, "curves", f"{goal(runs[0])} over generations for {', '.join(names)}")


def fitness_chart(run: Run, name: str) -> Markup:
    """The best robot's measure: median over seeds, each seed, and the population's median."""
    measure = with_unit(run.experiment.fitness.measure)
    several = len(run.experiment.seeds) > 1
    sign = run.experiment.fitness.sign
    with page_style():
        figure, axes = _chart()
        center = _known(sign * middle(run.search_fitness))
        _line(axes, center, color=BEST, lw=1.8, label="best, median over seeds" if several else "best so far")
        if several:
            _seeds(axes, run.search_best, BEST)
        if run.is_confirmed:
            last = _known(sign * middle(run.fitness[:, -1:]))
            axes.plot([run.generations - 1], last, "o", color=BEST, ms=5, clip_on=False, label="confirmed")
        crowd = _known(sign * middle(np.nan_to_num(sign * run.median, nan=-np.inf)))
        _line(axes, crowd, color=POPULATION, ls=(0, (4, 2)), label="population's median")
        axes.set(ylabel=measure)
        _finish(axes, run.generations)
        return inline(figure, name, f"{measure}: best so far and median of the population over generations")


def spread_chart(run: Run, name: str) -> Markup:
    """How far genes of the population lie apart."""
    with page_style():
        figure, axes = _chart()
        _over_seeds(axes, run.spread, ALL)
        axes.set(ylabel="standard deviation of a gene")
        axes.set_ylim(bottom=0)
        _finish(axes, run.generations)
        return inline(figure, name, "standard deviation of a gene over the population, over generations")


def bodies_chart(run: Run, name: str) -> Markup:
    """How many different bodies the population has."""
    with page_style():
        figure, axes = _chart()
        _over_seeds(axes, run.bodies, ALL)
        axes.axhline(
            run.experiment.optimizer.population_size,
            color=POPULATION,
            lw=0.9,
            ls=(0, (4, 2)),
            label="size of the population",
        )
        axes.set(ylabel="different bodies", ylim=(0, 1.05 * run.experiment.optimizer.population_size))
        _finish(axes, run.generations)
        return inline(figure, name, "different bodies in the population over generations")


def metrics_chart(run: Run, kind: str, metrics: Sequence[str], name: str) -> Markup:
    """Metrics that a search reports, a line for each archive: median over seeds."""
    with page_style():
        figure, axes = _chart()
        for number, one in enumerate(metrics):
            values = run.metrics[one]
            center = np.median(values, axis=0) if len(values) > 1 else values[0]
            label = one.rpartition(".")[0] or None
            _line(axes, center, color=SERIES[number % len(SERIES)], lw=1.6, label=label)
        words = kind.replace("_", " ")
        axes.set(ylabel=words)
        _finish(axes, run.generations)
        return inline(figure, name, f"{words} over generations")


def failures_chart(run: Run, name: str) -> Markup:
    """Which share of each generation's robots failed."""
    with page_style():
        figure, axes = _chart()
        _over_seeds(axes, 100 * run.failed / run.experiment.optimizer.population_size, POPULATION)
        axes.set(ylabel="failed robots [% of a generation]")
        axes.set_ylim(bottom=0)
        _finish(axes, run.generations)
        return inline(figure, name, "share of robots that failed over generations")


def descent_chart(run: Run, seed: int, descent: Descent, name: str) -> Markup:
    """The best robot's line of ancestors among the best so far. seed: its index."""
    measure, sign = with_unit(run.experiment.fitness.measure), run.experiment.fitness.sign
    kinds = [maker(len(ancestor.parents)) for ancestor in descent.line]
    x = np.array([ancestor.generation for ancestor in descent.line])
    y = _known(sign * np.array([ancestor.fitness for ancestor in descent.line]))
    with page_style():
        figure, axes = _chart()
        _line(axes, run.search_best[seed, : descent.generations], color=BEST, lw=1, alpha=0.6, label="best so far")
        axes.plot(x, y, color=DESCENT, lw=1.3)
        for kind, mark in MARKS.items():
            own = np.array([each == kind for each in kinds])
            if own.any():
                axes.plot(
                    x[own],
                    y[own],
                    mark,
                    color=DESCENT,
                    ms=5,
                    mec="none",
                    clip_on=False,  # founders lie on the axis
                    label=f"by {kind}" if kind != "founder" else kind,
                )
        axes.set(ylabel=measure)
        _finish(axes, run.generations)
        return inline(
            figure, name, f"{measure} of the best robot's ancestors over the generation in which they were made"
        )


def chambers_chart(time: np.ndarray, chambers: RecordedChambers, name: str) -> Markup:
    """Pressures and volumes over time [s]."""
    unit, per = ("kPa", KILO) if np.abs(chambers.pressure).max() >= KILO else ("Pa", 1.0)
    count = len(chambers.rest_volume)
    with page_style():
        figure = Figure(layout="constrained")
        figure.set_size_inches(1.15 * figure.get_figwidth(), 1.35 * figure.get_figheight())
        above, below = figure.subplots(2, 1, sharex=True)
        for chamber in range(count):
            style = {"color": SERIES[chamber % len(SERIES)], "lw": 1.4}
            label = f"chamber {chamber + 1}" if count > 1 and chamber < MOST_CHAMBERS else None
            above.plot(time, chambers.pressure[:, chamber] / per, label=label, **style)
            below.plot(time, chambers.volume[:, chamber], **style)
        above.set(ylabel=f"pressure [{unit}]")
        below.set(ylabel="volume over\nthat at rest", xlabel="time [s]", xlim=(0, max(time[-1], 1e-9)))
        for axes, calm in ((above, 0.0), (below, 1.0)):
            axes.axhline(calm, color=INK, lw=0.6, alpha=0.5)
        if above.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=3, fontsize=8.5, borderaxespad=0.2)
        return inline(figure, name, "pressure and volume of the best robot's chambers over time")


def maker(parents: int) -> str:
    """How a robot was made; parents: their number."""
    return ("founder", "mutation", "crossover")[min(parents, 2)]


def _chart(wider: float = 1.0) -> tuple[Figure, Axes]:
    figure = Figure(layout="constrained")
    figure.set_size_inches(figure.get_figwidth() * wider, figure.get_figheight())
    return figure, figure.subplots()


def _over_seeds(axes: Axes, values: np.ndarray, color: str) -> None:
    """The median over seeds, and every seed; values: (seeds, generations), not a number where unknown."""
    several = len(values) > 1
    center = np.median(values, axis=0) if several else values[0]
    _line(axes, center, color=color, lw=1.8, label="median over seeds" if several else None)
    if several:
        _seeds(axes, values, color)


def _seeds(axes: Axes, values: np.ndarray, color: str) -> None:
    label = "each seed" if len(values) <= MOST_SEEDS else f"each of {MOST_SEEDS} seeds"
    for number, line in enumerate(values[:MOST_SEEDS]):
        _line(axes, line, color=color, lw=0.8, alpha=0.6, label=label if number == 0 else None)


def _line(axes: Axes, values: np.ndarray, **style: Any) -> None:
    """A value of every generation."""
    shown = thin(values)
    axes.plot(shown, values[shown], **style)


def _known(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _finish(axes: Axes, generations: int) -> None:
    axes.set(xlabel="generation", xlim=(0, max(generations - 1, 1)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda generation, _: count(generation)))
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()
    if axes.get_legend_handles_labels()[0]:  # above the chart, where it hides nothing
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.legend(loc="outside upper left", ncols=2, fontsize=8.5, borderaxespad=0.2)
