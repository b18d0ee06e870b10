"""Paint objects and grains around a robot.

In 2-D objects are outlines and grains discs. In 3-D objects are faces and balls, as items with how near they are;
grains are balls with a light side, which the robot's faces can cover.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import ImageDraw

from vsr.drawing.colors import rgb
from vsr.drawing.faces import look_here, outer_faces
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
    """Objects in 2-D; scale: pixels per meter; line: [pixels]."""
    for outline, fixed in zip(objects.face[moment], objects.is_fixed, strict=True):
        _polygon(draw, place(outline), FIXED if fixed else FREE, line)
    balls = zip(objects.ball[moment], objects.spoke[moment], objects.radius, objects.ball_is_fixed, strict=True)
    for center, spoke, radius, fixed in balls:
        x, y = place(center).tolist()
        paint_disc(draw, (x, y), radius * scale, _color(fixed), line)
        draw.line([x, y, *place(center + radius * spoke).tolist()], fill=LINE, width=line)


def solid_items(objects: RecordedObjects, moment: int, place: Place, scale: float, line: int) -> list[Item]:
    """Objects in 3-D: the faces that look at the viewer, and balls."""
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


RIM = 0.62
"""Brightness of a disc's rim over that inside."""
LIT = ((1.0, 0.0, 0.68), (0.82, 0.14, 0.86), (0.5, 0.3, 1.0))
"""Of a ball's parts: radius, distance from its middle up and to the left, each over its own radius; brightness."""
Ball = tuple[tuple[float, float], float, np.ndarray]
"""What `paint_ball` needs: place, radius, color."""


def paint_disc(
    draw: ImageDraw.ImageDraw, place: tuple[float, float], radius: float, color: np.ndarray, line: float
) -> None:
    """place, radius and line, the rim's width: [pixels]; color: red, green and blue from 0 to 255."""
    _paint_circle(draw, *place, radius, color * RIM)
    _paint_circle(draw, *place, radius - line, color)


def paint_ball(draw: ImageDraw.ImageDraw, place: tuple[float, float], radius: float, color: np.ndarray) -> None:
    """place and radius: [pixels]; color: red, green and blue from 0 to 255."""
    for size, away, brightness in LIT:
        _paint_circle(draw, place[0] - away * radius, place[1] - away * radius, size * radius, color * brightness)


def faces_behind(faces: np.ndarray, middle: np.ndarray, place: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """How many of a robot's faces are painted before each grain, (grains,).

    faces: corners [m], the farthest face first, (faces, 4, 3); middle: of their voxels [m], (faces, 3); place and
    radius: of the grains [m], the farthest first, (grains, 3) and (grains,).
    """
    outline, center = on_paper(faces), faces.mean(1)
    normal = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 1])
    normal *= np.sign((normal * (center - middle)).sum(1))[:, None]
    seen = (normal @ TOWARDS > 0)[:, None]
    # What is on that side of a face on which the viewer is cannot be covered by it.
    before = ((place - center[:, None]) * normal[:, None]).sum(-1) > 0
    spot, room = on_paper(place), radius[:, None]
    near = ((spot + room > outline.min(1)[:, None]) & (spot - room < outline.max(1)[:, None])).all(-1)
    number = np.arange(len(faces))[:, None]
    fewest = ((number + 1) * (seen & near & before)).max(0, initial=0)
    most = np.where(seen & ~before & _inside(outline, spot), number, len(faces)).min(0, initial=len(faces))
    return _after_those_behind(spot, radius, fewest, most)


def _after_those_behind(spot: np.ndarray, radius: np.ndarray, fewest: np.ndarray, most: np.ndarray) -> np.ndarray:
    """As many faces as needed, and not fewer than for farther grains at the same place on paper; spot: (grains, 2)."""
    side = float(radius.min())
    low = (spot - radius[:, None]).min(0)
    first, last = ((np.floor((spot + way * radius[:, None] - low) / side)).astype(int) for way in (-1, 1))
    latest = np.zeros(last.max(0) + 1, int)
    found = np.zeros(len(spot), int)
    for grain, ((x, y), (x_end, y_end)) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        here = latest[x : x_end + 1, y : y_end + 1]
        found[grain] = min(max(fewest[grain], here.max()), most[grain])
        np.maximum(here, found[grain], out=here)
    return found


def _inside(outline: np.ndarray, spot: np.ndarray) -> np.ndarray:
    """Whether points lie in convex outlines, (outlines, points); outline: (outlines, corners, 2), spot: (points, 2)."""
    along = np.roll(outline, -1, 1) - outline
    away = spot[None, None] - outline[:, :, None]
    side = along[:, :, None, 0] * away[..., 1] - along[:, :, None, 1] * away[..., 0]
    return np.asarray((side > 0).all(1) | (side < 0).all(1))


def _paint_circle(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float, color: np.ndarray) -> None:
    if radius > 0:
        red, green, blue = color.astype(int).tolist()
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=(red, green, blue))
