"""Solid cells of ground (vsr.terrain.blocks) as points meet them, and the convex corners of any ground.

Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.physics.contact.vectors import look_up
from vsr.terrain import Blocks
from vsr.terrain.base import AnyTerrain


class InBlocks(NamedTuple):
    """Points in solid cells; m of them."""

    depth: Array
    """below the nearest side that leads out [m], (m,)"""
    normal: Array
    """out of that side, (dimension, m)"""
    is_inside: Array
    """(m,)"""


def points_in_blocks(blocks: Blocks, point: Array) -> InBlocks:
    """point: [m], (dimension, m); in 3-D cells are the same for all y."""
    x, up = point[0], point[-1]
    rows, columns = blocks.solid.shape[:2]
    column = jnp.floor((x - blocks.start) / blocks.width)
    # A failed robot may be anywhere, even nowhere: NaN must not become an index.
    column = jnp.where(jnp.isfinite(column), jnp.clip(column, 0, columns - 1), 0).astype(jnp.int32)
    row = jnp.zeros(up.shape, jnp.int32)
    for number in range(1, rows):
        row = row + (up >= blocks.level[number])
    over = (up >= blocks.level[0]) & (up < blocks.level[rows])
    place = row * columns + column
    further = blocks.solid.shape[2:]
    held = look_up(blocks.solid.reshape(-1, *further), place)
    left = blocks.start + blocks.width * column
    low, high = look_up(blocks.level, row), look_up(blocks.level, row + 1)
    # Beyond the ends columns go on, and no side is near.
    depths = x - left, left + blocks.width - x, up - low, high - up
    leads_out = blocks.leads_out.reshape(4, -1, *further)
    ways = ((-1, 0), (1, 0), (0, -1), (0, 1))
    least, normal = jnp.full_like(x, jnp.inf), jnp.zeros_like(point)
    for number, (depth, (along, upwards)) in enumerate(zip(depths, ways, strict=True)):
        counts = look_up(leads_out[number], place)
        here = jnp.where(counts, depth, jnp.inf)
        way = jnp.zeros_like(point).at[0].set(along).at[-1].set(upwards)
        normal = jnp.where(here < least, way, normal)
        least = jnp.minimum(here, least)
    found = held & over & jnp.isfinite(least)
    return InBlocks(jnp.where(found, least, 0), normal, found)


def ground_corners(terrain: AnyTerrain | None, dimension: int) -> tuple[Array, Array] | None:
    """Convex corners of a ground [m], (dimension, q), and whether each is one, (q,); None if there are none.

    Only in 2-D: in 3-D they are edges.
    """
    return None if dimension == 3 or terrain is None else terrain.corners()
