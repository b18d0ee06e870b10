"""Energy of voxels in their own corners, with second derivatives as formulas.

The same springs and fluid as in vsr.physics.points.energy, written for the search of equilibria: few large operations
instead of many small ones, so that programs are compiled soon. With h the height of a point of a wall, A the upward
part of the area it stands for, and φ(h) = -p (h - port) + ρ g (h - port)² / 2, a voxel's fluid has the energy Σ φ(h) A.
h depends on heights alone and A on the other coordinates alone, so second derivatives are a few products.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.fluid.law import Chambers
from vsr.physics.fluid.surface import RULES, SIDES
from vsr.physics.points.model import PointModel
from vsr.physics.points.reference import target_side
from vsr.physics.points.springs import rest_length, spring_corners, turns
from vsr.robot.corners import corner_steps


def node_indices(model: PointModel) -> Array:
    """Which node, of all layers, every voxel's corners are, (voxels, corners)."""
    cells, dimension, layers = model.present.shape, model.dimension, model.layer.shape[0]
    nodes = [size + 1 for size in cells]
    cell = np.indices(cells).reshape(dimension, -1)
    steps = [np.array(corner)[:, None] for corner in corner_steps(dimension)]
    flat = jnp.asarray(np.stack([np.ravel_multi_index(tuple(cell + step), nodes) for step in steps], 1))
    if layers == 1:
        return flat
    return flat + model.layer.argmax(0).reshape(2**dimension, -1).T * int(np.prod(nodes))


def corners_at(model: PointModel, position: Array) -> Array:
    """Of every voxel [m], (voxels, corners, dimension); position: (layers, n, dimension)."""
    return position.reshape(-1, model.dimension)[node_indices(model)]


class Springs(NamedTuple):
    """Of every voxel."""

    stiffness: Array
    """0 for those that are not there [N/m], (voxels, springs)"""
    length: Array
    """at rest [m], (voxels, springs)"""


def springs_of(model: PointModel, control: Array) -> Springs:
    """Under control values, c."""
    kinds = np.array([kind for kind, _, _ in spring_corners(model.dimension)])
    stiffness = model.stiffness.reshape(model.dimension, -1)[kinds]
    if model.springs is not None:
        stiffness = stiffness * model.springs.reshape(len(kinds), -1)
    side = target_side(model, jnp.clip(control, -1, 1))
    length = [rest_length(side, axes).reshape(-1) for axes in turns(model.dimension)]
    return Springs(stiffness.T, jnp.stack(length, 1).repeat(2 ** (model.dimension - 1), 1))


def elastic_energy(springs: Springs, corner: Array) -> Array:
    """Of all springs [J], ()."""
    between = _between(corner)
    length = jnp.sqrt((between**2).sum(-1))
    return 0.5 * (springs.stiffness * (length - springs.length) ** 2).sum()


def elastic_blocks(springs: Springs, corner: Array) -> Array:
    """Second derivatives in the corners of every voxel, (voxels, corners, dimension, corners, dimension)."""
    between = _between(corner)
    length = jnp.sqrt((between**2).sum(-1))
    unit = between / length[..., None]
    slack = springs.stiffness * springs.length / length
    along = jnp.einsum("vs,vsa,vsb->vsab", slack, unit, unit)
    along = along + (springs.stiffness - slack)[..., None, None] * jnp.eye(corner.shape[-1], dtype=corner.dtype)
    signs = _incidence(corner.shape[-1])
    both = jnp.asarray(np.einsum("si,sj->sij", signs, signs), corner.dtype)
    return jnp.einsum("sij,vsab->viajb", both, along)


def _between(corner: Array) -> Array:
    """From the first to the second end of every spring [m], (voxels, springs, dimension)."""
    ends = np.array([ends for _, *ends in spring_corners(corner.shape[-1])])
    return corner[:, ends[:, 1]] - corner[:, ends[:, 0]]


@lru_cache(maxsize=2)
def _incidence(dimension: int) -> np.ndarray:
    """-1 for the first and 1 for the second end of every spring of a voxel, (springs, corners)."""
    pairs = spring_corners(dimension)
    signs = np.zeros((len(pairs), 2**dimension))
    for number, (_, first, second) in enumerate(pairs):
        signs[number, first], signs[number, second] = -1, 1
    return signs


class _Points(NamedTuple):
    """Where walls of a voxel are integrated; shares of every corner at every point, (points, corners)."""

    shape: np.ndarray
    gradient: np.ndarray
    """along each coordinate of the face, (dimension - 1, points, corners)"""
    face: np.ndarray
    """(points,)"""
    share: float


@lru_cache(maxsize=2)
def _points(dimension: int) -> _Points:
    rule, sides = RULES[2 ** (dimension - 1)], SIDES[2**dimension]
    each = len(rule.shape)
    shape = np.zeros((len(sides) * each, 2**dimension))
    gradient = np.zeros((dimension - 1, *shape.shape))
    for number, corners in enumerate(sides):
        rows = slice(number * each, (number + 1) * each)
        shape[rows, corners] = rule.shape
        gradient[:, rows, corners] = rule.gradient
    return _Points(shape, gradient, np.repeat(np.arange(len(sides)), each), rule.share)


class _Wall(NamedTuple):
    """Walls at a pose."""

    weight: Array
    """of every point, 0 where there is no wall, (voxels, points)"""
    height: Array
    """[m], (voxels, points)"""
    up: Array
    """upward part of the area over the weight, (voxels, points)"""
    gradient: Array
    """of that with the horizontal coordinates of the corners, (voxels, points, corners, dimension - 1)"""


def _wall(chambers: Chambers, corner: Array) -> _Wall:
    points, dimension = _points(corner.shape[-1]), corner.shape[-1]
    shape, gradient = (jnp.asarray(part, corner.dtype) for part in (points.shape, points.gradient))
    weight = chambers.walls.reshape(len(chambers.walls), -1)[points.face].T * (chambers.depth * points.share)
    height = jnp.einsum("pi,vi->vp", shape, corner[..., -1])
    if dimension == 2:
        up = -jnp.einsum("pi,vi->vp", gradient[0], corner[..., 0])
        flat = jnp.broadcast_to(-gradient[0][None, :, :, None], (*up.shape, *shape.shape[1:], 1))
        return _Wall(weight, height, up, flat)
    first, second = jnp.einsum("upi,via->uvpa", gradient, corner[..., :2])
    up = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    along = gradient[0] * second[..., None, 1] - gradient[1] * first[..., None, 1]
    across = gradient[1] * first[..., None, 0] - gradient[0] * second[..., None, 0]
    return _Wall(weight, height, up, jnp.stack([along, across], -1))


class Filling(NamedTuple):
    """What is in every voxel, (voxels,); 0 where there is no fluid."""

    pressure: Array
    """at the port [Pa]"""
    weight: Array
    """ρ g [N/m³]"""
    port: Array
    """[m]"""


def filling(chambers: Chambers, pressure: Array, gravity: Array | float) -> Filling:
    """Of chambers at pressures [Pa], (m,)."""
    member = chambers.member.reshape(len(chambers.member), -1)
    numbers = chambers.numbers
    return Filling(*(values @ member for values in (pressure, numbers.density * gravity, numbers.port)))


def volumes(chambers: Chambers, corner: Array) -> Array:
    """Of the chambers [m³], (m,)."""
    wall = _wall(chambers, corner)
    # Heights from the middle of everything, so that a high place costs no digits.
    level = corner[..., -1].mean()
    of_voxels = (wall.weight * (wall.height - level) * wall.up).sum(1)
    return chambers.member.reshape(len(chambers.member), -1) @ of_voxels


def volume_gradients(chambers: Chambers, corner: Array) -> Array:
    """Of every voxel's share of its chamber's volume, with its corners [m²], (voxels, corners, dimension)."""
    wall = _wall(chambers, corner)
    shape = jnp.asarray(_points(corner.shape[-1]).shape, corner.dtype)
    level = corner[..., -1].mean()
    upward = jnp.einsum("vp,pi->vi", wall.weight * wall.up, shape)
    level_ground = jnp.einsum("vp,vpia->via", wall.weight * (wall.height - level), wall.gradient)
    return jnp.concatenate([level_ground, upward[..., None]], -1)


def weight_energy(chambers: Chambers, fluid: Filling, corner: Array) -> Array:
    """Of the fluid's weight [J], ()."""
    wall = _wall(chambers, corner)
    over = wall.height - fluid.port[:, None]
    return (fluid.weight[:, None] * wall.weight * over**2 / 2 * wall.up).sum()


def fluid_blocks(chambers: Chambers, fluid: Filling, corner: Array) -> Array:
    """Second derivatives at given pressures, (voxels, corners, dimension, corners, dimension)."""
    dimension = corner.shape[-1]
    points, wall = _points(dimension), _wall(chambers, corner)
    shape, gradient = (jnp.asarray(part, corner.dtype) for part in (points.shape, points.gradient))
    over = wall.height - fluid.port[:, None]
    pressed = fluid.weight[:, None] * over - fluid.pressure[:, None]
    clamped = fluid.weight[:, None] * over**2 / 2 - fluid.pressure[:, None] * over
    upward = jnp.einsum("vp,pi,pj->vij", wall.weight * fluid.weight[:, None] * wall.up, shape, shape)
    mixed = jnp.einsum("vp,pi,vpja->vija", wall.weight * pressed, shape, wall.gradient)
    count = 2**dimension
    blocks = jnp.zeros((len(corner), count, dimension, count, dimension), corner.dtype)
    blocks = blocks.at[:, :, -1, :, -1].set(upward)
    blocks = blocks.at[:, :, -1, :, :-1].set(mixed)
    blocks = blocks.at[:, :, :-1, :, -1].set(jnp.swapaxes(jnp.swapaxes(mixed, 1, 2), 2, 3))
    if dimension == 3:
        turned = jnp.einsum("pi,pj->pij", gradient[0], gradient[1])
        level = jnp.einsum("vp,pij->vij", wall.weight * clamped, turned - jnp.swapaxes(turned, 1, 2))
        blocks = blocks.at[:, :, 0, :, 1].set(level)
        blocks = blocks.at[:, :, 1, :, 0].set(jnp.swapaxes(level, 1, 2))
    return blocks
