"""Vectors as one array per axis, and 2-D rotations as cosine and sine.

Simulation loops carry one array per axis, because hardware likes long rows of one kind of number.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import jax
import jax.numpy as jnp
from jax import Array

Vector = tuple[Array, ...]
"""Components along x, y (and z), each of the same shape; the last is up."""


def split(array: Array, axis: int) -> Vector:
    """The components of vectors that lie along an axis."""
    return tuple(jax.lax.index_in_dim(array, part, axis, keepdims=False) for part in range(array.shape[axis]))


def join(vector: Vector, axis: int) -> Array:
    """Vectors along an axis."""
    return jnp.stack(vector, axis)


def plus(first: Vector, second: Vector) -> Vector:
    """The sum."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def minus(first: Vector, second: Vector) -> Vector:
    """The difference."""
    return tuple(a - b for a, b in zip(first, second, strict=True))


def times(factor: Array | float, vector: Vector) -> Vector:
    """A multiple."""
    return tuple(factor * component for component in vector)


def dot(first: Vector, second: Vector) -> Array:
    """The scalar product."""
    return reduce(add, (a * b for a, b in zip(first, second, strict=True)))


def turn(rotation: Array, vector: Array) -> Array:
    """Turn vectors by rotations (cosine, sine); both (..., 2)."""
    cosine, sine = rotation[..., 0], rotation[..., 1]
    x, y = vector[..., 0], vector[..., 1]
    return jnp.stack([cosine * x - sine * y, sine * x + cosine * y], -1)


def quarter_turn(vector: Array) -> Array:
    """Turn vectors by +90 degrees, (..., 2)."""
    return jnp.stack([-vector[..., 1], vector[..., 0]], -1)


def rotation_by(angle: Array | float, dtype: jnp.dtype) -> Array:
    """Cosine and sine of an angle [rad], (2,)."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)]).astype(dtype)
