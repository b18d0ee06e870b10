"""Contact between voxels: a corner inside another voxel is pushed out through the nearest outer edge that it came by.

The law of one corner and one voxel (`touch`), for corners and voxels of moving bodies (`between_boxes`) and of fixed
ground (`with_ground`, `with_line`). Every voxel that a corner belongs to counts on its own, as in EvoGym, so a corner
that two voxels share is pushed twice. Arrays of corners are (4, ...), numbered by their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.compute.xla import materialize
from vsr.environment import Environment
from vsr.environment.surfaces import ground as line_below
from vsr.physics.evogym.law import (
    CONTACT,
    CONTACT_DAMPING,
    CONTACT_OFFSET,
    CROSSING_TOLERANCE,
    FRICTION,
    FRICTION_SCALE,
    PARALLEL,
    SIDE,
)
from vsr.physics.evogym.model import GroundCells, code_at, has_edge
from vsr.robot.corners import RING

NEIGHBORS = {corner: (RING[place - 1], RING[(place + 1) % 4]) for place, corner in enumerate(RING)}
"""The corners at the other ends of a corner's two edges."""
TURNS = (2, 1, 0, 3)
"""Of equally near edges EvoGym takes the first of top, right, bottom, left: turns of edges in the order of RING."""
RING_STEPS = (0, 1, 1, 0), (0, 0, 1, 1)
"""From a cell's lowest left corner to those of RING, along x and y."""


class Boxes(NamedTuple):
    """Voxels of one body as contact sees them; b stands for their axes."""

    corner: Vector
    """(4, b)"""
    drift: Vector
    """velocity of the corners, (4, b)"""
    outer: Array
    """1 for outer edges: bottom, right, top, left, (4, b)"""
    node: Array
    """number of each corner's node, (4, b)"""

    @property
    def surface(self) -> Array:
        """Whether a voxel has an outer edge, b: others touch nothing."""
        return self.outer.max(0) > 0


class Touch(NamedTuple):
    """Forces where a corner is in a voxel, 0 where it is not."""

    point: Vector
    """on the corner"""
    quad: Vector
    """on the voxel's corners, in the order of RING, (4, ...)"""


def touch(
    point: Vector,
    ends: tuple[Vector, Vector],
    speed: Vector,
    quad: Vector,
    quad_speed: Vector | None,
    outer: Array,
    allowed: Array,
) -> Touch:
    """Of corners and voxels, which all go with each other.

    ends: of the two edges that leave the corner in its own voxel; quad: corners of the voxel, in the order of RING, and
    their velocities, None if it does not move, (4, ...); outer: which of its edges are outside, in the order of RING,
    (4, ...); allowed: False where corner and voxel have nothing to do with each other.
    """
    along = minus(tuple(jnp.roll(part, -1, 0) for part in quad), quad)
    size = jnp.sqrt(jnp.maximum(dot(along, along), 1e-12))
    distance = jnp.abs(cross(along, minus(point, quad))) / size
    crossed = _cross_each_other(point, ends[0], quad, along) | _cross_each_other(point, ends[1], quad, along)
    distance = jnp.where(crossed & (outer > 0), distance, jnp.inf)
    outward = along[1] / size, -along[0] / size
    distance, outward, within = materialize(point[0], (distance, outward, allowed & inside(point, quad)))
    depth = distance.min(0)
    hit = within & jnp.isfinite(depth)
    turn = jnp.where(distance == depth, _by(TURNS, depth.ndim), len(TURNS))
    chosen = ((turn == turn.min(0)) & hit).astype(depth.dtype)
    normal = tuple((chosen * part).sum(0) for part in outward)
    chosen, normal, depth = materialize(point[0], (chosen, normal, jnp.where(hit, depth, 0)))
    push, shared = contact_force(depth, normal, speed)
    push, shared = materialize(point[0], (times(hit.astype(depth.dtype), push), shared))
    # Half of the reaction for each end of the edge that was crossed, which is that corner's edge or the one before.
    crossed = chosen + jnp.roll(chosen, 1, 0)
    on_quad = times(-0.5, tuple(jnp.broadcast_to(part, crossed.shape) for part in shared))
    if quad_speed is not None:
        on_quad = plus(on_quad, times(-0.5 * CONTACT_DAMPING * dot(normal, quad_speed), normal))
    return Touch(push, times(crossed, on_quad))


def contact_force(depth: Array, normal: Vector, speed: Vector) -> tuple[Vector, Vector]:
    """Force on a corner, and the part of it whose opposite the other side gets."""
    strength = CONTACT * (CONTACT_OFFSET + depth)
    tangent = -normal[1], normal[0]
    friction = -FRICTION * strength * jnp.tanh(dot(tangent, speed) / (FRICTION_SCALE * strength))
    shared = plus(times(strength, normal), times(friction, tangent))
    return plus(shared, times(-CONTACT_DAMPING * dot(normal, speed), normal)), shared


def cross(first: Vector, second: Vector) -> Array:
    """The third component of the vector product."""
    return first[0] * second[1] - first[1] * second[0]


def _cross_each_other(p: Vector, q: Vector, a: Vector, other: Vector) -> Array:
    """Whether the line from p to q crosses one from a on; not if they are nearly parallel."""
    one, apart = minus(q, p), minus(a, p)
    size = cross(one, other)
    safe = jnp.where(jnp.abs(size) < PARALLEL, 1, size)
    along, across = cross(apart, other) / safe, cross(apart, one) / safe
    low, high = -CROSSING_TOLERANCE, 1 + CROSSING_TOLERANCE
    crossing = (along >= low) & (along <= high) & (across >= low) & (across <= high)
    return crossing & (jnp.abs(size) >= PARALLEL)


def inside(point: Vector, quad: Vector) -> Array:
    """Whether a point is in one of the two triangles left and right of a voxel's falling diagonal; quad: (4, ...)."""
    low_left, low_right, high_right, high_left = (minus(tuple(part[k] for part in quad), point) for k in range(4))
    diagonal = cross(low_right, high_left)
    upper = cross(high_left, high_right), cross(high_right, low_right)
    lower = cross(high_left, low_left), cross(low_left, low_right)
    in_upper = (diagonal * upper[0] >= 0) & (diagonal * upper[1] >= 0)
    in_lower = (diagonal * lower[0] >= 0) & (diagonal * lower[1] >= 0)
    return in_upper | in_lower


def between_boxes(boxes: Boxes, often: Array) -> Vector:
    """Forces on the corners of voxels from each other, (4, b); often: how often each touches each, (b, b)."""
    # Axes: corner of a voxel (4), voxel, other voxel that it is in; corners of the other come before all.
    quad, quad_speed = (tuple(_round(part)[:, None, None] for part in vector) for vector in (boxes.corner, boxes.drift))
    touched = touch(
        tuple(part[:, :, None] for part in boxes.corner),
        _ends(tuple(part[:, :, None] for part in boxes.corner)),
        tuple(part[:, :, None] for part in boxes.drift),
        quad,
        quad_speed,
        boxes.outer[:, None, None],
        _may_touch(boxes, often),
    )
    weight = often.reshape(*often.shape, *(1,) * (boxes.outer.ndim - 2))
    on_points = tuple((weight * part).sum(2) for part in touched.point)
    return plus(on_points, tuple(_round((weight * part).sum((1, 2))) for part in touched.quad))


def _may_touch(boxes: Boxes, often: Array) -> Array:
    """False for corners that belong to the other voxel, and for voxels that are not outside, (4, b, b)."""
    own = (boxes.node[:, None, :, None] == boxes.node[None, :, None, :]).any(1)
    both = boxes.surface[:, None] & boxes.surface[None]
    return ~own & both & (often > 0).reshape(*often.shape, *(1,) * (both.ndim - 2))


def any_inside(boxes: Boxes, often: Array) -> Array:
    """Whether some corner is in a voxel that it may touch, of any robot of a batch, ()."""
    quad = tuple(_round(part)[:, None, None] for part in boxes.corner)
    within = inside(tuple(part[:, :, None] for part in boxes.corner), quad)
    return (within & _may_touch(boxes, often)).any()


def _round(corners: Array) -> Array:
    """Corners by their bits in the order of RING, or back, (4, ...)."""
    return jnp.stack([corners[corner] for corner in RING])


def _ends(corner: Vector) -> tuple[Vector, Vector]:
    """For every corner of voxels the corners at the other ends of its two edges, (4, ...)."""
    first, second = (
        tuple(jnp.stack([part[NEIGHBORS[number][side]] for number in range(4)]) for part in corner) for side in range(2)
    )
    return first, second


def bounds(corner: Vector) -> tuple[Vector, Vector]:
    """Lowest and highest coordinates of voxels, b; corner: (4, b)."""
    return tuple(part.min(0) for part in corner), tuple(part.max(0) for part in corner)


CodeAt = Callable[[Array, Array], Array]
"""From numbers of rows and columns of ground to the codes of its cells (vsr.physics.evogym.model.code_at)."""


def with_ground(boxes: Boxes, ground: GroundCells, origin: Vector) -> Vector:
    """Forces on the corners of voxels, (4, b), from cells of ground; origin: cell at which coordinates are 0."""
    first = corners_in_ground(boxes, partial(code_at, ground), origin)
    return plus(first, _ground_in_boxes(boxes, partial(code_at, ground), origin))


def corners_in_ground(boxes: Boxes, code_at: CodeAt, origin: Vector) -> Vector:
    """Of corners that are in a cell of ground."""
    column, row = materialize(boxes.corner[0], cell_of(boxes.corner))
    code = code_at(row + origin[1], column + origin[0])
    quad = corners_of_cell((column, row))
    (code,) = materialize(boxes.corner[0], (code,))
    outer = jnp.stack([has_edge(code, edge) for edge in range(4)])
    allowed = boxes.surface[None] & (code > 0)
    return touch(boxes.corner, _ends(boxes.corner), boxes.drift, quad, None, outer, allowed).point


def cell_of(point: Vector) -> Vector:
    """Column and row of the cell that a point is in."""
    return tuple(jnp.floor(part / SIDE) for part in point)


def corners_of_cell(cell: Vector) -> Vector:
    """In the order of RING, (4, ...)."""
    return tuple(SIDE * (part + _by(steps, part.ndim)) for part, steps in zip(cell, RING_STEPS, strict=True))


def _by(values: tuple[int, ...], ndim: int) -> Array:
    """Whole numbers along a new axis before `ndim` others."""
    return jnp.array(values, jnp.float32).reshape(-1, *(1,) * ndim)


def _ground_in_boxes(boxes: Boxes, code_at: CodeAt, origin: Vector) -> Vector:
    """Of voxels that have a corner of the ground in them. A voxel reaches no farther than the four corners of the cell
    that its middle is in."""
    dtype, ndim = boxes.corner[0].dtype, boxes.surface.ndim
    # Axes: corner of the ground's lattice (4), the cell of ground that it is a corner of (4), voxels.
    corner = tuple(_by(part, ndim).astype(dtype)[:, None] for part in RING_STEPS)
    right, up = beside = tuple(-_by(part, ndim).astype(dtype) for part in RING_STEPS)
    column, row = plus(cell_of(middle(boxes.corner)), corner)
    code = code_at(row + up + origin[1], column + right + origin[0])
    point = tuple(jnp.broadcast_to(SIDE * part, code.shape) for part in (column, row))
    point, code = materialize(boxes.corner[0], (point, code))
    quad, quad_speed = (
        tuple(part[:, None, None] for part in in_ring(vector)) for vector in (boxes.corner, boxes.drift)
    )
    touched = touch(
        point,
        ends_in_ground(point, (column, row), beside),
        tuple(jnp.zeros_like(part) for part in point),
        quad,
        quad_speed,
        boxes.outer[:, None, None],
        (code > 16) & boxes.surface,
    )
    return in_ring(tuple(part.sum((1, 2)) for part in touched.quad))


def middle(corner: Vector) -> Vector:
    """Of voxels, b; corner: (4, b)."""
    return tuple(part.mean(0) for part in corner)


def ends_in_ground(point: Vector, place: Vector, beside: Vector) -> tuple[Vector, Vector]:
    """Where the edges end that leave a corner of the ground in one of its cells: away from that cell's neighbors.

    place: the corner's column and row; beside: steps from there to the cell.
    """
    away = tuple(SIDE * (part + 1 + 2 * step) for part, step in zip(place, beside, strict=True))
    return (away[0], point[1]), (point[0], away[1])


def in_ring(corners: Vector) -> Vector:
    """Corners by their bits in the order of RING, or back, (4, ...)."""
    return tuple(map(_round, corners))


def with_line(boxes: Boxes, environment: Environment, origin: Vector) -> Vector:
    """Forces on the corners of voxels, (4, b), below a line of ground; origin: of the coordinates."""
    if environment.terrain is None:
        return times(0.0, boxes.corner)
    place = plus(boxes.corner, origin)
    surface = line_below(environment.terrain, place)
    depth = jnp.maximum(-surface.height, 0)
    push, _ = contact_force(depth, surface.normal, boxes.drift)
    hit = (surface.height <= 0) & boxes.surface[None]
    return tuple(jnp.where(hit, part, 0) for part in push)


def overlapping_pairs(boxes: Boxes, owner: np.ndarray) -> Array:
    """How many ordered pairs of a robot's outer voxels that are no neighbors have overlapping boxes around them, ().

    owner: 0 for the robot's cells, (rows, columns).
    """
    row, column = (np.ravel(part) for part in np.indices(owner.shape))
    far = (np.abs(row[:, None] - row) > 1) | (np.abs(column[:, None] - column) > 1)
    mine = (owner == 0).ravel()
    pairs = jnp.asarray(far & mine[:, None] & mine)
    low, high = bounds(boxes.corner)
    near = boxes.surface[:, None] & boxes.surface[None] & pairs.reshape(*pairs.shape, *(1,) * (low[0].ndim - 1))
    for axis in range(2):
        near &= (low[axis][:, None] <= high[axis][None]) & (high[axis][:, None] >= low[axis][None])
    return near.sum((0, 1))
