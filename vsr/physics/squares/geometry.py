"""Shapes, motions and telemetry read off a state of square masses. One robot; use `vmap` for many.

Values go between clusters (on lattice vertices) and masses (in voxel corners) by slicing and joining only; there every
array may have further axes at the end. These functions are jitted: a program calls each many times and traces it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.grid import overlap
from vsr.compute.vector import quarter_turn, turn
from vsr.compute.xla import for_cpu
from vsr.physics.squares.model import CORNER_CELLS, CORNER_SIGNS, SquareModel, SquareState
from vsr.physics.telemetry import EXPLOSION_SPEED, Telemetry, failure_of, fastest_speed


@jax.jit
def corners_of_vertices(vertices: Array) -> Array:
    """Each voxel's view of the vertices, (rows+1, columns+1, ...) -> (4, rows, columns, ...)."""
    rows, columns = vertices.shape[0] - 1, vertices.shape[1] - 1
    return jnp.stack([vertices[r : r + rows, c : c + columns] for r, c in CORNER_CELLS])


@jax.jit
def vertices_of_corners(corners: Array) -> Array:
    """Each vertex's view of the voxels around it, (4, rows, columns, ...) -> (4, rows+1, columns+1, ...)."""
    return jnp.stack(_around_vertices(corners))


def _around_vertices(corners: Array) -> list[Array]:
    """The same, each of the four voxels for itself."""
    rest, nothing = ((0, 0, 0),) * (corners.ndim - 3), jnp.zeros((), corners.dtype)
    return [
        jax.lax.pad(corners[k], nothing, ((r, 1 - r, 0), (c, 1 - c, 0), *rest)) for k, (r, c) in enumerate(CORNER_CELLS)
    ]


@jax.jit
def masses_of_clusters(clusters: Array, in_second_layer: Array) -> Array:
    """Give every mass its cluster's value, (layers, rows+1, columns+1, ...) -> (4, rows, columns, ...)."""
    first = corners_of_vertices(clusters[0])
    if clusters.shape[0] == 1:
        return first
    return jnp.where(in_second_layer > 0, corners_of_vertices(clusters[1]), first)


@partial(jax.jit, static_argnames="layers")
def clusters_of_masses(masses: Array, in_second_layer: Array, layers: int) -> Array:
    """Add up the masses' values, (4, rows, columns, ...) -> (layers, rows+1, columns+1, ...)."""

    def total(corners: Array) -> Array:
        if not for_cpu():  # a GPU's kernels are compiled sooner from sums of padded arrays, a CPU's are quicker without
            south_west, south_east, north_east, north_west = _around_vertices(corners)
            return (south_west + south_east) + (north_west + north_east)
        south_west, south_east, north_east, north_west = corners
        upper, lower = overlap(south_west, south_east, 1), overlap(north_west, north_east, 1)
        return overlap(upper, lower, 0)

    if layers == 1:
        return total(masses)[None]
    return jnp.stack([total(masses * (1 - in_second_layer)), total(masses * in_second_layer)])


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


class MassSums(NamedTuple):
    """Of every cluster's masses; each (layers, rows+1, columns+1)."""

    count: Array
    offset_x: Array
    """sum of their centers seen from the cluster's at rest [m]"""
    offset_y: Array


def mass_sums(model: SquareModel) -> MassSums:
    """How many masses a cluster has, and where."""
    layers = model.cluster_mass.shape[0]
    present = jnp.broadcast_to(model.present, model.in_second_layer.shape)
    parts = present, model.mass_offset[:, :, :, 0], model.mass_offset[:, :, :, 1]
    return MassSums(*(clusters_of_masses(part, model.in_second_layer, layers) for part in parts))


def telemetry(model: SquareModel, state: SquareState, substep: float) -> Telemetry:
    """Of one state, (layers, rows+1, columns+1); substep: that led there [s]."""
    sums = mass_sums(model)
    cosine, sine = state.rotation[..., 0], state.rotation[..., 1]
    return Telemetry(
        sums.count * state.position[..., 1] + sine * sums.offset_x + cosine * sums.offset_y,
        failure(model, state, fastest_speed(model.voxel_side, substep)),
    )


def failure(model: SquareModel, state: SquareState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
    """What befell every cluster, (layers, rows+1, columns+1); fastest: see vsr.physics.telemetry [m/s]."""
    whereabouts = (*jnp.moveaxis(state.position, -1, 0), *jnp.moveaxis(state.rotation, -1, 0), state.spin)
    turned = is_inside_out(tuple(tuple(jnp.moveaxis(mass, -1, 0)) for mass in mass_motion(model, state).center))
    of_masses = jnp.broadcast_to(turned * model.present, model.in_second_layer.shape)
    layers = state.spin.shape[0]
    inverted = clusters_of_masses(of_masses, model.in_second_layer, layers) > 0
    return failure_of(whereabouts, state.velocity, inverted, fastest)
