"""Outlines of squares and cubes, and 3-D bodies on paper: seen from the front, above and right."""

from __future__ import annotations

import numpy as np

ROUND_A_SQUARE = (0, 1, 3, 2)
"""Corners counted by their bits, in the order of an outline."""
FACES = {
    (0, -1): (0, 2, 6, 4),
    (0, 1): (1, 3, 7, 5),
    (1, -1): (0, 1, 5, 4),
    (1, 1): (2, 3, 7, 6),
    (2, -1): (0, 1, 3, 2),
    (2, 1): (4, 5, 7, 6),
}
"""Corners of a cube's faces; a face looks along an axis, one way or the other."""
RECEDES = np.array([0.45, 0.35])
"""Where a meter away from the viewer appears on paper: to the right and upwards [m]."""
TOWARDS = np.array([RECEDES[0], -1.0, RECEDES[1]])
"""The way to the viewer: points along it appear at one place."""
BRIGHTNESS = {0: 0.72, 1: 0.88, 2: 1.0}
"""Of faces that look along x, y and z."""


def on_paper(points: np.ndarray) -> np.ndarray:
    """2-D points as they are, 3-D ones from the front, above and right [m], (..., 2)."""
    return points if points.shape[-1] == 2 else points[..., [0, 2]] + RECEDES * points[..., 1:2]
