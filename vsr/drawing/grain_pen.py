"""Paints grains: discs in 2-D; in 3-D balls with a light side, and which of a robot's faces cover them."""

from __future__ import annotations

import numpy as np
from PIL import ImageDraw

from vsr.drawing.outlines import TOWARDS, on_paper

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
