"""How squares and cubes are outlined, and how 3-D bodies appear on paper: seen from the front, above and right."""

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
"""Where a metre away from the viewer appears on paper: to the right and upwards [m]."""
BRIGHTNESS = {0: 0.72, 1: 0.88, 2: 1.0}
"""Of faces that look along x, y and z."""
