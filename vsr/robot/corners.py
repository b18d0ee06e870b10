"""How the corners of a voxel are numbered: by their bits.

Bit 0 is the step along x, bit 1 along y, bit 2 along z. So corner 0 is the lowest left one, and corners reshaped to
(2,) * dimension have axes in the order of those of cells, the vertical first.
"""

from __future__ import annotations

import itertools


def corner_steps(dimension: int) -> list[tuple[int, ...]]:
    """Steps from a cell to the lattice vertex of each corner, in the order of array axes."""
    return list(itertools.product((0, 1), repeat=dimension))


RING = (0, 1, 3, 2)
"""The corners of a square, counter-clockwise from the lowest left. Its own inverse: indexing by it goes either way."""
