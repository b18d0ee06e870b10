"""Contact between voxels: a corner inside another voxel is pushed out through the nearest outer edge that it came by.

The law of one corner and one voxel (`touch`), for corners and voxels of moving bodies (`between_boxes`) and of fixed
ground (`with_ground`, `with_line`). Every voxel that a corner belongs to counts on its own, as in EvoGym, so a corner
that two voxels share is pushed twice. Arrays of corners are (4, ...), numbered by their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.compute.xla import for_cpu, materialize
from vsr.environment import Environment
from vsr.environment.surfaces import ground as line_below
from vsr.physics.evogym.law import (
    CONTACT,
    CONTACT_DAMPING,
    CONTACT_OFFSET,
    FRICTION,
    FRICTION_SCALE,
    PARALLEL,
    SIDE,
)
from vsr.physics.evogym.model import NOBODY, GroundCells, code_at, has_edge
from vsr.robot.corners import RING

NEIGHBORS = {corner: (RING[place - 1], RING[(place + 1) % 4]) for place, corner in enumerate(RING)}
"""The corners at the other ends of a corner's two edges."""
TURNS = (2, 1, 0, 3)
"""Of equally near edges EvoGym takes the first of top, right, bottom, left: turns of edges in the order of RING."""
ROUNDING = 1e-6
"""By which two edges may miss each other in 32 bits, over their length."""
WITHIN = 1e-5 * SIDE
"""By which bounds are looked at too generously, for rounding."""
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
    # EvoGym has none, but 32 bits would let corners slip through between two edges.
    tolerance = 0.0 if size.dtype == jnp.float64 else ROUNDING
    low, high = -tolerance, 1 + tolerance
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


class Pairs(NamedTuple):
    """Voxels that may meet: p stands for pairs of a voxel and another that its corners may be in."""

    one: np.ndarray
    """(p,)"""
    other: np.ndarray
    """(p,)"""
    often: np.ndarray
    """how often they are found, (p,)"""
    objects: np.ndarray
    """whether they are voxels of two objects, (p,)"""

    @staticmethod
    def of(owner: np.ndarray) -> Pairs:
        """Of cells by their owners (vsr.physics.evogym.model.Joint): voxels of one body are found twice, as in EvoGym;
        objects do not fold onto themselves, and soft ground does not move far."""
        owner = owner.ravel()
        own = owner[:, None] == owner
        often = np.where(own, np.where(owner == 0, 2.0, 0.0), 1.0) * (owner != NOBODY) * (owner != NOBODY)[:, None]
        np.fill_diagonal(often, 0)
        one, other = np.nonzero(often)
        return Pairs(one, other, often[one, other], ~own[one, other] & (owner[one] > 0) & (owner[other] > 0))


TOGETHER = 64
"""Pairs that are computed at once: few touch in a substep, so that few turns are needed."""


def strange_corners(node: Array, outer: Array, pairs: Pairs) -> Array:
    """True for corners that do not belong to the other voxel, of voxels that are both outside, (4, p); see Boxes."""
    own = (node[:, None, pairs.one] == node[None, :, pairs.other]).any(1)
    surface = outer.max(0) > 0
    return ~own & surface[pairs.one] & surface[pairs.other]


def between_boxes(boxes: Boxes, pairs: Pairs, strange: Array, strangers: Array, landing: Array | None = None) -> Vector:
    """Forces on the corners of voxels from each other, (4, b).

    strange: see `strange_corners`; strangers: 0 where voxels of different bodies do not count, (); landing: True for
    voxels of objects whose contact with other objects is known, b.
    Only pairs are computed of which a corner is within the other's bounds, in some robot of a batch.
    """
    nothing = tuple(jnp.zeros_like(part) for part in boxes.corner)
    if not len(pairs.one):
        return nothing
    low, high = bounds(boxes.corner)
    near = strange
    for axis, part in enumerate(boxes.corner):
        corner = part[:, pairs.one]
        near = near & (corner >= low[axis][pairs.other] - WITHIN) & (corner <= high[axis][pairs.other] + WITHIN)
    near = near.any((0, *range(2, near.ndim)))
    count = near.sum()
    (listed,) = jnp.nonzero(near, size=TOGETHER * -(-len(near) // TOGETHER), fill_value=0)
    ahead = boxes.surface.ndim - 1

    def some(number: Array, felt: Vector) -> Vector:
        # Axes: corner of a voxel (4), pair; corners of the other voxel come before all.
        chosen = jax.lax.dynamic_slice_in_dim(listed, number * TOGETHER, TOGETHER)
        counts = number * TOGETHER + jnp.arange(TOGETHER) < count
        one, other = jnp.asarray(pairs.one)[chosen], jnp.asarray(pairs.other)[chosen]
        corner, drift = (tuple(part[:, one] for part in vector) for vector in (boxes.corner, boxes.drift))
        quad, quad_speed = (
            tuple(_round(part[:, other])[:, None] for part in vector) for vector in (boxes.corner, boxes.drift)
        )
        often = jnp.where(counts, jnp.asarray(pairs.often, low[0].dtype)[chosen], 0).reshape(-1, *(1,) * ahead)
        often = jnp.where(often == 1, strangers, often)
        if landing is not None:
            known = jnp.asarray(pairs.objects)[chosen].reshape(-1, *(1,) * ahead) & (landing[one] | landing[other])
            often = jnp.where(known, 0, often)
        touched = touch(
            corner,
            _ends(corner),
            drift,
            quad,
            quad_speed,
            boxes.outer[:, None, other],
            strange[:, chosen] & (often > 0),
        )
        on_points = times(often, touched.point)
        on_quads = tuple(_round((often * part).sum(1)) for part in touched.quad)
        on_points, on_quads = materialize(low[0], (on_points, on_quads))
        return tuple(
            _added(_added(total, one, points), other, quads)
            for total, points, quads in zip(felt, on_points, on_quads, strict=True)
        )

    return jax.lax.fori_loop(0, -(-count // TOGETHER), some, nothing)


def _added(total: Array, place: Array, values: Array) -> Array:
    """With values of pairs, (4, pairs, ...), at their cells; in the same order in programs of one robot and of many."""
    if for_cpu():
        return total.at[:, place].add(values)
    # Elsewhere additions at places come in any order.
    chosen = (jnp.arange(total.shape[1])[:, None] == place).astype(values.dtype)
    return total + jnp.einsum("cp,kp...->kc...", chosen, values, precision="highest")


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


def with_ground(boxes: Boxes, owner: np.ndarray, ground: GroundCells, origin: Vector) -> Vector:
    """Forces on the corners of voxels, (4, b), from cells of ground; origin: cell at which coordinates are 0.

    owner: of every cell (vsr.physics.evogym.model.Joint); what is one with the ground does not touch it.
    """
    meets = np.flatnonzero(owner.ravel() >= 0)
    corner, drift = (tuple(part[:, meets] for part in vector) for vector in (boxes.corner, boxes.drift))
    some = Boxes(corner, drift, boxes.outer[:, meets], boxes.node[:, meets])
    felt = corners_in_ground(some, partial(code_at, ground), origin)
    felt = plus(felt, _ground_in_boxes(some, partial(code_at, ground), origin))
    return tuple(jnp.zeros_like(whole).at[:, meets].set(part) for whole, part in zip(boxes.corner, felt, strict=True))


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
    mine = np.flatnonzero(owner.ravel() == 0)
    row, column = (np.ravel(part)[mine] for part in np.indices(owner.shape))
    far = (np.abs(row[:, None] - row) > 1) | (np.abs(column[:, None] - column) > 1)
    low, high = (tuple(part[mine] for part in vector) for vector in bounds(boxes.corner))
    surface = boxes.surface[mine]
    near = surface[:, None] & surface[None] & far.reshape(*far.shape, *(1,) * (low[0].ndim - 1))
    for axis in range(2):
        near &= (low[axis][:, None] <= high[axis][None]) & (high[axis][:, None] >= low[axis][None])
    return near.sum((0, 1))
