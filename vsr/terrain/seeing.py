"""The ground as it is seen from points: whether they are in it, how high they are over it, how far it is along rays.

For all shapes of ground. A ray is followed in steps, so that what is thinner than a step can be passed; where it enters
the ground is then found by halving the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from vsr.terrain.blocks import Blocks
from vsr.terrain.field import HeightField, field_surface
from vsr.terrain.surface import Terrain, surface

STEPS = 32
"""Along a ray."""
HALVINGS = 14
"""Of the step in which a ray enters the ground."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cells:
    """Solid cells in empty space, in 2-D, the lowest left one at the origin."""

    solid: Array
    """True where a cell is solid, the lowest row first, (rows, columns)"""
    side: Array
    """of a cell [m], ()"""


Ground = Terrain | HeightField | Cells
"""Any; `Blocks` are a Terrain."""


def is_inside(ground: Ground, point: Array) -> Array:
    """Whether points are in the ground, (...); point: [m], (..., dimension)."""
    up = point[..., -1]
    if isinstance(ground, HeightField):
        return up < field_surface(ground, point[..., 0], point[..., 1])[0]
    if isinstance(ground, Cells):
        column, row = (jnp.floor(point[..., axis] / ground.side) for axis in (0, -1))
        rows, columns = ground.solid.shape
        known = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = (jnp.where(known, number, 0).astype(jnp.int32) for number in (row, column))
        return known & ground.solid[row, column]
    if isinstance(ground, Blocks):
        above = up[..., None] >= ground.level
        row = above.sum(-1) - 1
        rows = ground.solid.shape[0]
        in_cell = ground.solid[jnp.clip(row, 0, rows - 1), _column(ground, point)] & (row < rows)
        return (row < 0) | in_cell
    return up < surface(ground, point[..., 0])[0]


def height_over(ground: Ground, point: Array) -> Array:
    """How high points are over the ground below them [m], (...); point: [m], (..., dimension).

    Below a point that is under a ceiling is the floor, and below one in a solid cell the top of that cell.
    """
    up = point[..., -1]
    if isinstance(ground, HeightField):
        return up - field_surface(ground, point[..., 0], point[..., 1])[0]
    if isinstance(ground, Cells):
        rows, columns = ground.solid.shape
        column = jnp.floor(point[..., 0] / ground.side)
        known = (column >= 0) & (column < columns)
        solid = ground.solid[:, jnp.where(known, column, 0).astype(jnp.int32)] & known
        bottom = (ground.side * jnp.arange(rows)).reshape(-1, *(1,) * up.ndim)
        return up - jnp.where(solid & (bottom <= up), bottom + ground.side, 0).max(0)
    if isinstance(ground, Blocks):
        solid = ground.solid[:, _column(ground, point)]
        bottom, top = (part.reshape(-1, *(1,) * up.ndim) for part in (ground.level[:-1], ground.level[1:]))
        return up - jnp.where(solid & (bottom <= up), top, ground.level[0]).max(0)
    return up - surface(ground, point[..., 0])[0]


def distance_along(ground: Ground, origin: Array, direction: Array, reach: float) -> Array:
    """Of the ground along rays [m], the reach where none is met, 0 from inside, (...).

    origin: [m], direction: unit vectors, (..., dimension) each; reach: how far a ray is followed [m].
    """
    step = reach / STEPS

    def at(distance: Array) -> Array:
        return is_inside(ground, origin + distance[..., None] * direction)

    begin = jnp.zeros(origin.shape[:-1], origin.dtype)
    ends = step * jnp.arange(1, STEPS + 1, dtype=origin.dtype).reshape(-1, *(1,) * begin.ndim) + begin
    met = at(ends)
    high = jnp.where(met, ends, jnp.inf).min(0)
    found = jnp.isfinite(high)

    def halve(_: Array, between: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = between
        middle = 0.5 * (low + high)
        hit = at(middle)
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

    high = jnp.where(found, high, reach)
    _, high = jax.lax.fori_loop(0, HALVINGS, halve, (high - step, high))
    return jnp.where(at(begin), 0, jnp.where(found, high, reach)).astype(origin.dtype)


def _column(blocks: Blocks, point: Array) -> Array:
    """Numbers of the columns that points are in; beyond both ends the first and the last go on."""
    column = jnp.floor((point[..., 0] - blocks.start) / blocks.width)
    # A failed robot may be nowhere: NaN must not become an index.
    column = jnp.where(jnp.isfinite(column), jnp.clip(column, 0, blocks.solid.shape[1] - 1), 0)
    return column.astype(jnp.int32)
