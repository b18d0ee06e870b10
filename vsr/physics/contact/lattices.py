"""The voxels of all robots in a world as contact sees them: one list of vertices, one of cells."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.contact.bodies import Nodes
from vsr.physics.contact.vectors import look_up, summed
from vsr.physics.contact.voxels import at_surface, outer, outward
from vsr.physics.contract import ContactBody, Vertices


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lattice:
    """What does not change of one robot's voxels; p vertices, c the axes of cells."""

    corner_vertices: Array
    """of every cell's corners among the vertices, flattened, (corners, c)"""
    leads_out: Array
    """True for faces that lead to the outside, (faces, c)"""
    outer: Array
    """True for faces across which there is no voxel, (faces, c)"""
    present: Array
    """True where there is a voxel, c"""
    at_surface: Array
    """True for vertices on an outer face, (p,)"""
    side: Array
    """of a voxel at rest [m], c"""
    around: Array
    """numbers of the cells of which a vertex is a corner, by corner, -1 where there is none, (corners, p)"""


def lattice_of(robot: ContactBody) -> Lattice:
    """Of one robot."""
    model = robot.model
    corner_vertices = robot.engine.vertex_indices(model)
    vertices = robot.vertices.exists.size
    present = model.present > 0
    corners_outside = at_surface(model.present) & present
    # Places of absent cells mean nothing; they must not mark a vertex.
    marked = jnp.zeros(vertices, bool).at[corner_vertices.reshape(-1)].max(corners_outside.reshape(-1))
    return Lattice(
        corner_vertices=corner_vertices,
        leads_out=outward(model.present) & present,
        outer=outer(model.present),
        present=present,
        at_surface=marked,
        side=jnp.broadcast_to(model.voxel_side, present.shape),
        around=_around(corner_vertices.reshape(corner_vertices.shape[0], -1), present.reshape(-1), vertices),
    )


def _around(corner_vertices: Array, present: Array, vertices: int) -> Array:
    cell = jnp.where(present, jnp.arange(present.size, dtype=jnp.int32), -1)
    corner = jnp.arange(corner_vertices.shape[0])[:, None]
    nothing = jnp.full((corner_vertices.shape[0], vertices), -1, jnp.int32)
    return nothing.at[corner, corner_vertices].max(cell)


def outward_of(position: Array, lattice: Lattice) -> Array:
    """Roughly out of the body at every vertex: away from the middles of its voxels [m], (dimension, p).

    position: of the vertices [m], (dimension, p).
    """
    corners = lattice.corner_vertices.shape[0]
    middle = summed(look_up(position, lattice.corner_vertices, 1), 1) / corners
    there = look_up(middle, jnp.maximum(lattice.around, 0), 1)
    return summed(jnp.where(lattice.around >= 0, position[:, None] - there, 0), 1)


def joined(lattices: tuple[Lattice, ...]) -> Lattice:
    """All as one, places counted through, cells on one axis."""
    before, cells, corner_vertices, around = 0, 0, [], []
    for lattice in lattices:
        corner_vertices.append(_row(lattice.corner_vertices) + before)
        around.append(jnp.where(lattice.around >= 0, lattice.around + cells, -1))
        before += lattice.at_surface.shape[0]
        cells += lattice.present.size
    return Lattice(
        corner_vertices=jnp.concatenate(corner_vertices, 1),
        leads_out=jnp.concatenate([_row(lattice.leads_out) for lattice in lattices], 1),
        outer=jnp.concatenate([_row(lattice.outer) for lattice in lattices], 1),
        present=jnp.concatenate([lattice.present.reshape(-1) for lattice in lattices]),
        at_surface=jnp.concatenate([lattice.at_surface for lattice in lattices]),
        side=jnp.concatenate([lattice.side.reshape(-1) for lattice in lattices]),
        around=jnp.concatenate(around, 1),
    )


def _row(values: Array) -> Array:
    return values.reshape(values.shape[0], -1)


def nodes_of(robots: tuple[ContactBody, ...]) -> tuple[Nodes, Array]:
    """Vertices of all robots in one list, and their velocities [m/s], (dimension, p)."""
    found = [_flat(robot.vertices) for robot in robots]
    dimension = found[0].position.shape[-1]
    turns = dimension == 2

    def all_of(name: str) -> Array:
        return jnp.concatenate([getattr(one, name) for one in found])

    def or_zero(name: str, like: str) -> Array:
        return jnp.concatenate(
            [getattr(one, like) * 0 if getattr(one, name) is None else getattr(one, name) for one in found]
        )

    nodes = Nodes(
        position=all_of("position").T,
        inverse_mass=all_of("inverse_mass"),
        lever=or_zero("lever", "position").T if turns else None,
        inverse_inertia=or_zero("inverse_inertia", "inverse_mass") if turns else None,
        exists=all_of("exists"),
        friction=all_of("friction"),
        restitution=all_of("restitution"),
    )
    return nodes, all_of("velocity").T


def _flat(vertices: Vertices) -> Vertices:
    axes = vertices.inverse_mass.ndim
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[axes:]), vertices)


def pushed_by(robots: tuple[ContactBody, ...], impulse: Array, shift: Array) -> tuple[ContactBody, ...]:
    """Robots after impulses [N s] and shifts [kg m] on all vertices, (dimension, p) each."""
    after, before = [], 0
    for robot in robots:
        shape = robot.vertices.position.shape
        end = before + robot.vertices.exists.size
        own = (part.T[before:end].reshape(shape) for part in (impulse, shift))
        after.append(robot.pushed_at_vertices(*own))
        before = end
    return tuple(after)
