"""Fluid in closed chambers: volumes, energy and load, exactly or by columns."""

from vsr.physics.chambers.columns import Distribution, candidates_needed, distribute
from vsr.physics.chambers.surface import (
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
    "Distribution",
    "Filling",
    "Surface",
    "candidates_needed",
    "distribute",
    "energy",
    "first_moment",
    "load",
    "surface_of",
    "volume",
    "voxel_faces",
]
