"""Ground and obstacles in an energy: a smooth wall that nodes press into a little, without friction.

With s the depth below a line that lies a band's width over the surface, the energy of a node is

    k s³ / (6 band)  up to s = band,   then   k (s² / 2 - band s / 2 + band² / 6),

whose second derivative has no jump. A node under a force F much smaller than k band stays over the surface; under a
larger one it is about F / k - band / 2 inside.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector
from vsr.environment.model import Environment
from vsr.environment.surfaces import surfaces


class Wall(NamedTuple):
    """How hard surfaces are."""

    stiffness: Array
    """of the wall for one node [N/m], ()"""
    band: Array
    """in which it hardens, over the surface [m], ()"""


def wall_energy(environment: Environment, wall: Wall, position: Vector) -> Array:
    """Of every node [J]; the environment is given by components (vsr.environment.model.by_components)."""
    total = jnp.zeros_like(position[0])
    for surface in surfaces(environment, position):
        total = total + _pressed(wall, surface.height)
    return total


def depth(environment: Environment, position: Vector) -> Array:
    """How far every node is inside any obstacle [m], 0 outside."""
    deepest = jnp.zeros_like(position[0])
    for surface in surfaces(environment, position):
        deepest = jnp.maximum(deepest, -surface.height)
    return deepest


def _pressed(wall: Wall, height: Array) -> Array:
    band = wall.band
    below = jnp.maximum(band - height, 0)
    soft = jnp.minimum(below, band)
    return wall.stiffness * jnp.where(below < band, soft**3 / (6 * band), below**2 / 2 - band * below / 2 + band**2 / 6)
