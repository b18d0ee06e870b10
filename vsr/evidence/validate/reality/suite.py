"""Grains and gas against measurements on real ones: plates, a swimmer, inflated membranes; docs/results/reality."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from vsr.evidence.validate.checks import Checks
from vsr.evidence.validate.reality.membranes import check_membranes
from vsr.evidence.validate.reality.plates import check_plates
from vsr.evidence.validate.reality.swimmer import check_swimmer


def draw(series: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """One figure: the swimmer amid grains above, and each comparison below."""
    films = {key.split("_", 1)[1]: curve for key, curve in series.items() if key.startswith("membrane_")}
    panels = {"swimmer": _swims, "plates": _plates}
    shown = [name for name in panels if name in series] + (["films"] if films else [])
    if not shown:
        return
    seen = "swimmer" in series
    figure = Figure(figsize=(3.5 * len(shown), 5.6 if seen else 3.2), layout="constrained")
    grid = figure.add_gridspec(1 + seen, len(shown), height_ratios=[1.1, 1.5] if seen else [1])
    if seen:
        _frame(figure.add_subplot(grid[0, :]), series["swimmer"]["frame"])
    for column, name in enumerate(shown):
        panel = figure.add_subplot(grid[-1, column])
        if name == "films":
            _films(panel, films)
        else:
            panels[name](panel, series[name])
    yield "reality", figure


def _frame(panel: Axes, frame: dict[str, Any]) -> None:
    """Grains and the body at the end of a swim, and the way of its middle."""
    grains, outline, way = (np.array(frame[name]) for name in ("grains", "outline", "way"))
    grains[:, 0] = np.mod(grains[:, 0] - frame["left"], frame["period"]) + frame["left"]
    size = 2 * np.array(frame["radius"])
    panel.add_collection(
        EllipseCollection(
            size, size, 0 * size, units="xy", offsets=grains, offset_transform=panel.transData, fc="#d9c39a", ec="none"
        )
    )
    panel.fill(*outline.T, color="#33608c")
    panel.plot(*way.T, "k-", lw=1)
    left, right = frame["left"], frame["left"] + frame["period"]
    panel.set(xlim=(left, right), ylim=(0, grains[:, 1].max()), aspect="equal", xticks=[], yticks=[])
    panel.set_title("a body that swims through discs under a lid; line: way of its middle")


def _swims(panel: Axes, swims: dict[str, Any]) -> None:
    """Efficiency in each case, with that of the robot as a band."""
    middle, off = swims["published"]
    names = list(swims["cases"])
    panel.axhspan(middle - off, middle + off, color="#bbbbbb", label="robot, measured")
    for place, name in enumerate(names):
        values = swims["cases"][name]
        panel.plot([place] * len(values), values, "o", color="#33608c")
    panel.set_xticks(range(len(names)), names, rotation=35, ha="right")
    panel.set(ylabel="wave efficiency", ylim=(0, None))
    panel.legend()


def _plates(panel: Axes, plates: dict[str, Any]) -> None:
    """Stress over depth here over that measured."""
    here, there, spread = (np.array(plates[name]) for name in ("here", "published", "spread"))
    ends = [min(here.min(), there.min()) - 0.05, 1.1]
    panel.plot(ends, ends, "k:", lw=1)
    for part, name, mark in ((0, "along", "s"), (1, "up", "o")):
        panel.errorbar(there[:, part], here[:, part], spread[:, part], fmt=mark, ms=4, capsize=2, label=name)
    panel.set(xlabel="stress over depth, measured", ylabel="in discs", aspect="equal")
    panel.legend(title="component", fontsize="small")


def _films(panel: Axes, films: dict[str, Any]) -> None:
    """Height over pressure."""
    for number, (name, curve) in enumerate(films.items()):
        color = f"C{number}"
        panel.plot(curve["pressure"], curve["published"], "-", color=color, label=name)
        panel.errorbar(curve["pressure"], curve["here"], curve["spread"], fmt="o", ms=4, color=color, capsize=2)
    panel.set(xlabel="pressure [Pa]", ylabel="height of the bulge [um]", xlim=(0, None), ylim=(0, None))
    panel.legend(title="line: measured, points: springs", fontsize="small", loc="lower right")


SUITE = Checks(
    "reality",
    {"plates": check_plates, "swimmer": check_swimmer, "membranes": check_membranes},
    "float32",
    draw,
    longest_first=("swimmer",),
)
