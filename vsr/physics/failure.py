"""Why the simulation of a robot is no use. Numbers in arrays, names for people."""

from __future__ import annotations

from enum import IntEnum

import jax.numpy as jnp
from jax import Array


class Failure(IntEnum):
    """What befell a robot first; of what befell it at once, the reason with the smallest number counts."""

    none = 0
    empty = 1
    """it has no voxels"""
    not_finite = 2
    """its state was not a number, or infinite"""
    exploded = 3
    """a mass was faster than anything a robot can do"""
    inverted = 4
    """a voxel was inside out, or had no area (in 3-D no volume) left"""
    left_world = 5
    """it had fallen through the ground at the end"""
    crowded = 6
    """grains had more neighbours than the lists have places for, so some were not felt"""
    leaking = 7
    """a chamber of fluid has a face to the outside and no membrane there"""
    buried = 8
    """it began inside the ground, as where it is too wide for a shaft: what throws it out is no gait"""
    gained_energy = 9
    """its energy grew from nowhere, as errors of steps can make it where materials hardly damp (vsr.physics.ledger)"""

    @property
    def label(self) -> str:
        """For people: 'not finite'."""
        return "left the world" if self is Failure.left_world else self.name.replace("_", " ")


REASONS = tuple(reason for reason in Failure if reason)
"""All that can befall a robot."""


def first_of(before: Array, later: Array) -> Array:
    """The failure that stands: an earlier one is kept."""
    return jnp.where(before > 0, before, later)


def gravest(failures: Array) -> Array:
    """Of all that befell parts of a robot or world, the one that counts, 0 if nothing did, (); failures: any shape."""
    nothing = len(Failure)
    least = jnp.where(failures > 0, failures, nothing).min()
    return jnp.where(least < nothing, least, 0)


def empty_or(present: Array, otherwise: Array) -> Array:
    """The failure of a body without voxels, or another; present: 1 where there is a voxel."""
    return jnp.where(present.sum() == 0, int(Failure.empty), otherwise).astype(jnp.int32)


def counted(failure: Array) -> Array:
    """How many robots each of REASONS befell, (reasons,); failure: (robots,)."""
    return (failure[:, None] == jnp.array([int(reason) for reason in REASONS])).sum(0)
