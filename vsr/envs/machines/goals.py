"""Rewards of moving material: grains inside a goal box count, others cost what they still have to go."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

INSIDE = 100.0
"""Reward for all grains inside the goal."""


def distance_to_box(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """From points to the nearest of a box along its axes, 0 inside [m], (n,); position: [m], (axes or more, n)."""
    here = position[: len(low)]
    first, last = (jnp.asarray(corner, position.dtype)[:, None] for corner in (low, high))
    beyond = jnp.maximum(jnp.maximum(first - here, here - last), 0)
    return jnp.sqrt((beyond**2).sum(0))


def moved_material(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """Per step 100 / n for each of n grains inside, -d / n for each that is a distance d [m] outside, ()."""
    distance = distance_to_box(position, low, high)
    return jnp.where(distance > 0, -distance, INSIDE).mean()


def share_inside(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """Of grains, (); position: [m], (axes or more, n)."""
    return (distance_to_box(position, low, high) == 0).mean()
