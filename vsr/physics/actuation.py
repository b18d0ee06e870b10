"""Actuation by force: control times a voxel's largest force on each of its masses, towards the voxel's centre.

The one law for every engine, as whole arrays and as lanes of a kernel. Control +1 shrinks a voxel, -1 enlarges it.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus, times

TINY = 1e-12
"""Keeps a mass in the centre from dividing by zero [m²]."""


def inward_force(strength: Array, center: Vector, position: Vector) -> Vector:
    """Force on masses towards their voxel's centre [N]; strength: control times the largest force [N]."""
    inward = minus(center, position)
    return times(strength / jnp.sqrt(dot(inward, inward) + TINY), inward)
