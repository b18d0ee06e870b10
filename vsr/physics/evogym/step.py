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

from vsr.compute.batch_last import batch_last
from vsr.compute.materialize import materialize
from vsr.compute.vector import Vector, join, minus, plus, split, times
from vsr.environment import Environment
from vsr.physics.evogym import contact, springs
from vsr.physics.evogym.contact import Boxes
from vsr.physics.evogym.law import DRAG, FLOOR, FLOOR_FRICTION, FRICTION_SCALE, SIDE
from vsr.physics.evogym.model import EvogymModel, EvogymState, Moving
from vsr.physics.points.gather import corners_of_nodes, nodes_of_corners

COMPONENTS = 3
"""Axis of vectors' components, after layers and nodes."""


class Body(NamedTuple):
    """A body on the move."""

    position: Vector
    """(layers, n)"""
    velocity: Vector
    drift: Vector
    """see vsr.physics.evogym.model.Moving"""


class Fixed(NamedTuple):
    """What stays as it is through all substeps of an interval."""

    model: EvogymModel
    goal: Array
    """lengths that springs tend to, (6, c)"""
    node: Array
    """number of every corner's node, (4, cells)"""


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
    models = (model, *(thing.body for thing in model.things))
    controls = (jnp.clip(control, -1, 1), *(jnp.zeros_like(one.present) for one in models[1:]))
    fixed = tuple(
        Fixed(one, springs.goals(one, value), _nodes(one)) for one, value in zip(models, controls, strict=True)
    )
    origin = _origin(model, state)
    shift = times(SIDE, origin)

    def moving(part: EvogymState | Moving) -> Body:
        def whole(values: Array) -> Vector:
            full = jnp.broadcast_to(values, (*values.shape[: COMPONENTS + 1], *batch))
            return split(full, COMPONENTS)

        return Body(minus(whole(part.position), shift), whole(part.velocity), whole(part.drift))

    bodies = tuple(map(moving, (state, *state.things)))
    unstable = jnp.broadcast_to(state.unstable, batch)

    def body(_: int, now: tuple[tuple[Body, ...], Array]) -> tuple[tuple[Body, ...], Array]:
        bodies, unstable = now
        boxes = tuple(_boxes(one, moved) for one, moved in zip(fixed, bodies, strict=True))
        boxes = materialize(bodies[0].position[0], boxes)
        forces = _contacts(fixed, boxes, environment, origin, shift)
        after = tuple(
            _moved(one, moved, force, environment, shift, substep)
            for one, moved, force in zip(fixed, bodies, forces, strict=True)
        )
        crowded = contact.overlapping_pairs(boxes[0], (model.present.shape[0], model.present.shape[1]))
        most = (boxes[0].outer.max(0) > 0).sum(0)
        return after, unstable | (crowded > most)

    bodies, unstable = jax.lax.fori_loop(0, count, body, (bodies, unstable))

    def joined(moved: Body) -> tuple[Array, ...]:
        vectors = plus(moved.position, shift), moved.velocity, moved.drift
        return tuple(join(vector, COMPONENTS) for vector in vectors)

    robot, *things = map(joined, bodies)
    return EvogymState(*robot, unstable=unstable, things=tuple(Moving(*thing) for thing in things))


def _origin(model: EvogymModel, state: EvogymState) -> Vector:
    """The cell in which the robot's middle is, column and row."""
    exists = jnp.expand_dims(model.node_mass, COMPONENTS)
    count = jnp.maximum(exists.sum((0, 1, 2)), 1)
    middle = (state.position * exists).sum((0, 1, 2)) / count
    cell = jnp.where(jnp.isfinite(middle), jnp.floor(middle / SIDE), 0)
    return split(cell, 0)


def _nodes(model: EvogymModel) -> Array:
    """The number of every corner's node, (4, cells)."""
    layers, *nodes = model.node_mass.shape[:3]
    number = jnp.arange(layers * nodes[0] * nodes[1]).reshape(layers, *nodes, *(1,) * (model.node_mass.ndim - 3))
    number = jnp.broadcast_to(number, model.node_mass.shape)
    return _in_a_row(corners_of_nodes(number, model.layer.astype(number.dtype), 2))


def _in_a_row(corners: Array) -> Array:
    """(4, rows, columns, ...) -> (4, cells, ...)."""
    return corners.reshape(corners.shape[0], -1, *corners.shape[3:])


def _corners(model: EvogymModel, vector: Vector) -> Vector:
    return tuple(corners_of_nodes(part, model.layer, 2) for part in vector)


def _boxes(fixed: Fixed, body: Body) -> Boxes:
    """The voxels as contact sees them."""
    model = fixed.model
    corner, drift = (tuple(map(_in_a_row, _corners(model, vector))) for vector in (body.position, body.drift))
    shape = jnp.broadcast_shapes(corner[0].shape, _in_a_row(model.outer).shape)
    return Boxes(corner, drift, jnp.broadcast_to(_in_a_row(model.outer), shape), fixed.node)


def _contacts(
    fixed: tuple[Fixed, ...], boxes: tuple[Boxes, ...], environment: Environment, origin: Vector, shift: Vector
) -> tuple[Vector, ...]:
    """Forces on the nodes of all bodies, (layers, n)."""
    ground = fixed[0].model.ground

    def with_what_is_fixed(one: Boxes) -> Vector:
        if ground is not None:
            return contact.with_ground(one, ground, origin)
        return contact.with_line(one, environment, shift)

    felt = [with_what_is_fixed(one) for one in boxes]
    for first in range(len(boxes)):
        for second in range(first, len(boxes)):
            if first == second and first > 0:
                continue  # things do not fold onto themselves
            one, other = _meeting(boxes[first], boxes[second], first == second)
            felt[first], felt[second] = plus(felt[first], one), plus(felt[second], other)
    return tuple(_on_nodes(one.model, force) for one, force in zip(fixed, felt, strict=True))


def _meeting(first: Boxes, second: Boxes, same: bool) -> tuple[Vector, Vector]:
    """Forces between two bodies on the corners of both; those of a body on itself count twice, as in EvoGym."""

    def forces() -> tuple[Vector, Vector]:
        on_first, on_second = contact.between_boxes(first, second, same)
        if same:
            return times(2.0, plus(on_first, on_second)), times(0.0, on_second)
        back_on_second, back_on_first = contact.between_boxes(second, first, same)
        return plus(on_first, back_on_first), plus(on_second, back_on_second)

    def nothing() -> tuple[Vector, Vector]:
        return times(0.0, first.corner), times(0.0, second.corner)

    needed = contact.self_contact_possible(first) if same else contact.any_near(first, second)
    # One answer for all robots of a batch, which are here together: mostly nobody needs it.
    return jax.lax.cond(needed, forces, nothing)


def _on_nodes(model: EvogymModel, corners: Vector) -> Vector:
    """(4, cells) added up at the nodes, (layers, n)."""
    cells = model.present.shape[:2]
    return tuple(nodes_of_corners(part.reshape(4, *cells, *part.shape[2:]), model.layer, 2) for part in corners)


def _moved(fixed: Fixed, body: Body, force: Vector, environment: Environment, shift: Vector, substep: float) -> Body:
    """A body one substep later."""
    model = fixed.model
    inverse_mass = model.inverse_mass
    witness = body.position[0]
    first_along = springs.between(_corners(model, body.position))
    rest_length = springs.relaxed(fixed.goal, springs.length(first_along))
    rest_length, force = materialize(witness, (rest_length, force))
    height = None if model.ground is None else shift[1]

    def acceleration(position: Vector, velocity: Vector) -> Vector:
        along = springs.between(_corners(model, position))
        pulls = materialize(witness, springs.tensions(model.stiffness, rest_length, along))
        corners = materialize(witness, springs.on_corners(pulls))
        spring = tuple(nodes_of_corners(part, model.layer, 2) for part in corners)
        total = plus(plus(spring, force), times(-DRAG, velocity))
        total = total[0], total[1] - environment.gravity
        if height is not None:
            total = plus(total, _floor(position[1] + height, velocity[0]))
        return materialize(witness, times(inverse_mass, total))

    position, velocity = _runge_kutta(acceleration, body.position, body.velocity, substep)
    position, velocity = materialize(witness, (position, velocity))
    position = _within_limits(model, position)
    drift = times(1 / substep, minus(position, body.position))
    return materialize(witness, Body(position, velocity, drift))


def _floor(height: Array, speed: Array) -> Vector:
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


def _within_limits(model: EvogymModel, position: Vector) -> Vector:
    """After springs beyond their limits were pulled back: all springs at once, then the edges of rigid voxels, two and
    two (EvoGym takes those one after the other)."""
    free = (model.inverse_mass > 0).astype(position[0].dtype)

    def shifted(position: Vector, by: Vector) -> Vector:
        moved = tuple(nodes_of_corners(part, model.layer, 2) for part in by)
        return plus(position, times(free, moved))

    position = shifted(position, springs.beyond_limits(model, _corners(model, position)))
    for edges in ((springs.TOP, springs.LEFT), (springs.BOTTOM, springs.RIGHT)):
        position = shifted(position, springs.beyond_rigid_limits(model, _corners(model, position), edges))
    return position
