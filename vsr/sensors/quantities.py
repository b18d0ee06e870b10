"""What a voxel can feel, as raw physical values of one robot's state (the original's sensors, in the plane and in
space).

Each quantity is a function of a `View` and gives one value per voxel, (rows, columns) or (levels, rows, columns).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.voxels import VoxelMotion


class View(NamedTuple):
    """What quantities may look at."""

    voxels: VoxelMotion
    legacy_angle: bool
    """whether angles have the original's error (see `angle`)"""


def area_ratio(view: View) -> Array:
    """Area, or in space volume, over that at rest."""
    return view.voxels.size_ratio


def volume_ratio(view: View) -> Array:
    """Volume over volume at rest."""
    return view.voxels.size_ratio


def velocity_magnitude(view: View) -> Array:
    """Speed of the voxel [m/s]."""
    return jnp.sqrt((view.voxels.velocity**2).sum(-1))


def angle(view: View) -> Array:
    """Rotation of the voxel in the plane of x and up, the mean direction of its edges along x [rad], in (-π, π].

    The original averages the directions NW→NE and SE→SW, the second pointing backwards, so that its angle is wrong
    by ±π/2 with a jump at zero. `legacy_angle` reproduces that, for comparisons only.
    """
    corner = view.voxels.corner
    along = corner[1::2] - corner[::2]
    if view.legacy_angle:
        bottom, top = along
        return (_direction(top) + _direction(-bottom)) / 2
    first, *others = (_unit(edge) for edge in along[::-1])
    for other in others:
        first = first + other
    return _direction(first)


def velocity_x(view: View) -> Array:
    """Velocity to the right [m/s]."""
    return view.voxels.velocity[..., 0]


def velocity_y(view: View) -> Array:
    """Velocity along y [m/s]: upwards in the plane, sideways in space."""
    return view.voxels.velocity[..., 1]


def velocity_z(view: View) -> Array:
    """Velocity upwards, in space [m/s]."""
    return view.voxels.velocity[..., 2]


def rotated_velocity_x(view: View) -> Array:
    """Velocity along the voxel's own x axis [m/s]."""
    alpha, velocity = angle(view), view.voxels.velocity
    return velocity[..., 0] * jnp.cos(alpha) + velocity[..., -1] * jnp.sin(alpha)


def rotated_velocity_y(view: View) -> Array:
    """Velocity along the voxel's own upward axis [m/s]."""
    alpha, velocity = angle(view), view.voxels.velocity
    return velocity[..., -1] * jnp.cos(alpha) - velocity[..., 0] * jnp.sin(alpha)


def touching(view: View) -> Array:
    """1 if any of the voxel's masses is in the ground, else 0."""
    return view.voxels.touching


QUANTITIES: dict[str, Callable[[View], Array]] = {
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
    )
}
"""Every quantity by its name."""

ONLY_IN_SPACE = ("volume_ratio", "velocity_z")
SIZE_RATIOS = ("area_ratio", "volume_ratio")
"""These are 1 at rest, all others 0."""


def unit_of(quantity: str) -> str:
    """'m/s', 'rad', or nothing for plain numbers."""
    return "rad" if quantity == "angle" else "m/s" if "velocity" in quantity else ""


def _direction(vector: Array) -> Array:
    return jnp.arctan2(vector[..., -1], vector[..., 0])


def _unit(vector: Array) -> Array:
    return vector / jnp.sqrt((vector**2).sum(-1, keepdims=True) + 1e-12)
