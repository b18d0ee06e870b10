"""Substeps of EvoGym's point masses as one GPU kernel: a program has a world, a lane a voxel and one node or two.

Bodies lie side by side in a grid of which much may be empty: lanes are for the cells and nodes that can exist.

Voxels read where their corners are, and write what happens there; nodes add it up. The laws of springs and contact are
the functions of plain JAX (vsr.physics.evogym.step). What is rare is computed when it may happen, and only then:

- Voxels see each other when nodes went so far since they last looked that some could touch.
- Voxels list the corners that may be in the ground, and the ground's that may be in them; then every lane computes one
  pair of the list, and the next as many until there are no more.
- Springs are pulled back into their limits when one is beyond. Rigid voxels that share no node go together, in waves
  that give what one after the other would.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import WARP, Table, anyone, kernel_call, load, rank, store
from vsr.compute.vector import Vector, minus, plus, times
from vsr.environment import Environment
from vsr.physics.evogym import contact, springs
from vsr.physics.evogym.law import DRAG, SIDE
from vsr.physics.evogym.model import NOBODY, EvogymModel, EvogymState, GroundCells, Joint, edge_bits, has_edge
from vsr.physics.evogym.step import Motion, Setting, floor_force, outer_voxels, separated, setting_of, together
from vsr.robot.corners import RING, corner_steps

MARGIN = 1e-4 * SIDE
"""By which bounds are looked at too generously, for rounding."""
SKIN = 0.1 * SIDE
"""How near to a voxel nodes are listed, so that voxels need not look at each other in every substep."""
IN_GROUND = 16
"""Pairs of a voxel and the ground are bits: four times a corner of the ground that is in it plus the cell beside that
corner, both in the order of RING, and from here on its own corners in that order."""
RESIDENT = 16
"""Warps that a multiprocessor holds at once, which leaves 128 registers to a lane."""
MOST_PAIRS = 128
"""Of a corner and a voxel, that are computed at once."""
WORD = 30
"""Nodes whose flags a voxel has in one number."""
MOST_LANES = 512
"""Of a world: more voxels than these share lanes."""
EDGE = 2
"""Empty cells around the ground, so that cells farther away may be taken for those at the edge."""


class Known(NamedTuple):
    """What the kernel reads of a world besides its motion; c cells that may have a voxel, n nodes of such cells."""

    numbers: Any
    """column and row of the origin, its shift, gravity, a voxel's side, overlapping pairs that are too many, 1 if the
    first contact is that of the table, (8,)"""
    stiffness: Any
    """(6, c)"""
    goal: Any
    """of all cells of the grid, (6, cells)"""
    rigid: Any
    """(c,)"""
    outer: Any
    """(4, c)"""
    owner: Any
    """(c,)"""
    places: Any
    """which cells of the grid these are, (c,)"""
    spots: Any
    """which nodes of the grid, (n,)"""
    rest: Any
    """other nodes of the grid, or any where there are none"""
    node: Any
    """of every corner, (4, c)"""
    movable: Any
    """see vsr.physics.evogym.step.Turns, (4, c)"""
    wave: Any
    """in which rigid voxels are pulled back, (c,)"""
    first: Any
    """contact of the table at the corners of voxels, x then y, (8, c); where objects fall straight, then those of
    their landing and its substep, (17, c)"""
    around: Any
    """cells that have a node as their corner; one too many where there is none, (4, n)"""
    inverse_mass: Any
    """(n,)"""
    ground: Any
    """codes of cells and their surroundings (`_surroundings`)"""


class Scratch(NamedTuple):
    """Through which lanes exchange what they found."""

    position: Any
    """of nodes, (2, n)"""
    drift: Any
    """(2, n)"""
    felt: Any
    """at the corners of voxels, and of one more nothing, (2, 4, c + 1)"""
    bounds: Any
    """lowest and highest coordinates of the robot's outer voxels, (4, c)"""
    cell: Any
    """column and row of the cell that the middle of a voxel is in, (2, c)"""
    code: Any
    """of the cell of ground that a node is in, (n,)"""
    entered: Any
    """nodes that are or may soon be in a voxel that they are no corner of, (n,)"""
    pairs: Any
    """of voxels and the ground, or of voxels, a number each, (lanes,)"""
    push: Any
    """of pairs of voxels, on the corner, then on the corners of the other in the order of RING, (10, room)"""


class Now(NamedTuple):
    """What goes from one substep to the next."""

    motion: Motion
    corner: Vector
    """of voxels, (4, c)"""
    length: Array
    """of springs, (6, c)"""
    slack: tuple[Array, Array]
    """no node that is not listed is in a voxel that it is no corner of, and no bounds of distant voxels overlap, before
    two nodes went so far together since voxels last looked, () each"""
    way: Array
    """of every node since then, at least, (n,)"""
    entered: Array
    """how many nodes are listed, ()"""
    unstable: Array


class Cells(NamedTuple):
    """What springs ask of voxels (vsr.physics.evogym.springs)."""

    stiffness: Array
    rigid: Array
    voxel_side: Any


KEPT = ("stiffness", "rigid", "outer", "node", "movable", "wave", "first", "around", "inverse_mass")
"""Of `Known`: what depends on bodies alone, the first contact too where nothing lands later."""


def prepared(model: EvogymModel, environment: Environment, start: EvogymState) -> EvogymModel:
    """The same model with what `advance` would otherwise gather in every call; start: any state of it."""
    models = (model, *(one.body for one in model.objects))
    setting = setting_of(models, environment, start, jnp.zeros_like(model.present), ())
    known, falls = _known(setting, Layout.of(models, setting.bodies)), setting.landing is not None
    return replace(model, tables={name: getattr(known, name) for name in KEPT if not (falls and name == "first")})


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
    layout = Layout.of(models, setting.bodies)
    known = _known(setting, layout)._replace(**(model.tables or {}))
    flat = [jnp.stack([part.reshape(-1) for part in vector]) for vector in motion]
    places, nodes = len(layout.places), len(layout.spots)
    lanes = lanes_for(places, nodes)
    *after, unstable = kernel_call(
        lambda *tables: _Program(layout, lanes, substep, count, *tables).run(),
        programs=1,
        lanes=lanes,
        results=[*flat, jax.ShapeDtypeStruct((1,), jnp.int32)],
        scratch=[
            *(
                jax.ShapeDtypeStruct(shape, flat[0].dtype)
                for shape in ((2, nodes), (2, nodes), (2, 4, places + 1), (4, places))
            ),
            *(jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((2, places), (nodes,), (nodes,), (lanes,))),
            jax.ShapeDtypeStruct((10, min(lanes, MOST_PAIRS)), flat[0].dtype),
        ],
        resident=max(1, RESIDENT * WARP // lanes),
        interpret=interpret,
        name="evogym",
    )(*known, *flat)
    shape = motion.position[0].shape
    moved = Motion(*(tuple(part.reshape(shape) for part in table) for table in after))
    return separated(models, moved, setting.shift, state.unstable | (unstable[0] > 0))


def lanes_for(places: int, nodes: int) -> int:
    """A lane for every voxel, with one node or two."""
    return min(MOST_LANES, whole(max(places, -(-nodes // 2)), WARP))


class Layout(NamedTuple):
    """Of the grid that holds all bodies, what can exist."""

    columns: int
    """of the grid's cells"""
    places: np.ndarray
    """numbers of cells that may have a voxel"""
    spots: np.ndarray
    """numbers of nodes that such cells may have"""
    cell: np.ndarray
    """of every cell its place in that list, or the list's length; one more for none"""
    node: np.ndarray
    """of every node its place in that list, or 0"""

    @staticmethod
    def of(models: Sequence[EvogymModel], bodies: Joint) -> Layout:
        """Nodes of a layer are those of models that have it."""
        (rows, columns), layers, first = bodies.owner.shape, bodies.layer.shape[0], 0
        there = np.zeros((layers, rows + 1, columns + 1), bool)
        for model in models:
            mine = bodies.owner != NOBODY
            mine[:, :first] = mine[:, first + model.present.shape[1] :] = False
            for up, right in corner_steps(2):
                there[: model.layer.shape[0], up : up + rows, right : right + columns] |= mine
            first += model.present.shape[1] + 1
        places, spots = np.flatnonzero(bodies.owner != NOBODY), np.flatnonzero(there)
        cell, node = np.full(rows * columns + 1, len(places), np.int32), np.zeros(there.size, np.int32)
        cell[places], node[spots] = np.arange(len(places)), np.arange(len(spots))
        return Layout(columns, places.astype(np.int32), spots.astype(np.int32), cell, node)

    @property
    def rest(self) -> np.ndarray:
        """Numbers of all other nodes."""
        return np.setdiff1d(np.arange(len(self.node), dtype=np.int32), self.spots)


def _known(setting: Setting, layout: Layout) -> Known:
    bodies, ground = setting.bodies, setting.ground
    assert ground is not None
    dtype = bodies.rigid.dtype
    numbers = (
        *(*setting.origin, *setting.shift, setting.environment.gravity, bodies.voxel_side, outer_voxels(bodies)),
        setting.beginning,
    )

    def listed(values: Array) -> Array:
        return values.reshape(*values.shape[:-2], -1)[..., layout.places]

    nothing = jnp.zeros(setting.node.shape, dtype)
    first = (nothing, nothing) if setting.first is None else setting.first
    if setting.landing is not None:
        first = (*first, *setting.landing.force, setting.landing.number[None])

    return Known(
        numbers=jnp.stack([jnp.asarray(number, dtype) for number in numbers]),
        stiffness=listed(bodies.stiffness),
        goal=setting.goal.reshape(*setting.goal.shape[:-2], -1),
        rigid=listed(bodies.rigid),
        outer=listed(bodies.outer).astype(dtype),
        owner=jnp.asarray(bodies.owner.reshape(-1)[layout.places], jnp.int32),
        places=jnp.asarray(layout.places),
        spots=jnp.asarray(layout.spots),
        rest=jnp.asarray(layout.rest if len(layout.rest) else layout.spots[:1]),
        node=jnp.asarray(layout.node)[setting.node[:, layout.places]],
        movable=listed(setting.turns.movable).astype(dtype),
        wave=waves(bodies).reshape(-1)[layout.places],
        first=jnp.concatenate(first).astype(dtype)[:, layout.places],
        around=jnp.asarray(layout.cell)[_around(bodies)[:, layout.spots]],
        inverse_mass=bodies.inverse_mass.reshape(-1)[layout.spots],
        ground=_surroundings(ground),
    )


def waves(bodies: Joint) -> Array:
    """Of rigid cells, -1 of others: every one comes after all rigid ones that share a node with it and come before it
    row by row, the highest row first, and no later than it must; those of one wave share none."""
    owner, (rows, columns) = bodies.owner, bodies.owner.shape
    steps = [(up, right) for up, right in itertools.product((-1, 0, 1), repeat=2) if up or right]

    def beside(values: Any, outside: int, step: tuple[int, int]) -> Any:
        padded = (np if isinstance(values, np.ndarray) else jnp).pad(values, 1, constant_values=outside)
        return padded[1 + step[0] :, 1 + step[1] :][:rows, :columns]

    together = [beside(owner, -2, step) == owner for step in steps]
    # Cells of one turn share no node, and come after all that come before them: they are in a slanted line.
    first = np.zeros(owner.shape, int)
    for one in np.unique(owner):
        first[owner == one] = np.nonzero(owner == one)[1].min()
    turn = 2 * np.arange(rows)[::-1, None] + np.arange(columns) - first

    def later(number: Array, wave: Array) -> Array:
        before = [jnp.where(same, beside(wave, -1, step), -1) for step, same in zip(steps, together, strict=True)]
        return jnp.where((turn == number) & (bodies.rigid > 0), 1 + reduce(jnp.maximum, before), wave)

    return jax.lax.fori_loop(0, int(turn.max()) + 1, later, jnp.full(owner.shape, -1, jnp.int32))


def _surroundings(ground: GroundCells) -> Array:
    """Of every cell its code and, from bit 5 on, which corners of the ground it has in the sense of IN_GROUND: those of
    cells with an outer edge, which others can touch. With EDGE empty cells on each side."""
    rows, columns = (size + 2 * EDGE for size in ground.code.shape)
    code = jnp.pad(ground.code, EDGE + 1)

    def beside(up: int, right: int) -> Array:
        return code[1 + up : 1 + up + rows, 1 + right : 1 + right + columns]

    steps = list(enumerate(zip(*contact.RING_STEPS, strict=True)))
    bits: dict[tuple[int, int], int] = {}
    for (corner, (right, up)), (cell, (left, down)) in itertools.product(steps, steps):
        place = up - down, right - left
        bits[place] = bits.get(place, 0) | 1 << (5 + 4 * corner + cell)
    return beside(0, 0) + sum(jnp.where(beside(*place) > 16, some, 0) for place, some in bits.items())


def _around(bodies: Joint) -> Array:
    """Of every node the cells that have it as their corner; one too many where there is none, (4, nodes)."""
    rows, columns = bodies.rigid.shape
    number = jnp.arange(rows * columns, dtype=jnp.int32).reshape(rows, columns)
    nothing, found = rows * columns, []
    for corner, (up, right) in enumerate(corner_steps(2)):
        mine = jnp.where(bodies.layer[:, corner] > 0, number, nothing)
        room = (0, 0), (up, 1 - up), (right, 1 - right)
        found.append(jnp.pad(mine, room, constant_values=nothing).reshape(-1))
    return jnp.stack(found)


class _Program:
    """The kernel at work on one world."""

    def __init__(self, layout: Layout, lanes: int, substep: float, count: int, *tables: Table) -> None:
        self.columns, self.lanes, self.substep, self.count = layout.columns, lanes, substep, count
        fields = len(Known._fields)
        self.known, self.start = Known(*tables[:fields]), tables[fields : fields + 3]
        self.final, self.unstable = tables[fields + 3 : fields + 6], tables[fields + 6]
        self.shared = Scratch(*tables[fields + 7 :])
        self.places, self.nodes, self.rest = len(layout.places), len(layout.spots), len(layout.rest)
        assert self.places <= 1 << 14, f"a pair cannot name one of {self.places} voxels"
        self.lane = jnp.arange(lanes, dtype=jnp.int32)
        number = jnp.arange(whole(self.places, lanes), dtype=jnp.int32)
        self.exists, self.cell = number < self.places, jnp.minimum(number, self.places - 1)
        number = jnp.arange(whole(self.nodes, lanes), dtype=jnp.int32)
        self.node = jnp.minimum(number, self.nodes - 1)
        self.place, self.spot = load(self.known.places.at[self.cell]), load(self.known.spots.at[self.node])
        known = self.known
        self.origin = tuple(known.numbers[axis].astype(jnp.int32) + EDGE for axis in range(2))
        self.height, self.gravity, self.allowed = known.numbers[3], known.numbers[4], known.numbers[6]
        self.beginning = known.numbers[7] > 0
        self.bodies = Cells(self.of_cells(known.stiffness), load(known.rigid.at[self.cell]), known.numbers[5])
        self.goal = jnp.stack([load(known.goal.at[row, self.place]) for row in range(known.goal.shape[0])])
        self.outer = self.of_cells(known.outer)
        self.touches = self.exists & (self.outer.max(0) > 0)
        self.edges = edge_bits(self.outer > 0)
        self.present = self.exists & (self.bodies.stiffness[-1] > 0)
        self.movable, self.wave = self.of_cells(known.movable), load(known.wave.at[self.cell])
        self.owner, self.corner = load(known.owner.at[self.cell]), self.of_cells(known.node)
        self.landing = load(known.first.at[16, self.cell]) if known.first.shape[0] > 8 else None
        self.meets_ground = self.touches & (self.owner >= 0)
        self.around = [load(known.around.at[corner, self.node]) for corner in range(4)]
        self.ready = load(known.inverse_mass.at[self.node])

    def of_cells(self, table: Table) -> Array:
        """Rows of a table, (rows, lanes)."""
        return jnp.stack([load(table.at[row, self.cell]) for row in range(table.shape[0])])

    def run(self) -> None:
        for axis, corner in itertools.product(range(2), range(4)):
            self.shared.felt[axis, corner, self.places] = 0.0
        self.solid = self.solid_nodes()
        motion = Motion(*(tuple(load(table.at[axis, self.spot]) for axis in range(2)) for table in self.start))
        corner = self.corners_at(motion.position)
        start = Now(
            motion,
            corner,
            springs.length(springs.between(corner)),
            slack=(jnp.float32(-1), jnp.float32(-1)),
            way=jnp.zeros(self.node.shape, jnp.float32),
            entered=jnp.int32(0),
            unstable=jnp.int32(0),
        )
        now = jax.lax.fori_loop(0, self.count, self.substep_of, start)
        for table, vector in zip(self.final, now.motion, strict=True):
            for axis, part in enumerate(vector):
                store(table.at[axis, self.spot], part)
        self.keep_rest()
        self.unstable[0] = now.unstable

    def keep_rest(self) -> None:
        """Of nodes of no voxel."""
        if not self.rest:
            return
        number = jnp.arange(whole(self.rest, self.lanes), dtype=jnp.int32)
        node = load(self.known.rest.at[jnp.minimum(number, self.rest - 1)])
        for table, start in zip(self.final, self.start, strict=True):
            for axis in range(2):
                store(table.at[axis, node], load(start.at[axis, node]))

    def solid_nodes(self) -> Array:
        """Whether nodes have a voxel that touches something."""
        store(self.shared.entered.at[self.node], 0)
        for k in range(4):
            store(self.shared.entered.at[self.corner[k]], 1, mask=self.touches)
        return (load(self.shared.entered.at[self.node]) > 0) & (jnp.arange(self.node.shape[0]) < self.nodes)

    # Exchange

    def put(self, table: Table, vector: Vector) -> None:
        for axis, part in enumerate(vector):
            store(table.at[axis, self.node], part)

    def corners(self, table: Table) -> Vector:
        """Of voxels, (4, lanes)."""
        return tuple(jnp.stack([load(table.at[axis, self.corner[k]]) for k in range(4)]) for axis in range(2))

    def corners_at(self, position: Vector) -> Vector:
        self.put(self.shared.position, position)
        return self.corners(self.shared.position)

    def put_felt(self, felt: Vector) -> None:
        for axis, part in enumerate(felt):
            for k in range(4):
                store(self.shared.felt.at[axis, k, self.cell], part[k])

    def at_nodes(self) -> Vector:
        """What is felt at corners, added up."""
        parts = [[load(self.shared.felt.at[axis, k, self.around[k]]) for k in range(4)] for axis in range(2)]
        return tuple((a + b) + (c + d) for a, b, c, d in parts)

    def on_nodes(self, felt: Vector) -> Vector:
        self.put_felt(felt)
        return self.at_nodes()

    # A substep

    def substep_of(self, number: Array, now: Now) -> Now:
        """Positions are in the scratch table at its start."""
        motion, along = now.motion, springs.between(now.corner)
        slack, way, entered, unstable = jax.lax.cond(
            jnp.any(~(2 * now.way < jnp.minimum(*now.slack))),
            lambda: self.look_at_each_other(now),
            lambda: (now.slack, now.way, now.entered, now.unstable),
        )
        force = self.contact(now, entered, number)
        rest = springs.relaxed(self.goal, now.length)

        def acceleration(pulls: Vector, position: Vector, velocity: Vector) -> Vector:
            total = plus(plus(self.on_nodes(springs.on_corners(pulls)), force), times(-DRAG, velocity))
            total = total[0], total[1] - self.gravity
            height = position[1] + self.height
            total = jax.lax.cond(
                jnp.any(height < 0), lambda: plus(total, floor_force(height, velocity[0])), lambda: total
            )
            return total

        def later(position: Vector, velocity: Vector) -> Vector:
            along = springs.between(self.corners_at(position))
            ratio = rest * jax.lax.rsqrt(springs.squared_length(along))
            return acceleration(springs.tensions(self.bodies.stiffness, ratio, along), position, velocity)

        pulls = springs.tensions(self.bodies.stiffness, rest / now.length, along)
        first = acceleration(pulls, motion.position, motion.velocity)
        position, velocity = self.runge_kutta(first, later, motion.position, motion.velocity)
        # As in plain JAX: what is fixed moves within a substep, and is back at its end.
        position, velocity = (
            tuple(jnp.where(self.ready > 0, one, before) for one, before in zip(vector, start, strict=True))
            for vector, start in ((position, motion.position), (velocity, motion.velocity))
        )
        position, corner, length = self.within_limits(position)
        moved = minus(position, motion.position)
        way = way + (jnp.abs(moved[0]) + jnp.abs(moved[1]))
        motion = Motion(position, velocity, times(1 / self.substep, moved))
        return Now(motion, corner, length, slack, way, entered, unstable)

    def runge_kutta(self, first: Vector, later: Any, position: Vector, velocity: Vector) -> tuple[Vector, Vector]:
        """first: acceleration now; later: of positions and velocities."""

        def stage(number: Array, now: Any) -> Any:
            speed, change, moved, sped_up = now
            way = self.substep * jnp.where(number == 3, 1.0, 0.5)
            weight = (self.substep / 6) * jnp.where(number == 3, 1.0, 2.0)
            faster = plus(velocity, times(way, change))
            change = later(plus(position, times(way, speed)), faster)
            return faster, change, plus(moved, times(weight, faster)), plus(sped_up, times(weight, change))

        weight = self.substep / 6
        start = velocity, first, plus(position, times(weight, velocity)), plus(velocity, times(weight, first))
        _, _, position, velocity = jax.lax.fori_loop(1, 4, stage, start)
        return position, velocity

    def within_limits(self, position: Vector) -> tuple[Vector, Vector, Array]:
        """With the corners of voxels and the lengths of springs."""
        corner = self.corners_at(position)
        length = springs.length(springs.between(corner))
        free = (self.ready > 0).astype(position[0].dtype)

        def shifted(position: Vector, by: Vector) -> tuple[Vector, Vector]:
            position = plus(position, times(free, self.on_nodes(by)))
            return position, self.corners_at(position)

        def rigid(stretched: Array) -> tuple[Vector, Vector]:
            """stretched: voxels that are, before any is pulled back."""
            mine = self.exists & (self.bodies.rigid > 0)

            def wave(number: Array) -> Array:
                due = mine & (self.wave == number)

                def by_now() -> Array:
                    length = springs.length(springs.between(self.corners(self.shared.position)))
                    return jnp.any(due & springs.any_beyond_rigid_limits(self.bodies, length))

                def pulled_back() -> None:
                    moved = springs.within_rigid_limits(
                        self.bodies.voxel_side, self.movable, self.corners(self.shared.position)
                    )
                    for axis, part in enumerate(moved):
                        for k in range(4):
                            store(self.shared.position.at[axis, self.corner[k]], part[k], mask=due)

                some = jax.lax.cond(jnp.any(due & stretched), lambda: jnp.bool_(True), by_now)
                jax.lax.cond(some, pulled_back, lambda: None)
                return number + 1

            jax.lax.while_loop(lambda number: jnp.any(mine & (self.wave >= number)), wave, jnp.int32(0))
            position = tuple(load(self.shared.position.at[axis, self.node]) for axis in range(2))
            return position, self.corners(self.shared.position)

        def measured(position: Vector, corner: Vector) -> tuple[Vector, Vector, Array]:
            return position, corner, springs.length(springs.between(corner))

        beyond = jnp.any(self.present & springs.any_beyond_limits(self.bodies, length))
        position, corner, length = jax.lax.cond(
            beyond,
            lambda: measured(*shifted(position, springs.beyond_limits(self.bodies, corner))),
            lambda: (position, corner, length),
        )
        stretched = self.exists & springs.any_beyond_rigid_limits(self.bodies, length)
        return jax.lax.cond(jnp.any(stretched), lambda: measured(*rigid(stretched)), lambda: (position, corner, length))

    # Contact

    def contact(self, now: Now, entered: Array, number: Array) -> Vector:
        """Forces on nodes; entered: how many nodes may be in a voxel that they are no corner of; number: of the
        substep. At the beginning contact is that of the table, but for the robot's with itself."""
        beginning = self.beginning & (number == 0)
        lands = jnp.zeros(self.cell.shape, bool) if self.landing is None else self.landing == number
        pairs, cell = self.pairs_with_ground(now)
        pairs = jnp.where(beginning | lands, 0, pairs)
        touching = jnp.any(pairs != 0)

        def forces() -> Vector:
            self.put(self.shared.drift, now.motion.drift)
            table = self.of_cells(self.known.first)
            first = jnp.where(beginning, table[:8], 0)
            if self.landing is not None:
                first = first + jnp.where(lands, table[8:16], 0)
            self.put_felt((first[:4], first[4:]))
            jax.lax.cond(touching, lambda: self.with_ground(pairs, cell), lambda: None)
            jax.lax.cond(entered > 0, lambda: self.with_each_other(now.corner, entered, number), lambda: None)
            return self.at_nodes()

        some = touching | (entered > 0) | beginning | jnp.any(lands)
        return jax.lax.cond(some, forces, lambda: (jnp.zeros(self.node.shape, jnp.float32),) * 2)

    def feel_more(self, forces: list[tuple[Any, Array, Vector]], mask: Array) -> None:
        """Add forces at corners of voxels, of which no two are the same; forces: corner, voxel, force."""
        places = [
            (self.shared.felt.at[axis, corner, voxel], part)
            for corner, voxel, force in forces
            for axis, part in enumerate(force)
        ]
        sums = [(place, load(place) + part) for place, part in places]
        for place, total in sums:
            store(place, total, mask=mask)

    def ground_at(self, cell: Vector) -> Array:
        """See Known; cell: column and row."""
        column, row = (
            jnp.clip(part.astype(jnp.int32) + first, 0, size - 1)
            for part, first, size in zip(cell, self.origin, self.known.ground.shape[::-1], strict=True)
        )
        return load(self.known.ground.at[row, column])

    def pairs_with_ground(self, now: Now) -> tuple[Array, Vector]:
        """Corners in ground and ground in voxels that there may be, as bits (IN_GROUND); and the cells of middles."""
        store(self.shared.code.at[self.node], self.ground_at(contact.cell_of(now.motion.position)) & 31)
        cell = contact.cell_of(contact.middle(now.corner))
        low, high = contact.bounds(now.corner)
        # A corner of the ground is in a voxel's bounds; its middle lies between the four that there may be.
        first, second = zip(
            *(
                (least <= SIDE * part + MARGIN, most >= SIDE * (part + 1) - MARGIN)
                for least, most, part in zip(low, high, cell, strict=True)
            ),
            strict=True,
        )
        columns, rows = (
            jnp.where(first[axis], bits[0], 0) | jnp.where(second[axis], bits[1], 0)
            for axis, bits in enumerate(((0xF00F, 0x0FF0), (0x00FF, 0xFF00)))
        )
        pairs = (self.ground_at(cell) >> 5) & columns & rows
        for place, corner in enumerate(RING):
            in_ground = load(self.shared.code.at[self.corner[corner]]) > 16
            pairs = pairs | jnp.where(in_ground, 1 << (IN_GROUND + place), 0)
        return jnp.where(self.meets_ground, pairs, 0), cell

    def with_ground(self, pairs: Array, cell: Vector) -> None:
        """Forces at the corners of voxels."""
        for axis, part in enumerate(cell):
            store(self.shared.cell.at[axis, self.cell], part.astype(jnp.int32))

        def goes_on(state: tuple[Array, Array, Array]) -> Array:
            return jnp.any(state[0] != 0) & (state[2] < self.lanes)

        def one_each(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            """A pair of every voxel that has one, while there is room; turn: of ground in the same voxel."""
            pairs, turn, count = state
            before, total = rank(pairs != 0)
            place = count + before
            bit = 31 - jax.lax.clz(pairs)
            listed = (pairs != 0) & (place < self.lanes)
            pair = bit | (self.edges << 5) | (turn << 9) | (self.cell << 14)
            store(self.shared.pairs.at[place], pair, mask=listed)
            pairs = jnp.where(listed, pairs ^ (1 << bit), pairs)
            turn = turn + (listed & (bit < IN_GROUND)).astype(jnp.int32)
            return pairs, turn, jnp.minimum(count + total, self.lanes)

        def some(pairs: Array) -> Array:
            pairs, _, count = jax.lax.while_loop(goes_on, one_each, (pairs, jnp.zeros_like(pairs), jnp.int32(0)))
            self.touch(count)
            return pairs

        jax.lax.while_loop(lambda pairs: jnp.any(pairs != 0), some, pairs)

    def touch(self, count: Array) -> None:
        """Forces of pairs, a lane for each."""
        listed = self.lane < count
        pair = load(self.shared.pairs.at[self.lane], mask=listed)
        bit, edges, turn, voxel = pair & 31, (pair >> 5) & 15, (pair >> 9) & 31, pair >> 14
        corner = bit >= IN_GROUND  # of the voxel, or else of the ground

        def chosen(of_corner: Vector, of_ground: Vector) -> Vector:
            return tuple(jnp.where(corner, one, other) for one, other in zip(of_corner, of_ground, strict=True))

        corners = _ring_from(jnp.where(corner, bit & 3, 0))
        nodes = [load(self.known.node.at[number, voxel]) for number in corners]
        position, drift = (self.at(table, nodes) for table in (self.shared.position, self.shared.drift))
        first, second, _, last = (tuple(part[step] for part in position) for step in range(4))
        at, cell = bit >> 2, (bit & 3)
        place = plus(
            tuple(load(self.shared.cell.at[axis, voxel]).astype(jnp.float32) for axis in range(2)), _steps_in_ring(at)
        )
        point = times(SIDE, place)
        ends = contact.ends_in_ground(point, place, times(-1.0, _steps_in_ring(cell)))
        touched = contact.touch(
            chosen(first, point),
            (chosen(last, ends[0]), chosen(second, ends[1])),
            chosen(tuple(part[0] for part in drift), (jnp.zeros_like(point[0]),) * 2),
            chosen(contact.corners_of_cell(contact.cell_of(first)), position),
            drift,
            jnp.stack([has_edge(jnp.where(corner, load(self.shared.code.at[nodes[0]]), edges), k) for k in range(4)]),
            listed,
        )
        self.feel_more([(corners[0], voxel, touched.point)], listed & corner)

        def next_turn(number: Array) -> Array:
            self.feel_more(_at_corners(voxel, touched.quad), listed & ~corner & (turn == number))
            return number + 1

        jax.lax.while_loop(lambda number: jnp.any(listed & ~corner & (turn >= number)), next_turn, jnp.int32(0))

    def look_at_each_other(self, now: Now) -> tuple[tuple[Array, Array], Array, Array, Array]:
        """How far apart the nearest are that are not listed, ways from here on, how many nodes are listed, and whether
        too many of the robot's voxels overlap."""
        low, high = contact.bounds(now.corner)
        for row, (part, nowhere) in enumerate(zip((*low, *high), (jnp.inf, jnp.inf, -jnp.inf, -jnp.inf), strict=True)):
            store(self.shared.bounds.at[row, self.cell], jnp.where(self.touches, part, nowhere), mask=self.exists)

        def gap_from(other: Array, low: Vector, high: Vector) -> Array:
            """How far bounds are from those of a voxel."""
            there = [self.shared.bounds[row, other] for row in range(4)]
            gaps = [jnp.maximum(there[axis] - high[axis], low[axis] - there[2 + axis]) for axis in range(2)]
            return jnp.maximum(*gaps)

        def nodes(other: Array, nearest: Array) -> Array:
            gap = gap_from(other, now.motion.position, now.motion.position)
            own = reduce(jnp.logical_or, (cell == other for cell in self.around))
            return jnp.minimum(nearest, jnp.where(own, jnp.inf, gap))

        def voxels() -> tuple[Array, Array]:
            mine = self.touches & (self.owner == 0)
            row, column = self.place // self.columns, self.place % self.columns

            def voxel(other: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
                there = self.known.places[other]
                far = (jnp.abs(row - there // self.columns) > 1) | (jnp.abs(column - there % self.columns) > 1)
                far = far & mine & (self.known.owner[other] == 0)
                gap = jnp.where(far, gap_from(other, low, high), jnp.inf)
                return jnp.minimum(found[0], gap), found[1] + (gap <= 0).astype(jnp.float32)

            start = jnp.full(self.cell.shape, jnp.inf, jnp.float32), jnp.zeros(self.cell.shape, jnp.float32)
            nearest, count = jax.lax.fori_loop(0, self.places, voxel, start)
            return jnp.min(nearest) - MARGIN, (jnp.sum(count) > self.allowed).astype(jnp.int32)

        nearest = jax.lax.fori_loop(0, self.places, nodes, jnp.full(self.node.shape, jnp.inf, jnp.float32))
        nearest = jnp.where(self.solid, nearest, jnp.inf)
        near = nearest <= SKIN
        before, entered = rank(near)
        store(self.shared.entered.at[before], self.node, mask=near)
        nearest = jnp.where(near, jnp.inf, nearest)
        left = now.slack[1] - 2 * jnp.max(now.way)
        # Asked of all lanes, though it is the same in all: or else NVRTC writes the loops behind it twice.
        none_left = jnp.any(jnp.broadcast_to(~(left > 0), self.lane.shape))
        left, unstable = jax.lax.cond(none_left, voxels, lambda: (left, jnp.int32(0)))
        return (jnp.min(nearest) - MARGIN, left), jnp.zeros_like(now.way), entered, now.unstable | unstable

    def with_each_other(self, corner: Vector, entered: Array, substep: Array) -> None:
        """Forces at the corners of voxels; entered: how many nodes are listed."""
        low, high = contact.bounds(corner)
        room = self.shared.push.shape[1]

        def entering(first: Array) -> Array:
            """Of the listed nodes from one on, those that are in a voxel's bounds, as bits."""

            def one(number: Array, bits: Array) -> Array:
                node = self.shared.entered[first + number]
                inside = self.touches & ~(self.corner == node).any(0)
                for axis in range(2):
                    point = self.shared.position[axis, node]
                    inside = inside & (low[axis] - MARGIN <= point) & (point <= high[axis] + MARGIN)
                return bits | jnp.where(inside, 1 << number, 0)

            nothing = jnp.zeros(self.cell.shape, jnp.int32)
            return jax.lax.fori_loop(0, jnp.minimum(entered - first, WORD), one, nothing)

        def word(first: Array) -> Array:
            def one_each(state: tuple[Array, Array]) -> tuple[Array, Array]:
                """A node of every voxel that has one, while there is room, as corner of up to four others."""
                bits, count = state
                before, total = rank(bits != 0)
                place = count + 4 * before
                bit = 31 - jax.lax.clz(bits)
                listed = (bits != 0) & (place < room)
                node = load(self.shared.entered.at[first + bit], mask=listed)
                for k in range(4):
                    other = load(self.known.around.at[k, node], mask=listed)
                    store(self.shared.pairs.at[place + k], k | (self.cell << 2) | (other << 16), mask=listed)
                return jnp.where(listed, bits ^ (1 << bit), bits), jnp.minimum(count + 4 * total, room)

            def some(bits: Array) -> Array:
                bits, count = jax.lax.while_loop(
                    lambda state: jnp.any(state[0] != 0) & (state[1] < room), one_each, (bits, jnp.int32(0))
                )
                self.touch_each_other(count, substep)
                return bits

            jax.lax.while_loop(lambda bits: jnp.any(bits != 0), some, entering(first))
            return first + WORD

        jax.lax.while_loop(lambda first: first < entered, word, jnp.int32(0))

    def touch_each_other(self, count: Array, substep: Array) -> None:
        """Forces of pairs of a corner and a voxel, a lane for each, but those of tables."""
        pair = load(self.shared.pairs.at[self.lane], mask=self.lane < count)
        corner, voxel, other = pair & 3, (pair >> 2) & 0x3FFF, pair >> 16
        listed = (self.lane < count) & (other < self.places)
        other = jnp.minimum(other, self.places - 1)
        of_corner = [load(self.known.node.at[number, other]) for number in _ring_from(corner ^ (corner >> 1))]
        of_voxel = [load(self.known.node.at[number, voxel]) for number in RING]
        first, second, last = (
            tuple(load(self.shared.position.at[axis, node]) for axis in range(2))
            for node in (of_corner[0], of_corner[1], of_corner[3])
        )
        owner, owner_of_corner = load(self.known.owner.at[voxel]), load(self.known.owner.at[other])
        tabled = self.beginning & (substep == 0)
        if self.landing is not None:
            lands = (load(self.known.first.at[16, voxel]) == substep) | (
                load(self.known.first.at[16, other]) == substep
            )
            tabled = tabled | (lands & (owner > 0) & (owner_of_corner > 0))
        strangers = jnp.where(tabled, 0.0, 1.0)
        often = jnp.where(owner == owner_of_corner, jnp.where(owner == 0, 2.0, 0.0), strangers)
        outer, outer_of_corner = (
            jnp.stack([load(self.known.outer.at[edge, cell]) for edge in range(4)]) for cell in (voxel, other)
        )
        touched = contact.touch(
            first,
            (last, second),
            tuple(part[0] for part in self.at(self.shared.drift, of_corner[:1])),
            self.at(self.shared.position, of_voxel),
            self.at(self.shared.drift, of_voxel),
            outer,
            listed & (often > 0) & (outer_of_corner.max(0) > 0),
        )
        forces = [*times(often, touched.point), *(part[k] for part in times(often, touched.quad) for k in range(4))]
        hit = reduce(jnp.logical_or, (part != 0 for part in forces))
        before, hits = rank(hit)
        store(self.shared.pairs.at[before], pair, mask=hit)
        for row, part in enumerate(forces):
            store(self.shared.push.at[row, before], part, mask=hit)

        def one(number: Array, felt: tuple[Array, ...]) -> tuple[Array, ...]:
            """A voxel takes what is its own, so that it adds in one order."""
            pair, push = self.shared.pairs[number], self.shared.push
            corner, mine = pair & 3, self.cell == (pair >> 16)
            yours = self.cell == ((pair >> 2) & 0x3FFF)

            def more() -> tuple[Array, ...]:
                return tuple(
                    part
                    + jnp.where(mine & (corner == RING[place]), push[axis, number], 0)
                    + jnp.where(yours, push[2 + 4 * axis + place, number], 0)
                    for part, (axis, place) in zip(felt, places, strict=True)
                )

            return jax.lax.cond(anyone(mine | yours), more, lambda: felt)

        places = list(itertools.product(range(2), range(4)))
        felt = tuple(load(self.shared.felt.at[axis, RING[place], self.cell]) for axis, place in places)
        felt = jax.lax.fori_loop(0, hits, one, felt)
        for part, (axis, place) in zip(felt, places, strict=True):
            store(self.shared.felt.at[axis, RING[place], self.cell], part, mask=self.exists)

    def at(self, table: Table, nodes: list[Array]) -> Vector:
        """Of the nodes in the lanes of a list, (nodes, lanes)."""
        return tuple(jnp.stack([load(table.at[axis, node]) for node in nodes]) for axis in range(2))


def whole(count: int, lanes: int) -> int:
    """The least multiple of some lanes that is not below a number of entries."""
    return -(-count // lanes) * lanes


def _ring_from(place: Array) -> list[Array]:
    """The numbers of a voxel's corners in the order of RING, from one on."""
    ring = sum(number << (2 * place) for place, number in enumerate((*RING, *RING)))
    turned = jnp.right_shift(jnp.int32(ring), 2 * place)
    return [(turned >> (2 * step)) & 3 for step in range(4)]


def _at_corners(voxel: Array, forces: Vector) -> list[tuple[int, Array, Vector]]:
    """Corner, voxel, force; forces: in the order of RING, (4, lanes)."""
    return [(corner, voxel, tuple(part[place] for part in forces)) for place, corner in enumerate(RING)]


def _steps_in_ring(number: Array) -> Vector:
    """From the lowest left corner of a cell to one of RING, or the opposite of steps to cells around a corner."""
    return (((number + 1) >> 1) & 1).astype(jnp.float32), (number >> 1).astype(jnp.float32)
