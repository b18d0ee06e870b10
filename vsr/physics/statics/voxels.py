"""Voxel robots of point masses at rest: their energy, and its second derivatives voxel by voxel.

Springs, weight and the fluid in a voxel's walls belong to that voxel alone once the pressures are known. So every
voxel has a block of second derivatives in its own corners (vsr.physics.statics.elements), and the blocks are added
up section by section (vsr.physics.statics.sections). What is left is that a pressure changes with its chamber's
volume: one vector, the gradient of the volume, for each chamber.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.linear import LIBRARY, Linear, exactly, product
from vsr.compute.vector import split
from vsr.environment.model import Environment, by_components
from vsr.physics.fluid import law
from vsr.physics.fluid.law import Chambers
from vsr.physics.points.fluid import chamber_drive
from vsr.physics.points.model import PointModel
from vsr.physics.statics import contact, elements
from vsr.physics.statics.contact import Wall
from vsr.physics.statics.newton import System
from vsr.physics.statics.sections import (
    Blocks,
    back_substitute,
    clamped,
    factorize,
    from_sections,
    longest_axis,
    to_sections,
)
from vsr.robot.corners import corner_steps


class Resting(NamedTuple):
    """All that the energy of a voxel robot depends on besides where its nodes are."""

    model: PointModel
    environment: Environment
    control: Array
    """of voxels, in [-1, 1], c"""
    drive: Array
    """of chambers (vsr.physics.fluid.law), (m,); empty without chambers"""
    wall: Wall


HARDNESS = 100.0
"""Of surfaces for one node, over the stiffest spring of a voxel."""
BAND = 0.02
"""In which surfaces harden, over a voxel's side."""


def resting(
    model: PointModel, environment: Environment, control: Array | None = None, drive: Array | None = None
) -> Resting:
    """The parameters of a body's energy; control: none if absent; drive: as controls say if absent."""
    control = jnp.zeros_like(model.mass) if control is None else control
    if drive is None and model.chambers is not None:
        drive = chamber_drive(model, control)
    drive = jnp.zeros((0,), model.mass.dtype) if drive is None else drive
    wall = Wall(HARDNESS * model.stiffness.max(), BAND * model.voxel_side)
    return Resting(model, environment, control, drive, wall)


def energy(position: Array, given: Resting) -> Array:
    """[J], (); position: (layers, n, dimension). As vsr.physics.points.energy has it, and contact."""
    model, gravity = given.model, given.environment.gravity
    corner = elements.corners_at(model, position)
    total = elements.elastic_energy(elements.springs_of(model, given.control), corner)
    own = model.node_mass
    if model.chambers is not None:
        chambers = model.chambers
        own = own - chambers.fluid_mass
        content = elements.filling(chambers, given.drive, gravity)
        total = total + elements.weight_energy(chambers, content, corner)
        volume = elements.volumes(chambers, corner)
        total = total + law.energy(chambers.numbers, chambers.rest_volume, given.drive, volume).sum()
    total = total + gravity * (own * position[..., -1]).sum()
    if given.environment.load is not None:
        total = total - (given.environment.load * position).sum()
    if _has_surfaces(given.environment):
        total = total + (contact.wall_energy(*_seen(given, position)) * _exists(model)).sum()
    return total


def free_coordinates(model: PointModel) -> Array:
    """1 for what may move, (layers, n, dimension)."""
    free = (model.inverse_mass > 0).astype(model.mass.dtype)
    return jnp.broadcast_to(free[..., None], (*free.shape, model.dimension))


@exactly
def chamber_volumes(model: PointModel, position: Array) -> Array:
    """[m³], (m,)."""
    assert model.chambers is not None
    return elements.volumes(model.chambers, elements.corners_at(model, position))


@exactly
def chamber_pressures(model: PointModel, position: Array, drive: Array) -> Array:
    """At the ports, above that outside [Pa], (m,)."""
    chambers = model.chambers
    assert chambers is not None
    return law.pressure(chambers.numbers, chambers.rest_volume, drive, chamber_volumes(model, position))


def depth(given: Resting, position: Array) -> Array:
    """Of the deepest node inside ground or obstacles [m], ()."""
    if not _has_surfaces(given.environment):
        return jnp.zeros((), position.dtype)
    environment, _, place = _seen(given, position)
    return (contact.depth(environment, place) * _exists(given.model)).max()


@lru_cache(maxsize=2)
def voxel_system(linear: Linear = LIBRARY) -> System:
    """Of any voxel robot; parameters: Resting."""
    return System(energy, partial(_solve, linear=linear))


def _solve(
    position: Array, given: Resting, free: Array, sides: Array, shift: Array, *, linear: Linear
) -> tuple[Array, Array]:
    model = given.model
    axis = longest_axis(position.shape[1:-1]) + 1
    blocks = _blocks(position, given, axis - 1)
    mask = to_sections(free, axis)
    factors, positive = factorize(clamped(blocks, mask, shift), linear)
    if model.chambers is None:
        columns = jnp.stack([to_sections(side, axis) for side in sides], -1) * mask[..., None]
        answers = back_substitute(factors, columns, linear)
    else:
        gradients = _volume_gradients(model, position)
        every = jnp.concatenate([sides, gradients])
        columns = jnp.stack([to_sections(side, axis) for side in every], -1) * mask[..., None]
        answers = back_substitute(factors, columns, linear)
        answers = _with_volumes(given, position, columns, answers, len(sides), linear)
    whole = jnp.stack([from_sections(answers[..., k], position.shape, axis) for k in range(len(sides))])
    return whole, positive


def _with_volumes(given: Resting, position: Array, columns: Array, answers: Array, count: int, linear: Linear) -> Array:
    """Answers of a matrix to which every chamber adds its stiffness times the square of its volume's gradient.

    columns, answers: (sections, m, count + chambers), the gradients and what the rest of the matrix makes of them last.
    """
    chambers = given.model.chambers
    assert chambers is not None
    volume = chamber_volumes(given.model, position)
    stiffness = _stiffness(chambers, given.drive, volume)
    gradients, yielding = columns[..., count:], answers[..., count:]
    across = gradients.reshape(-1, gradients.shape[-1]).T
    moved = product(across, answers.reshape(-1, answers.shape[-1]))  # of volumes, by every right side
    system = jnp.eye(len(volume), dtype=volume.dtype) + stiffness[:, None] * moved[:, count:]
    back = linear.solve(system, stiffness[:, None] * moved[:, :count])
    return answers[..., :count] - product(yielding, back)


def _stiffness(chambers: Chambers, drive: Array, volume: Array) -> Array:
    """Fall of every chamber's pressure with its volume [Pa/m³], (m,)."""

    def pressure(value: Array) -> Array:
        return law.pressure(chambers.numbers, chambers.rest_volume, drive, value)

    return -jax.jvp(pressure, (volume,), (jnp.ones_like(volume),))[1]


def _volume_gradients(model: PointModel, position: Array) -> Array:
    """Of every chamber's volume with the coordinates [m²], (m, layers, n, dimension)."""
    chambers = model.chambers
    assert chambers is not None
    of_voxels = elements.volume_gradients(chambers, elements.corners_at(model, position))
    member = chambers.member.reshape(len(chambers.member), -1)
    shares = member[:, :, None, None] * of_voxels
    flat = jnp.zeros((len(member), position.size // model.dimension, model.dimension), position.dtype)
    return flat.at[:, elements.node_indices(model)].add(shares).reshape(len(member), *position.shape)


def _blocks(position: Array, given: Resting, axis: int) -> Blocks:
    """Second derivatives at given pressures; axis: of nodes, along which sections are counted."""
    model, dimension = given.model, given.model.dimension
    of_voxels = _voxel_blocks(position, given)
    section, place = _places(model, axis)
    count, size = position.shape[1 + axis], position.size // position.shape[1 + axis]
    near, far = (
        np.array([k for k, steps in enumerate(corner_steps(dimension)) if steps[axis] == end]) for end in (0, 1)
    )

    def added(target: Array, first: np.ndarray, second: np.ndarray, step: int) -> Array:
        """With the parts of all voxels for corners in one section and in another."""
        row, column = place[:, first][:, :, :, None, None], place[:, second][:, None, None]
        where = section[:, None, None, None, None] + step
        return target.at[where, row, column].add(of_voxels[:, first][:, :, :, second])

    own = added(jnp.zeros((count, size, size), position.dtype), near, near, 0)
    own = added(own, far, far, 1)
    following = added(jnp.zeros((count - 1, size, size), position.dtype), near, far, 0)
    if _has_surfaces(given.environment):
        own = own + _wall_blocks(position, given, axis)
    return Blocks(own, following)


def _voxel_blocks(position: Array, given: Resting) -> Array:
    """Second derivatives of every voxel's energy in its own corners, at given pressures."""
    model = given.model
    corner = elements.corners_at(model, position)
    blocks = elements.elastic_blocks(elements.springs_of(model, given.control), corner)
    if model.chambers is None:
        return blocks
    pressure = chamber_pressures(model, position, given.drive)
    content = elements.filling(model.chambers, pressure, given.environment.gravity)
    return blocks + elements.fluid_blocks(model.chambers, content, corner)


def _wall_blocks(position: Array, given: Resting, axis: int) -> Array:
    """Second derivatives of contact, (sections, m, m)."""
    environment = by_components(given.environment)
    dimension = given.model.dimension

    def one(place: Array) -> Array:
        return contact.wall_energy(environment, given.wall, split(place, 0))

    moved = jnp.moveaxis(position, 1 + axis, 0)
    blocks = jax.vmap(jax.hessian(one))(moved.reshape(-1, dimension))
    there = jnp.moveaxis(_exists(given.model), 1 + axis, 0).reshape(-1)
    blocks = (blocks * there[:, None, None]).reshape(moved.shape[0], -1, dimension, dimension)
    nodes = blocks.shape[1]
    spread = jnp.eye(nodes, dtype=position.dtype)[None, :, None, :, None] * blocks[:, :, :, None, :]
    return spread.reshape(moved.shape[0], nodes * dimension, nodes * dimension)


def _places(model: PointModel, axis: int) -> tuple[np.ndarray, Array]:
    """Section of every voxel's near corners, (voxels,), and the coordinates of all its corners in their sections,
    (voxels, corners, dimension)."""
    cells, dimension, layers = model.present.shape, model.dimension, model.layer.shape[0]
    nodes = [size + 1 for size in cells]
    total = layers * int(np.prod(nodes))
    moved = np.moveaxis(np.arange(total).reshape(layers, *nodes), 1 + axis, 0)
    inside = np.empty(total, int)
    inside[moved.reshape(nodes[axis], -1)] = np.arange(total // nodes[axis])
    flat = jnp.asarray(inside)[elements.node_indices(model)]
    section = np.indices(cells).reshape(dimension, -1)[axis]
    return section, flat[..., None] * dimension + jnp.arange(dimension)


def _seen(given: Resting, position: Array) -> tuple[Environment, Wall, tuple[Array, ...]]:
    return by_components(given.environment), given.wall, split(position, position.ndim - 1)


def _exists(model: PointModel) -> Array:
    return (model.node_mass > 0).astype(model.mass.dtype)


def _has_surfaces(environment: Environment) -> bool:
    return bool(environment.bodies) or environment.terrain is not None
