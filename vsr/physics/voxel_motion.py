"""What sensors see of every voxel, whatever its masses are."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array

from vsr.terrain.base import Solid


class VoxelMotion(NamedTuple):
    """c stands for the axes of cells, the lowest first: (rows, columns) or (levels, rows, columns)."""

    corner: Array
    """centers of the corners' masses [m], (corners, c, dimension); numbered by their bits: x, then y, then z"""
    velocity: Array
    """mean of the masses' [m/s], (c, dimension)"""
    size_ratio: Array
    """area, or volume, over that at rest, c"""
    contact: Array
    """1 if the voxel is in the ground, else 0, c"""
    spacing: Array | None = None
    """of corners along an edge at rest [m], () or c"""
    ground: Solid | None = None
    """what can be seen of it; None for free space"""
