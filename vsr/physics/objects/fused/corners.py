"""Corners of rigid bodies in voxels: a group of contacts (vsr.physics.objects.fused.solver)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.collision.meetings import MARGIN
from vsr.physics.collision.voxels import NEWTON_STEPS, faces
from vsr.physics.objects.fused.moving import (
    Body,
    Nodes,
    Now,
    carried,
    lanes_for,
    looks_along,
    moment,
    pushed_body,
    share_of,
)
from vsr.physics.objects.fused.tables import PRESENT, Found, Pressed

if TYPE_CHECKING:
    from vsr.physics.objects.fused.kernel import Program

FACES = faces(2)
NOWHERE = -1e30
"""Deeper than anything [m]: of cells that a point is not in."""


class Corners:
    """Corners of rigid bodies in voxels: a part, which is one number, for each corner."""

    passes = 1

    def __init__(self, program: Program, nodes: Nodes, bodies: tuple[Body, ...]) -> None:
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
        self.shares = [share_of(total[number]) for number in self.numbers]

    def parting(self, now: Now) -> list[Vector]:
        found = []
        for row, lever, number in zip(self.weights, self.levers, self.numbers, strict=True):
            own = plus(now.bodies[number].velocity, carried(now.bodies[number].spin, lever))
            found.append(minus(own, tuple(jnp.sum(row * part) for part in now.nodes)))
        return found

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        parts = zip(directions, self.sizes, self.levers, self.numbers, self.shares, strict=True)
        return [
            jnp.sum(size * self.load * self.nodes.readiness(direction))
            + share * self.bodies[number].readiness(lever, direction)
            for direction, size, lever, number, share in parts
        ]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        pushes = [times(-row, impulse) for row, impulse in zip(self.weights, impulses, strict=True)]
        total = pushes[0]
        for push in pushes[1:]:
            total = plus(total, push)
        now = self.nodes.pushed(now, total)
        moved = list(now.bodies)
        for lever, number, impulse in zip(self.levers, self.numbers, impulses, strict=True):
            moved[number] = pushed_body(self.bodies[number], moved[number], impulse, moment(lever, impulse))
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

    def __init__(self, program: Program) -> None:
        cells, known, count = program.known.cells, program.known, program.plan.cells
        self.known, self.cells, self.count = known, cells, count
        self.lane = lanes_for(max(WARP, count))
        row = jnp.minimum(self.lane, count - 1)
        self.flags = jnp.where(self.lane < count, triton.load(cells.flags.at[row]), 0)
        self.side = triton.load(cells.side.at[row])
        places = [triton.load(cells.places.at[corner, row]) for corner in range(4)]
        self.planes = _planes([tuple(triton.load(known.position.at[part, at]) for part in range(2)) for at in places])

    def meet(self, point: Vector, outward: Vector, body: Body, lane: Array) -> tuple[Found, Array]:
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
        aside = leads_out & looks_along(normal, outward)
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
