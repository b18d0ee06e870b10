"""The weight of a fluid by columns, after Rodríguez, Coevoet and Duriez, "Real-time simulation of hydraulic components
for interactive control of soft robots", section III.

A grid of columns stands under the box around a cavity. A column meets the triangles that its center passes through:
it leaves the fluid at top triangles and enters it at bottom ones. The k-th bottom from below belongs to the k-th top,
and the fluid between them rests on the corners of the bottom triangle, by the barycentric coordinates of the center.

Where the paper sorts the list of each column, all columns are peeled at once: their lowest tops and bottoms first,
then the lowest above those. A minimum is the same in whatever order threads find it, so results are too, and a convex
cavity needs one round. On an edge the center is taken to lie a hair aside, the same way for all triangles, so that it
is inside one of two neighbors and never in both.

This puts all weight on the floor. The pressure on side walls, and that on a roof below the port, are left out; `load`
of vsr.physics.fluid.surface has them, and no error of a grid. For reproduction, and as a check of that load.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from vsr.compute.xla import materialize
from vsr.physics.fluid.surface import Surface, at_nodes


class Distribution(NamedTuple):
    """Fluid as columns carry it. Only with both counts 0 was all of it found."""

    volume: Array
    """[m³], ()"""
    share: Array
    """volume that rests on each node [m³], (nodes,); times density and gravity, its weight"""
    left_out: Array
    """columns in boxes around triangles that were beyond the candidates and not looked at, ()"""
    unpaired: Array
    """tops and bottoms without their opposite: beyond the sections, of an open surface, or by rounding at edges, ()"""


def distribute(surface: Surface, position: Array, *, grid: int, candidates: int, sections: int = 1) -> Distribution:
    """All chambers of a surface of triangles as one cavity; use `vmap` over weights or positions for several.

    position: of the nodes [m], (nodes, 3); grid: columns along each side; candidates: columns looked at for every
    triangle, see `candidates_needed`; sections: that one column may have, 1 in convex cavities.
    """
    if surface.corners.shape[1] != 3:
        raise ValueError(f"columns need triangles; these faces have {surface.corners.shape[1]} corners")
    triangle = position[surface.corners]
    present = surface.weight > 0
    floor = triangle[..., :2]
    low = jnp.where(present[:, None, None], floor, jnp.inf).min((0, 1))
    high = jnp.where(present[:, None, None], floor, -jnp.inf).max((0, 1))
    side = jnp.where(high > low, high - low, 1) / grid
    hits = _hits(surface, (floor - low) / side, triangle[..., 2], present, grid, candidates)
    witness = position[:1, 0]
    # Heights are compared with themselves below, so they must not be computed again, and rounded otherwise.
    height, key = jax.lax.optimization_barrier(materialize(witness, (hits.height, hits.key)))
    bottom, top = _peeled(height, key, grid, sections)
    paired = jnp.isfinite(bottom) & jnp.isfinite(top)
    length = jnp.where(paired, jnp.where(paired, top, 0) - jnp.where(paired, bottom, 0), 0)
    on_bottom = key < grid * grid
    column = jnp.where(on_bottom, key, 0)
    carried = sum(jnp.where(bottom[layer][column] == height, length[layer][column], 0) for layer in range(sections))
    carried = jnp.where(on_bottom, carried, 0) * side.prod()
    return Distribution(
        volume=length.sum() * side.prod(),
        share=at_nodes(surface, jnp.stack([(part * carried).sum(1) for part in hits.barycentric], 1)),
        left_out=hits.left_out,
        unpaired=(key < 2 * grid * grid).sum() - 2 * paired.sum(),
    )


def candidates_needed(corners: ArrayLike, position: ArrayLike, grid: int) -> int:
    """Columns in the widest box around a triangle, at least 1; position: of the nodes [m], (nodes, 3)."""
    floor = np.asarray(position)[np.asarray(corners)][..., :2]
    low, high = floor.min((0, 1)), floor.max((0, 1))
    _, span = _boxes((floor - low) / ((high - low) / grid), grid, np)
    return max(int(span.prod(-1).max()), 1)


class _Hits(NamedTuple):
    """Columns looked at for every triangle; each (triangles, candidates) unless noted otherwise."""

    height: Array
    """at which the column's center meets the triangle [m]"""
    key: Array
    """number of the column for a bottom, that and all columns for a top, twice all columns for no hit"""
    barycentric: tuple[Array, Array, Array]
    left_out: Array
    """()"""


def _hits(surface: Surface, floor: Array, up: Array, present: Array, grid: int, candidates: int) -> _Hits:
    """Every triangle against the columns in its box; floor: corners in widths of a column, up: their heights [m]."""
    first, span = _boxes(floor, grid, jnp)
    inside = jnp.where(present, span.prod(-1), 0)
    number = jnp.arange(candidates)
    along, across = number % jnp.maximum(span[:, :1], 1), number // jnp.maximum(span[:, :1], 1)
    x, y = first[:, :1] + along, first[:, 1:] + across
    center = x + jnp.asarray(0.5, floor.dtype), y + jnp.asarray(0.5, floor.dtype)
    one, two = floor[:, 1] - floor[:, 0], floor[:, 2] - floor[:, 0]
    area = one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]
    is_top = (area > 0)[:, None]
    hit = (number < inside[:, None]) & (area != 0)[:, None]
    opposite = []
    for start, end in ((1, 2), (2, 0), (0, 1)):  # the edge across from corners 0, 1 and 2
        forward = (surface.corners[:, start] < surface.corners[:, end])[:, None]
        value, left = _beside(
            jnp.where(forward, floor[:, start], floor[:, end]),
            jnp.where(forward, floor[:, end], floor[:, start]),
            center,
        )
        hit &= left == (forward == is_top)
        opposite.append(jnp.where(forward, value, -value))
    whole = sum(opposite)
    barycentric = tuple(jnp.where(hit, part / jnp.where(hit, whole, 1), 0) for part in opposite)
    height = sum(part * up[:, corner, None] for corner, part in enumerate(barycentric))
    key = jnp.where(hit, y * grid + x + jnp.where(is_top, grid * grid, 0), 2 * grid * grid)
    return _Hits(height, key, barycentric, jnp.maximum(inside - candidates, 0).sum())  # pyright: ignore[reportArgumentType]


def _beside(start: Array, end: Array, point: tuple[Array, Array]) -> tuple[Array, Array]:
    """Twice the area between an edge and a point, and whether the point is to its left.

    A point on the edge is moved a hair along x and, by a hair of that, along y. Triangles with a common edge give it
    the same direction, so that they agree to the bit.
    """
    along = end - start
    value = along[:, :1] * (point[1] - start[:, 1:]) - along[:, 1:] * (point[0] - start[:, :1])
    aside = (along[:, 1:] < 0) | ((along[:, 1:] == 0) & (along[:, :1] > 0))
    return value, (value > 0) | ((value == 0) & aside)


def _boxes(floor, grid: int, numbers):
    """The first column in the box around a triangle and how many follow, along both axes; each (triangles, 2)."""
    first = numbers.clip(numbers.ceil(floor.min(1) - 0.5), 0, grid).astype(numbers.int32)
    last = numbers.clip(numbers.floor(floor.max(1) - 0.5), -1, grid - 1).astype(numbers.int32)
    return first, numbers.maximum(last - first + 1, 0)


def _peeled(height: Array, key: Array, grid: int, sections: int) -> tuple[Array, Array]:
    """Heights of bottoms and tops in every column from below [m], infinite where there is none, (sections, columns)."""
    columns = grid * grid
    nowhere = jnp.full(2 * columns, jnp.inf, height.dtype)
    layers = [nowhere.at[key].min(height, mode="drop")]
    for _ in range(sections - 1):
        above = height > layers[-1].at[key].get(mode="fill", fill_value=jnp.inf)
        layers.append(nowhere.at[jnp.where(above, key, 2 * columns)].min(height, mode="drop"))
    table = jnp.stack(layers).reshape(sections, 2, columns)
    return table[:, 0], table[:, 1]
