"""Bodies of EvoGym's point masses as arrays: the robot, other objects of voxels in its world, and the ground.

Arrays are laid out as for our own point masses (vsr.physics.points.model): cells (rows, columns), the lowest first,
nodes one more each way, a layer more where voxels touch only at a corner.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import jax
from jax import Array

from vsr.physics.evogym.ground import GroundCells


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymModel:
    """One body. EvoGym's units; c stands for the axes of cells, n for those of nodes."""

    engine: ClassVar[str] = "evogym"
    """which moves it (vsr.physics.engine)"""

    present: Array
    """1 where there is a voxel, else 0, c"""
    mass: Array
    """1 everywhere, c: a voxel has no mass of its own, only nodes have"""
    voxel_side: Array
    """()"""
    layer: Array
    """1 for the layer in which each corner's node is, (layers, corners, c)"""
    rest_position: Array
    """of the nodes in the undeformed body, (n, 2)"""
    node_mass: Array
    """1, or 0 where there is none, (layers, n)"""
    inverse_mass: Array
    """likewise, and 0 where a node is fixed, (layers, n)"""
    friction: Array
    """without meaning here, where friction is viscous, (layers, n)"""
    restitution: Array
    """without meaning here, (layers, n)"""
    stiffness: Array
    """of a voxel's bottom, right, top and left edge and both diagonals, 0 for an edge counted by a neighbor, (6, c)"""
    horizontal: Array
    """1 for voxels that drive their bottom and top edge, c"""
    vertical: Array
    """1 for voxels that drive their left and right edge, c"""
    rigid: Array
    """1 for rigid voxels, c"""
    outer: Array
    """1 for edges without a neighbor: bottom, right, top, left, (4, c)"""
    ground: GroundCells | None = None
    """voxels that do not move; None for the environment's line of ground"""
    objects: tuple[EvogymObject, ...] = ()
    """what else is made of voxels in the same world"""

    @property
    def dimension(self) -> int:
        """Of the plane."""
        return 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymObject:
    """A package, a beam or a soft piece of ground: a body that nobody controls."""

    body: EvogymModel
    start: Array
    """of its grid's lowest left corner, (2,)"""
    name: str = field(metadata={"static": True})
    """by which tasks find it"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moving:
    """Where the nodes of one body are and how they move."""

    position: Array
    """(layers, n, 2)"""
    velocity: Array
    """(layers, n, 2)"""
    drift: Array
    """velocity with what limits on lengths did to positions, which contact sees, (layers, n, 2)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymState:
    """The robot, and what else is made of voxels in its world."""

    position: Array
    """(layers, n, 2)"""
    velocity: Array
    """(layers, n, 2)"""
    drift: Array
    """see Moving, (layers, n, 2)"""
    unstable: Array
    """whether more of its voxels overlapped at some time than EvoGym allows, ()"""
    objects: tuple[Moving, ...] = ()
    """as in the model"""
