"""Overlap of bodies at the beginning of an episode: contact assumes that bodies hardly overlap.

Two convex bodies are apart if they are apart along one of a few directions (separating axes): the normals of their
faces and, in 3-D, those across two edges. If they are not, the least overlap along these is how far one of them must
move to be out of the other. Voxels are taken as convex; in 3-D the edges of one are its three mean directions, which is
exact for voxels that are not deformed. Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contact.convex import Placed, place
from vsr.physics.contact.solids import Solids, SolidState
from vsr.physics.contact.vectors import cross, dot, unit
from vsr.physics.contact.voxels import face_planes, points_in_blocks
from vsr.physics.contract import ContactBody
from vsr.terrain import Blocks

SAMPLES = 5
"""Points of a voxel along each of its axes that are looked for in blocks."""
PARALLEL = 1e-3
"""Sine of the angle between edges below which no direction is across both."""


class _Convex(NamedTuple):
    """Convex bodies; m stands for their axes."""

    corner: Array
    """[m], (dimension, m, corners)"""
    normal: Array
    """unit vectors out of faces, 0 for faces that do not exist, (dimension, m, faces)"""
    edge: Array
    """unit vectors along edges, 0 for edges that do not exist; none in 2-D, (dimension, m, edges)"""
    radius: Array
    """by which they reach beyond their corners [m], m"""

    def beside(self, before: int, after: int) -> _Convex:
        """With axes of length 1 before and after their own, to be combined with others."""

        def wider(values: Array, first: int) -> Array:
            own = values.shape[first:]
            bodies = self.radius.ndim
            return values.reshape(*values.shape[:first], *(1,) * before, *own[:bodies], *(1,) * after, *own[bodies:])

        return _Convex(wider(self.corner, 1), wider(self.normal, 1), wider(self.edge, 1), wider(self.radius, 0))


def depth_in_bodies(robot: ContactBody, solids: Solids, state: SolidState) -> Array:
    """How deep a robot's voxel and a rigid body are in each other, at most; negative if all are apart [m], ()."""
    voxel, present = _voxels(robot)
    placed = place(solids.shapes, state.position, state.rotation)
    one, bodies = voxel.beside(0, 1), _bodies(placed).beside(1, 0)
    depth = _depth(one, bodies)
    rounds = np.array(solids.shapes.round, bool)
    if rounds.any():
        depth = jnp.where(rounds, jnp.minimum(depth, _depth_of_round(one, bodies)), depth)
    return jnp.where(present[:, None], depth, -jnp.inf).max()


def depth_in_voxels(robot: ContactBody, other: ContactBody) -> Array:
    """How deep voxels of two bodies are in each other, at most; negative if all are apart [m], ()."""
    (one, present), (two, there) = _voxels(robot), _voxels(other)
    depth = _depth(one.beside(0, 1), two.beside(1, 0))
    return jnp.where(present[:, None] & there, depth, -jnp.inf).max()


def depth_in_blocks(robot: ContactBody, blocks: Blocks) -> Array:
    """How deep points of a robot's voxels are in blocks of ground, at most; 0 if none is [m], ().

    Of every voxel there are SAMPLES points along each axis: walls thinner than a quarter of a voxel may be missed.
    """
    voxel, present = _voxels(robot)
    share = np.linspace(0, 1, SAMPLES)
    point = voxel.corner.reshape(*voxel.corner.shape[:2], *(2,) * voxel.corner.shape[0])
    for axis in range(2, point.ndim):
        low, high = (jnp.take(point, np.array([end]), axis) for end in (0, 1))
        across = share.reshape(-1, *(1,) * (point.ndim - 1 - axis)).astype(point.dtype)
        point = low + across * (high - low)
    found = points_in_blocks(blocks, point.reshape(point.shape[0], -1))
    inside = found.is_inside.reshape(present.size, -1) & present[:, None]
    return jnp.where(inside, found.depth.reshape(inside.shape), 0).max()


def _voxels(robot: ContactBody) -> tuple[_Convex, Array]:
    """All cells of a robot, (c,), and which have a voxel."""
    position = robot.vertices.position
    dimension = position.shape[-1]
    places = robot.engine.vertex_indices(robot.model)
    corner = position.reshape(-1, dimension)[places.reshape(places.shape[0], -1)]  # (corners, c, dimension)
    corner = jnp.moveaxis(corner, -1, 0)
    normal = jnp.stack([normal for _, normal in face_planes(corner)], -1)
    corner = jnp.moveaxis(corner, 1, 2)
    edge = corner[:, :, :0]
    if dimension == 3:
        cube = corner.reshape(*corner.shape[:2], 2, 2, 2)
        ways = [(jnp.take(cube, 1, axis) - jnp.take(cube, 0, axis)).mean((2, 3)) for axis in (2, 3, 4)]
        edge = jnp.stack([unit(way) for way in ways], -1)
    present = robot.model.present.reshape(-1) > 0
    return _Convex(corner, normal, edge, jnp.zeros(present.shape, corner.dtype)), present


def _bodies(placed: Placed) -> _Convex:
    """Rigid bodies; round ones are their center and a radius."""
    return _Convex(placed.corner, placed.normal, unit(placed.edge), placed.radius)


def _depth(one: _Convex, other: _Convex) -> Array:
    """Least overlap along all directions [m]; of bodies side by side."""
    least = jnp.minimum(_overlap(one, other, one.normal), _overlap(one, other, other.normal))
    for number in range(one.edge.shape[-1]):
        axis = cross(one.edge[..., number, None], other.edge)
        least = jnp.minimum(least, _overlap(one, other, jnp.where(dot(axis, axis) > PARALLEL**2, unit(axis), 0)))
    return least


def _depth_of_round(one: _Convex, ball: _Convex) -> Array:
    """Likewise, of bodies with faces and round ones: along the ways from the center to the edges of the first."""
    center = ball.corner[..., 0]
    count = one.corner.shape[-1]
    ends = [(low, low | bit) for bit in (1, 2, 4) if bit < count for low in range(count) if not low & bit]
    first, last = (jnp.stack([one.corner[..., pair[end]] for pair in ends], -1) for end in (0, 1))
    way = last - first
    along = dot(center[..., None] - first, way) / jnp.maximum(dot(way, way), 1e-12)
    return _overlap(one, ball, unit(first + jnp.clip(along, 0, 1) * way - center[..., None]))


def _overlap(one: _Convex, other: _Convex, axis: Array) -> Array:
    """The least along some directions [m]; those of length 0 do not count; axis: (dimension, m, directions)."""
    if axis.shape[-1] == 0:
        return jnp.asarray(jnp.inf, axis.dtype)

    def reach(body: _Convex) -> tuple[Array, Array]:
        along = dot(axis[..., None], body.corner[..., None, :])
        return along.min(-1) - body.radius[..., None], along.max(-1) + body.radius[..., None]

    (low, high), (below, above) = reach(one), reach(other)
    overlap = jnp.minimum(high - below, above - low)
    return jnp.where(dot(axis, axis) > 0, overlap, jnp.inf).min(-1)
