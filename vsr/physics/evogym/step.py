"""Substeps of EvoGym's point masses in plain JAX: contact, springs by Runge-Kutta, limits on lengths.

In a substep contact is found once and kept, rest lengths are set anew, springs move the nodes (RK4), and lengths beyond
their limits are pulled back: all springs at once, then the edges of rigid voxels, one voxel after the other. Bodies
that begin on the lattice have EvoGym's first contact (vsr.physics.evogym.first). Coordinates are taken from the cell in
which the robot is when the steps begin: far from the origin 32 bits are too coarse for springs so stiff.

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
from vsr.physics.evogym.contact import Boxes, Pairs
from vsr.physics.evogym.first import HALF, SETS, First, Landing, first_contacts, of_object
from vsr.physics.evogym.law import DRAG, FLOOR, FLOOR_FRICTION, FRICTION_SCALE, GRAVITY, SIDE, SUBSTEP
from vsr.physics.evogym.model import (
    EvogymModel,
    EvogymState,
    GroundCells,
    Joint,
    Moving,
    apart,
    beside,
    edge_bits,
    joint,
    nodes_beside,
)
from vsr.physics.points.geometry import corners_of_nodes, nodes_of_corners

COMPONENTS = 3
"""Axis of vectors' components, after layers and nodes."""
ON_LATTICE = 1e-4 * SIDE
"""How near to the lattice counts as on it: float32 far from the origin resolves no less."""


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
    pairs: Pairs
    """voxels that may touch each other"""
    strange: Array
    """whether their corners are not those of the other, (4, pairs)"""
    environment: Environment
    ground: GroundCells | None
    origin: Vector
    """cell in which coordinates are 0"""
    shift: Vector
    """its lowest left corner"""
    turns: Turns
    beginning: Array
    """whether bodies are where EvoGym's world begins, and the first contact is that of the table, ()"""
    first: Vector | None
    """that contact, on the corners of voxels, (4, cells); None if there is no table"""
    landing: Landed | None
    """of objects that fall straight; None if there are none"""


class Landed(NamedTuple):
    """Contact with the ground and with what does not move, in the substep in which an object lands on the lattice."""

    number: Array
    """of that substep, -1 for voxels of bodies that do not land so, (cells,)"""
    force: Vector
    """on the corners of voxels, (4, cells)"""


class Turns(NamedTuple):
    """In which order the edges of rigid voxels are pulled back: row by row, the highest first."""

    cell: Array
    """numbers of cells; those that are a rigid voxel of some robot of a batch come first, (cells,)"""
    count: Array
    """how many those are, ()"""
    movable: Array
    """1 for corners of rigid voxels that give way, (4, c)"""


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

    def body(number: Array, now: tuple[Motion, Array]) -> tuple[Motion, Array]:
        motion, unstable = now
        boxes = materialize(motion.position[0], _boxes(setting, motion))
        force = _contact(setting, boxes, number)
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
    bodies = joint(models, batch, models[0].objects)
    nobody = [jnp.zeros_like(one.present) for one in models[1:]]
    controls = beside([jnp.clip(control, -1, 1), *nobody], 0, 1, batch)
    origin = _origin(models[0], state)
    node, pairs = _nodes(bodies), Pairs.of(bodies.owner)
    beginning, first, touched = _first(models, state, bodies)
    return Setting(
        bodies=bodies,
        goal=springs.goals(bodies, controls),
        node=node,
        pairs=pairs,
        strange=contact.strange_corners(node, _in_a_row(bodies.outer), pairs),
        environment=environment,
        ground=models[0].ground,
        origin=origin,
        shift=times(SIDE, origin),
        turns=_turns(bodies),
        beginning=beginning,
        first=first,
        landing=_landing(models, state, bodies, touched),
    )


def _turns(bodies: Joint) -> Turns:
    rows, columns = bodies.rigid.shape[:2]
    rigid = (bodies.rigid > 0).any(tuple(range(2, bodies.rigid.ndim))).ravel()
    downwards = jnp.arange(rows * columns).reshape(rows, columns)[::-1].ravel()
    free = (bodies.inverse_mass > 0).astype(bodies.rigid.dtype)
    return Turns(
        cell=downwards[jnp.argsort(~rigid[downwards], stable=True)],
        count=rigid.sum(),
        movable=corners_of_nodes(free, bodies.layer, 2) * bodies.rigid,
    )


def _first(
    models: tuple[EvogymModel, ...], state: EvogymState, bodies: Joint
) -> tuple[Array, Vector | None, list[Array]]:
    """See Setting, and whether now is the beginning and something touches an object, () each."""
    robot = models[0]
    if robot.beginning is None:
        return jnp.zeros((), bool), None, []
    table, tables, number = _table(robot), [], 0
    for one in robot.objects:
        tables.append(of_object(table, number, one.voxel_spots, one.body.present.shape[:2]))
        number += one.pieces
    axes = (1,) * (robot.rest_position.ndim - 3)
    corner = jnp.asarray(SIDE * np.array(robot.beginning.robot), robot.rest_position.dtype).reshape(2, *axes)
    beginning = _at_rest(robot, state, corner)
    for one, now, its in zip(robot.objects, state.objects, tables, strict=True):
        if its.alone is not None:
            beginning &= _at_rest(one.body, now, one.start)
    edges = edge_bits(robot.outer > 0)
    dtype, batch = robot.outer.dtype, bodies.rigid.shape[2:]
    chosen = jnp.stack([(edges == number).astype(dtype) for number in range(SETS)])
    # Small whole numbers, so that no precision of a product matters.
    parts = [jnp.einsum("skrca,src...->akrc...", jnp.asarray(table.robot, dtype), chosen)]
    for one, its in zip(robot.objects, tables, strict=True):
        cells = one.body.present.shape[:2]
        felt = jnp.zeros((2, 4, *cells, *batch), dtype)
        if its.alone is not None:
            alone = np.moveaxis(its.alone, -1, 0).reshape(2, 4, *cells, *(1,) * len(batch))
            felt = felt + jnp.asarray(alone, dtype)
        if its.by_robot is not None:
            by_robot = jnp.einsum("srckia,src...->aki...", jnp.asarray(its.by_robot, dtype), chosen)
            felt = felt.at[:, :, its.rows, its.columns].add(by_robot)
        parts.append(felt)
    felt = HALF * beside(parts, 2, 1, batch)
    touched = [beginning & (part != 0).any((0, 1, 2, 3)) for part in parts[1:]]
    return beginning, tuple(map(_in_a_row, felt)), touched


def _table(robot: EvogymModel) -> First:
    assert robot.beginning is not None
    return first_contacts(robot.beginning, *robot.present.shape[:2])


def _landing(models: tuple[EvogymModel, ...], state: EvogymState, bodies: Joint, touched: list[Array]) -> Landed | None:
    """See Setting; touched: objects at the beginning."""
    landings, pieces = [], iter(() if models[0].beginning is None else _table(models[0]).landings)
    for one in models[0].objects:
        (landing, *others) = (next(pieces, None) for _ in range(one.pieces))
        landings.append(None if others else landing)
    if not any(landings):
        return None
    numbers, forces = [], []
    batch, dtype = bodies.rigid.shape[2:], bodies.rigid.dtype
    for number, model in enumerate(models):
        cells, landing = model.present.shape[:2], landings[number - 1] if number else None
        substep, force = jnp.full(batch, -1, dtype), jnp.zeros((2, 4, *cells, *batch), dtype)
        if landing is not None:
            one = models[0].objects[number - 1]
            substep, shift = _straight_fall(model, state.objects[number - 1], one.start, landing)
            substep = jnp.where(touched[number - 1], -1, substep).astype(dtype)
            tables = jnp.asarray(HALF * np.moveaxis(landing.force, -1, 1), dtype).reshape(-1, 2, 4, *cells)
            known = (shift >= landing.shift) & (shift < landing.shift + len(tables))
            felt = tables[jnp.where(known, shift - landing.shift, 0).astype(jnp.int32)]
            force = jnp.where(known, jnp.moveaxis(felt, range(len(batch)), range(-len(batch), 0)), 0)
        substep = jnp.broadcast_to(substep, (*cells, *batch))
        numbers.append(1 + substep)
        forces.append(force)
    felt = beside(forces, 2, 1, batch)
    # Cells between bodies, which are 0 here, land never.
    return Landed(beside(numbers, 0, 1, batch).reshape(-1, *batch) - 1, tuple(map(_in_a_row, felt)))


def _straight_fall(model: EvogymModel, now: Moving, start: Array, landing: Landing) -> tuple[Array, Array]:
    """In which substep from here on an object lands that has fallen straight, -1 if it has not, and by how many cells
    it began farther to the right, () each."""
    exists = jnp.expand_dims(model.node_mass, COMPONENTS)
    count, nodes = exists.sum((0, 1, 2)), (0, 1, 2)
    off = (now.position - model.rest_position - start) * exists
    way, speed = (part.sum(nodes) / count for part in (off, now.velocity * exists))
    share = jnp.maximum(1 + speed[1] * (DRAG / GRAVITY), 0.5)
    substeps = jnp.round(-jnp.log(share) / (DRAG * SUBSTEP))
    time = SUBSTEP * substeps
    fall = GRAVITY / DRAG * (time + jnp.expm1(-DRAG * time) / DRAG)
    shift, up = jnp.round(way[0] / SIDE), jnp.round((way[1] + fall) / SIDE)
    in_shape = (jnp.abs(off - jnp.stack([shift * SIDE, way[1]]) * exists) < ON_LATTICE).all((*nodes, COMPONENTS))
    straight = in_shape & (jnp.abs(way[1] + fall - up * SIDE) < 0.01 * SIDE)
    many = len(landing.force)
    straight &= (shift >= landing.shift) & (shift < landing.shift + many) & ((up == 0) | (many > 1))
    return jnp.where(straight, landing.after - substeps, -1), shift


def _at_rest(model: EvogymModel, state: EvogymState | Moving, corner: Array) -> Array:
    """Whether a body is at rest in its shape, with its grid's lowest left corner in some place, ()."""
    axes = tuple(range(COMPONENTS + 1))
    off = jnp.abs(state.position - model.rest_position - corner) * jnp.expand_dims(model.node_mass, COMPONENTS)
    still = (state.velocity == 0).all(axes) & (state.drift == 0).all(axes)
    return still & (off < ON_LATTICE).all(axes)


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


def _contact(setting: Setting, boxes: Boxes, number: Array) -> Vector:
    """Forces on the nodes, (layers, n); number: of the substep."""
    if setting.ground is not None:
        felt = contact.with_ground(boxes, setting.bodies.owner, setting.ground, setting.origin)
    else:
        felt = contact.with_line(boxes, setting.environment, setting.shift)
    strangers, lands = jnp.ones((), felt[0].dtype), None
    if setting.landing is not None:
        lands = setting.landing.number == number
        felt = tuple(jnp.where(lands, one, part) for one, part in zip(setting.landing.force, felt, strict=True))
    if setting.first is not None:
        beginning = setting.beginning & (number == 0)
        felt = tuple(jnp.where(beginning, one, part) for one, part in zip(setting.first, felt, strict=True))
        # The table knows how bodies touch each other, not how the robot touches itself.
        strangers = jnp.where(beginning, 0, strangers)
    felt = materialize(boxes.corner[0], felt)
    felt = plus(felt, contact.between_boxes(boxes, setting.pairs, setting.strange, strangers, lands))
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
        return materialize(witness, total)

    position, velocity = _runge_kutta(acceleration, motion.position, motion.velocity, substep)
    # In EvoGym what is fixed moves within the stages, as far as springs see it, and is back at the end of a substep.
    position, velocity = (
        tuple(jnp.where(bodies.inverse_mass > 0, one, before) for one, before in zip(vector, start, strict=True))
        for vector, start in ((position, motion.position), (velocity, motion.velocity))
    )
    position, velocity = materialize(witness, (position, velocity))
    position = _within_limits(setting, position)
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


def _within_limits(setting: Setting, position: Vector) -> Vector:
    """After springs beyond their limits were pulled back: all at once, then the edges of rigid voxels, one voxel after
    the other, where some are beyond."""
    bodies, turns = setting.bodies, setting.turns
    free = (bodies.inverse_mass > 0).astype(position[0].dtype)
    by = springs.beyond_limits(bodies, _corners(bodies, position))
    position = plus(position, times(free, tuple(nodes_of_corners(part, bodies.layer, 2) for part in by)))
    position = materialize(position[0], position)
    beyond = springs.any_beyond_rigid_limits(bodies, springs.length(springs.between(_corners(bodies, position))))
    columns = bodies.rigid.shape[1]

    def voxel(turn: Array, position: Vector) -> Vector:
        row, column = turns.cell[turn] // columns, turns.cell[turn] % columns

        def here(values: Array, axis: int, size: int) -> Array:
            rows = jax.lax.dynamic_slice_in_dim(values, row, size, axis)
            return jax.lax.dynamic_slice_in_dim(rows, column, size, axis + 1)

        layer, movable = here(bodies.layer, 2, 1)[:, :, 0, 0], here(turns.movable, 1, 1)[:, 0, 0]
        # Rows and columns of the four nodes of each layer are the corners by their bits.
        nodes = [here(part, 1, 2) for part in position]
        shape = layer.shape[0], 4, *nodes[0].shape[3:]
        corner = tuple((part.reshape(shape) * layer).sum(0) for part in nodes)
        moved = springs.within_rigid_limits(bodies.voxel_side, movable, corner)
        after = [jnp.where(layer > 0, one, part.reshape(shape)) for one, part in zip(moved, nodes, strict=True)]
        place = 0, row, column, *(0,) * (nodes[0].ndim - 3)
        return tuple(
            jax.lax.dynamic_update_slice(part, new.reshape(nodes[0].shape), place)
            for part, new in zip(position, after, strict=True)
        )

    return jax.lax.fori_loop(0, jnp.where(beyond.any(), turns.count, 0), voxel, position)
