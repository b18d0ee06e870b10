"""Signed distance functions: how far a point is from a surface, negative inside."""

from vsr.sdf.combined import Inverted, Moved, Union
from vsr.sdf.grid import Sampled
from vsr.sdf.primitives import Ball, Block, Capsule, Cylinder, HalfSpace, Ridge
from vsr.sdf.shape import Shape, distance_and_normal

__all__ = [
    "Ball",
    "Block",
    "Capsule",
    "Cylinder",
    "HalfSpace",
    "Inverted",
    "Moved",
    "Ridge",
    "Sampled",
    "Shape",
    "Union",
    "distance_and_normal",
]
