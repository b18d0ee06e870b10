"""The force of one spring: Hooke's law along the line between its ends, and a damper beside it."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.gradients import inverse_root
from vsr.compute.vector import Vector, dot


def pull(
    stiffness: Array | float, rest_length: Array, damping: Array | float | None, between: Vector, parting: Vector
) -> Array:
    """Force that draws the ends together over their distance [N/m].

    between: from the first end to the second [m]; parting: the second's velocity less the first's [m/s].
    """
    squared = dot(between, between)
    inverse = inverse_root(squared)
    elastic = stiffness * (1 - rest_length * inverse)
    return elastic if damping is None else elastic + damping * dot(between, parting) * inverse * inverse


def joint_pull(stiffness: Array, tension: Array, damping: Array, between: Vector, parting: Vector) -> Array:
    """The pull [N/m] of several springs between the same ends, all added up.

    tension: sum of stiffness times rest length [N].
    """
    squared = dot(between, between)
    inverse = inverse_root(squared)
    return stiffness - (tension - damping * dot(between, parting) * inverse) * inverse


def still_intact(intact: Array, tension: Array, yield_force: Array) -> Array:
    """Which springs are whole after a tension, pull or push [N]; one that broke stays broken."""
    return intact & (jnp.abs(tension) <= yield_force)


def resistance(constant: Array | float, between: Vector, stretch: Vector) -> Array:
    """For small motions about a pose.

    Force along the spring over its length, if its ends part by a stretch [m] or at a speed.
    """
    return constant * dot(between, stretch) / jnp.maximum(dot(between, between), jnp.finfo(between[0].dtype).tiny)
