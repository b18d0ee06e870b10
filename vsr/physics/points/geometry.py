"""Shapes, motions and telemetry of bodies of point masses, ours and EvoGym's. One robot; use `vmap` for many.

Values go between nodes (on lattice vertices) and voxel corners by slicing and joining only; there further axes may
follow. Corners are numbered by their bits (vsr.robot.corners).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.grid import overlap
from vsr.compute.vector import split
from vsr.environment import Environment
from vsr.environment.surfaces import ground
from vsr.physics.contract import Hull, SpringEnds, Vertices, VoxelMotion
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.springs import all_intact, spring_corners
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry, failure_of, fastest_speed
from vsr.robot.corners import corner_steps


@partial(jax.jit, static_argnames="dimension")
def corners_of_nodes(nodes: Array, layer: Array, dimension: int) -> Array:
    """Each voxel's view of its corners, (layers, n, ...) -> (corners, c, ...); layer: see PointModel."""

    def of_layer(one: Array) -> Array:
        cells = [size - 1 for size in one.shape[:dimension]]
        return jnp.stack(
            [
                one[tuple(slice(step, step + size) for step, size in zip(steps, cells, strict=True))]
                for steps in corner_steps(dimension)
            ]
        )

    if nodes.shape[0] == 1:
        return of_layer(nodes[0])
    return sum(of_layer(nodes[i]) * layer[i] for i in range(nodes.shape[0]))  # pyright: ignore[reportReturnType]


@partial(jax.jit, static_argnames="dimension")
def nodes_of_corners(corners: Array, layer: Array, dimension: int) -> Array:
    """Values of corners added up at their nodes, (corners, c, ...) -> (layers, n, ...)."""

    def total(values: Array) -> Array:
        folded = values.reshape(*(2,) * dimension, *values.shape[1:])
        for _ in range(dimension):  # one corner axis after the other is folded into the axis of cells it steps along
            folded = overlap(folded[0], folded[1], dimension - 1)
        return folded

    layers = layer.shape[0]
    if layers == 1:
        return total(corners)[None]
    return jnp.stack([total(corners * layer[i]) for i in range(layers)])


class PointBody(Protocol):
    """What is asked of the model of any body of point masses; fields as of PointModel."""

    @property
    def present(self) -> Array: ...
    @property
    def voxel_side(self) -> Array: ...
    @property
    def layer(self) -> Array: ...
    @property
    def node_mass(self) -> Array: ...
    @property
    def inverse_mass(self) -> Array: ...
    @property
    def friction(self) -> Array: ...
    @property
    def restitution(self) -> Array: ...
    @property
    def dimension(self) -> int: ...


class Points(Protocol):
    """What is asked of a state; fields as of PointState."""

    @property
    def position(self) -> Array: ...
    @property
    def velocity(self) -> Array: ...


def rest_state(model: PointModel) -> PointState:
    """The undeformed body, not moving, its grid's lowest left corner at the origin."""
    position = jnp.broadcast_to(model.rest_position, (*model.node_mass.shape, model.dimension))
    return PointState(position=position, velocity=jnp.zeros_like(position), intact=all_intact(model))


def voxel_motion(model: PointBody, environment: Environment, state: Points) -> VoxelMotion:
    """What is seen of every voxel."""
    dimension = model.dimension
    layer = model.layer[..., None]
    corner = corners_of_nodes(state.position, layer, dimension)
    speed = corners_of_nodes(state.velocity, layer, dimension)
    contact = jnp.zeros_like(model.present)
    if environment.terrain is not None:
        contact = (ground(environment.terrain, split(corner, corner.ndim - 1)).height <= _TOUCH).any(0)
        contact = contact.astype(model.present.dtype)
    return VoxelMotion(
        corner=corner,
        velocity=speed.mean(0),
        size_ratio=size(corner, dimension) / model.voxel_side**dimension,
        contact=contact,
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


def center(model: PointBody, state: Points) -> Array:
    """Mean over voxels of the mean of their corners [m], (dimension,)."""
    corner = corners_of_nodes(state.position, model.layer[..., None], model.dimension)
    count = jnp.maximum(model.present.sum(), 1)
    return (corner.mean(0) * model.present[..., None]).sum(tuple(range(model.dimension))) / count


def bounding_box(model: PointBody, state: Points) -> tuple[Array, Array]:
    """Lowest and highest coordinates of all nodes [m], each (dimension,)."""
    exists = (model.node_mass > 0)[..., None]
    axes = tuple(range(model.dimension + 1))
    return jnp.where(exists, state.position, jnp.inf).min(axes), jnp.where(exists, state.position, -jnp.inf).max(axes)


def momentum(model: PointBody, state: Points) -> Array:
    """Linear momentum [kg m/s], (dimension,)."""
    return (model.node_mass[..., None] * state.velocity).sum(tuple(range(1 + model.dimension)))


def vertices(model: PointBody, state: Points) -> Vertices:
    """The nodes, (layers, n)."""
    return Vertices(
        position=state.position,
        velocity=state.velocity,
        inverse_mass=model.inverse_mass,
        lever=None,
        inverse_inertia=None,
        exists=model.node_mass > 0,
        friction=model.friction,
        restitution=model.restitution,
    )


def vertex_indices(model: PointBody) -> Array:
    """Places of every voxel's corners among the flattened nodes, (corners, c)."""
    sizes = model.node_mass.shape[1:]
    number = np.arange(math.prod(sizes), dtype=np.int32).reshape(sizes)
    windows = (
        tuple(slice(step, step + size - 1) for step, size in zip(steps, sizes, strict=True))
        for steps in corner_steps(model.dimension)
    )
    here = jnp.asarray(np.stack([number[window] for window in windows]))
    return here + math.prod(sizes) * model.layer.argmax(0).astype(jnp.int32)


def hull(model: PointBody, state: Points) -> Hull:
    """The nodes as voxels see them."""
    dimension, layer = model.dimension, model.layer
    return Hull(
        position=corners_of_nodes(state.position, layer[..., None], dimension),
        velocity=corners_of_nodes(state.velocity, layer[..., None], dimension),
        inverse_effective_mass=corners_of_nodes(model.inverse_mass, layer, dimension),
        friction=corners_of_nodes(model.friction, layer, dimension),
    )


def pushed_at_hull(model: PointBody, impulses: Array) -> Array:
    """Change of the nodes' velocity by impulses at corners [m/s], (layers, n, dimension); see Contact.push_hull."""
    pushed = nodes_of_corners(impulses, model.layer[..., None], model.dimension)
    return model.inverse_mass[..., None] * pushed


def spring_ends(dimension: int) -> list[SpringEnds]:
    """The springs of a voxel, each between two centers of masses."""
    return [(kind, first, -1, second, -1) for kind, first, second in spring_corners(dimension)]


def telemetry(model: PointBody, state: Points, substep: float) -> Telemetry:
    """Of one state, (layers, n); substep: that led there [s]."""
    corners = nodes_of_corners(jnp.broadcast_to(model.present, model.layer.shape[1:]), model.layer, model.dimension)
    return Telemetry(corners * state.position[..., -1], failure(model, state, fastest_speed(model.voxel_side, substep)))


def failure(model: PointBody, state: Points, fastest: Array | float = EXPLOSION_SPEED) -> Array:
    """What befell every node, (layers, n); fastest: see vsr.physics.telemetry.fastest_speed [m/s]."""
    dimension, layer = model.dimension, model.layer
    inverted = size(corners_of_nodes(state.position, layer[..., None], dimension), dimension) <= 0
    of_corners = jnp.broadcast_to(inverted * model.present, layer.shape[1:])
    turned = nodes_of_corners(of_corners, layer, dimension) > 0
    return failure_of((state.position.sum(-1),), state.velocity, turned, fastest)
