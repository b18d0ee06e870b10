"""Bodies at rest as SVG, a color per material; 3-D ones are seen from the front, above and right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from vsr.drawing.colors import MATERIALS
from vsr.drawing.outlines import BRIGHTNESS, RECEDES
from vsr.experiments.report.markup import Markup, tag
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
