"""Substeps of EvoGym's point masses as one GPU kernel: a warp has a world, a lane some of its voxels and nodes.

Voxels read where their corners are, and write what happens there; nodes add it up. The laws of springs and contact are
the functions of plain JAX (vsr.physics.evogym.step). What is rare, corners in other voxels, is looked for corner by
corner, and computed where there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, Table, kernel_call, load, power_of_two, store
from vsr.compute.vector import Vector, minus, plus, times
from vsr.environment import Environment
from vsr.physics.evogym import contact, springs
from vsr.physics.evogym.contact import Boxes
from vsr.physics.evogym.law import DRAG
from vsr.physics.evogym.model import EvogymModel, EvogymState, Joint
from vsr.physics.evogym.step import Motion, Setting, floor_force, outer_voxels, separated, setting_of, together
from vsr.robot.corners import corner_steps


class Known(NamedTuple):
    """What the kernel reads of a world besides its motion; c cells, n nodes."""

    numbers: Any
    """column and row of the origin, its shift, gravity, a voxel's side, overlapping pairs that are too many, (7,)"""
    stiffness: Any
    """(6, c)"""
    goal: Any
    """(6, c)"""
    rigid: Any
    """(c,)"""
    outer: Any
    """(4, c)"""
    owner: Any
    """(c,)"""
    node: Any
    """of every corner, (4, c)"""
    around: Any
    """corners of voxels at a node, numbered corner by corner; one too many where there is none, (4, n)"""
    inverse_mass: Any
    """(n,)"""
    ground: Any
    """codes of cells, (rows, columns)"""


class Scratch(NamedTuple):
    """Through which lanes exchange what they found."""

    position: Any
    """of nodes, (2, n)"""
    drift: Any
    """(2, n)"""
    felt: Any
    """at corners of voxels, corner by corner, and last nothing, (2, 4 c + 1)"""
    bounds: Any
    """lowest and highest coordinates of the robot's outer voxels, (4, c)"""


class Cells(NamedTuple):
    """What springs ask of voxels (vsr.physics.evogym.springs)."""

    stiffness: Array
    rigid: Array
    voxel_side: Any


def advance(
    model: EvogymModel,
    environment: Environment,
    state: EvogymState,
    control: Array,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> EvogymState:
    """The contract of vsr.physics.evogym.step.batched_advance, of a world with cells of ground."""
    models = (model, *(one.body for one in model.objects))
    setting = setting_of(models, environment, state, control, ())
    motion = together(models, (state, *state.objects), setting.shift, ())
    known, (rows, columns) = _known(setting), setting.bodies.rigid.shape
    flat = [jnp.stack([part.reshape(-1) for part in vector]) for vector in motion]
    places, nodes = rows * columns, flat[0].shape[1]
    *after, unstable = kernel_call(
        lambda *tables: _Program((rows, columns), substep, count, *tables).run(),
        programs=1,
        lanes=WARP,
        results=[*flat, jax.ShapeDtypeStruct((1,), jnp.int32)],
        scratch=[
            jax.ShapeDtypeStruct(shape, flat[0].dtype)
            for shape in ((2, nodes), (2, nodes), (2, 4 * places + 1), (4, places))
        ],
        interpret=interpret,
        name="evogym",
    )(*known, *flat)
    shape = motion.position[0].shape
    moved = Motion(*(tuple(part.reshape(shape) for part in table) for table in after))
    return separated(models, moved, setting.shift, state.unstable | (unstable[0] > 0))


def _known(setting: Setting) -> Known:
    bodies, ground = setting.bodies, setting.ground
    assert ground is not None
    dtype = bodies.rigid.dtype
    numbers = (*setting.origin, *setting.shift, setting.environment.gravity, bodies.voxel_side, outer_voxels(bodies))

    def in_a_row(values: Array) -> Array:
        return values.reshape(*values.shape[:-2], -1)

    return Known(
        numbers=jnp.stack([jnp.asarray(number, dtype) for number in numbers]),
        stiffness=in_a_row(bodies.stiffness),
        goal=in_a_row(setting.goal),
        rigid=in_a_row(bodies.rigid),
        outer=in_a_row(bodies.outer).astype(dtype),
        owner=jnp.asarray(bodies.owner.reshape(-1), jnp.int32),
        node=setting.node.astype(jnp.int32),
        around=_around(bodies),
        inverse_mass=bodies.inverse_mass.reshape(-1),
        ground=ground.code,
    )


def _around(bodies: Joint) -> Array:
    """See Known."""
    rows, columns = bodies.rigid.shape
    number = jnp.arange(rows * columns, dtype=jnp.int32).reshape(rows, columns)
    nothing, found = 4 * rows * columns, []
    for corner, (up, right) in enumerate(corner_steps(2)):
        mine = jnp.where(bodies.layer[:, corner] > 0, corner * rows * columns + number, nothing)
        room = (0, 0), (up, 1 - up), (right, 1 - right)
        found.append(jnp.pad(mine, room, constant_values=nothing).reshape(-1))
    return jnp.stack(found)


class _Program:
    """The kernel at work on one world."""

    def __init__(self, cells: tuple[int, int], substep: float, count: int, *tables: Table) -> None:
        self.cells, self.substep, self.count = cells, substep, count
        fields = len(Known._fields)
        self.known, self.start = Known(*tables[:fields]), tables[fields : fields + 3]
        self.final, self.unstable = tables[fields + 3 : fields + 6], tables[fields + 6]
        self.shared = Scratch(*tables[fields + 7 :])
        self.places, self.nodes = cells[0] * cells[1], self.known.inverse_mass.shape[0]
        lanes = jnp.arange(power_of_two(max(WARP, self.places)), dtype=jnp.int32)
        self.exists, self.cell = lanes < self.places, jnp.minimum(lanes, self.places - 1)
        lanes = jnp.arange(power_of_two(max(WARP, self.nodes)), dtype=jnp.int32)
        self.node = jnp.minimum(lanes, self.nodes - 1)
        known = self.known
        self.origin, self.shift = (known.numbers[0], known.numbers[1]), (known.numbers[2], known.numbers[3])
        self.gravity, self.allowed = known.numbers[4], known.numbers[6]
        self.bodies = Cells(self.of_cells(known.stiffness), load(known.rigid.at[self.cell]), known.numbers[5])
        self.goal, self.outer = self.of_cells(known.goal), self.of_cells(known.outer)
        self.owner, self.corner = load(known.owner.at[self.cell]), self.of_cells(known.node)
        self.around = [load(known.around.at[corner, self.node]) for corner in range(4)]
        self.ready = load(known.inverse_mass.at[self.node])

    def of_cells(self, table: Table) -> Array:
        """Rows of a table, (rows, lanes)."""
        return jnp.stack([load(table.at[row, self.cell]) for row in range(table.shape[0])])

    def run(self) -> None:
        for axis in range(2):
            self.shared.felt[axis, 4 * self.places] = 0.0
        vectors = [tuple(load(table.at[axis, self.node]) for axis in range(2)) for table in self.start]
        motion, unstable = jax.lax.fori_loop(0, self.count, self.substep_of, (Motion(*vectors), jnp.int32(0)))
        for table, vector in zip(self.final, motion, strict=True):
            self.put(table, vector)
        self.unstable[0] = unstable

    # Exchange

    def put(self, table: Table, vector: Vector) -> None:
        for axis, part in enumerate(vector):
            store(table.at[axis, self.node], part)

    def corners(self, table: Table) -> Vector:
        """Of voxels, (4, lanes)."""
        return tuple(jnp.stack([load(table.at[axis, self.corner[k]]) for k in range(4)]) for axis in range(2))

    def put_felt(self, felt: Vector) -> None:
        for axis, part in enumerate(felt):
            for k in range(4):
                store(self.shared.felt.at[axis, k * self.places + self.cell], part[k])

    def at_nodes(self) -> Vector:
        """What is felt at corners, added up."""
        parts = [[load(self.shared.felt.at[axis, place]) for place in self.around] for axis in range(2)]
        return tuple((a + b) + (c + d) for a, b, c, d in parts)

    def on_nodes(self, felt: Vector) -> Vector:
        self.put_felt(felt)
        return self.at_nodes()

    # A substep

    def substep_of(self, _: Array, state: tuple[Motion, Array]) -> tuple[Motion, Array]:
        motion, unstable = state
        self.put(self.shared.position, motion.position)
        self.put(self.shared.drift, motion.drift)
        boxes = Boxes(self.corners(self.shared.position), self.corners(self.shared.drift), self.outer, self.corner)
        unstable = unstable | (self.overlapping(boxes) > self.allowed).astype(jnp.int32)
        self.touch(boxes)
        force = self.at_nodes()
        rest = springs.relaxed(self.goal, springs.length(springs.between(boxes.corner)))

        def acceleration(position: Vector, velocity: Vector) -> Vector:
            self.put(self.shared.position, position)
            along = springs.between(self.corners(self.shared.position))
            pulled = self.on_nodes(springs.on_corners(springs.tensions(self.bodies.stiffness, rest, along)))
            total = plus(plus(pulled, force), times(-DRAG, velocity))
            total = total[0], total[1] - self.gravity
            total = plus(total, floor_force(position[1] + self.shift[1], velocity[0]))
            return times(self.ready, total)

        position, velocity = self.runge_kutta(acceleration, motion.position, motion.velocity)
        position = self.within_limits(position)
        drift = times(1 / self.substep, minus(position, motion.position))
        return Motion(position, velocity, drift), unstable

    def runge_kutta(self, acceleration: Any, position: Vector, velocity: Vector) -> tuple[Vector, Vector]:
        def stage(number: Array, now: Any) -> Any:
            speed, change, moved, sped_up = now
            way = self.substep * jnp.where(number == 0, 0.0, jnp.where(number == 3, 1.0, 0.5))
            weight = (self.substep / 6) * jnp.where((number == 0) | (number == 3), 1.0, 2.0)
            later = plus(velocity, times(way, change))
            change = acceleration(plus(position, times(way, speed)), later)
            return later, change, plus(moved, times(weight, later)), plus(sped_up, times(weight, change))

        start = velocity, times(0.0, velocity), position, velocity
        _, _, position, velocity = jax.lax.fori_loop(0, 4, stage, start)
        return position, velocity

    def within_limits(self, position: Vector) -> Vector:
        free = (self.ready > 0).astype(position[0].dtype)

        def shifted(position: Vector, by: Any) -> Vector:
            self.put(self.shared.position, position)
            return plus(position, times(free, self.on_nodes(by(self.corners(self.shared.position)))))

        position = shifted(position, lambda corner: springs.beyond_limits(self.bodies, corner))
        for edges in ((springs.TOP, springs.LEFT), (springs.BOTTOM, springs.RIGHT)):
            position = shifted(
                position, lambda corner, edges=edges: springs.beyond_rigid_limits(self.bodies, corner, edges)
            )
        return position

    # Contact

    def code_at(self, row: Array, column: Array) -> Array:
        rows, columns = self.known.ground.shape
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = (jnp.where(inside, number, 0).astype(jnp.int32) for number in (row, column))
        return jnp.where(inside, load(self.known.ground.at[row, column]), 0)

    def touch(self, boxes: Boxes) -> None:
        """Write what is felt at the corners of voxels."""
        self.put_felt(contact.corners_in_ground(boxes, self.code_at, self.origin))
        felt = jax.lax.fori_loop(0, 16, lambda number, felt: self.ground_in_boxes(boxes, number, felt), self.nothing())
        felt = jax.lax.cond(self.any_inside(boxes), lambda: self.each_other(boxes, felt), lambda: felt)
        for axis, part in enumerate(felt):
            for k in range(4):
                place = self.shared.felt.at[axis, k * self.places + self.cell]
                store(place, load(place) + part[k], mask=self.exists)

    def nothing(self) -> Vector:
        return (jnp.zeros(self.outer.shape, self.outer.dtype),) * 2

    def ground_in_boxes(self, boxes: Boxes, number: Array, felt: Vector) -> Vector:
        """With what one corner of the ground's lattice does, as one of its cells has it."""
        at, beside = number // 4, number % 4
        corner = ((at == 1) | (at == 2)).astype(jnp.float32), (at >= 2).astype(jnp.float32)
        cell = -((beside == 1) | (beside == 2)).astype(jnp.float32), -(beside >= 2).astype(jnp.float32)
        one = contact.corner_of_ground(boxes, self.code_at, self.origin, corner, cell)
        return jax.lax.cond(
            jnp.any(one.allowed & contact.inside(one.point, contact.in_ring(boxes.corner))),
            lambda: plus(felt, contact.on_boxes(boxes, one)),
            lambda: felt,
        )

    def any_inside(self, boxes: Boxes) -> Array:
        """Whether a node may be in a voxel that it is no corner of: first by bounds."""
        low, high = contact.bounds(boxes)
        low = tuple(jnp.where(self.exists & boxes.surface, part, jnp.inf) for part in low)

        def one(node: Array, found: Array) -> Array:
            point = tuple(self.shared.position[axis, node] for axis in range(2))
            within = (point[0] >= low[0]) & (point[0] <= high[0]) & (point[1] >= low[1]) & (point[1] <= high[1])
            return found | (within & ~(self.corner == node).any(0))

        start = jnp.zeros(self.cell.shape, bool)
        return jnp.any(jax.lax.fori_loop(0, self.nodes, one, start))

    def each_other(self, boxes: Boxes, felt: Vector) -> Vector:
        """With what corners of voxels do to the voxels that they are in; they themselves feel it at once."""
        position, drift = self.shared.position, self.shared.drift

        def one(number: Array, felt: Vector) -> Vector:
            corner, other = number // self.places, number % self.places
            turns = [jnp.where(corner == k, jnp.int32(k + 1), 0) for k in range(4)]  # which corner it is, as a number
            before, after = (
                sum(jnp.where(turn > 0, contact.NEIGHBORS[k][side], 0) for k, turn in enumerate(turns))
                for side in range(2)
            )
            nodes = [self.known.node[which, other] for which in (corner, before, after)]
            point, *ends = [tuple(position[axis, node] for axis in range(2)) for node in nodes]
            speed = tuple(drift[axis, nodes[0]] for axis in range(2))
            owner = self.known.owner[other]
            often = jnp.where(self.owner == owner, jnp.where(owner == 0, 2.0, 0.0), 1.0)
            surface = sum(self.known.outer[edge, other] for edge in range(4)) > 0
            allowed = self.exists & boxes.surface & surface & (often > 0) & ~(self.corner == nodes[0]).any(0)
            quad = contact.in_ring(boxes.corner)

            def felt_there() -> Vector:
                touched = contact.touch(
                    point, (ends[0], ends[1]), speed, quad, contact.in_ring(boxes.drift), boxes.outer, allowed
                )
                for axis, part in enumerate(touched.point):
                    place = self.shared.felt.at[axis, corner * self.places + other]
                    store(place, load(place) + jnp.sum(jnp.where(self.exists, often * part, 0.0)))
                return plus(felt, contact.in_ring(times(often, touched.quad)))

            return jax.lax.cond(jnp.any(allowed & contact.inside(point, quad)), felt_there, lambda: felt)

        return jax.lax.fori_loop(0, 4 * self.places, one, felt)

    def overlapping(self, boxes: Boxes) -> Array:
        """See vsr.physics.evogym.contact.overlapping_pairs."""
        low, high = contact.bounds(boxes)
        mine = self.exists & boxes.surface & (self.owner == 0)
        low = tuple(jnp.where(mine, part, jnp.inf) for part in low)
        high = tuple(jnp.where(mine, part, -jnp.inf) for part in high)
        for row, part in enumerate((*low, *high)):
            store(self.shared.bounds.at[row, self.cell], part, mask=self.exists)
        columns = self.cells[1]
        row, column = self.cell // columns, self.cell % columns

        def one(other: Array, count: Array) -> Array:
            far = (jnp.abs(row - other // columns) > 1) | (jnp.abs(column - other % columns) > 1)
            near = far
            for axis in range(2):
                near = near & (low[axis] <= self.shared.bounds[2 + axis, other])
                near = near & (high[axis] >= self.shared.bounds[axis, other])
            return count + near.astype(jnp.float32)

        counted = jax.lax.fori_loop(0, self.places, one, jnp.zeros(self.cell.shape, jnp.float32))
        return jnp.sum(counted)
