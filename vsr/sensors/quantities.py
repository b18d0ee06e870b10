"""What a voxel can sense, as raw physical values of one robot's state (the original's sensors, in 2-D and 3-D).

Each quantity is a function of the voxels' motion and gives one value per voxel, (rows, columns) or
(levels, rows, columns).
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from vsr.compute.slopes import root_with_slope
from vsr.physics.voxel_motion import VoxelMotion
from vsr.sensors.surroundings import ANYWHERE, IN_SPACE
from vsr.spec import Registry


def area_ratio(voxels: VoxelMotion) -> Array:
    """Area, or in 3-D volume, over that at rest."""
    return voxels.size_ratio


def volume_ratio(voxels: VoxelMotion) -> Array:
    """Volume over volume at rest."""
    return voxels.size_ratio


def velocity_magnitude(voxels: VoxelMotion) -> Array:
    """Speed of the voxel [m/s]."""
    return root_with_slope((voxels.velocity**2).sum(-1))


def angle(voxels: VoxelMotion) -> Array:
    """Rotation of the voxel in the plane of x and up, the mean direction of its edges along x [rad], in (-π, π]."""
    first, *others = (_unit(edge) for edge in _edges_along_x(voxels)[::-1])
    for other in others:
        first = first + other
    return _direction(first)


def legacy_angle(voxels: VoxelMotion) -> Array:
    """The original's angle in 2-D, wrong by ±π/2 with a jump at zero [rad]; for comparisons only.

    It averages the directions NW→NE and SE→SW, the second of which points backwards.
    """
    bottom, top = _edges_along_x(voxels)
    return (_direction(top) + _direction(-bottom)) / 2


def velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity to the right [m/s]."""
    return voxels.velocity[..., 0]


def velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along y [m/s]: upwards in 2-D, sideways in 3-D."""
    return voxels.velocity[..., 1]


def velocity_z(voxels: VoxelMotion) -> Array:
    """Velocity upwards, in 3-D [m/s]."""
    return voxels.velocity[..., 2]


def rotated_velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own x axis [m/s]."""
    return _forward(voxels, angle(voxels))


def rotated_velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's own upward axis [m/s]."""
    return _upward(voxels, angle(voxels))


def legacy_rotated_velocity_x(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's x axis by the original's wrong angle [m/s]; for comparisons only."""
    return _forward(voxels, legacy_angle(voxels))


def legacy_rotated_velocity_y(voxels: VoxelMotion) -> Array:
    """Velocity along the voxel's upward axis by the original's wrong angle [m/s]; for comparisons only."""
    return _upward(voxels, legacy_angle(voxels))


def touching(voxels: VoxelMotion) -> Array:
    """1 if any of the voxel's masses is in the ground, else 0."""
    return voxels.touching


QUANTITIES: Registry[Callable[..., Array]] = Registry(
    "sensor",
    {
        function.__name__: function
        for function in (
            area_ratio,
            volume_ratio,
            velocity_magnitude,
            angle,
            velocity_x,
            velocity_y,
            velocity_z,
            rotated_velocity_x,
            rotated_velocity_y,
            touching,
            legacy_angle,
            legacy_rotated_velocity_x,
            legacy_rotated_velocity_y,
            *ANYWHERE,
            *IN_SPACE,
        )
    },
)
"""Every quantity by its name."""

ONLY_IN_3D = ("volume_ratio", "velocity_z", *(function.__name__ for function in IN_SPACE))
ONLY_IN_2D = ("legacy_angle", "legacy_rotated_velocity_x", "legacy_rotated_velocity_y")
LEGACY = {name.removeprefix("legacy_"): name for name in ONLY_IN_2D}
"""Quantities that hang on the angle, and what they are with the original's."""
RAYS = ("ground_distance",)
"""These have a direction and a range."""
SIZE_RATIOS = ("area_ratio", "volume_ratio")
"""These are 1 at rest, all others 0."""


def unit_of(quantity: str) -> str:
    """'m', 'm/s', 'rad', or nothing for plain numbers."""
    if quantity.startswith("ground_"):
        return "m"
    return "rad" if quantity.endswith(("angle", "yaw")) else "m/s" if "velocity" in quantity else ""


def _edges_along_x(voxels: VoxelMotion) -> Array:
    """From their first to their second corners [m], the lowest first, (edges, c, dimension)."""
    return voxels.corner[1::2] - voxels.corner[::2]


def _forward(voxels: VoxelMotion, alpha: Array) -> Array:
    return voxels.velocity[..., 0] * jnp.cos(alpha) + voxels.velocity[..., -1] * jnp.sin(alpha)


def _upward(voxels: VoxelMotion, alpha: Array) -> Array:
    return voxels.velocity[..., -1] * jnp.cos(alpha) - voxels.velocity[..., 0] * jnp.sin(alpha)


def _direction(vector: Array) -> Array:
    right, up = vector[..., 0], vector[..., -1]
    there = (right != 0) | (up != 0)  # what has no length has no slope, either
    return jnp.arctan2(jnp.where(there, up, 0), jnp.where(there, right, 1))


def _unit(vector: Array) -> Array:
    return vector / jnp.sqrt((vector**2).sum(-1, keepdims=True) + 1e-12)
