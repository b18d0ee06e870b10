"""Contacts with rigid bodies and blocks of ground in a GPU kernel: found and solved in one launch, in 2-D.

A warp has a world, a lane some of its vertices. What concerns rigid bodies alone is computed in all lanes alike; what
they exchange are sums over vertices. Plain JAX (vsr.physics.objects.resolving) is the reference: it needs a hundred
launches for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.collision.convex import FAR
from vsr.physics.collision.meetings import MARGIN
from vsr.physics.collision.sides import BOLDNESS
from vsr.physics.collision.solver import asked_speed, bounded_drag, inverse_or_zero
from vsr.physics.collision.voxels import NEWTON_STEPS, faces

PRESENT = 4
"""Bit of a cell's flags that says that there is a voxel; those before say which faces lead out."""
FACES = faces(2)
NOWHERE = -1e30
"""Deeper than anything [m]: of cells that a point is not in."""


@dataclass(frozen=True)
class Plan:
    """What the program depends on."""

    vertices: int
    cells: int
    fixed: tuple[bool, ...]
    """of each rigid body, whether it never moves"""
    round: tuple[bool, ...]
    """of each rigid body"""
    corners: int
    """of every rigid body"""
    faces: int
    finds_ground: bool
    """whether the list is that of corners of bodies on convex ground, which is found here"""
    listed: int
    """contacts of rigid bodies with each other and the ground"""
    iterations: int
    passes: int
    """of the list, in each iteration"""
    duration: float
    """of the step [s]"""
    interpret: bool

    @property
    def bodies(self) -> int:
        return len(self.fixed)

    @property
    def flat(self) -> tuple[int, ...]:
        """Numbers of bodies that have corners."""
        return tuple(number for number, is_round in enumerate(self.round) if not is_round)


class Known(NamedTuple):
    """What a launch reads of one world; p vertices, c cells, s bodies, m contacts of the list."""

    position: Any
    """of vertices [m], (2, p)"""
    velocity: Any
    """[m/s], (2, p)"""
    inverse_mass: Any
    """(p,)"""
    lever: Any
    """(2, p)"""
    inverse_inertia: Any
    """(p,)"""
    surface: Any
    """1 for vertices that can touch, else 0, (p,)"""
    friction: Any
    """(p,)"""
    restitution: Any
    """(p,)"""
    cells: Any
    """None if there are no rigid bodies"""
    bodies: Any
    """None likewise"""
    ground: Any
    """a convex terrain by its numbers, if contacts with it are to be found here; else None"""
    gravity: Any
    listed: Any
    """contacts of rigid bodies that were found before; or None"""
    blocks: Any
    """contacts of vertices with blocks of ground; or None"""
    kept: Any
    """impulses of the step before, by group"""


class Cells(NamedTuple):
    """Voxels, and vertices as these see them."""

    outward: Any
    """out of the robot at its vertices, (2, p)"""
    places: Any
    """(4, c)"""
    flags: Any
    """(c,)"""
    side: Any
    """[m], (c,)"""


class BodyTables(NamedTuple):
    """Rigid bodies."""

    corner: Any
    """in their own frames [m], (s, v, 2)"""
    normal: Any
    """(s, f, 2)"""
    offset: Any
    """(s, f)"""
    radius: Any
    """(s,)"""
    inverse_mass: Any
    inverse_inertia: Any
    friction: Any
    restitution: Any
    position: Any
    """(s, 2)"""
    rotation: Any
    """(s, 2, 2)"""
    velocity: Any
    """(s, 2)"""
    spin: Any
    """(s, 1)"""


class Listed(NamedTuple):
    """Contacts of rigid bodies; of the numbers -1 means none."""

    numbers: Any
    """of the first and second body, (2, m)"""
    contact: Any
    """Found of (2, m) and (m,); None if they are to be found"""
    levers: Any
    """(2, m) of the first, and of the second; None likewise"""


class Pressed(NamedTuple):
    """Impulses on the first side [N s]."""

    press: Any
    drag: Any


class Outcome(NamedTuple):
    """What a launch writes."""

    given: Any
    """impulses on vertices [N s], (2, p)"""
    velocity: Any
    """of vertices [m/s], (2, p)"""
    bodies: Any
    """position, rotation, velocity, spin of rigid bodies after the step; None if there are none"""
    kept: Any


class Found(NamedTuple):
    """One group of contacts or a part of it, all of one shape; vectors are tuples in the kernel."""

    normal: Any
    depth: Any
    touches: Any
    friction: Any
    restitution: Any


class _Asked(NamedTuple):
    target: Any
    along: Any
    across: Any


class _Moving(NamedTuple):
    """A rigid body while contacts are solved: numbers."""

    velocity: Vector
    spin: Any


class _Now(NamedTuple):
    """How everything moves while contacts are solved."""

    nodes: Vector
    given: Vector
    bodies: tuple[_Moving, ...]


class _Body(NamedTuple):
    """A rigid body: numbers."""

    center: Vector
    corners: tuple[Vector, ...]
    normals: tuple[Vector, ...]
    offsets: tuple[Any, ...]
    radius: Any
    inverse_mass: Any
    inverse_inertia: Any
    friction: Any
    restitution: Any

    def readiness(self, lever: Vector, direction: Vector) -> Any:
        """Speed that a unit of impulse gives to points [1/kg]."""
        return self.inverse_mass + self.inverse_inertia * _moment(lever, direction) ** 2


class _Nodes(NamedTuple):
    """The vertices of the lanes."""

    lane: Array
    position: Vector
    inverse_mass: Array
    lever: Vector
    inverse_inertia: Array
    surface: Array
    friction: Array
    restitution: Array

    def readiness(self, direction: Vector) -> Array:
        return self.inverse_mass + self.inverse_inertia * _moment(self.lever, direction) ** 2

    def pushed(self, now: _Now, impulse: Vector) -> _Now:
        gained = plus(
            times(self.inverse_mass, impulse), _carried(self.inverse_inertia * _moment(self.lever, impulse), self.lever)
        )
        return now._replace(nodes=plus(now.nodes, gained), given=plus(now.given, impulse))


def launch(known: Known, plan: Plan) -> Outcome:
    """One step's contacts of one world; `vmap` adds worlds as an axis of the grid."""
    arrays, places = jax.tree.flatten(known)
    # Numbers of the whole world travel together; scalars of their own cost a launch each.
    numbers = [leaf for leaf in arrays if leaf.ndim == 0]
    tables = [leaf for leaf in arrays if leaf.ndim]
    single = tuple(leaf.ndim == 0 for leaf in arrays)
    bodies = known.bodies
    results = Outcome(
        known.velocity,
        known.velocity,
        None if bodies is None else (bodies.position, bodies.rotation, bodies.velocity, bodies.spin),
        known.kept,
    )
    wanted, shape = jax.tree.flatten(results)

    def program(*references: Any) -> None:
        together, *inputs = references[: len(tables) + 1]
        every, many = iter(range(len(numbers))), iter(inputs)
        filled = [together[next(every)] if alone else next(many) for alone in single]
        written = references[len(tables) + 1 :]
        _Program(plan, jax.tree.unflatten(places, filled), jax.tree.unflatten(shape, written)).run()

    after = pl.pallas_call(
        program,
        grid=(1,),
        out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in wanted],
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=plan.interpret,
        name="meet_bodies",
    )(jnp.stack(numbers), *tables)
    return jax.tree.unflatten(shape, after)


class _Program:
    """The kernel at work on one world."""

    def __init__(self, plan: Plan, known: Known, written: Outcome) -> None:
        self.plan, self.known, self.written = plan, known, written
        self.lane = _lanes(max(WARP, plan.vertices))
        self.row, self.held = jnp.minimum(self.lane, plan.vertices - 1), self.lane < plan.vertices

    def run(self) -> None:
        known, plan = self.known, self.plan
        nodes = _Nodes(
            self.lane,
            self.vector(known.position),
            self.number(known.inverse_mass),
            self.vector(known.lever),
            self.number(known.inverse_inertia),
            self.held & (self.number(known.surface) > 0),
            self.number(known.friction),
            self.number(known.restitution),
        )
        still = jnp.zeros(self.lane.shape, jnp.float32)
        bodies = tuple(self.body(number) for number in range(plan.bodies))
        now = _Now(self.vector(known.velocity), (still, still), tuple(map(self.fallen, range(plan.bodies))))
        groups = self.groups(nodes, bodies)
        start = tuple(self.kept(name, group) for name, group in groups.items())
        now, found = _solved(tuple(groups.values()), start, now, plan)
        for reference, values in ((self.written.given, now.given), (self.written.velocity, now.nodes)):
            self.write(reference, values)
        for number, moving in enumerate(now.bodies):
            self.move(number, moving)
        for (name, group), impulses in zip(groups.items(), found, strict=True):
            if name in self.written.kept:
                group.keep(self.written.kept[name], impulses)

    def groups(self, nodes: _Nodes, bodies: tuple[_Body, ...]) -> dict[str, Any]:
        """Contacts in the order in which they are solved."""
        known, plan, found = self.known, self.plan, {}
        if plan.listed:
            found["bodies"] = _OfBodies(self, bodies)
        if bodies:
            if plan.flat:
                found["corners"] = _Corners(self, nodes, bodies)
            found["vertices"] = _Vertices(self, nodes, bodies)
        if known.blocks is not None:
            found["blocks"] = _InBlocks(self, nodes)
        return found

    # What is read and written

    def number(self, table: Any) -> Array:
        return triton.load(table.at[self.row])

    def vector(self, table: Any) -> Vector:
        return tuple(triton.load(table.at[part, self.row]) for part in range(2))

    def write(self, table: Any, values: Vector) -> None:
        for part, value in enumerate(values):
            triton.store(table.at[part, self.lane], value, mask=self.held)

    def body(self, number: int) -> _Body:
        tables = self.known.bodies
        turn = [[tables.rotation[number, row, column] for column in range(2)] for row in range(2)]
        center = tuple(tables.position[number, part] for part in range(2))

        def turned(table: Any, place: int) -> Vector:
            x, y = (table[number, place, part] for part in range(2))
            return tuple(row[0] * x + row[1] * y for row in turn)

        normals = tuple(turned(tables.normal, face) for face in range(self.plan.faces))
        return _Body(
            center=center,
            corners=tuple(plus(center, turned(tables.corner, corner)) for corner in range(self.plan.corners)),
            normals=normals,
            offsets=tuple(tables.offset[number, face] + dot(normal, center) for face, normal in enumerate(normals)),
            radius=tables.radius[number],
            inverse_mass=tables.inverse_mass[number],
            inverse_inertia=tables.inverse_inertia[number],
            friction=tables.friction[number],
            restitution=tables.restitution[number],
        )

    def fallen(self, number: int) -> _Moving:
        """A body's motion after the step's gravity."""
        tables = self.known.bodies
        x, y = (tables.velocity[number, part] for part in range(2))
        fall = 0.0 if self.plan.fixed[number] else self.plan.duration * self.known.gravity
        return _Moving((x, y - fall), tables.spin[number, 0])

    def move(self, number: int, moving: _Moving) -> None:
        """Write where a body is after the step, and how it moves (vsr.physics.objects.solids.moved)."""
        tables, duration = self.known.bodies, self.plan.duration
        position, rotation, velocity, spin = self.written.bodies
        angle = duration * moving.spin
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        x, y = tables.rotation[number, 0, 0], tables.rotation[number, 1, 0]
        x, y = cosine * x - sine * y, sine * x + cosine * y
        size = jax.lax.rsqrt(x * x + y * y)
        x, y = size * x, size * y
        for row, values in enumerate(((x, -y), (y, x))):
            for column, value in enumerate(values):
                rotation[number, row, column] = value
        for part in range(2):
            position[number, part] = tables.position[number, part] + duration * moving.velocity[part]
            velocity[number, part] = moving.velocity[part]
        spin[number, 0] = moving.spin

    def kept(self, name: str, group: Any) -> tuple[Pressed, ...]:
        """Impulses to begin with: those of the step before, or none."""
        if name in self.known.kept:
            return group.kept(self.known.kept[name])
        return tuple(Pressed(part.depth * 0, times(0.0, part.normal)) for part in group.contacts)


def _lanes(count: int) -> Array:
    return jnp.arange(pl.next_power_of_2(count), dtype=jnp.int32)


# Groups of contacts come in parts of one shape each. They tell how fast their sides part and how readily they yield,
# and take impulses, as those of vsr.physics.collision.sides.


class _Vertices:
    """Vertices in rigid bodies: a part for each body."""

    def __init__(self, program: _Program, nodes: _Nodes, bodies: tuple[_Body, ...]) -> None:
        cells = program.known.cells
        outward = program.vector(cells.outward)
        lane = _lanes(program.plan.cells)
        side = triton.load(cells.side.at[jnp.minimum(lane, program.plan.cells - 1)])
        margin = MARGIN * jnp.max(side)
        self.program, self.nodes, self.bodies = program, nodes, bodies
        self.levers = [minus(nodes.position, body.center) for body in bodies]
        found = [
            _in_round(body, lever) if is_round else _behind_faces(body, nodes.position, outward, margin)
            for body, lever, is_round in zip(bodies, self.levers, program.plan.round, strict=True)
        ]
        self.contacts = tuple(self._contact(body, *met) for body, met in zip(bodies, found, strict=True))
        touching = [contact.touches.astype(jnp.float32) for contact in self.contacts]
        self.on_node = jnp.maximum(sum(touching[1:], touching[0]), 1)
        self.on_body = [jnp.maximum(jnp.sum(part), 1) for part in touching]

    def _contact(self, body: _Body, distance: Array, normal: Vector) -> Found:
        nodes = self.nodes
        inside = (distance < 0) & (distance > -FAR / 2)
        return Found(
            normal,
            jnp.where(inside, -distance, 0),
            inside & nodes.surface,
            combined_friction(nodes.friction, body.friction),
            combined_restitution(nodes.restitution, body.restitution),
        )

    def parting(self, now: _Now) -> list[Vector]:
        return [
            minus(minus(now.nodes, moving.velocity), _carried(moving.spin, lever))
            for moving, lever in zip(now.bodies, self.levers, strict=True)
        ]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        return [
            self.on_node * self.nodes.readiness(direction) + share * body.readiness(lever, direction)
            for direction, share, body, lever in zip(directions, self.on_body, self.bodies, self.levers, strict=True)
        ]

    def pushed(self, now: _Now, impulses: Sequence[Vector]) -> _Now:
        total = impulses[0]
        for impulse in impulses[1:]:
            total = plus(total, impulse)
        now = self.nodes.pushed(now, total)
        moved = [
            _pushed(body, moving, tuple(-jnp.sum(part) for part in impulse), -jnp.sum(_moment(lever, impulse)))
            for body, moving, lever, impulse in zip(self.bodies, now.bodies, self.levers, impulses, strict=True)
        ]
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        row = self.program.row
        return tuple(
            Pressed(
                triton.load(tables.press.at[number, row]),
                tuple(triton.load(tables.drag.at[part, number, row]) for part in range(2)),
            )
            for number in range(len(self.bodies))
        )

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        lane, held = self.program.lane, self.program.held
        for number, impulse in enumerate(impulses):
            triton.store(tables.press.at[number, lane], impulse.press, mask=held)
            for part, value in enumerate(impulse.drag):
                triton.store(tables.drag.at[part, number, lane], value, mask=held)


def _behind_faces(body: _Body, point: Vector, outward: Vector, margin: Any) -> tuple[Array, Vector]:
    """Greatest distance from any face and that face's normal (vsr.physics.collision.convex.deepest_face)."""
    distance = normal = None
    for here, offset in zip(body.normals, body.offsets, strict=True):
        away = dot(here, point) - offset
        away = jnp.where(_looks_along(here, outward) & (away < margin), -FAR, away)
        if distance is None or normal is None:
            distance, normal = away, tuple(part + 0 * away for part in here)
        else:
            normal = tuple(jnp.where(away > distance, *parts) for parts in zip(here, normal, strict=True))
            distance = jnp.maximum(away, distance)
    assert distance is not None
    assert normal is not None
    return distance, normal


def _in_round(body: _Body, lever: Vector) -> tuple[Array, Vector]:
    away = jnp.sqrt(dot(lever, lever) + np.finfo(np.float32).tiny)
    return away - body.radius, tuple(part / away for part in lever)


class _Corners:
    """Corners of rigid bodies in voxels: a part, which is one number, for each corner."""

    def __init__(self, program: _Program, nodes: _Nodes, bodies: tuple[_Body, ...]) -> None:
        self.nodes, self.bodies = nodes, bodies
        self.numbers = [number for number in program.plan.flat for _ in range(program.plan.corners)]
        points = [corner for number in program.plan.flat for corner in bodies[number].corners]
        self.levers = [minus(point, bodies[number].center) for point, number in zip(points, self.numbers, strict=True)]
        voxels = _Voxels(program)
        self.contacts, self.weights = (), []
        for point, lever, number in zip(points, self.levers, self.numbers, strict=True):
            contact, row = voxels.meet(point, lever, bodies[number], nodes.lane)
            self.contacts, self.weights = (*self.contacts, contact), [*self.weights, row]
        touching = [contact.touches.astype(jnp.float32) for contact in self.contacts]
        self.sizes = [jnp.abs(row) for row in self.weights]
        loads = [size * part for size, part in zip(self.sizes, touching, strict=True)]
        self.load = sum(loads[1:], loads[0])
        total = {
            own: sum(part for part, number in zip(touching, self.numbers, strict=True) if number == own)
            for own in set(self.numbers)
        }
        self.shares = [_share(total[number]) for number in self.numbers]

    def parting(self, now: _Now) -> list[Vector]:
        found = []
        for row, lever, number in zip(self.weights, self.levers, self.numbers, strict=True):
            own = plus(now.bodies[number].velocity, _carried(now.bodies[number].spin, lever))
            found.append(minus(own, tuple(jnp.sum(row * part) for part in now.nodes)))
        return found

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        parts = zip(directions, self.sizes, self.levers, self.numbers, self.shares, strict=True)
        return [
            jnp.sum(size * self.load * self.nodes.readiness(direction))
            + share * self.bodies[number].readiness(lever, direction)
            for direction, size, lever, number, share in parts
        ]

    def pushed(self, now: _Now, impulses: Sequence[Vector]) -> _Now:
        pushes = [times(-row, impulse) for row, impulse in zip(self.weights, impulses, strict=True)]
        total = pushes[0]
        for push in pushes[1:]:
            total = plus(total, push)
        now = self.nodes.pushed(now, total)
        moved = list(now.bodies)
        for lever, number, impulse in zip(self.levers, self.numbers, impulses, strict=True):
            moved[number] = _pushed(self.bodies[number], moved[number], impulse, _moment(lever, impulse))
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        return tuple(
            Pressed(tables.press[place], tuple(tables.drag[part, place] for part in range(2)))
            for place in range(len(self.numbers))
        )

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        for place, impulse in enumerate(impulses):
            tables.press[place] = impulse.press
            for part in range(2):
                tables.drag[part, place] = impulse.drag[part]


class _Voxels:
    """All voxels, one a lane: which of them is a point in?"""

    def __init__(self, program: _Program) -> None:
        cells, known, count = program.known.cells, program.known, program.plan.cells
        self.known, self.cells, self.count = known, cells, count
        self.lane = _lanes(max(WARP, count))
        row = jnp.minimum(self.lane, count - 1)
        self.flags = jnp.where(self.lane < count, triton.load(cells.flags.at[row]), 0)
        self.side = triton.load(cells.side.at[row])
        places = [triton.load(cells.places.at[corner, row]) for corner in range(4)]
        self.planes = _planes([tuple(triton.load(known.position.at[part, at]) for part in range(2)) for at in places])

    def meet(self, point: Vector, outward: Vector, body: _Body, lane: Array) -> tuple[Found, Array]:
        """The contact of a body's corner with the voxel that it is deepest in, and the weights of all vertices."""
        known, cells = self.known, self.cells
        inside, depth, _ = _in_voxel(point, outward, self.planes, self.flags, self.side)
        nearest = jnp.where(inside, -depth, NOWHERE)
        best = jnp.max(nearest)
        cell = jnp.min(jnp.where(nearest == best, self.lane, self.count - 1))
        places = [cells.places[corner, cell] for corner in range(4)]
        corners = [tuple(known.position[part, place] for part in range(2)) for place in places]
        inside, depth, normal = _in_voxel(point, outward, _planes(corners), cells.flags[cell], cells.side[cell])
        weights = _weights(point, corners)
        rows = [jnp.where(lane == place, weight, 0) for place, weight in zip(places, weights, strict=True)]
        friction, restitution = (
            _greatest([table[place] for place in places]) for table in (known.friction, known.restitution)
        )
        contact = Found(
            normal,
            depth,
            inside & (best > NOWHERE),
            combined_friction(body.friction, friction),
            combined_restitution(body.restitution, restitution),
        )
        return contact, sum(rows[1:], rows[0])


def _greatest(values: Sequence[Any]) -> Any:
    first, *others = values
    for value in others:
        first = jnp.maximum(first, value)
    return first


def _planes(corners: Sequence[Vector]) -> list[tuple[Vector, Vector]]:
    """A point and the unit normal of every face of voxels (vsr.physics.collision.voxels.face_planes)."""
    found = []
    for face in FACES:
        first, second = (corners[number] for number in face.corners)
        x, y = minus(second, first)
        size = jnp.sqrt(jnp.maximum(x * x + y * y, 1e-20))
        found.append((first, (y / size, -x / size)))
    return found


def _in_voxel(
    point: Vector, outward: Vector, planes: Sequence[tuple[Vector, Vector]], flags: Any, side: Any
) -> tuple[Any, Any, Vector]:
    """Whether a point is in voxels, how deep below the nearest face that leads out, and the normal of that face."""
    least = inside = nearest = None
    for number, (middle, normal) in enumerate(planes):
        height, leads_out = dot(minus(point, middle), normal), (flags >> number & 1) > 0
        aside = leads_out & _looks_along(normal, outward)
        here = jnp.where(leads_out & ~aside, height, NOWHERE)
        within = height < jnp.where(aside, MARGIN * side, 0.0)
        if least is None or inside is None or nearest is None:
            least, inside, nearest = here, within, normal
        else:
            nearest = tuple(jnp.where(here > least, *parts) for parts in zip(normal, nearest, strict=True))
            inside, least = inside & within, jnp.maximum(here, least)
    assert least is not None
    assert inside is not None
    assert nearest is not None
    found = (least > NOWHERE) & ((flags >> PRESENT & 1) > 0)
    return inside & found, jnp.where(found, -least, 0), nearest


def _weights(point: Vector, corners: Sequence[Vector]) -> list[Any]:
    """Of a voxel's corners for a point (vsr.physics.collision.voxels.weights_at)."""
    at = [minus(corner, point) for corner in corners]
    right, up = minus(at[1], at[0]), minus(at[2], at[0])
    twist = minus(minus(at[3], at[2]), right)
    u = v = jnp.float32(0.5)
    for _ in range(NEWTON_STEPS):
        rest = tuple(-(a + u * b + v * c + u * v * d) for a, b, c, d in zip(at[0], right, up, twist, strict=True))
        (a, c), (b, d) = plus(right, times(v, twist)), plus(up, times(u, twist))
        whole = a * d - b * c
        whole = jnp.where(jnp.abs(whole) > 1e-12, whole, 1e-12)
        u, v = (
            jnp.minimum(jnp.maximum(part + more / whole, -0.5), 1.5)
            for part, more in ((u, rest[0] * d - b * rest[1]), (v, a * rest[1] - rest[0] * c))
        )
    return [(1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v]


class _OfBodies:
    """The list of contacts of rigid bodies with each other and with the ground: one part."""

    def __init__(self, program: _Program, bodies: tuple[_Body, ...]) -> None:
        plan, listed = program.plan, program.known.listed
        self.lane = lane = _lanes(plan.listed)
        self.row, self.held, self.bodies = jnp.minimum(lane, plan.listed - 1), lane < plan.listed, bodies
        numbers = [jnp.where(self.held, triton.load(listed.numbers.at[side, self.row]), -1) for side in range(2)]
        self.own = [[(number == body).astype(jnp.float32) for body in range(len(bodies))] for number in numbers]
        if plan.finds_ground:
            contact, lever = self._on_ground(program, lane)
            self.levers = [lever, times(0.0, lever)]
        else:
            contact = self._found(listed.contact)
            self.levers = [self._vector(table) for table in listed.levers]
        self.contacts = (contact,)
        touching = contact.touches.astype(jnp.float32)
        self.shares = [[_share(jnp.sum(own * touching)) for own in side] for side in self.own]

    def _number(self, table: Any) -> Array:
        return triton.load(table.at[self.row])

    def _vector(self, table: Any) -> Vector:
        return tuple(triton.load(table.at[part, self.row]) for part in range(2))

    def _found(self, tables: Found) -> Found:
        normal = self._vector(tables.normal)
        depth, touches, friction, restitution = map(self._number, tables[1:])
        return Found(normal, depth, (touches > 0) & self.held, friction, restitution)

    def _on_ground(self, program: _Program, lane: Array) -> tuple[Found, Vector]:
        """Corners of bodies, and the lowest places of round ones (vsr.physics.collision.meetings.bodies_on_ground)."""
        corners, terrain = program.plan.corners, program.known.ground
        free = [number for number, fixed in enumerate(program.plan.fixed) if not fixed]
        points = [corner for number in free for corner in self.bodies[number].corners]
        point = tuple(_spread(lane, [each[part] for each in points]) for part in range(2))
        own = [self.bodies[number] for number in free for _ in range(corners)]
        center = tuple(_spread(lane, [body.center[part] for body in own]) for part in range(2))
        radius, friction, restitution = (
            _spread(lane, [getattr(body, name) for body in own]) for name in ("radius", "friction", "restitution")
        )
        once = [not program.plan.round[number] or corner == 0 for number in free for corner in range(corners)]
        met = ground(terrain, point)
        distance = met.height - radius
        contact = Found(
            met.normal,
            -distance,
            (distance < 0) & self.held & (_spread(lane, [float(each) for each in once]) > 0),
            combined_friction(friction, met.friction),
            combined_restitution(restitution, met.restitution),
        )
        return contact, minus(minus(point, times(radius, met.normal)), center)

    def parting(self, now: _Now) -> list[Vector]:
        still = times(0.0, self.contacts[0].normal)
        total = still
        for sign, side, lever in zip((1, -1), self.own, self.levers, strict=True):
            for own, moving in zip(side, now.bodies, strict=True):
                total = plus(total, times(sign * own, plus(moving.velocity, _carried(moving.spin, lever))))
        return [total]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        total = 0.0
        for side, lever, shares in zip(self.own, self.levers, self.shares, strict=True):
            for own, body, share in zip(side, self.bodies, shares, strict=True):
                total = total + own * share * body.readiness(lever, directions[0])
        return [jnp.asarray(total)]

    def pushed(self, now: _Now, impulses: Sequence[Vector]) -> _Now:
        (impulse,), moved = impulses, list(now.bodies)
        for sign, side, lever in zip((1, -1), self.own, self.levers, strict=True):
            turning = _moment(lever, impulse)
            for number, own in enumerate(side):
                push = tuple(sign * jnp.sum(own * part) for part in impulse)
                moved[number] = _pushed(self.bodies[number], moved[number], push, sign * jnp.sum(own * turning))
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        return (Pressed(self._number(tables.press), self._vector(tables.drag)),)

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        triton.store(tables.press.at[self.lane], impulses[0].press, mask=self.held)
        for part, value in enumerate(impulses[0].drag):
            triton.store(tables.drag.at[part, self.lane], value, mask=self.held)


def _spread(lane: Array, values: Sequence[Any]) -> Array:
    """Numbers, one in each lane."""
    found = jnp.zeros(lane.shape, jnp.float32) + values[0]
    for place, value in enumerate(values[1:], 1):
        found = jnp.where(lane == place, value, found)
    return found


class _InBlocks:
    """Vertices in blocks of ground, found before: one part."""

    def __init__(self, program: _Program, nodes: _Nodes) -> None:
        tables, self.nodes = program.known.blocks, nodes
        depth, touches, friction, restitution = map(program.number, tables[1:])
        touches = (touches > 0) & program.held
        self.contacts = (Found(program.vector(tables.normal), depth, touches, friction, restitution),)

    def parting(self, now: _Now) -> list[Vector]:
        return [now.nodes]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        return [self.nodes.readiness(directions[0])]

    def pushed(self, now: _Now, impulses: Sequence[Vector]) -> _Now:
        return self.nodes.pushed(now, impulses[0])


# The solver (vsr.physics.collision.solver)


def _solved(
    groups: tuple[Any, ...], start: tuple[tuple[Pressed, ...], ...], now: _Now, plan: Plan
) -> tuple[_Now, tuple[tuple[Pressed, ...], ...]]:
    """How everything moves after contacts, and their impulses."""
    asked = [_ask(group, now) for group in groups]
    impulses = tuple(tuple(map(_admitted, group.contacts, before)) for group, before in zip(groups, start, strict=True))
    for group, before in zip(groups, impulses, strict=True):
        now = group.pushed(now, [_whole(*pair) for pair in zip(group.contacts, before, strict=True)])

    def improve(_: Any, state: tuple[_Now, Any]) -> tuple[_Now, Any]:
        now, impulses = state
        better = []
        for group, wanted, impulse in zip(groups, asked, impulses, strict=True):
            for _ in range(plan.passes if isinstance(group, _OfBodies) else 1):
                now, impulse = _pass(group, wanted, now, impulse)
            better.append(impulse)
        return now, tuple(better)

    return jax.lax.fori_loop(0, plan.iterations, improve, (now, impulses))


def _admitted(contact: Found, before: Pressed) -> Pressed:
    """Of the impulses of the step before what may be: none where nothing touches, no drag along the normal."""
    along = dot(before.drag, contact.normal)
    across = minus(before.drag, times(along, contact.normal))
    return Pressed(
        jnp.where(contact.touches, before.press, 0.0), tuple(jnp.where(contact.touches, part, 0.0) for part in across)
    )


def _whole(contact: Found, impulse: Pressed) -> Vector:
    return plus(times(impulse.press, contact.normal), impulse.drag)


def _ask(group: Any, now: _Now) -> list[_Asked]:
    normals = [contact.normal for contact in group.contacts]
    along = group.yields(normals)
    across = group.yields([(-y, x) for x, y in normals])
    return [
        _Asked(
            asked_speed(dot(parting, contact.normal), contact.restitution, contact.depth),
            inverse_or_zero(one),
            inverse_or_zero(other),
        )
        for contact, parting, one, other in zip(group.contacts, group.parting(now), along, across, strict=True)
    ]


def _pass(
    group: Any, asked: Sequence[_Asked], now: _Now, impulses: tuple[Pressed, ...]
) -> tuple[_Now, tuple[Pressed, ...]]:
    """One group solved once."""
    parts = zip(group.contacts, asked, impulses, group.parting(now), strict=True)
    after = tuple(_answered(*part) for part in parts)
    changes = [
        plus(times(new.press - old.press, contact.normal), minus(new.drag, old.drag))
        for contact, new, old in zip(group.contacts, after, impulses, strict=True)
    ]
    return group.pushed(now, changes), after


def _answered(contact: Found, asked: _Asked, impulse: Pressed, parting: Vector) -> Pressed:
    speed = dot(parting, contact.normal)
    press = jnp.where(contact.touches, jnp.maximum(impulse.press + asked.along * (asked.target - speed), 0.0), 0.0)
    aside = minus(parting, times(speed, contact.normal))
    wanted = minus(impulse.drag, times(asked.across, aside))
    return Pressed(press, times(bounded_drag(contact.friction * press, dot(wanted, wanted)), wanted))


def _share(touching: Any) -> Any:
    """By which contacts that share a rigid body yield less each (vsr.physics.collision.sides.Rows.yields)."""
    return jnp.where(touching > 1, touching / BOLDNESS, 1.0)


def _pushed(body: _Body, moving: _Moving, push: Vector, turning: Any) -> _Moving:
    return _Moving(plus(moving.velocity, times(body.inverse_mass, push)), moving.spin + body.inverse_inertia * turning)


def _moment(lever: Vector, push: Vector) -> Any:
    return lever[0] * push[1] - lever[1] * push[0]


def _carried(spin: Any, lever: Vector) -> Vector:
    return -spin * lever[1], spin * lever[0]


def _looks_along(normal: Vector, outward: Vector) -> Any:
    """See vsr.physics.collision.rows.looks_along."""
    along = dot(normal, outward)
    return (along > 0) & (along * along > 0.1 * dot(outward, outward))
