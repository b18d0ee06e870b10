"""Several objectives at once: domination, crowding distance, hypervolume. All are maximized.

Pure functions of fixed shapes. An individual that failed has negative infinity in every objective: every other
dominates it, and it takes no part in crowding or volume.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def fronts(objectives: Array) -> Array:
    """The number of each individual's front, 0 for those that nobody dominates, (size,); objectives: (size, m)."""
    a, b = objectives[:, None], objectives[None]
    dominates = (a >= b).all(-1) & (a > b).any(-1)  # [i, j]: i over j

    def peel(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        number, rank = carry
        left = rank < 0
        free = left & ~(dominates & left[:, None]).any(0)
        return number + 1, jnp.where(free, number, rank)

    unknown = jnp.full(len(objectives), -1, jnp.int32)
    return jax.lax.while_loop(lambda carry: (carry[1] < 0).any(), peel, (jnp.int32(0), unknown))[1]


def crowding(objectives: Array, front: Array) -> Array:
    """How far the neighbors within its own front are from each individual (Deb et al. 2002), (size,).

    Infinite at both ends of an objective; for the others the sum over objectives of the gap between the neighbors,
    each as a share of the front's range.
    """

    def along(values: Array) -> Array:
        order = jnp.lexsort((values, front))
        value, number = values[order], front[order]
        same_below = jnp.concatenate([jnp.zeros(1, bool), number[1:] == number[:-1]])
        same_above = jnp.concatenate([number[1:] == number[:-1], jnp.zeros(1, bool)])
        gap = jnp.roll(value, -1) - jnp.roll(value, 1)
        extent = jax.ops.segment_max(values, front, len(values)) - jax.ops.segment_min(values, front, len(values))
        width = extent[number]
        share = jnp.where(width > 0, gap / jnp.where(width > 0, width, 1), 0)
        return jnp.zeros_like(values).at[order].set(jnp.where(same_below & same_above, share, jnp.inf))

    finite = jnp.where(jnp.isfinite(objectives), objectives, 0)
    return jax.vmap(along, 1, 1)(finite).sum(1)


def hypervolume(objectives: Array, reference: Array) -> Array:
    """Volume dominated beyond a reference point, for two or three objectives, (); objectives: (size, 2 or 3)."""
    beyond = jnp.where((objectives > reference).all(-1, keepdims=True), objectives, reference) - reference
    if beyond.shape[1] == 2:
        return _area(beyond)
    height = beyond[:, 2]
    top = jnp.argsort(-height)
    beyond, height = beyond[top], height[top]
    below = jnp.concatenate([height[1:], jnp.zeros(1, height.dtype)])
    # Slices: between two neighboring heights all that reach above them count.
    reached = jnp.tril(jnp.ones((len(height), len(height)), bool))
    areas = jax.vmap(lambda counts: _area(jnp.where(counts[:, None], beyond[:, :2], 0)))(reached)
    return (areas * (height - below)).sum()


def _area(points: Array) -> Array:
    """Of the union of rectangles from the origin to points with coordinates that are not negative, (size, 2)."""
    x, y = points[jnp.argsort(-points[:, 0])].T
    highest = jax.lax.cummax(y)
    before = jnp.concatenate([jnp.zeros(1, y.dtype), highest[:-1]])
    return (x * (highest - before)).sum()
