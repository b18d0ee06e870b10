"""What a voxel can feel, as raw physical values of one robot's state (the original's sensors).

Each quantity is a function of a `View` and gives one value per voxel, (rows, columns).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics import geometry
from vsr.physics.contact import heights_over_ground
from vsr.physics.geometry import MassMotion
from vsr.physics.model import Environment, Model

SOUTH_WEST, SOUTH_EAST, NORTH_EAST, NORTH_WEST = range(4)


class View(NamedTuple):
    """What quantities may look at."""

    model: Model
    environment: Environment
    motion: MassMotion
    legacy_angle: bool
    """whether angles have the original's error (see `angle`)"""


def area_ratio(view: View) -> Array:
    """Area over area at rest."""
    return geometry.area_ratio(view.model, view.motion)


def velocity_magnitude(view: View) -> Array:
    """Speed of the voxel [m/s]."""
    return jnp.sqrt((_velocity(view) ** 2).sum(-1))


def angle(view: View) -> Array:
    """Rotation of the voxel, the mean direction of its bottom and top sides [rad], in (-π, π].

    The original averages the directions NW→NE and SE→SW, the second pointing backwards, so that its angle is wrong
    by ±π/2 with a jump at zero. `legacy_angle` reproduces that, for comparisons only.
    """
    center = view.motion.center
    top = center[NORTH_EAST] - center[NORTH_WEST]
    bottom = center[SOUTH_EAST] - center[SOUTH_WEST]
    if view.legacy_angle:
        return (_direction(top) + _direction(-bottom)) / 2
    return _direction(_unit(top) + _unit(bottom))


def velocity_x(view: View) -> Array:
    """Velocity to the right [m/s]."""
    return _velocity(view)[..., 0]


def velocity_y(view: View) -> Array:
    """Velocity upwards [m/s]."""
    return _velocity(view)[..., 1]


def rotated_velocity_x(view: View) -> Array:
    """Velocity along the voxel's own x axis [m/s]."""
    alpha, velocity = angle(view), _velocity(view)
    return velocity[..., 0] * jnp.cos(alpha) + velocity[..., 1] * jnp.sin(alpha)


def rotated_velocity_y(view: View) -> Array:
    """Velocity along the voxel's own y axis [m/s]."""
    alpha, velocity = angle(view), _velocity(view)
    return velocity[..., 1] * jnp.cos(alpha) - velocity[..., 0] * jnp.sin(alpha)


def touching(view: View) -> Array:
    """1 if any of the voxel's masses is in the ground, else 0."""
    if view.environment.terrain is None:
        return jnp.zeros_like(view.model.present)
    corner = geometry.mass_corners(view.model, view.motion)
    height = heights_over_ground(view.environment.terrain, corner[..., 0], corner[..., 1])
    return (height < 0).any((0, 1)).astype(view.model.present.dtype)


QUANTITIES: dict[str, Callable[[View], Array]] = {
    function.__name__: function
    for function in (
        area_ratio,
        velocity_magnitude,
        angle,
        velocity_x,
        velocity_y,
        rotated_velocity_x,
        rotated_velocity_y,
        touching,
    )
}
"""Every quantity by its name."""


def _velocity(view: View) -> Array:
    """Mean velocity of the four masses [m/s], (rows, columns, 2)."""
    return view.motion.velocity.mean(0)


def _direction(vector: Array) -> Array:
    return jnp.arctan2(vector[..., 1], vector[..., 0])


def _unit(vector: Array) -> Array:
    return vector / jnp.sqrt((vector**2).sum(-1, keepdims=True) + 1e-12)
