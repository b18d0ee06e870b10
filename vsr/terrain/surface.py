"""The ground as physics asks for it: height and normal of a line of straight segments, y = height(x).

The segment below a point is found without searching: cells of equal width, none wider than the shortest segment,
say where to look, and at most one step to the right remains. A line that is convex and has few segments, such as flat
ground between two walls, is the largest of its segments' lines, and no table is read at all.

Points inside the ground are put out through the nearest surface. Deep below a top with a steep side that is the side,
where it is nearer: a point that passed the whole side within a substep goes back the way it came, not up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gradients import gradients_needed
from vsr.compute.vector import Vector
from vsr.compute.xla import for_cpu
from vsr.terrain.base import AnyTerrain
from vsr.terrain.field import check_restitution

FEW_SEGMENTS = 4
STEEP = 3.0
"""Gradient from which on a side counts as a wall: about 72 degrees."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Terrain(AnyTerrain):
    """Ground as arrays. Outside its ends the first and last segment go on."""

    vertex_x: Array
    """[m], rising, (segments+1,)"""
    vertex_y: Array
    """[m], (segments+1,)"""
    slope: Array
    """(segments,)"""
    normal_x: Array
    """upward unit normal, (segments,)"""
    normal_y: Array
    cell_segment: Array
    """segment at each cell's left edge, (cells,)"""
    cell_start: Array
    """left edge of the first cell [m], ()"""
    cell_width: Array
    """[m], ()"""
    deep: Array
    """below a top, from which on a wall may be nearer: a quarter of the width of the narrowest [m], ()"""
    friction: Array
    """coefficient, combined with a mass's by the geometric mean, ()"""
    restitution: Array
    """coefficient, combined with a mass's by the larger of both, ()"""
    convex: bool = field(metadata={"static": True})
    """whether the height is the largest of few lines"""
    walls: bool = field(metadata={"static": True})
    """whether a steep side ends in a convex corner, so that what is inside may be nearer to it than to the top"""

    @staticmethod
    def of(
        x: np.ndarray,
        y: np.ndarray,
        *,
        friction: float = 0.2,
        restitution: float = 0.0,
        dtype: jnp.dtype | type = jnp.float32,
    ) -> Terrain:
        """Terrain through the points (x, y) [m], x rising."""
        check_restitution(restitution)
        x, y = np.asarray(x, float), np.asarray(y, float)
        width = np.diff(x)
        if x.ndim != 1 or x.shape != y.shape or x.size < 2 or not (width > 0).all():
            raise ValueError("a terrain needs at least two points with rising x")
        slope = np.diff(y) / width
        cells = int(np.ceil((x[-1] - x[0]) / width.min()))
        cell_width = (x[-1] - x[0]) / cells
        edges = x[0] + cell_width * np.arange(cells)
        length = np.hypot(1, slope)
        return Terrain(
            vertex_x=jnp.asarray(x, dtype),
            vertex_y=jnp.asarray(y, dtype),
            slope=jnp.asarray(slope, dtype),
            normal_x=jnp.asarray(-slope / length, dtype),
            normal_y=jnp.asarray(1 / length, dtype),
            cell_segment=jnp.asarray(np.clip(np.searchsorted(x, edges, "right") - 1, 0, slope.size - 1), jnp.int32),
            cell_start=jnp.asarray(x[0], dtype),
            cell_width=jnp.asarray(cell_width, dtype),
            deep=jnp.asarray(0.25 * np.min(width, where=np.abs(slope) > STEEP, initial=np.inf), dtype),
            friction=jnp.asarray(friction, dtype),
            restitution=jnp.asarray(restitution, dtype),
            convex=bool(slope.size <= FEW_SEGMENTS and (np.diff(slope) >= 0).all()),
            walls=bool(((np.diff(slope) < 0) & (np.maximum(np.abs(slope[1:]), np.abs(slope[:-1])) > STEEP)).any()),
        )

    def height_and_normal(self, position: Vector) -> tuple[Array, Vector]:
        height, along, up = surface(self, position[0])
        return height, (along, *(jnp.zeros_like(up),) * (len(position) - 2), up)

    def nearest(self, position: Vector) -> tuple[Array, Vector]:
        over, normal_x, normal_up = nearest_surface(self, position[0], position[-1])
        return over, (normal_x, *(jnp.zeros_like(part) for part in position[1:-1]), normal_up)

    def left_end(self) -> Array:
        return self.vertex_x[1]

    def lowest(self) -> Array:
        return self.vertex_y.min()

    def highest(self, low: Array, high: Array) -> Array:
        left, right = low[0], high[0]
        inside = (self.vertex_x >= left) & (self.vertex_x <= right)
        ends = jnp.maximum(surface(self, left)[0], surface(self, right)[0])
        return jnp.maximum(ends, jnp.where(inside, self.vertex_y, -jnp.inf).max())

    def corners(self) -> tuple[Array, Array] | None:
        if self.convex:
            return None
        place = jnp.stack([self.vertex_x[1:-1], self.vertex_y[1:-1]])
        return place, self.slope[1:] < self.slope[:-1]

    @property
    def line(self) -> Terrain:
        return self

    @classmethod
    def alike(cls, grounds: Sequence[Terrain]) -> list[Terrain]:
        """With as many segments and cells as the longest of each."""
        segments, cells = (max(getattr(line, name).size for line in grounds) for name in ("slope", "cell_segment"))
        convex = all(line.convex and line.slope.size == segments for line in grounds)
        walls = any(line.walls for line in grounds)
        return [replace(_longer(line, segments, cells), convex=convex, walls=walls) for line in grounds]


def _longer(line: Terrain, segments: int, cells: int) -> Terrain:
    """The same with more segments, which continue the last one, and more cells, all at the end of the line."""
    more = segments - line.slope.size
    # From their first points on no height is ever counted: they lie as far away as the line is long, each.
    beyond = jnp.arange(1, more + 1, dtype=line.vertex_x.dtype) * (line.vertex_x[-1] - line.vertex_x[0])
    x = jnp.concatenate([line.vertex_x, line.vertex_x[-1] + beyond])
    y = _repeated_last(line.vertex_y, segments + 1)
    edges = {name: _repeated_last(getattr(line, name), segments) for name in ("slope", "normal_x", "normal_y")}
    return replace(line, vertex_x=x, vertex_y=y, cell_segment=_repeated_last(line.cell_segment, cells), **edges)


def _repeated_last(values: Array, size: int) -> Array:
    return jnp.concatenate([values, jnp.repeat(values[-1:], size - values.size)])


LookUp = Callable[[Any, Array], Array]
"""From a table and indices to its entries."""


def surface(terrain: Terrain, x: Array, look_up: LookUp | None = None) -> tuple[Array, Array, Array]:
    """Height [m] and upward unit normal (two arrays) of the ground at x [m], any shape.

    Terrain fields may carry further axes at the end, matching the last axes of x; or they are anything that `look_up`
    can read, which a convex terrain does not need.
    """
    if terrain.convex:
        return _highest_line(terrain, x)
    look_up = look_up or _look_up
    return _line_below(terrain, x, _find_segment(terrain, x, look_up), look_up)


def nearest_surface(terrain: Terrain, x: Array, y: Array, look_up: LookUp | None = None) -> tuple[Array, Array, Array]:
    """Height of points over the nearest surface [m], negative inside, and that surface's unit normal, x and y.

    Outside, the surface is that below the point. Arrays as for `surface`.
    """
    if terrain.convex or not terrain.walls:
        height, normal_x, normal_y = surface(terrain, x, look_up)
        return (y - height) * normal_y, normal_x, normal_y
    look_up = look_up or _look_up
    own = _find_segment(terrain, x, look_up)
    slope, below = look_up(terrain.slope, own), _height_over_line(terrain, x, y, own, look_up)
    is_deep = below[0] < -terrain.deep

    def beside() -> tuple[Array, Array, Array]:
        best = below
        for other in (jnp.maximum(own - 1, 0), jnp.minimum(own + 1, len(terrain.slope) - 1)):
            steepness = look_up(terrain.slope, other)
            convex = jnp.where(other < own, steepness > slope, steepness < slope)
            found = _height_over_line(terrain, x, y, other, look_up)
            nearer = is_deep & convex & (jnp.abs(steepness) > STEEP) & (found[0] > best[0])
            height, normal_x, normal_y = (jnp.where(nearer, new, old) for new, old in zip(found, best, strict=True))
            best = height, normal_x, normal_y
        return best

    if gradients_needed() or not for_cpu():
        return beside()
    # Hardly anything is ever so deep, and then it is not worth the time.
    return jax.lax.cond(jnp.any(is_deep), beside, lambda: below)


def by_numbers(terrain: Terrain) -> Any:
    """A convex terrain, which is a few lines, by the numbers of its lines: for the lanes of a kernel."""
    return jax.tree.map(lambda value: tuple(value) if value.ndim else value, replace(terrain, cell_segment=None))


def least_height(terrain: Terrain, x: Array, y: Array) -> Array:
    """Of points over the lines of a convex terrain [m]: no ground is nearer than this."""
    over = [
        (y - terrain.vertex_y[i] - terrain.slope[i] * (x - terrain.vertex_x[i])) * terrain.normal_y[i]
        for i in range(len(terrain.slope))
    ]
    return reduce(jnp.minimum, over)


def _highest_line(terrain: Terrain, x: Array) -> tuple[Array, Array, Array]:
    best = None
    for i in range(len(terrain.slope)):
        height = terrain.vertex_y[i] + terrain.slope[i] * (x - terrain.vertex_x[i])
        if best is None:
            best = height, terrain.normal_x[i] + 0 * x, terrain.normal_y[i] + 0 * x
        else:
            higher = height > best[0]
            best = (
                jnp.maximum(height, best[0]),
                jnp.where(higher, terrain.normal_x[i], best[1]),
                jnp.where(higher, terrain.normal_y[i], best[2]),
            )
    assert best is not None
    return best


def _find_segment(terrain: Terrain, x: Array, look_up: LookUp) -> Array:
    cells = len(terrain.cell_segment)
    cell = jnp.floor((x - terrain.cell_start) / terrain.cell_width)
    # A failed robot may be anywhere, even nowhere: NaN must not become an index.
    cell = jnp.where(jnp.isfinite(cell), jnp.clip(cell, 0, cells - 1), 0).astype(jnp.int32)
    segment = look_up(terrain.cell_segment, cell)
    return jnp.minimum(segment + (x >= look_up(terrain.vertex_x, segment + 1)), len(terrain.slope) - 1)


def _line_below(terrain: Terrain, x: Array, segment: Array, look_up: LookUp) -> tuple[Array, Array, Array]:
    slope = look_up(terrain.slope, segment)
    height = look_up(terrain.vertex_y, segment) + slope * (x - look_up(terrain.vertex_x, segment))
    return height, look_up(terrain.normal_x, segment), look_up(terrain.normal_y, segment)


def _height_over_line(
    terrain: Terrain, x: Array, y: Array, segment: Array, look_up: LookUp
) -> tuple[Array, Array, Array]:
    height, normal_x, normal_y = _line_below(terrain, x, segment, look_up)
    return (y - height) * normal_y, normal_x, normal_y


def _look_up(table: Array, index: Array) -> Array:
    """table[index] along the first axis; further axes of the table go with the last axes of the index."""
    batch = table.shape[1:]
    if all(size == 1 for size in batch):
        return table.reshape(-1)[index]
    return table[(index, *(jax.lax.broadcasted_iota(jnp.int32, batch, axis) for axis in range(len(batch))))]
