"""Cells of a grid, inside `jit`: their neighbors, connected components, and sums at the borders between cells."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def beside(values: Array, axis: int, step: int, fill: Array | float) -> Array:
    """What the next cell along an axis has, one further (1) or one back (-1); fill: beyond the grid."""
    size = values.shape[axis]
    edge = jnp.full_like(jax.lax.slice_in_dim(values, 0, 1, axis=axis), fill)
    if step > 0:
        return jnp.concatenate([jax.lax.slice_in_dim(values, 1, size, axis=axis), edge], axis)
    return jnp.concatenate([edge, jax.lax.slice_in_dim(values, 0, size - 1, axis=axis)], axis)


def label_components(kind: Array) -> Array:
    """For every cell the number of the first cell of its part, *cells; as many as there are cells where kind is -1.

    Cells hang together if they share a side (in 3-D: a face) and are of one kind, a whole number from 0 on.
    """
    nobody = kind.size
    present = kind >= 0
    own = jnp.where(present, jnp.arange(nobody, dtype=jnp.int32).reshape(kind.shape), nobody)
    ways = [(axis, step) for axis in range(kind.ndim) for step in (-1, 1)]
    alike = [beside(kind, axis, step, -1) == kind for axis, step in ways]

    def spread(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = carry
        smallest = label
        for (axis, step), same in zip(ways, alike, strict=True):
            smallest = jnp.where(same, jnp.minimum(smallest, beside(label, axis, step, nobody)), smallest)
        following = jnp.where(present, smallest, nobody)
        return following, (following != label).any()

    return jax.lax.while_loop(lambda carry: carry[1], spread, (own, present.any()))[0]


def overlap(starting: Array, ending: Array, axis: int) -> Array:
    """What starts and what ends at each of n + 1 borders, added up.

    starting, ending: of the n objects between the borders, along the axis. Padding both with a zero would say the
    same, but the CPU would then test at every element whether it is one.
    """
    first, later = jnp.split(starting, [1], axis)
    earlier, last = jnp.split(ending, [ending.shape[axis] - 1], axis)
    return jnp.concatenate([first, later + earlier, last], axis)
