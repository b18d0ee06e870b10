"""Substeps of voxels of point masses as one GPU kernel: a program has a robot, a lane one of its nodes.

What a lane knows of its springs (vsr.physics.points.neighborhood) before the first substep stays in registers; the
motion of nodes goes through a table on chip. Forces that a voxel has by all of its corners, by force actuation and by
fluid, are computed in a lane per voxel and added up by nodes. A body too large for one program is moved by a launch a
substep (vsr.lattice.kernel), or if it has fluid, which all of it must wait for, by several nodes in every lane.

Where there are several layers, lanes have the nodes that are there. If these are too many, every lane has several in
turn, and finds what there is to know of their springs in every substep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import add, or_
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.cuda import SHARED_BYTES
from vsr.compute.gpu.language import Table, anyone, kernel_call, load, store
from vsr.compute.vector import Vector, join, plus, split
from vsr.compute.xla import TOGETHER, repeat
from vsr.lattice.integrators import NodeState
from vsr.lattice.kernel import (
    KernelInputs,
    Known,
    LaneOrder,
    Launcher,
    felt_motion,
    gather_known,
    moved_by,
    present_first,
)
from vsr.lattice.step import StepInputs
from vsr.physics.actuation import inward_forces
from vsr.physics.fluid import law
from vsr.physics.fluid.law import FluidNumbers
from vsr.physics.fluid.voxels import volume_shares, wall_loads
from vsr.physics.points.fluid import chamber_drive, follow_rounds
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.neighborhood import (
    LAYER_BITS,
    ChamberNumbers,
    Spring,
    Voxel,
    VoxelNeighborhood,
    VoxelNumbers,
    pulled,
)
from vsr.physics.points.springs import Sides, rest_length, turns

MOST_LANES = {2: 768, 3: 512}
"""That a multiprocessor holds, by dimension: more would not have the registers that springs need."""
WORD = 4
"""Bytes of a number."""
FAR_FIELDS = 4
"""Of a spring: its end, stiffness, damping and tension."""


class Joints(NamedTuple):
    """How voxels hang together where there are several layers of nodes; stays as it is while a body moves."""

    layers: Array
    """see VoxelNumbers"""
    order: LaneOrder
    """of the lanes: most nodes of further layers are absent"""


def joints_of(model: PointModel) -> Joints | None:
    """None if there is one layer."""
    if model.layer.shape[0] == 1:
        return None
    layer = jnp.argmax(model.layer, 0).astype(jnp.int32)
    shift = LAYER_BITS * jnp.arange(layer.shape[0], dtype=jnp.int32)
    packed = (layer << shift.reshape(-1, *(1,) * model.dimension)).sum(0, dtype=jnp.int32)
    there = model.node_mass > 0
    if model.chambers is not None:
        there = there | (model.chambers.follows > 0)
    return Joints(jnp.where(model.present > 0, packed, -1), present_first(there))


def advance(
    model: PointModel,
    joints: Joints | None,
    inputs: StepInputs,
    state: PointState,
    control: Array,
    side: Sides,
    substep: float,
    count: int,
    *,
    interpret: bool,
) -> PointState:
    """The state `count` substeps [s] later; side: target of the voxels [m], c, or one for each axis of cells."""
    axis = 1 + model.dimension  # of the vectors' components, after layers and nodes
    body = VoxelNeighborhood(model.present.shape, model.layer.shape[0], isinstance(side, tuple))
    numbers = voxel_numbers(model, inputs, state, side, control, None if joints is None else joints.layers)
    order = None if joints is None else joints.order
    options = {"integrator": model.integrator, "interpret": interpret}
    if fits_one_program(body, numbers) or model.chambers is not None:
        known = gather_known(numbers, _carrying(model, inputs), substep, order)
        times = {"substep": substep, "count": count, "rounds": follow_rounds(model)}
        position, velocity = _resident(known, state.position, state.velocity, body=body, **times, **options)
        return replace(state, position=position, velocity=velocity)
    start = NodeState(split(state.position, axis), split(state.velocity, axis))
    launcher = Launcher(body, inputs, substep, by_velocity=True, **options)
    moving = _by_launches(launcher, launcher.known(numbers, order), start, count, 1 if interpret else TOGETHER)
    return replace(state, position=join(moving.position, axis), velocity=join(moving.velocity, axis))


def _carrying(model: PointModel, inputs: StepInputs) -> StepInputs:
    """With what holds up the fluid that nodes carry along: its weight acts through the walls."""
    if model.chambers is None:
        return inputs
    none = jnp.zeros((), model.mass.dtype)
    lift = *(none,) * (model.dimension - 1), model.chambers.fluid_mass * inputs.environment.gravity
    return inputs._replace(load=lift if inputs.load is None else plus(inputs.load, lift))


def _by_launches(launcher: Launcher, known: KernelInputs, start: NodeState, count: int, together: int) -> NodeState:
    """One launch each substep."""
    if known.order is None:
        return repeat(lambda _, now: launcher.move(known, now), 0, count, start, together)

    # One motion and the one before it take turns, as do their places in memory.
    def turn(_: Any, both: tuple[NodeState, NodeState]) -> tuple[NodeState, NodeState]:
        now, before = both
        return launcher.move(known, now, before), now

    return repeat(turn, 0, count, (start, start), together)[0]


def voxel_numbers(
    model: PointModel, inputs: StepInputs, state: PointState, side: Sides, control: Array, layers: Array | None
) -> VoxelNumbers:
    """Of all voxels under control values, c; side: their target [m]; layers: see VoxelNumbers."""
    if isinstance(side, tuple):
        classes = turns(model.dimension)
        tension = jnp.stack([model.stiffness[len(axes) - 1] * rest_length(side, axes) for axes in classes])
    else:
        kinds = model.stiffness.shape[0]
        root = jnp.sqrt(jnp.arange(1, kinds + 1, dtype=side.dtype)).reshape(-1, *(1,) * side.ndim)
        tension = model.stiffness * root * side
    springs = None
    if model.springs is not None:
        place = jnp.arange(model.springs.shape[0], dtype=jnp.int32).reshape(-1, *(1,) * model.dimension)
        springs = ((model.springs > 0).astype(jnp.int32) << place).sum(0, dtype=jnp.int32)
    return VoxelNumbers(
        stiffness=model.stiffness,
        damping=model.damping,
        tension=tension,
        strength=None if model.max_force is None else control * model.max_force,
        layers=layers,
        springs=springs,
        chambers=_chamber_numbers(model, inputs, state, control),
    )


def _chamber_numbers(model: PointModel, inputs: StepInputs, state: PointState, control: Array) -> ChamberNumbers | None:
    chambers = model.chambers
    if chambers is None:
        return None
    member, there = chambers.member > 0, model.node_mass > 0
    return ChamberNumbers(
        chamber=jnp.where(member.any(0), jnp.argmax(member, 0), -1).astype(jnp.int32),
        count=(chambers.rest_volume > 0).sum().astype(model.mass.dtype),
        walls=chambers.walls,
        depth=chambers.depth,
        numbers=chambers.numbers,
        rest_volume=chambers.rest_volume,
        drive=chamber_drive(model, control),
        level=jnp.where(there, state.position[..., -1], 0).sum() / jnp.maximum(there.sum(), 1),
        gravity=jnp.asarray(inputs.environment.gravity, model.mass.dtype),
        present=model.present,
        follows=chambers.follows,
    )


# Compiled, so that it is translated once, however often it is called.
@partial(jax.jit, static_argnames=("body", "integrator", "substep", "count", "rounds", "interpret"))
def _resident(
    known: KernelInputs,
    position: Array,
    velocity: Array,
    *,
    body: VoxelNeighborhood,
    integrator: str,
    substep: float,
    count: int,
    rounds: int,
    interpret: bool,
) -> tuple[Array, Array]:
    """All substeps in one launch; position, velocity: of the nodes, before and after."""
    shape, motion = position.shape, [part.reshape(-1, position.shape[-1]) for part in (position, velocity)]
    order = () if known.order is None else (known.order.node, known.order.count)
    lanes = _lanes(body)
    far = jax.ShapeDtypeStruct((body.far_springs, FAR_FIELDS, lanes), motion[0].dtype)
    after = kernel_call(
        lambda *tables: _Program(body, known.places, known.shapes, integrator, substep, count, rounds, *tables).run(),
        programs=1,
        lanes=lanes,
        results=[*motion, far] if body.far_springs else motion,
        scratch=[jax.ShapeDtypeStruct(size, motion[0].dtype) for size in _scratch(body, known.places[0])],
        # In place: absent nodes stay as they are.
        aliases={number: number for number in range(len(motion))},
        resident=MOST_LANES[len(body.cells)] // lanes,
        interpret=interpret,
        name="move_robot",
    )(*motion, *order, known.numbers, *known.tables)
    return after[0].reshape(shape), after[1].reshape(shape)


def fits_one_program(body: VoxelNeighborhood, numbers: VoxelNumbers) -> bool:
    """Whether there are lanes for the nodes of a layer, and memory on chip for all."""
    words = sum(map(math.prod, _scratch(body, numbers)))
    return body.lanes <= MOST_LANES[len(body.cells)] and words * WORD <= SHARED_BYTES


def _lanes(body: VoxelNeighborhood) -> int:
    return min(body.lanes, MOST_LANES[len(body.cells)])


def _scratch(body: VoxelNeighborhood, springs: VoxelNumbers) -> list[tuple[int, ...]]:
    """Motion of the nodes; then, if there are any, forces on the corners of voxels, last of all on those of none."""
    dimension = len(body.cells)
    motion = body.nodes + 2 * (body.margin or 0), 2 * dimension
    has_forces = springs.strength is not None or springs.chambers is not None
    return [motion, (dimension * body.corners, math.prod(body.cells) + 1)] if has_forces else [motion]


class _Nodes(NamedTuple):
    """Of lanes."""

    node: Array
    works: Array
    """False for lanes that have none; what they are given is that of another"""
    acts: StepInputs


class _Cells(NamedTuple):
    """Of lanes."""

    cell: Array
    exists: Array
    corners: list[Array]
    """places of their motion"""
    strength: Array | None
    fluid: _Fluid | None


class _Fluid(NamedTuple):
    """Of the cells of lanes."""

    chamber: Array
    walls: list[Array]
    depth: Array
    numbers: FluidNumbers
    rest_volume: Array
    drive: Array


class _Program:
    """The kernel at work on one robot."""

    def __init__(
        self,
        body: VoxelNeighborhood,
        places: tuple[VoxelNumbers, StepInputs, int],
        shapes: tuple[tuple[int, ...], ...],
        integrator: str,
        substep: float,
        count: int,
        rounds: int,
        *tables: Table,
    ) -> None:
        self.body, self.integrator, self.count, self.rounds = body, integrator, count, rounds
        self.springs, self.inputs, _ = places
        self.dimension, self.fields = len(body.cells), 2 * len(body.cells)
        self.scratch = tables[-len(_scratch(body, self.springs)) :]
        tables = tables[: -len(self.scratch)]
        self.far: Any = tables[-1]
        tables = tables[:-1] if body.far_springs else tables
        self.after, tables = tables[-2:], tables[2:-2]
        self.order, tables = (None, tables) if body.layers == 1 else (tables[:2], tables[2:])
        self.known = Known(tables[0], tables[1:], shapes)
        self.motion = self.scratch[0]
        self.pushes: Any = self.scratch[1] if len(self.scratch) > 1 else None
        self.lanes = _lanes(body)
        self.lane = jnp.arange(self.lanes, dtype=jnp.int32)
        self.step = jnp.asarray(substep, self.motion.dtype)

    def run(self) -> None:
        self.clear()
        cells = None if self.pushes is None else self.cells()
        if self.order is not None:
            there = self.order[1][0]
            jax.lax.cond(there <= self.lanes, lambda: self.at_once(there, cells), lambda: self.in_turns(there, cells))
        elif self.body.nodes <= self.lanes:
            self.at_once(self.body.nodes, cells)
        else:
            self.in_turns(self.body.nodes, cells)

    def clear(self) -> None:
        """Set to 0 what may be read before it is written, or never is."""
        margin, places = self.body.margin or 0, math.prod(self.body.cells)
        for first in (0, margin + self.body.nodes) if margin else ():
            for at in self.spread(margin):
                for part in range(self.fields):
                    store(self.motion.at[first + at, part], 0.0)
        if self.pushes is not None:
            for at in self.spread(places + 1):
                for row in range(self.pushes.shape[0]):
                    store(self.pushes.at[row, at], 0.0)

    def spread(self, size: int) -> list[Array]:
        """All numbers below a size, by lanes."""
        return [jnp.minimum(first + self.lane, size - 1) for first in range(0, size, self.lanes)]

    # Nodes

    def nodes(self, turn: Array | int, there: Array | int) -> _Nodes:
        """Of one turn; there: how many nodes there are."""
        rank = turn * self.lanes + self.lane
        node = jnp.minimum(rank, jnp.maximum(there - 1, 0))
        node = node if self.order is None else load(self.order[0].at[node])
        return _Nodes(node, rank < there, self.known.of_nodes(self.inputs, node))

    def kept(self, nodes: _Nodes) -> NodeState:
        """Their motion in memory."""
        axes = range(self.dimension)
        return NodeState(*(tuple(load(table.at[nodes.node, axis]) for axis in axes) for table in self.after))

    def keep(self, nodes: _Nodes, moving: NodeState) -> None:
        for table, vector in zip(self.after, (moving.position, moving.velocity), strict=True):
            for axis, values in enumerate(vector):
                store(table.at[nodes.node, axis], values, mask=nodes.works)

    def show(self, nodes: _Nodes, moving: NodeState) -> None:
        """To all lanes."""
        for part, values in enumerate(jax.tree.leaves(moving)):
            store(self.motion.at[nodes.node + (self.body.margin or 0), part], values, mask=nodes.works)

    def seen(self, place: Array) -> NodeState:
        """The motion that was shown."""
        values = [load(self.motion.at[place, part]) for part in range(self.fields)]
        return NodeState(tuple(values[: self.dimension]), tuple(values[self.dimension :]))

    def felt(self, moving: NodeState) -> NodeState:
        return felt_motion(self.integrator, self.step, moving)

    def at_once(self, there: Array | int, cells: _Cells | None) -> None:
        """A node for every lane, whose springs it knows by heart."""
        nodes = self.nodes(0, there)
        voxels = self.body.voxels_around(nodes.node, self.springs, self.known.look_up)
        near, far = (list(self.body.springs(nodes.node, voxels, self.body.margin, last)) for last in (False, True))
        parting = self.set_aside(far)
        around = self.around(voxels)
        ends = packed([spring.end for spring in near]) if self.order and self.body.nodes <= 1 << 16 else None

        def work(own: NodeState) -> NodeState:
            felt = self.felt(own)
            springs = near
            if ends is not None:
                springs = [spring._replace(end=end) for spring, end in zip(near, unpacked(ends), strict=False)]
            force = self.pulled(self.pushed(around), felt, springs)
            if parting is not None:
                force = jax.lax.cond(anyone(parting), partial(self.pulled_far, felt), lambda force: force, force)
            return moved_by(self.integrator, force, own, nodes.acts, self.step)

        def substep(_: Array, own: NodeState) -> NodeState:
            self.show(nodes, self.felt(own))
            self.push(cells)
            return work(own) if self.order is None else jax.lax.cond(anyone(nodes.works), work, lambda own: own, own)

        own = jax.lax.fori_loop(0, self.count, substep, self.kept(nodes))
        if self.rounds:
            beside = self.beside(nodes, voxels)

            def again(_: Array, own: NodeState) -> NodeState:
                self.show(nodes, own)
                return self.followed(nodes, beside, own)

            own = jax.lax.fori_loop(0, self.rounds, again, own)
        self.keep(nodes, own)

    def in_turns(self, there: Array | int, cells: _Cells | None) -> None:
        """Several nodes for every lane; their motion stays in memory."""

        def each(work: Callable[[_Nodes], None]) -> None:
            def turn(number: Array, nothing: Array) -> Array:
                work(self.nodes(number, there))
                return nothing

            jax.lax.fori_loop(0, (there + self.lanes - 1) // self.lanes, turn, jnp.int32(0))

        def move(nodes: _Nodes) -> None:
            own = self.kept(nodes)
            voxels = self.body.voxels_around(nodes.node, self.springs, self.known.look_up)
            springs = self.body.springs(nodes.node, voxels, self.body.margin)
            force = self.pulled(self.pushed(self.around(voxels)), self.felt(own), springs)
            self.keep(nodes, moved_by(self.integrator, force, own, nodes.acts, self.step))

        def follow(nodes: _Nodes) -> None:
            voxels = self.body.voxels_around(nodes.node, self.springs, self.known.look_up)
            self.keep(nodes, self.followed(nodes, self.beside(nodes, voxels), self.kept(nodes)))

        def substep(_: Array, nothing: Array) -> Array:
            each(lambda nodes: self.show(nodes, self.felt(self.kept(nodes))))
            self.push(cells)
            each(move)
            return nothing

        def again(_: Array, nothing: Array) -> Array:
            each(lambda nodes: self.show(nodes, self.kept(nodes)))
            each(follow)
            return nothing

        jax.lax.fori_loop(0, self.count, substep, jnp.int32(0))
        if self.rounds:
            jax.lax.fori_loop(0, self.rounds, again, jnp.int32(0))

    def set_aside(self, springs: list[Spring]) -> Array | None:
        """Keep springs in memory that few bodies have, and no registers are left for; which lanes have any."""
        if not springs:
            return None
        found = reduce(or_, [spring.stiffness > 0 for spring in springs])

        def write() -> None:
            for number, spring in enumerate(springs):
                for field, values in enumerate(spring[:FAR_FIELDS]):
                    store(self.far.at[number, field, self.lane], values)

        jax.lax.cond(anyone(found), write, lambda: None)
        return found

    def pulled_far(self, felt: NodeState, force: Vector) -> Vector:
        """With the springs that were set aside."""
        for number in range(self.body.far_springs):
            end, stiffness, damping, tension = (
                load(self.far.at[number, field, self.lane]) for field in range(FAR_FIELDS)
            )
            spring = Spring(end.astype(jnp.int32), stiffness, damping, tension, None)
            force = pulled(force, felt, self.seen(spring.end), spring)
        return force

    def pulled(self, force: Vector, felt: NodeState, springs: Iterable[Spring]) -> Vector:
        for spring in springs:
            force = pulled(force, felt, self.seen(spring.end), spring)
        return force

    # Forces on the corners of voxels

    def around(self, voxels: list[Voxel]) -> list[Array]:
        """Where the forces of the voxels around nodes are."""
        nothing = math.prod(self.body.cells)
        return [jnp.where(voxel.exists, voxel.cell, nothing) for voxel in voxels]

    def pushed(self, around: list[Array]) -> Vector:
        """Of all voxels around nodes [N]."""
        if self.pushes is None:
            return tuple(jnp.zeros(self.lane.shape, self.motion.dtype) for _ in range(self.dimension))
        return tuple(
            reduce(add, [load(self.pushes.at[k * self.dimension + axis, at]) for k, at in enumerate(around)])
            for axis in range(self.dimension)
        )

    def cells(self) -> _Cells:
        """What lanes know of voxels."""
        known, places = self.springs, math.prod(self.body.cells)
        lane = jnp.arange(-(-places // self.lanes) * self.lanes, dtype=jnp.int32)
        cell = jnp.minimum(lane, places - 1)
        corners = self.body.corner_nodes(cell, known, self.known.look_up)
        return _Cells(
            cell=cell,
            exists=lane < places,
            corners=[node + (self.body.margin or 0) for node in corners],
            strength=None if known.strength is None else self.known.look_up(known.strength, cell),
            fluid=None if known.chambers is None else self.fluid(known.chambers, cell),
        )

    def fluid(self, known: ChamberNumbers, cell: Array) -> _Fluid:
        look_up, places = self.known.look_up, math.prod(self.body.cells)
        chamber = look_up(known.chamber, cell)
        mine = jnp.maximum(chamber, 0)
        return _Fluid(
            chamber=chamber,
            walls=[look_up(known.walls, side * places + cell) for side in range(2 * self.dimension)],
            depth=look_up(known.depth, cell),
            numbers=jax.tree.map(lambda place: look_up(place, mine), known.numbers),
            rest_volume=look_up(known.rest_volume, mine),
            drive=look_up(known.drive, mine),
        )

    def push(self, cells: _Cells | None) -> None:
        """Write what voxels do to their corners."""
        if cells is None:
            return
        strength, fluid = cells.strength, cells.fluid
        acts = [] if strength is None else [strength != 0]
        pressure = None
        if fluid is not None:
            acts.append(fluid.chamber >= 0)
            pressure = law.pressure(fluid.numbers, fluid.rest_volume, fluid.drive, self.volume(cells, fluid))

        def write() -> None:
            corners = [self.place(at) for at in cells.corners]
            forces: list[Vector] | None = None
            if strength is not None:
                forces = inward_forces(strength, corners)
            if fluid is not None and pressure is not None:
                loads = self.loads(fluid, corners, pressure)
                forces = loads if forces is None else [plus(a, b) for a, b in zip(forces, loads, strict=True)]
            for k, force in enumerate(forces or ()):
                for axis, part in enumerate(force):
                    store(self.pushes.at[k * self.dimension + axis, cells.cell], part, mask=cells.exists)

        jax.lax.cond(anyone(reduce(or_, acts)), write, lambda: None)

    def place(self, at: Array) -> Vector:
        """Where a node is."""
        return tuple(load(self.motion.at[at, axis]) for axis in range(self.dimension))

    def volume(self, cells: _Cells, fluid: _Fluid) -> Array:
        """Of each voxel's chamber [m³]."""
        chambers = self.springs.chambers
        assert chambers is not None
        level, number = (self.known.look_up(place, cells.cell) for place in (chambers.level, chambers.count))
        holds = (fluid.chamber >= 0) & cells.exists
        nothing = jnp.zeros(cells.cell.shape, self.motion.dtype)

        def share() -> Array:
            corner = tuple(zip(*(self.place(at) for at in cells.corners), strict=True))
            return volume_shares(fluid, corner, level)

        shares = jax.lax.cond(anyone(holds), share, lambda: nothing)

        def total(number: Array, volume: Array) -> Array:
            mine = holds & (fluid.chamber == number)
            return jnp.where(mine, jnp.sum(jnp.where(mine, shares, 0)), volume)

        return jax.lax.fori_loop(0, number.astype(jnp.int32), total, nothing)

    def loads(self, fluid: _Fluid, corners: list[Vector], pressure: Array) -> list[Vector]:
        chambers = self.springs.chambers
        assert chambers is not None
        weight = fluid.numbers.density * self.known.look_up(chambers.gravity, fluid.chamber)
        corner = tuple(zip(*corners, strict=True))
        return wall_loads(fluid, corner, pressure + weight * fluid.numbers.port, weight)

    # Nodes amid the fluid

    def beside(self, nodes: _Nodes, voxels: list[Voxel]) -> list[tuple[Array, Array]]:
        """Neighbors along edges, and how often each counts."""
        chambers = self.springs.chambers
        assert chambers is not None
        present = [jnp.where(voxel.exists, self.known.look_up(chambers.present, voxel.cell), 0) for voxel in voxels]
        return list(self.body.edges(nodes.node, voxels, present, self.body.margin))

    def followed(self, nodes: _Nodes, beside: list[tuple[Array, Array]], own: NodeState) -> NodeState:
        """See vsr.physics.points.fluid.followed; all motion was shown."""
        chambers = self.springs.chambers
        assert chambers is not None
        follows = self.known.look_up(chambers.follows, nodes.node) > 0
        number = jnp.maximum(reduce(add, [weight for _, weight in beside]), 1)
        seen = [jax.tree.map(partial(jnp.multiply, weight), self.seen(end)) for end, weight in beside]
        return jax.tree.map(lambda part, *parts: jnp.where(follows, reduce(add, parts) / number, part), own, *seen)


def packed(numbers: list[Array]) -> list[Array]:
    """Numbers below 2¹⁶ in pairs, to save registers; an odd one goes with itself."""
    return [a | b << 16 for a, b in zip(numbers[::2], [*numbers[1::2], numbers[-1]], strict=False)]


def unpacked(pairs: list[Array]) -> Iterator[Array]:
    """What was packed, one after the other, as late as can be."""
    for pair in map(jax.lax.optimization_barrier, pairs):
        yield pair & (1 << 16) - 1
        yield jax.lax.shift_right_logical(pair, jnp.int32(16))
