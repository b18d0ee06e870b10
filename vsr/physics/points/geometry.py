"""Shapes and motions of bodies of point masses. One robot; use `vmap` for many."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import split
from vsr.environment import Environment
from vsr.environment.surfaces import ground
from vsr.physics.points.breaking import all_intact
from vsr.physics.points.gather import corners_of_nodes
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.voxel_motion import VoxelMotion


def rest_state(model: PointModel) -> PointState:
    """The undeformed body, not moving, its grid's lowest left corner at the origin."""
    position = jnp.broadcast_to(model.rest_position, (*model.node_mass.shape, model.dimension))
    return PointState(position=position, velocity=jnp.zeros_like(position), intact=all_intact(model))


def voxel_motion(model: PointModel, environment: Environment, state: PointState) -> VoxelMotion:
    """What is seen of every voxel."""
    dimension = model.dimension
    layer = model.layer[..., None]
    corner = corners_of_nodes(state.position, layer, dimension)
    speed = corners_of_nodes(state.velocity, layer, dimension)
    touching = jnp.zeros_like(model.present)
    if environment.terrain is not None:
        touching = (ground(environment.terrain, split(corner, corner.ndim - 1)).height <= _TOUCH).any(0)
        touching = touching.astype(model.present.dtype)
    return VoxelMotion(
        corner=corner,
        velocity=speed.mean(0),
        size_ratio=size(corner, dimension) / model.voxel_side**dimension,
        touching=touching,
        spacing=model.voxel_side,
        ground=environment.terrain,
    )


_TOUCH = 1e-4
"""A node this near to the ground [m] touches it: contact puts nodes on the surface itself."""


def size(corner: Array, dimension: int) -> Array:
    """Area or volume of every voxel [m², m³], c; corner: (corners, c, dimension)."""
    if dimension == 2:
        first, second = corner[3] - corner[0], corner[2] - corner[1]
        return 0.5 * (first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0])
    return _hexahedron(corner)


def _hexahedron(corner: Array) -> Array:
    """Volume of a hexahedron with bilinear faces: the mean of two splittings into tetrahedra is exact."""

    def tetrahedra(corners: tuple[tuple[int, int, int, int], ...]) -> Array:
        total = jnp.zeros(corner.shape[1:-1], corner.dtype)
        for a, b, c, d in corners:
            edges = corner[b] - corner[a], corner[c] - corner[a], corner[d] - corner[a]
            total = total + (edges[0] * jnp.cross(edges[1], edges[2])).sum(-1) / 6
        return total

    even = ((0, 1, 2, 4), (3, 2, 1, 7), (5, 4, 7, 1), (6, 7, 4, 2), (1, 2, 4, 7))
    odd = ((1, 3, 0, 5), (2, 0, 3, 6), (4, 6, 5, 0), (7, 5, 6, 3), (0, 3, 6, 5))
    return 0.5 * (tetrahedra(even) + tetrahedra(odd))


def center(model: PointModel, state: PointState) -> Array:
    """Mean over voxels of the mean of their corners [m], (dimension,)."""
    corner = corners_of_nodes(state.position, model.layer[..., None], model.dimension)
    count = jnp.maximum(model.present.sum(), 1)
    return (corner.mean(0) * model.present[..., None]).sum(tuple(range(model.dimension))) / count


def bounding_box(model: PointModel, state: PointState) -> tuple[Array, Array]:
    """Lowest and highest coordinates of all nodes [m], each (dimension,)."""
    exists = (model.node_mass > 0)[..., None]
    axes = tuple(range(model.dimension + 1))
    return jnp.where(exists, state.position, jnp.inf).min(axes), jnp.where(exists, state.position, -jnp.inf).max(axes)
