"""Ground in 3-D: a height over every point of a plane, bilinear between the points of a regular grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from vsr.compute.vector import Vector
from vsr.terrain.base import AnyTerrain


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HeightField(AnyTerrain):
    """Ground as arrays. Beyond its borders the height of the nearest border point goes on."""

    height: Array
    """[m], (points along y, points along x)"""
    start: Array
    """x and y of the first point [m], (2,)"""
    spacing: Array
    """of the points along x and y [m], (2,)"""
    friction: Array
    """coefficient, ()"""
    restitution: Array
    """coefficient, ()"""
    begin: Array
    """x at which robots can stand, right of a wall if there is one [m], ()"""
    in_3d: ClassVar[bool] = True

    @staticmethod
    def of(
        height: np.ndarray,
        start: tuple[float, float],
        spacing: tuple[float, float],
        *,
        friction: float = 0.2,
        restitution: float = 0.0,
        begin: float | None = None,
        dtype: jnp.dtype | type = jnp.float32,
    ) -> HeightField:
        """Ground through heights [m], (points along y, points along x); begin: at the first point if absent."""
        height = np.asarray(height, float)
        if height.ndim != 2 or min(height.shape) < 2:
            raise ValueError(f"a height field needs at least two points each way; its shape is {height.shape}")
        if min(spacing) <= 0:
            raise ValueError(f"the points of a height field need a distance; {spacing} was given")
        check_restitution(restitution)
        begin = start[0] if begin is None else begin
        numbers = {"start": start, "spacing": spacing, "begin": begin, "friction": friction, "restitution": restitution}
        return HeightField(
            height=jnp.asarray(height, dtype), **{name: jnp.asarray(value, dtype) for name, value in numbers.items()}
        )

    def height_and_normal(self, position: Vector) -> tuple[Array, Vector]:
        return field_surface(self, position[0], position[1])

    def left_end(self) -> Array:
        return self.begin

    def lowest(self) -> Array:
        return self.height.min()

    def highest(self, low: Array, high: Array) -> Array:
        """Between two points the field is nowhere higher than at one of them, so those in and next to it are looked at.

        Beyond the border it is as high as the nearest part of it.
        """

        def near(axis: int, points: int) -> Array:
            place = self.start[axis] + self.spacing[axis] * jnp.arange(points)
            first, last = (jnp.clip(end[axis], place[0], place[-1]) for end in (low, high))
            return (place > first - self.spacing[axis]) & (place < last + self.spacing[axis])

        rows, columns = self.height.shape
        return jnp.where(near(1, rows)[:, None] & near(0, columns), self.height, -jnp.inf).max()

    @classmethod
    def alike(cls, grounds: Sequence[HeightField]) -> list[HeightField]:
        """With as many points each way as the largest; what is added is as high as the border, as it is anyway."""
        rows, columns = (max(field.height.shape[axis] for field in grounds) for axis in (0, 1))

        def larger(field: HeightField) -> HeightField:
            more = (0, rows - field.height.shape[0]), (0, columns - field.height.shape[1])
            return replace(field, height=jnp.asarray(np.pad(np.asarray(field.height), more, mode="edge")))

        return list(map(larger, grounds))


def check_restitution(value: ArrayLike) -> None:
    """Raise ValueError for a coefficient of restitution that is not from 0 to 1; what is traced passes."""
    if isinstance(value, Tracer):
        return
    numbers = np.asarray(value, float)
    if not ((numbers >= 0) & (numbers <= 1)).all():
        raise ValueError(f"a restitution is the share of speed that a bounce keeps, from 0 to 1; {value} was given")


def field_surface(field: HeightField, x: Array, y: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """Height [m] and upward unit normal of the ground at points, any shape.

    Fields of the terrain may carry further axes at the end, matching the last axes of x and y.
    """
    rows, columns = field.height.shape[:2]
    row, along_y, inside_y = _cell(y, field.start[1], field.spacing[1], rows)
    column, along_x, inside_x = _cell(x, field.start[0], field.spacing[0], columns)
    low_left, low_right, high_left, high_right = (
        _look_up(field.height, row + up, column + right) for up, right in ((0, 0), (0, 1), (1, 0), (1, 1))
    )
    low = low_left + along_x * (low_right - low_left)
    high = high_left + along_x * (high_right - high_left)
    left = low_left + along_y * (high_left - low_left)
    right = low_right + along_y * (high_right - low_right)
    slope_x = inside_x * (right - left) / field.spacing[0]
    slope_y = inside_y * (high - low) / field.spacing[1]
    up = jax.lax.rsqrt(1 + slope_x**2 + slope_y**2)
    return low + along_y * (high - low), (-slope_x * up, -slope_y * up, up)


def _look_up(height: Array, row: Array, column: Array) -> Array:
    """height[row, column]; further axes of the table go with the last axes of the indices."""
    batch = height.shape[2:]
    if all(size == 1 for size in batch):
        return height.reshape(height.shape[:2])[row, column]
    return height[(row, column, *(jax.lax.broadcasted_iota(jnp.int32, batch, axis) for axis in range(len(batch))))]


def _cell(value: Array, start: Array, spacing: Array, points: int) -> tuple[Array, Array, Array]:
    """The cell below, how far into it, and 1 inside the field, 0 beyond its borders."""
    place = (value - start) / spacing
    # A failed robot may be anywhere, even nowhere: NaN must not become an index.
    inside = (place >= 0) & (place <= points - 1)
    place = jnp.where(jnp.isfinite(place), jnp.clip(place, 0, points - 1), 0)
    cell = jnp.minimum(place.astype(jnp.int32), points - 2)
    return cell, place - cell, inside.astype(place.dtype)
