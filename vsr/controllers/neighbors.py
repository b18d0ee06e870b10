"""What voxels get from the voxels at their sides: values of the next cells of a grid, 0 where there is none."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def from_neighbors(values: Array, axis: int, step: int) -> Array:
    """For every cell the value of the next one, 0 beyond the border.

    values: (..., *cells); axis: 0 for x, which is the last axis of the array, 1 for y, 2 for z; step: -1 for the
    neighbor below along that axis, 1 for the one above.
    """
    padding = [(0, 0, 0)] * values.ndim
    padding[values.ndim - 1 - axis] = (-step, step, 0)
    return jax.lax.pad(values, jnp.zeros((), values.dtype), padding)


def sides(dimension: int) -> tuple[tuple[int, int], ...]:
    """Axis and step of every side of a voxel: below and above along x, then along y, in 3-D along z."""
    return tuple((axis, step) for axis in range(dimension) for step in (-1, 1))


def opposite(side: int) -> int:
    """Number of the side across, in the order of `sides`."""
    return side ^ 1
