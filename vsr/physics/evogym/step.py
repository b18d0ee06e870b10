"""Substeps of EvoGym's point masses in plain JAX: contact, springs by Runge-Kutta, limits on lengths.

In a substep contact is found once and kept, rest lengths are set anew, springs move the nodes (RK4), and lengths beyond
their limits are pulled back. Coordinates are taken from the cell in which the robot is when the steps begin: far from
the origin 32 bits are too coarse for springs so stiff.

Callers treat one robot and use `vmap`; each `vmap` becomes one more axis at the END of every array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, join, minus, plus, split, times
from vsr.compute.xla import batch_last, materialize
from vsr.environment import Environment
from vsr.physics.evogym import contact, springs
from vsr.physics.evogym.contact import Boxes
from vsr.physics.evogym.law import DRAG, FLOOR, FLOOR_FRICTION, FRICTION_SCALE, SIDE
from vsr.physics.evogym.model import (
    EvogymModel,
    EvogymState,
    GroundCells,
    Joint,
    Moving,
    apart,
    beside,
    joint,
    nodes_beside,
)
from vsr.physics.points.geometry import corners_of_nodes, nodes_of_corners

COMPONENTS = 3
"""Axis of vectors' components, after layers and nodes."""


class Motion(NamedTuple):
    """All bodies on the move."""

    position: Vector
    """(layers, n)"""
    velocity: Vector
    drift: Vector
    """see vsr.physics.evogym.model.Moving"""


class Setting(NamedTuple):
    """What stays as it is through all substeps of an interval."""

    bodies: Joint
    goal: Array
    """lengths that springs tend to, (6, c)"""
    node: Array
    """number of every corner's node, (4, cells)"""
    times: Array
    """how often voxels touch, (cells, cells)"""
    environment: Environment
    ground: GroundCells | None
    origin: Vector
    """cell in which coordinates are 0"""
    shift: Vector
    """its lowest left corner"""


@lru_cache(maxsize=64)
def batched_advance(substep: float, count: int):
    """The compiled function of arrays for one choice of substeps, with its batching rule."""

    def function(model: EvogymModel, environment: Environment, state: EvogymState, control: Array) -> EvogymState:
        return _advance(model, environment, state, control, substep, count)

    return batch_last(function)


def _advance(
    model: EvogymModel, environment: Environment, state: EvogymState, control: Array, substep: float, count: int
) -> EvogymState:
    batch_axes = control.ndim - 2
    batch = np.broadcast_shapes(
        *(leaf.shape[leaf.ndim - batch_axes :] for leaf in jax.tree.leaves((model, environment, state, control)))
    )
    models = (model, *(one.body for one in model.objects))
    setting = setting_of(models, environment, state, control, batch)

    def body(_: int, now: tuple[Motion, Array]) -> tuple[Motion, Array]:
        motion, unstable = now
        boxes = materialize(motion.position[0], _boxes(setting, motion))
        force = _contact(setting, boxes)
        contact_overflow = contact.overlapping_pairs(boxes, setting.bodies.owner) > outer_voxels(setting.bodies)
        return _moved(setting, motion, force, substep), unstable | contact_overflow

    start = together(models, (state, *state.objects), setting.shift, batch), jnp.broadcast_to(state.unstable, batch)
    motion, unstable = jax.lax.fori_loop(0, count, body, start)
    return separated(models, motion, setting.shift, unstable)


def separated(models: tuple[EvogymModel, ...], motion: Motion, shift: Vector, unstable: Array) -> EvogymState:
    """The robot and the objects, in the coordinates of the world."""
    vectors = plus(motion.position, shift), motion.velocity, motion.drift
    position, velocity, drift = (apart(join(vector, COMPONENTS), models) for vector in vectors)
    robot, *objects = zip(position, velocity, drift, strict=True)
    return EvogymState(*robot, unstable=unstable, objects=tuple(Moving(*one) for one in objects))


def setting_of(
    models: tuple[EvogymModel, ...],
    environment: Environment,
    state: EvogymState,
    control: Array,
    batch: tuple[int, ...],
) -> Setting:
    bodies = joint(models, batch)
    nobody = [jnp.zeros_like(one.present) for one in models[1:]]
    controls = beside([jnp.clip(control, -1, 1), *nobody], 0, 1, batch)
    origin = _origin(models[0], state)
    owner = bodies.owner.ravel()
    own = owner[:, None] == owner
    # Voxels of one body are found twice, as in EvoGym; objects do not fold onto themselves.
    often = np.where(own, np.where(owner == 0, 2.0, 0.0), 1.0)
    return Setting(
        bodies=bodies,
        goal=springs.goals(bodies, controls),
        node=_nodes(bodies),
        times=jnp.asarray(often, control.dtype),
        environment=environment,
        ground=models[0].ground,
        origin=origin,
        shift=times(SIDE, origin),
    )


def together(
    models: tuple[EvogymModel, ...], states: tuple[EvogymState | Moving, ...], shift: Vector, batch: tuple[int, ...]
) -> Motion:
    """All bodies in the coordinates of the steps."""

    def of_all(name: str) -> Vector:
        parts = [split(getattr(state, name), COMPONENTS) for state in states]
        return tuple(nodes_beside([part[axis] for part in parts], models, batch) for axis in range(2))

    return Motion(minus(of_all("position"), shift), of_all("velocity"), of_all("drift"))


def outer_voxels(bodies: Joint) -> Array:
    """How many voxels of the robot have an outer edge, ()."""
    mine = (bodies.owner == 0).reshape(*bodies.owner.shape, *(1,) * (bodies.outer.ndim - 3))
    return ((bodies.outer.max(0) > 0) & mine).sum((0, 1))


def _origin(model: EvogymModel, state: EvogymState) -> Vector:
    """The cell in which the robot's middle is, column and row."""
    exists = jnp.expand_dims(model.node_mass, COMPONENTS)
    count = jnp.maximum(exists.sum((0, 1, 2)), 1)
    middle = (state.position * exists).sum((0, 1, 2)) / count
    cell = jnp.where(jnp.isfinite(middle), jnp.floor(middle / SIDE), 0)
    return split(cell, 0)


def _nodes(bodies: Joint) -> Array:
    """The number of every corner's node, (4, cells)."""
    layers, *nodes = bodies.node_mass.shape[:3]
    number = jnp.arange(layers * nodes[0] * nodes[1]).reshape(layers, *nodes, *(1,) * (bodies.node_mass.ndim - 3))
    number = jnp.broadcast_to(number, bodies.node_mass.shape)
    return _in_a_row(corners_of_nodes(number, bodies.layer.astype(number.dtype), 2))


def _in_a_row(corners: Array) -> Array:
    """(4, rows, columns, ...) -> (4, cells, ...)."""
    return corners.reshape(corners.shape[0], -1, *corners.shape[3:])


def _corners(bodies: Joint, vector: Vector) -> Vector:
    return tuple(corners_of_nodes(part, bodies.layer, 2) for part in vector)


def _boxes(setting: Setting, motion: Motion) -> Boxes:
    """The voxels as contact sees them."""
    vectors = motion.position, motion.drift
    corner, drift = (tuple(map(_in_a_row, _corners(setting.bodies, vector))) for vector in vectors)
    return Boxes(corner, drift, _in_a_row(setting.bodies.outer), setting.node)


def _contact(setting: Setting, boxes: Boxes) -> Vector:
    """Forces on the nodes, (layers, n)."""
    if setting.ground is not None:
        felt = contact.with_ground(boxes, setting.ground, setting.origin)
    else:
        felt = contact.with_line(boxes, setting.environment, setting.shift)
    # One answer for all robots of a batch, which are here together: often nobody needs it.
    felt = plus(
        felt,
        jax.lax.cond(
            contact.any_inside(boxes, setting.times),
            lambda: contact.between_boxes(boxes, setting.times),
            lambda: times(0.0, boxes.corner),
        ),
    )
    return _on_nodes(setting.bodies, felt)


def _on_nodes(bodies: Joint, corners: Vector) -> Vector:
    """(4, cells) added up at the nodes, (layers, n)."""
    cells = bodies.rigid.shape[:2]
    return tuple(nodes_of_corners(part.reshape(4, *cells, *part.shape[2:]), bodies.layer, 2) for part in corners)


def _moved(setting: Setting, motion: Motion, force: Vector, substep: float) -> Motion:
    """One substep later."""
    bodies, environment = setting.bodies, setting.environment
    witness = motion.position[0]
    first_along = springs.between(_corners(bodies, motion.position))
    rest_length = springs.relaxed(setting.goal, springs.length(first_along))
    rest_length, force = materialize(witness, (rest_length, force))
    height = None if setting.ground is None else setting.shift[1]

    def acceleration(position: Vector, velocity: Vector) -> Vector:
        along = springs.between(_corners(bodies, position))
        pulls = materialize(witness, springs.tensions(bodies.stiffness, rest_length / springs.length(along), along))
        corners = materialize(witness, springs.on_corners(pulls))
        spring = tuple(nodes_of_corners(part, bodies.layer, 2) for part in corners)
        total = plus(plus(spring, force), times(-DRAG, velocity))
        total = total[0], total[1] - environment.gravity
        if height is not None:
            total = plus(total, floor_force(position[1] + height, velocity[0]))
        return materialize(witness, times(bodies.inverse_mass, total))

    position, velocity = _runge_kutta(acceleration, motion.position, motion.velocity, substep)
    position, velocity = materialize(witness, (position, velocity))
    position = _within_limits(bodies, position)
    drift = times(1 / substep, minus(position, motion.position))
    return materialize(witness, Motion(position, velocity, drift))


def floor_force(height: Array, speed: Array) -> Vector:
    """Of the floor below all worlds of EvoGym."""
    strength = FLOOR * jnp.maximum(-height, 0)
    return -FLOOR_FRICTION * strength * jnp.tanh(FRICTION_SCALE * strength * speed), strength


def _runge_kutta(
    acceleration: Callable[[Vector, Vector], Vector], position: Vector, velocity: Vector, step: float
) -> tuple[Vector, Vector]:
    """Fourth order: how far each stage goes from the start, and its weight in the end."""
    way = jnp.array([0.0, 0.5, 0.5, 1.0], position[0].dtype) * step
    weight = jnp.array([1.0, 2.0, 2.0, 1.0], position[0].dtype) * (step / 6)

    # A loop, because four copies take four times as long to compile.
    def stage(number: int, now: tuple[Vector, Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector, Vector]:
        speed, change, moved, sped_up = now
        later = plus(velocity, times(way[number], change))
        change = acceleration(plus(position, times(way[number], speed)), later)
        moved, sped_up = plus(moved, times(weight[number], later)), plus(sped_up, times(weight[number], change))
        return later, change, moved, sped_up

    still = times(0.0, velocity)
    _, _, position, velocity = jax.lax.fori_loop(0, 4, stage, (velocity, still, position, velocity))
    return position, velocity


def _within_limits(bodies: Joint, position: Vector) -> Vector:
    """After springs beyond their limits were pulled back: all springs at once, then the edges of rigid voxels, two and
    two (EvoGym takes those one after the other)."""
    free = (bodies.inverse_mass > 0).astype(position[0].dtype)

    def shifted(position: Vector, by: Vector) -> Vector:
        moved = tuple(nodes_of_corners(part, bodies.layer, 2) for part in by)
        return plus(position, times(free, moved))

    position = shifted(position, springs.beyond_limits(bodies, _corners(bodies, position)))
    for edges in ((springs.TOP, springs.LEFT), (springs.BOTTOM, springs.RIGHT)):
        position = shifted(position, springs.beyond_rigid_limits(bodies, _corners(bodies, position), edges))
    return position
