"""What a shape is, and the way out of it."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector


class Shape(Protocol):
    """A solid in 2-D or 3-D. Pure, a pytree; works on any arrays of points at once."""

    def distance(self, point: Vector) -> Array:
        """From points to the surface, negative inside [m]; the last component is up."""
        ...


def distance_and_normal(shape: Any, point: Vector) -> tuple[Array, Vector]:
    """The distance, and the unit vector along which it grows fastest: out of the shape.

    A shape may have a function of this name that knows both; of others the gradient of the distance is taken.
    """
    if hasattr(shape, "distance_and_normal"):
        return shape.distance_and_normal(point)
    distance = shape.distance(point)
    gradients = []
    for axis in range(len(point)):
        along = tuple(jnp.ones_like(part) if a == axis else jnp.zeros_like(part) for a, part in enumerate(point))
        gradients.append(jax.jvp(shape.distance, (point,), (along,))[1])
    size = jnp.sqrt(sum(gradient**2 for gradient in gradients))
    flat = size < 1e-6  # in the very middle every way is out: take the one that leads up
    upward = tuple(
        jnp.where(flat, 1.0 if axis == len(point) - 1 else 0.0, gradient) for axis, gradient in enumerate(gradients)
    )
    size = jnp.where(flat, 1, size)
    return distance, tuple(gradient / size for gradient in upward)
