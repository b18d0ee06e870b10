"""Paints objects around a robot: outlines and discs in 2-D; in 3-D faces and balls, as items with how near they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import ImageDraw

from vsr.drawing.colors import rgb
from vsr.drawing.faces import look_here, outer_faces
from vsr.drawing.grain_pen import paint_ball, paint_disc
from vsr.drawing.objects import FIXED, FREE, RecordedObjects
from vsr.drawing.outlines import TOWARDS, on_paper
from vsr.drawing.recording import Recording

LINE = "#404040"
Place = Callable[[np.ndarray], np.ndarray]
"""From meters on paper to pixels, (..., 2)."""


@dataclass(frozen=True)
class Item:
    """Something to be painted in 3-D."""

    near: float
    """how near to the viewer it is [m]"""
    paint: Callable[[ImageDraw.ImageDraw], None]


def paint_flat(
    draw: ImageDraw.ImageDraw, objects: RecordedObjects, moment: int, place: Place, scale: float, line: int
) -> None:
    """Things in 2-D; scale: pixels per meter; line: [pixels]."""
    for outline, fixed in zip(objects.face[moment], objects.is_fixed, strict=True):
        _polygon(draw, place(outline), FIXED if fixed else FREE, line)
    balls = zip(objects.ball[moment], objects.spoke[moment], objects.radius, objects.ball_is_fixed, strict=True)
    for center, spoke, radius, fixed in balls:
        x, y = place(center).tolist()
        paint_disc(draw, (x, y), radius * scale, _color(fixed), line)
        draw.line([x, y, *place(center + radius * spoke).tolist()], fill=LINE, width=line)


def solid_items(objects: RecordedObjects, moment: int, place: Place, scale: float, line: int) -> list[Item]:
    """Things in 3-D: the faces that look at the viewer, and balls."""
    found = []
    for outline, fixed in zip(objects.face[moment], objects.is_fixed, strict=True):
        normal = np.cross(outline[1] - outline[0], outline[2] - outline[0])
        size = np.linalg.norm(normal)
        if size == 0 or normal @ TOWARDS < 0:  # outlines go counter-clockwise from outside
            continue
        bright = 0.72 + 0.28 * abs(normal[2]) / size
        found.append(Item(_near(outline.mean(0)), _polygon_of(place(on_paper(outline)), _color(fixed) * bright, line)))
    for center, radius, fixed in zip(objects.ball[moment], objects.radius, objects.ball_is_fixed, strict=True):
        x, y = place(on_paper(center)).tolist()
        found.append(Item(_near(center), _ball_of((x, y), radius * scale, _color(fixed))))
    return found


def voxel_items(recording: Recording, colors: np.ndarray, moment: int, place: Place, line: int) -> list[Item]:
    """Outer faces of another body of voxels in 3-D; colors: (voxels, 3)."""
    voxel, corner, shade = outer_faces(recording)
    corners = recording.corners[moment]
    polygon = corners[voxel[:, None], corner]
    seen = look_here(polygon, corners.mean(1)[voxel])
    return [
        Item(_near(face.mean(0)), _polygon_of(place(on_paper(face)), colors[number] * bright, line))
        for face, number, bright in zip(polygon[seen], voxel[seen], shade[seen], strict=True)
    ]


def _color(fixed: bool) -> np.ndarray:
    return rgb((FIXED if fixed else FREE,))[0]


def _near(point: np.ndarray) -> float:
    return float(0.5 * point[0] - point[1] + 0.5 * point[2])


def _polygon_of(pixels: np.ndarray, fill: np.ndarray, line: int) -> Callable[[ImageDraw.ImageDraw], None]:
    return lambda draw: _polygon(draw, pixels, tuple(fill.astype(int).tolist()), line)


def _ball_of(place: tuple[float, float], radius: float, color: np.ndarray) -> Callable[[ImageDraw.ImageDraw], None]:
    return lambda draw: paint_ball(draw, place, radius, color)


def _polygon(draw: ImageDraw.ImageDraw, pixels: np.ndarray, fill: str | tuple[int, ...], line: int) -> None:
    outline = pixels.reshape(-1).tolist()
    draw.polygon(outline, fill=fill)
    draw.line([*outline, *outline[:2]], fill=LINE, width=line)
