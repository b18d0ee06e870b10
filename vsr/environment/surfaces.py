"""Ground and obstacles as points meet them, and how the coefficients of two materials combine.

Every array may have further axes at the end, or be the lanes of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus, times
from vsr.environment.model import Environment, Plane, Sphere
from vsr.terrain.base import AnyTerrain

BOUNCE_SPEED = 1.0
"""Slower approaches of rigid masses and balls do not bounce [m/s] (dyn4j's restitution velocity)."""
SLOP = 0.005
"""Depth of rigid masses and balls that is left alone [m] (dyn4j's linear tolerance)."""


class Surface(NamedTuple):
    """An obstacle as every node meets it."""

    height: Array
    """over the surface, negative inside [m]"""
    normal: Vector
    """out of the obstacle"""
    friction: Array
    restitution: Array


def combined_friction(one: Array, other: Array) -> Array:
    """Coulomb's coefficient between two materials: the geometric mean of theirs."""
    return jnp.sqrt(one * other)


def combined_restitution(one: Array, other: Array) -> Array:
    """The coefficient between two materials: the larger of theirs."""
    return jnp.maximum(one, other)


def surfaces(environment: Environment, position: Vector) -> Iterator[Surface]:
    """Every obstacle, seen from all nodes; the environment is given by components."""
    for body in environment.bodies:
        yield _plane(body, position) if isinstance(body, Plane) else _sphere(body, position)
    if environment.terrain is not None:
        yield ground(environment.terrain, position)


def ground(terrain: AnyTerrain, position: Vector) -> Surface:
    """The terrain below every node, or beside it (vsr.terrain.surface); a line of ground is the same for all y."""
    return Surface(*terrain.nearest(position), terrain.friction, terrain.restitution)


def _plane(plane: Plane, position: Vector) -> Surface:
    normal = tuple(plane.normal)
    height = dot(minus(position, tuple(plane.point)), normal)
    return Surface(height, normal, plane.friction, plane.restitution)


def _sphere(sphere: Sphere, position: Vector) -> Surface:
    from_center = minus(position, tuple(sphere.center))
    squared = dot(from_center, from_center)
    distance = jnp.sqrt(jnp.maximum(squared, jnp.finfo(squared.dtype).tiny))
    return Surface(distance - sphere.radius, times(1 / distance, from_center), sphere.friction, sphere.restitution)
