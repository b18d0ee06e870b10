"""A body of point masses as arrays, and its state.

Cells are (rows, columns) or (levels, rows, columns), the lowest first; nodes lie on the lattice's vertices and so are
one more along every axis. Where voxels touch only at a corner or an edge, each part that hangs together by faces has
a node of its own there, in another layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import jax
from jax import Array

from vsr.physics.fluid.law import Chambers

DEFAULT_INTEGRATOR = "verlet"
"""At the cost of semi-implicit Euler, gaits change much less with the substep (docs/do/3d.md)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PointModel:
    """One robot's body. SI units; c stands for the axes of cells, n for those of nodes."""

    engine: ClassVar[str] = "points"
    """which moves it (vsr.physics.engine)"""

    present: Array
    """1 where there is a voxel, else 0, c"""
    mass: Array
    """mass in each of the voxel's corners [kg], c"""
    voxel_side: Array
    """side of every voxel at rest [m], ()"""
    stiffness: Array
    """of a voxel's edges, face diagonals and space diagonals, 0 where it has none [N/m], (kinds, c)"""
    damping: Array
    """of the same springs [N s/m], (kinds, c)"""
    stretch: Array
    """length over that at rest of a voxel at full control, shrunk and enlarged, (2, c)"""
    driven: Array | None
    """1 for axes of cells along which controls change a voxel's length, else 0, (dimension, c); None if along all"""
    max_force: Array | None
    """force on each mass at full control [N], c; None if no material uses force actuation"""
    layer: Array
    """1 for the layer in which each corner's node is, (layers, corners, c).

    Corners in the order of x, then y, then z
    """
    rest_position: Array
    """of the nodes in the undeformed body [m], (n, dimension)"""
    node_mass: Array
    """0 where there is none [kg], (layers, n)"""
    inverse_mass: Array
    """1 / mass, 0 where a node is absent or anchored [1/kg], (layers, n)"""
    linear_damping: Array
    """decay rate of the velocity [1/s], (layers, n)"""
    friction: Array
    """coefficient, (layers, n)"""
    restitution: Array
    """coefficient, (layers, n)"""
    yield_force: Array | None
    """a larger force, either way, breaks a voxel's spring [N], infinite where none does, c; None if none can break"""
    springs: Array | None
    """1 for springs that a voxel has, 0 for those of a fluid voxel that are in no membrane, (springs of a voxel, c);
    None if there is no fluid"""
    chambers: Chambers | None
    """None if there is no fluid"""
    dimension: int = field(metadata={"static": True})
    """2 or 3"""
    integrator: str = field(default=DEFAULT_INTEGRATOR, metadata={"static": True})
    """one of vsr.lattice.INTEGRATORS"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PointState:
    """Where the nodes are and how they move; empty slots stay at rest."""

    position: Array
    """[m], (layers, n, dimension)"""
    velocity: Array
    """[m/s], (layers, n, dimension)"""
    intact: Array | None = None
    """False for springs that broke, (springs of a voxel, c), see vsr.physics.points.springs; None if none can break"""
