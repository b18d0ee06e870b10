"""Shapes and motions read off a state: masses, corners, areas, centers, energies. One robot; use `vmap` for many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import quarter_turn, turn
from vsr.physics.squares.gather import masses_of_clusters
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.scaffolding import CORNER_SIGNS


class MassMotion(NamedTuple):
    """All masses of a robot, by voxel corner."""

    center: Array
    """[m], (4, rows, columns, 2)"""
    rotation: Array
    """cosine and sine, (4, rows, columns, 2)"""
    velocity: Array
    """of the centers [m/s], (4, rows, columns, 2)"""
    spin: Array
    """[rad/s], (4, rows, columns)"""


def rest_state(model: SquareModel) -> SquareState:
    """The undeformed body, not moving, its grid's lower left corner at the origin."""
    upright = jnp.broadcast_to(jnp.array([1, 0], model.mass.dtype), model.rest_position.shape)
    return SquareState(
        position=model.rest_position,
        rotation=upright,
        velocity=jnp.zeros_like(model.rest_position),
        spin=jnp.zeros_like(model.cluster_mass),
    )


def mass_motion(model: SquareModel, state: SquareState) -> MassMotion:
    """Motion of every mass, moving rigidly with its cluster."""
    second = model.in_second_layer[..., None]
    rotation = masses_of_clusters(state.rotation, second)
    spin = masses_of_clusters(state.spin, model.in_second_layer)
    arm = turn(rotation, model.mass_offset)
    return MassMotion(
        center=masses_of_clusters(state.position, second) + arm,
        rotation=rotation,
        velocity=masses_of_clusters(state.velocity, second) + spin[..., None] * quarter_turn(arm),
        spin=spin,
    )


def mass_corners(model: SquareModel, motion: MassMotion) -> Array:
    """The four corners of every mass [m], (4 corners, 4 masses, rows, columns, 2)."""
    signs = jnp.asarray(CORNER_SIGNS, motion.center.dtype)[:, None, None, None, :]
    return motion.center + turn(motion.rotation, signs * model.half_side[..., None])


def voxel_corners(model: SquareModel, motion: MassMotion) -> Array:
    """The outer corner of each of a voxel's masses [m], (4, rows, columns, 2)."""
    signs = jnp.asarray(CORNER_SIGNS, motion.center.dtype)[:, None, None, :]
    return motion.center + turn(motion.rotation, signs * model.half_side[..., None])


def corner_levers(model: SquareModel, state: SquareState) -> Array:
    """The outer corner of each of a voxel's masses, seen from its cluster's center [m], (4, rows, columns, 2)."""
    rotation = masses_of_clusters(state.rotation, model.in_second_layer[..., None])
    signs = jnp.asarray(CORNER_SIGNS, rotation.dtype)[:, None, None, :]
    return turn(rotation, model.mass_offset + signs * model.half_side[..., None])


def vertex_levers(model: SquareModel, state: SquareState) -> Array:
    """The lattice vertex of each cluster, seen from the cluster's center [m], (layers, rows+1, columns+1, 2).

    It is the outer corner of all masses that are welded there.
    """
    return turn(state.rotation, vertex_offsets(model))


def vertex_offsets(model: SquareModel) -> Array:
    """The same of clusters that are not turned."""
    _, rows, columns = model.cluster_mass.shape
    up, right = jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij")
    return model.voxel_side * jnp.stack([right, up], -1) - model.rest_position


def area_ratio(model: SquareModel, motion: MassMotion) -> Array:
    """Area of the quadrilateral of a voxel's outer corners over its area at rest, (rows, columns)."""
    corner = voxel_corners(model, motion)
    following = jnp.roll(corner, -1, axis=0)
    doubled = (corner[..., 0] * following[..., 1] - corner[..., 1] * following[..., 0]).sum(0)
    return doubled / (2 * model.voxel_side**2)


def is_inside_out(centers: Sequence[tuple[Array, Array]]) -> Array:
    """Whether masses of a voxel have passed each other, so that their centers go round it the wrong way.

    centers: x and y of the four centers [m], counter-clockwise at rest; any shapes, or lanes of a kernel.
    """
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = centers
    return (x2 - x0) * (y3 - y1) - (y2 - y0) * (x3 - x1) <= 0


def center(model: SquareModel, motion: MassMotion) -> Array:
    """Mean over voxels of the mean of their four masses' centers [m], (2,)."""
    count = jnp.maximum(model.present.sum(), 1)
    return (motion.center.mean(0) * model.present[..., None]).sum((0, 1)) / count


def bounding_box(model: SquareModel, motion: MassMotion) -> tuple[Array, Array]:
    """Lower left and upper right corner of the box around all masses [m], each (2,)."""
    corner = mass_corners(model, motion)
    exists = (model.present > 0)[..., None]
    axes = (0, 1, 2, 3)
    return jnp.where(exists, corner, jnp.inf).min(axes), jnp.where(exists, corner, -jnp.inf).max(axes)


def momentum(model: SquareModel, state: SquareState) -> tuple[Array, Array]:
    """Linear momentum [kg m/s], (2,), and angular momentum about the origin [kg m²/s], ()."""
    linear = model.cluster_mass[..., None] * state.velocity
    orbital = state.position[..., 0] * linear[..., 1] - state.position[..., 1] * linear[..., 0]
    return linear.sum((0, 1, 2)), (orbital + model.cluster_inertia * state.spin).sum()


def kinetic_energy(model: SquareModel, state: SquareState) -> Array:
    """[J], ()."""
    return 0.5 * (model.cluster_mass * (state.velocity**2).sum(-1) + model.cluster_inertia * state.spin**2).sum()
