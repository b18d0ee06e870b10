"""What does not change (Model) and what does (State) while one robot moves.

The robot is on a grid of cells, (rows, columns), bottom row first. Four square masses sit in the corners of
every voxel. Masses that meet at a lattice vertex and belong to side-adjacent voxels are welded and move as one
rigid body, a *cluster*. Two voxels that touch only at a corner are not joined, so a vertex may hold two clusters:
they are kept in two layers of an array of vertices, (layers, rows+1, columns+1). All bodies of one grid thus share
their shapes, and a body is data.

Inside this wing every array may carry further axes at the END, one per `vmap`: robots are contiguous in memory, which
is fast. `vsr.compute.xla` moves the axes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SquareModel:
    """One robot's body as arrays. SI units."""

    engine: ClassVar[str] = "squares"
    """which moves it (vsr.physics.engine)"""

    # voxels
    present: Array
    """1 where there is a voxel, else 0, (rows, columns)"""
    mass: Array
    """mass of each of the voxel's four masses [kg], (rows, columns)"""
    inertia: Array
    """moment of inertia of each mass about its center [kg m²], (rows, columns)"""
    half_side: Array
    """half the side of a mass [m], (rows, columns)"""
    voxel_side: Array
    """side of every voxel at rest [m], ()"""
    angular_frequency: Array
    """2π times the springs' frequency [rad/s], (rows, columns)"""
    damping_ratio: Array
    """damping ratio of the springs, (rows, columns)"""
    groups: Array
    """1 where a voxel is present and has the spring group, (groups, rows, columns)"""
    spring_length: Array
    """length of each kind of spring when shrunk, at rest and enlarged [m], (3, kinds, rows, columns)"""
    max_force: Array | None
    """force on each mass at full control [N], (rows, columns); None if no material uses force actuation"""
    lower_limit: Array | None
    """least distance between side-adjacent masses [m], (rows, columns); None if no material has one"""
    upper_limit: Array | None
    """greatest distance between side-adjacent masses [m], (rows, columns); None if no material has one"""
    # masses
    in_second_layer: Array
    """1 where the mass's cluster is in the second layer, (4, rows, columns)"""
    mass_offset: Array
    """a mass's center seen from its cluster's center at rest [m], (4, rows, columns, 2)"""
    # clusters
    rest_position: Array
    """center of mass of each cluster in the undeformed body [m], (layers, rows+1, columns+1, 2)"""
    cluster_mass: Array
    """mass of each cluster, 0 where there is none [kg], (layers, rows+1, columns+1)"""
    cluster_inertia: Array
    """moment of inertia about the center of mass [kg m²], (layers, rows+1, columns+1)"""
    inverse_mass: Array
    """1 / mass, 0 where a cluster is absent or anchored [1/kg], (layers, rows+1, columns+1)"""
    inverse_inertia: Array
    """1 / inertia, likewise [1/(kg m²)], (layers, rows+1, columns+1)"""
    linear_damping: Array
    """decay rate of the velocity [1/s], (layers, rows+1, columns+1)"""
    angular_damping: Array
    """decay rate of the spin [1/s], (layers, rows+1, columns+1)"""
    # points of a cluster that can touch the ground
    contact_offset: Array
    """corner seen from the cluster's center at rest [m], (points, layers, rows+1, columns+1, 2)"""
    contact_active: Array
    """True where the point exists, (points, layers, rows+1, columns+1)"""
    contact_friction: Array
    """friction coefficient of the mass the corner belongs to, (points, layers, rows+1, columns+1)"""
    contact_restitution: Array
    """restitution coefficient of that mass, (points, layers, rows+1, columns+1)"""
    # for a GPU
    fused: Any = None
    """what the kernel reads of this body in its world, if that was made in advance (vsr.physics.squares.gpu.numbers);
    of no use, and to be dropped, once anything else changes"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SquareState:
    """Where the clusters are and how they move; empty slots stay at rest."""

    position: Array
    """centers of mass [m], (layers, rows+1, columns+1, 2)"""
    rotation: Array
    """cosine and sine of the angle, (layers, rows+1, columns+1, 2)"""
    velocity: Array
    """[m/s], (layers, rows+1, columns+1, 2)"""
    spin: Array
    """angular velocity [rad/s], (layers, rows+1, columns+1)"""

    def moving(self, velocity: Array, spin: Array) -> SquareState:
        """In the same place, with another velocity and spin."""
        return replace(self, velocity=velocity, spin=spin)

    def shifted(self, position: Array, rotation: Array) -> SquareState:
        """In another place, with the same velocity and spin."""
        return replace(self, position=position, rotation=rotation)
