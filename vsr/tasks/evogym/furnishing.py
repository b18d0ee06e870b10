"""Ground and objects that a row brings into a world, as descriptions for our physics and as arrays for EvoGym's."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.evogym import EvogymModel, EvogymObject, GroundCells
from vsr.physics.evogym.assembly import KINDS as NUMBERS
from vsr.physics.evogym.assembly import assemble_evogym, kinds_table
from vsr.robot import KINDS, Body
from vsr.tasks.evogym.table import Block, ObjectRow, Row, heights_of, solid_cells
from vsr.terrain import Columns
from vsr.world.spec import Box, Object

DEPTH = 3
"""Of objects in 3-D, across x [voxels]."""


def solid_of(row: Row) -> np.ndarray:
    """True for the ground's voxels, (rows, columns)."""
    return solid_cells(heights_of(row.ground), row.blocks)


def ground_of(row: Row, side: float) -> Columns:
    """The ground as a line; side: of a voxel [m]."""
    heights = heights_of(row.columns_instead or row.ground)
    return Columns(heights=tuple(float(side * height) for height in heights), width=side)


def objects_of(row: Row, side: float, dimension: int) -> tuple[Object, ...]:
    """The object, and blocks that hang in the air, for our physics."""
    found = [] if row.object is None else [_object(row.object, side, dimension)]
    if row.columns_instead is None:
        found += [_peg(number, block, side, dimension) for number, block in enumerate(row.blocks)]
    return tuple(found)


def _object(one: ObjectRow, side: float, dimension: int) -> Object:
    where = _middle(Block(one.x, one.y, one.width, one.height), side, dimension)
    if one.kind == "rigid":
        size = _size(one.width, one.height, side, dimension)
        return Object(name=one.name, shape=Box(size=size), position=where)
    flat = ("s" * one.width,) * one.height
    shape = flat if dimension == 2 else tuple((row,) * DEPTH for row in flat)
    soft = {"s": KINDS["points"]["s"]}
    return Object(
        name=one.name, body=Body(shape=shape, engine="points", materials=soft, voxel_side=side), position=where
    )


def _peg(number: int, block: Block, side: float, dimension: int) -> Object:
    size = _size(block.width, block.height, side, dimension)
    return Object(name=f"peg{number + 1}", shape=Box(size=size), position=_middle(block, side, dimension), fixed=True)


def _size(width: int, height: int, side: float, dimension: int) -> tuple[float, ...]:
    return tuple(side * count for count in ((width, height) if dimension == 2 else (width, DEPTH, height)))


def _middle(block: Block, side: float, dimension: int) -> tuple[float, ...]:
    x, up = side * (block.x + 0.5 * block.width), side * (block.y + 0.5 * block.height)
    return (x, up) if dimension == 2 else (x, 0.0, up)


def with_objects(row: Row, model: EvogymModel) -> EvogymModel:
    """EvoGym's robot in its world: voxels of ground, and objects of voxels, the one that counts first.

    Blocks are part of the ground, unless they are shifted at the start.
    """
    dtype = model.present.dtype
    moving = row.shift is not None
    ground = solid_cells(heights_of(row.ground), () if moving else row.blocks)
    objects = (
        []
        if row.object is None
        else [_evogym_object(row.object.name, Block(*row.object[2:]), _KIND[row.object.kind], dtype)]
    )
    if moving:
        objects += [_evogym_object(f"peg{number + 1}", one, "fixed", dtype) for number, one in enumerate(row.blocks)]
    return replace(model, ground=GroundCells.of(ground), objects=tuple(objects))


_KIND = {"soft": "none", "rigid": "rigid"}


def _evogym_object(name: str, block: Block, kind: str, dtype: jnp.dtype) -> EvogymObject:
    cells = jnp.full((block.height, block.width), NUMBERS.index(kind), jnp.int32)
    body = assemble_evogym(cells, kinds_table(dtype), layers=1)
    return EvogymObject(body, body.voxel_side * jnp.array([block.x, block.y], dtype), name)


def shift_of(row: Row, key: Array, dtype: jnp.dtype) -> Array:
    """Drawn for objects and hanging blocks [voxels], right and up, (2,)."""
    assert row.shift is not None
    along, up = jax.random.split(key)
    drawn = [
        jax.random.randint(one, (), low, high + 1) for one, (low, high) in zip((along, up), row.shift, strict=True)
    ]
    return jnp.stack(drawn).astype(dtype)
