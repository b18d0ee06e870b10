"""Arrays of one robot of square masses: constant (`SquareModel`) and moving (`SquareState`), and its springs.

The robot is on a grid of cells, (rows, columns), bottom row first. Four square masses sit in the corners of
every voxel. Masses that meet at a lattice vertex and belong to side-adjacent voxels are welded and move as one
rigid body, a *cluster*. Two voxels that touch only at a corner are not joined, so a vertex may hold two clusters:
they are kept in two layers of an array of vertices, (layers, rows+1, columns+1). All bodies of one grid thus share
their shapes, and a body is data.

Inside this folder every array may carry further axes at the END, one per `vmap`: robots are contiguous in memory, which
is fast. `vsr.compute.xla` moves the axes.

The springs of a voxel are its scaffolding. Corners run round the voxel (vsr.robot.corners.RING): 0 south-west, 1
south-east, 2 north-east, 3 north-west. Side k joins corner k to corner k+1, so side 0 is the bottom. Seen from side k,
every mass has an *along* axis (from corner k to k+1) and an *inward* axis (to the voxel's middle), both turned by the
mass's own angle. The first mass of a side holds its springs at +along and the second at -along; the four
springs of a side differ in the inward side to which each end is fastened:

    external (-, -)    internal (+, +)    cross (-, +) and (+, -)

The central cross joins the centers of opposite masses. That is 4 x 4 + 2 = 18 springs (2D-VSR-Sim, Figure 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.robot.corners import RING, corner_steps
from vsr.robot.springs import SQUARE_GROUPS, Group

CORNER_CELLS = tuple(corner_steps(2)[corner] for corner in RING)
"""(row, column) of each corner's lattice vertex, counted from the voxel's own row and column."""

CORNER_SIGNS = np.array([(2 * column - 1, 2 * row - 1) for row, column in CORNER_CELLS])
"""Where each corner lies from the voxel's center, (corner, xy)."""

SIDE_ALONG = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
"""Direction from the first to the second mass of each side, (side, xy)."""


SIDE_SPRINGS = (
    (-1, -1, SQUARE_GROUPS.index(Group.side_external), 0),
    (+1, +1, SQUARE_GROUPS.index(Group.side_internal), 0),
    (-1, +1, SQUARE_GROUPS.index(Group.side_cross), 1),
    (+1, -1, SQUARE_GROUPS.index(Group.side_cross), 1),
)
"""Springs of one side: inward sign at the first and second mass, group index, kind of length."""

LENGTH_KINDS = ("parallel", "cross", "central")


def spring_lengths(voxel_side: Array | float, mass_side: Array | float) -> Array:
    """Lengths of the three kinds of spring in a square voxel.

    voxel_side: side of the voxel [m]; mass_side: side of its masses [m]. Any equal shapes (...).
    Returns (3, ...) in the order of LENGTH_KINDS [m], never below zero.
    """
    gap = jnp.maximum(voxel_side - 2 * mass_side, 0.0)
    return jnp.stack(
        [
            gap,
            jnp.sqrt(mass_side**2 + gap**2),
            jnp.maximum(voxel_side - mass_side, 0.0) * math.sqrt(2),
        ]
    )


def drawn_springs() -> list[tuple[int, int, int, int, int]]:
    """Springs of a voxel: group, mass and its corner, mass and its corner, by their bits; corner -1 is the center."""
    ways = CORNER_SIGNS[list(RING)]

    def by_bits(way: np.ndarray) -> int:
        return int((way == ways).all(1).argmax())

    found = [(3, 0, -1, 3, -1), (3, 1, -1, 2, -1)]
    for side, along in enumerate(SIDE_ALONG):
        inward = np.array([-along[1], along[0]])
        first, second = (by_bits(CORNER_SIGNS[corner % 4]) for corner in (side, side + 1))
        for sign_first, sign_second, group, _ in SIDE_SPRINGS:
            found.append(
                (group, first, by_bits(along + sign_first * inward), second, by_bits(-along + sign_second * inward))
            )
    return found


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
