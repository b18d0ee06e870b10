"""Ground and objects that a row brings into a world, as descriptions for our physics and as arrays for EvoGym's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.evogym import EvogymModel, EvogymObject, GroundCells
from vsr.physics.evogym.assembly import KINDS as NUMBERS
from vsr.physics.evogym.assembly import assemble_evogym, kinds_table
from vsr.physics.evogym.first import Beginning, Piece, Spot
from vsr.robot import KINDS, Body
from vsr.robot.corners import corner_steps
from vsr.tasks.evogym.table import ROWS, Block, ObjectRow, Row, corner_points, heights_of, solid_cells, with_blocks
from vsr.terrain import Columns
from vsr.world.spec import Box, Object

DEPTH = 3
"""Of objects in 3-D, across x [voxels]."""


def still_cells(row: Row) -> np.ndarray:
    """True for the ground's voxels that never move, (rows, columns)."""
    solid = solid_cells(heights_of(row.ground), (*row.blocks, *row.walls, *row.soft))
    return with_blocks(solid, row.soft, False)


def only_evogym(row: Row) -> str | None:
    """What of a task no other physics has, if anything."""
    return "soft ground" if row.soft else None


def moving_terrain(row: Row, inside: bool) -> tuple[str, ...]:
    """Names of objects that count as ground in what robots see; inside: whether they are in EvoGym's physics."""
    if not any(piece[0] in "FC" and piece[1:].isdigit() for piece in row.sees):
        return ()
    if not inside:
        return tuple(_block_name(number) for number in range(len(row.heap)))
    return (*([SOFT_GROUND] if row.soft else []), *([HEAP] if row.heap else []))


def ground_of(row: Row, side: float) -> Columns:
    """The ground as a line; side: of a voxel [m]."""
    heights = heights_of(row.columns_instead or row.ground)
    return Columns(heights=tuple(float(side * height) for height in heights), width=side)


def objects_of(row: Row, side: float, dimension: int) -> tuple[Object, ...]:
    """The object, loose blocks, walls, and blocks that hang in the air, for our physics."""
    found = [] if row.object is None else [_object(row.object, side, dimension)]
    found += [_box(_block_name(number), block, side, dimension) for number, block in enumerate(row.heap)]
    if row.columns_instead is None:
        for name, blocks in (("peg", row.blocks), ("wall", row.walls)):
            still = enumerate(blocks, 1)
            found += [_box(f"{name}{number}", block, side, dimension, fixed=True) for number, block in still]
    return tuple(found)


def _block_name(number: int) -> str:
    return f"block{number + 1}"


def _object(one: ObjectRow, side: float, dimension: int) -> Object:
    block = Block(one.x, one.y, one.width, one.height)
    if one.kind == "rigid":
        return _box(one.name, block, side, dimension)
    where = _middle(block, side, dimension)
    flat = ("s" * one.width,) * one.height
    shape = flat if dimension == 2 else tuple((row,) * DEPTH for row in flat)
    soft = {"s": KINDS["points"]["s"]}
    return Object(
        name=one.name, body=Body(shape=shape, engine="points", materials=soft, voxel_side=side), position=where
    )


def _box(name: str, block: Block, side: float, dimension: int, fixed: bool = False) -> Object:
    size = _size(block.width, block.height, side, dimension)
    return Object(name=name, shape=Box(size=size), position=_middle(block, side, dimension), fixed=fixed)


def _size(width: int, height: int, side: float, dimension: int) -> tuple[float, ...]:
    return tuple(side * count for count in ((width, height) if dimension == 2 else (width, DEPTH, height)))


def _middle(block: Block, side: float, dimension: int) -> tuple[float, ...]:
    x, up = side * (block.x + 0.5 * block.width), side * (block.y + 0.5 * block.height)
    return (x, up) if dimension == 2 else (x, 0.0, up)


def with_objects(row: Row, model: EvogymModel) -> EvogymModel:
    """EvoGym's robot in its world: voxels of ground, and objects of voxels, the one that counts first.

    Blocks are part of the ground, unless they are shifted at the start.
    """
    dtype, high = model.present.dtype, model.present.shape[0]
    moving = row.shift is not None
    ground, soft = row.ground_cells
    yields = soft | beside_soft(ground, soft)
    whole = solid_cells(heights_of(row.ground), (*row.walls, *row.soft, *(() if moving else row.blocks)))
    objects = (
        []
        if row.object is None
        else [_evogym_object(row.object.name, Block(*row.object[2:]), _KIND[row.object.kind], dtype)]
    )
    if moving:
        objects += [_evogym_object(f"peg{number + 1}", one, "fixed", dtype) for number, one in enumerate(row.blocks)]
    if row.soft:
        objects.append(_soft_ground(ground, soft, high, dtype))
    if row.heap:
        objects.append(_heap(row.heap, high, dtype))
    room = [(0, more - less) for more, less in zip(whole.shape, yields.shape, strict=True)]
    cells = GroundCells.of(whole, np.pad(yields, room))
    return replace(model, ground=cells, objects=tuple(objects), beginning=beginning_of(row.name))


@lru_cache(maxsize=len(ROWS))
def beginning_of(name: str) -> Beginning:
    """EvoGym places the ground, every block and the object as a piece each."""
    row = ROWS[name]
    solid, soft = row.ground_cells
    ground = [Piece.of(0, 0, solid, soft | beside_soft(solid, soft) if row.soft else None)] if solid.size else []
    blocks, heap = (
        [Piece.of(one.x, one.y, np.ones((one.height, one.width), bool)) for one in some]
        for some in (row.blocks, row.heap)
    )
    moving = row.shift is not None
    one = row.object
    objects = [] if one is None else [Piece.of(one.x, one.y, np.ones((one.height, one.width), bool), falls=True)]
    objects += [*(blocks if moving else []), *(ground if row.soft else []), *heap]
    return Beginning(
        row.start,
        tuple(ground if moving else [*ground, *blocks]),
        tuple(objects),
        (0, 0) if row.shift is None else row.shift.x,
    )


_KIND = {"soft": "none", "rigid": "rigid"}


def _evogym_object(name: str, block: Block, kind: str, dtype: jnp.dtype) -> EvogymObject:
    cells = jnp.full((block.height, block.width), NUMBERS.index(kind), jnp.int32)
    body = assemble_evogym(cells, kinds_table(dtype), layers=1)
    return EvogymObject(body, body.voxel_side * jnp.array([block.x, block.y], dtype), name)


def _heap(blocks: tuple[Block, ...], high: int, dtype: jnp.dtype) -> EvogymObject:
    """Blocks as one object; high: how many rows its grid may have."""
    corners = np.array([(one.y, one.x) for one in blocks])
    sizes = [(one.height, one.width) for one in blocks]
    parts = [np.argwhere(np.ones(size, bool)) + corner for size, corner in zip(sizes, corners, strict=True)]
    world = np.concatenate(parts).max(0) + 1
    body, spots = _together(parts, np.full(world, NUMBERS.index("rigid")), high, dtype)
    named = [
        Spot(row, column, number, *(place - corners[number]).tolist())
        for (row, column), (number, place) in spots.items()
    ]
    return EvogymObject(body, jnp.zeros(2, dtype), HEAP, tuple(named))


def _soft_ground(solid: np.ndarray, soft: np.ndarray, high: int, dtype: jnp.dtype) -> EvogymObject:
    """What is soft in the ground, with the fixed voxels that share points with it."""
    kinds = np.where(soft, NUMBERS.index("none"), NUMBERS.index("fixed"))
    body, spots = _together(_connected(soft, beside_soft(solid, soft)), kinds, high, dtype)
    around, outer = np.pad(solid, 1), np.zeros((4, *body.present.shape))
    for spot, (_, (row, column)) in spots.items():
        outer[:, *spot] = [not around[1 + row + up, 1 + column + right] for up, right in BESIDE]
    named = [Spot(*spot, 0, int(row), int(column), not soft[row, column]) for spot, (_, (row, column)) in spots.items()]
    return EvogymObject(
        replace(body, outer=jnp.asarray(outer, dtype)), jnp.zeros(2, dtype), SOFT_GROUND, tuple(named), ground=True
    )


def beside_soft(solid: np.ndarray, soft: np.ndarray) -> np.ndarray:
    """True for fixed cells that share a corner with a soft one."""
    points = corner_points(soft)
    return solid & ~soft & (points[:-1, :-1] | points[:-1, 1:] | points[1:, :-1] | points[1:, 1:])


HEAP, SOFT_GROUND = "heap", "soft ground"
"""Names of objects."""
BESIDE = (-1, 0), (0, 1), (1, 0), (0, -1)
"""From a cell to the neighbors at its bottom, right, top and left edge, up and right."""


def _connected(soft: np.ndarray, fixed: np.ndarray) -> list[np.ndarray]:
    """Rows and columns of the cells of every part that moves on its own, (cells, 2) each: soft cells that share sides,
    with the fixed ones at their corners."""
    left, found = {tuple(place) for place in np.argwhere(soft | fixed).tolist()}, []
    while left:
        part, ahead = [], [min(place for place in left if soft[place])]
        left.remove(ahead[0])
        while ahead:
            row, column = place = ahead.pop()
            part.append(place)
            around = {(row + up, column + right) for up in (-1, 0, 1) for right in (-1, 0, 1)} & left
            touching = {
                (up, right)
                for up, right in around
                if soft[place] != soft[up, right] or (soft[place] and (up == row or right == column))
            }
            left -= touching
            ahead += sorted(touching)
        found.append(np.array(sorted(part)))
    return found


Spots = dict[tuple[int, int], tuple[int, np.ndarray]]
"""From cells of a grid to a number of a piece and its cell of the world."""


def _together(parts: list[np.ndarray], kinds: np.ndarray, high: int, dtype: jnp.dtype) -> tuple[EvogymModel, Spots]:
    """Pieces of a world as one body, whose grid they fill without sharing nodes.

    parts: rows and columns in the world, (cells, 2) each; kinds: numbers of the world's cells; high: rows that the grid
    may have, or as many as the tallest.
    """
    sizes = [np.ptp(part, 0) + 1 for part in parts]
    high = max(high, *(int(size[0]) for size in sizes))
    stacks: list[list[int]] = []
    """first column, width, rows in use"""
    spots: Spots = {}
    for number in sorted(range(len(parts)), key=lambda number: tuple(-sizes[number][::-1])):
        rows, columns = sizes[number].tolist()
        stack = next((one for one in stacks if one[1] >= columns and one[2] + rows <= high), None)
        if stack is None:
            stack = [sum(one[1] + 1 for one in stacks), columns, 0]
            stacks.append(stack)
        for place in parts[number]:
            row, column = (place - parts[number].min(0) + (stack[2], stack[0])).tolist()
            spots[row, column] = number, place
        stack[2] += rows + 1
    cells = np.full((high, sum(one[1] + 1 for one in stacks) - 1), -1)
    right, up = np.meshgrid(np.arange(cells.shape[1] + 1), np.arange(cells.shape[0] + 1))
    position = np.stack([right, up], -1).astype(float)
    for (row, column), (_, (up, right)) in spots.items():
        cells[row, column] = kinds[up, right]
        for more_up, more_right in corner_steps(2):
            position[row + more_up, column + more_right] = right + more_right, up + more_up
    body = assemble_evogym(jnp.asarray(cells, jnp.int32), kinds_table(dtype), layers=1)
    return replace(body, rest_position=jnp.asarray(position, dtype) * body.voxel_side), spots


def shift_of(row: Row, key: Array, dtype: jnp.dtype) -> Array:
    """Drawn for objects and hanging blocks [voxels], right and up, (2,)."""
    assert row.shift is not None
    along, up = jax.random.split(key)
    drawn = [
        jax.random.randint(one, (), low, high + 1) for one, (low, high) in zip((along, up), row.shift, strict=True)
    ]
    return jnp.stack(drawn).astype(dtype)
