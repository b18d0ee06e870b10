"""Fluid in closed chambers: volumes, energy and load."""

from vsr.physics.fluid.surface import (
    Filling,
    Surface,
    energy,
    first_moment,
    load,
    surface_of,
    volume,
    voxel_faces,
)

__all__ = [
    "Filling",
    "Surface",
    "energy",
    "first_moment",
    "load",
    "surface_of",
    "volume",
    "voxel_faces",
]
