"""Grounds of EvoGym's tasks, in voxels: columns written as "1x20 2x9" (height 1 over 20 columns, then 2 over 9), and
blocks that hang in the air."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np


class Block(NamedTuple):
    """A rectangle of voxels: its lowest left cell and its size."""

    x: int
    y: int
    width: int
    height: int


def heights_of(columns: str) -> np.ndarray:
    """Height of the top of every column."""
    found = [re.fullmatch(r"(\d+)(?:x(\d+))?", part) for part in columns.split()]
    if not found or None in found:
        raise ValueError(f"columns are written as '1x20 2x9'; given: {columns!r}")
    return np.concatenate([np.full(int(one[2] or 1), int(one[1])) for one in found if one])


def solid_cells(heights: np.ndarray, blocks: tuple[Block, ...] = ()) -> np.ndarray:
    """True for solid cells, (rows, columns), the lowest first."""
    rows = max([int(heights.max()), *(block.y + block.height for block in blocks)])
    columns = max([len(heights), *(block.x + block.width for block in blocks)])
    solid = np.zeros((rows, columns), bool)
    solid[:, : len(heights)] = np.arange(rows)[:, None] < heights
    for block in blocks:
        solid[block.y : block.y + block.height, block.x : block.x + block.width] = True
    return solid


def corner_points(solid: np.ndarray) -> np.ndarray:
    """True for corners of solid cells, one more each way."""
    corners = np.zeros(tuple(size + 1 for size in solid.shape), bool)
    for up in (0, 1):
        for right in (0, 1):
            corners[up : up + solid.shape[0], right : right + solid.shape[1]] |= solid
    return corners
