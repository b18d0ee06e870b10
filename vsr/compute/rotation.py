"""Rotations in a plane as cosine and sine."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


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
