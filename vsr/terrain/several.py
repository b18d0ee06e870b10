"""Several grounds of one kind as one, for robots that are simulated together, each on its own of them.

Arrays of the same shape are needed for that: what is shorter is continued beyond its end, where it goes on in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.terrain.field import HeightField
from vsr.terrain.surface import Terrain

Ground = Terrain | HeightField
G = TypeVar("G", Terrain, HeightField)


def together(grounds: Sequence[Ground]) -> Ground:
    """All of them with a leading axis (grounds,); raises ValueError if some are lines and others height fields."""
    lines = [ground for ground in grounds if isinstance(ground, Terrain)]
    fields = [ground for ground in grounds if isinstance(ground, HeightField)]
    if lines and fields:
        raise ValueError("lines of ground and height fields cannot be used together")
    return _stacked(_of_one_length(lines)) if lines else _stacked(_of_one_size(fields))


def chosen(ground: Ground, number: Array) -> Ground:
    """One of several; number: of it, ()."""
    return jax.tree.map(lambda leaf: leaf[number], ground)


def _stacked(grounds: Sequence[G]) -> G:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *grounds)


def _of_one_length(lines: Sequence[Terrain]) -> list[Terrain]:
    """Lines with as many segments and cells as the longest of each."""
    segments, cells = (max(getattr(line, name).size for line in lines) for name in ("slope", "cell_segment"))
    convex = all(line.convex and line.slope.size == segments for line in lines)
    walls = any(line.walls for line in lines)
    return [replace(_longer(line, segments, cells), convex=convex, walls=walls) for line in lines]


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


def _of_one_size(fields: Sequence[HeightField]) -> list[HeightField]:
    """Fields with as many points each way as the largest; what is added is as high as the border, as it is anyway."""
    rows, columns = (max(field.height.shape[axis] for field in fields) for axis in (0, 1))
    return [
        replace(
            field,
            height=jnp.asarray(
                np.pad(
                    np.asarray(field.height),
                    ((0, rows - field.height.shape[0]), (0, columns - field.height.shape[1])),
                    mode="edge",
                )
            ),
        )
        for field in fields
    ]
