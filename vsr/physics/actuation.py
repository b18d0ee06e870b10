"""Actuation by force: control times a voxel's largest force pulls each of its masses towards the voxel's center.

The one law for every engine, as whole arrays and as lanes of a kernel. Control +1 shrinks a voxel, -1 enlarges it.

Pulls of one size towards the center add up to nothing only in a voxel that is symmetric. A robot could swim in empty
space with what is left. So the mean of its pulls is taken away from each: then they are minus the gradient of the sum
of distances from the center, and neither push nor turn the voxel as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus, plus, times

TINY = 1e-12
"""Keeps a mass in the center from dividing by zero [m²]."""


def inward_force(strength: Array, position: Vector, axes: tuple[int, ...]) -> Vector:
    """Force on the masses of voxels [N]; strength: control times the largest force [N]; axes: of a voxel's masses."""

    def mean(vector: Vector) -> Vector:
        return tuple(part.mean(axes, keepdims=True) for part in vector)

    pull = _pull(mean(position), position)
    return times(strength, minus(pull, mean(pull)))


def inward_forces(strength: Array, positions: Sequence[Vector]) -> list[Vector]:
    """The same for masses that come one by one."""

    def mean(vectors: Sequence[Vector]) -> Vector:
        return times(1 / len(vectors), reduce(plus, vectors))

    center = mean(positions)
    pulls = [_pull(center, position) for position in positions]
    rest = mean(pulls)
    return [times(strength, minus(pull, rest)) for pull in pulls]


def inward_energy(strength: Array, corner: Array) -> Array:
    """Of which the forces are minus the gradient while they are held [J], (); corner: [m], (corners, c, dimension)."""
    away = jnp.sqrt(((corner - corner.mean(0)) ** 2).sum(-1) + TINY)
    return (strength * away).sum()


def _pull(center: Vector, position: Vector) -> Vector:
    """Unit vectors towards the center."""
    inward = minus(center, position)
    return times(1 / jnp.sqrt(dot(inward, inward) + TINY), inward)
