"""All checks of grains and of robots and bodies among them, and the figures of their curves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsr.evidence.validate.checks import Check, Checks
from vsr.evidence.validate.sand.contacts import (
    check_batch,
    check_conservation,
    check_incline,
    check_refinement,
    check_rest,
)
from vsr.evidence.validate.sand.containers import EXPONENT, LOST, PLANE, SPACE, check_heap, check_hourglass, check_silo
from vsr.evidence.validate.sand.scenes import TURNING
from vsr.evidence.validate.sand.solids import check_drag, check_impulses, check_plate, check_shapes, check_standing
from vsr.terrain.sand import ROLLING

ONE = (1,)
"""A single packing, where more would take too long on two cores."""
NINE = tuple(range(1, 10))
"""Slopes of few discs differ much from packing to packing."""
CHECKS: dict[str, Check] = {
    "incline, 2-D": partial(check_incline, 2),
    "incline, 3-D": partial(check_incline, 3),
    "refinement, 2-D": partial(check_refinement, 2),
    "refinement, 3-D": partial(check_refinement, 3),
    "conservation, 2-D": partial(check_conservation, 2),
    "conservation, 3-D": partial(check_conservation, 3),
    "batch, 2-D": partial(check_batch, 2),
    "batch, 3-D": partial(check_batch, 3),
    "bed at rest, 2-D": partial(check_rest, 2, 400, 20),
    "column at rest, 2-D": partial(check_rest, 2, 200, 5),
    "bed at rest, 3-D": partial(check_rest, 3, 600, 8),
    "silo, 2-D": partial(check_silo, 2),
    "silo, 3-D": partial(check_silo, 3, ONE),
    "hourglass, 2-D": partial(check_hourglass, PLANE),
    "heap of grains that turn, 2-D": partial(check_heap, 2, TURNING, (0.1, 0.3, 0.5), NINE),
    "heap of sand, 2-D": partial(check_heap, 2, ROLLING, (0.3, 0.5), NINE),
    "heap of grains that do not, 2-D": partial(check_heap, 2, None, (0.3, 0.5)),
    "heap of grains that turn, 3-D": partial(check_heap, 3, TURNING, (0.1, 0.3, 0.5), ONE),
    "shapes": check_shapes,
    "plate, 2-D": partial(check_plate, 2),
    "plate, 3-D": partial(check_plate, 3, ONE),
    "drag, 2-D": partial(check_drag, 2),
    "drag, 3-D": partial(check_drag, 3, ONE),
    "robots, impulses": check_impulses,
    "robots, standing": check_standing,
}
LARGE: dict[str, Check] = {
    "hourglass, 3-D": partial(check_hourglass, SPACE),
    "silo, 3-D": partial(check_silo, 3),
    "heap of grains that turn, 3-D": partial(check_heap, 3, TURNING, (0.1, 0.3, 0.5, 0.8)),
    "heap of grains that do not, 3-D": partial(check_heap, 3, None, (0.3, 0.5)),
    "plate, 3-D": partial(check_plate, 3),
    "drag, 3-D": partial(check_drag, 3),
}
"""For a GPU: three packings of everything in 3-D, and the hourglass that a CPU takes an hour for."""
LONGEST_FIRST = (
    "heap of grains that turn, 2-D",
    "heap of sand, 2-D",
    "column at rest, 2-D",
    "bed at rest, 3-D",
    "hourglass, 2-D",
    "bed at rest, 2-D",
    "robots, standing",
    "heap of grains that turn, 3-D",
    "plate, 3-D",
    "drag, 3-D",
    "silo, 3-D",
)
"""Begun before the others, so that no core waits for a long one at the end."""
FIGURES = {
    "silo": ("weight", "floor", "weight of the grains", "load on the floor", False),
    "hourglass": ("hole", "rate", f"width of the hole [diameters] less {LOST:g}", "grains a second", True),
    "heap": ("friction", "slope", "friction", "slope [degrees]", False),
    "plate": ("load", "sinkage", "mass of the plate [kg]", "sinkage [radii]", False),
    "drag": ("depth", "force", "depth of the plate [diameters]", "force on it", True),
}
"""Axes of each figure: quantities, labels, and whether they are logarithmic."""
UNITS = {"silo": {"2d": "N/m", "3d": "N"}, "drag": {"2d": "N/m", "3d": "N"}}
CASES = {"2d": "2-D", "3d": "3-D", "turning": "that turn", "still": "that do not"}


def draw(series: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Every figure there are curves for: a panel for each dimension; bars: how packings differ."""
    for name in FIGURES:
        curves = {key: curve for key, curve in series.items() if key.split("_")[0] == name}
        if not curves:
            continue
        dimensions = sorted({key.split("_")[1] for key in curves})
        figure = Figure(figsize=(3.6 * len(dimensions), 3), layout="constrained")
        for panel, dimension in zip(figure.subplots(1, len(dimensions), squeeze=False)[0], dimensions, strict=True):
            _draw(panel, name, dimension, {key: curve for key, curve in curves.items() if dimension in key})
        yield f"sand_{name}", figure


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


SUITE = Checks("sand", CHECKS, "float32", draw, longest_first=LONGEST_FIRST, large=LARGE)
