"""Corners of rigid bodies in voxels: a group of contacts (vsr.physics.objects.fused.solver)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.objects.fused.moving import Body, Nodes, Now, carried, moment, pushed_body, share_of
from vsr.physics.objects.fused.tables import Found, Pressed
from vsr.physics.objects.fused.voxels import Voxels, voxel

if TYPE_CHECKING:
    from vsr.physics.objects.fused.kernel import Program


class InVoxels:
    """Which voxels the corners of all rigid bodies are in."""

    def __init__(self, program: Program, voxels: Voxels, bodies: tuple[Body, ...]) -> None:
        flat = program.plan.flat
        self.numbers = [number for number in flat for _ in range(program.plan.corners)]
        self.points = [corner for number in flat for corner in bodies[number].corners]
        self.levers = [
            minus(point, bodies[number].center) for point, number in zip(self.points, self.numbers, strict=True)
        ]
        found = [voxels.deepest(point, lever) for point, lever in zip(self.points, self.levers, strict=True)]
        self.cells, self.inside = zip(*found, strict=True)

    @property
    def any(self) -> Array:
        """Whether one is in a voxel."""
        first, *others = self.inside
        for one in others:
            first = first | one
        return first


class Corners:
    """Corners of rigid bodies in voxels: a part, which is one number, for each corner."""

    passes = 1

    def __init__(self, program: Program, nodes: Nodes, bodies: tuple[Body, ...], found: InVoxels) -> None:
        self.nodes, self.bodies, self.numbers, self.levers = nodes, bodies, found.numbers, found.levers
        own = [bodies[number] for number in self.numbers]
        parts = zip(own, found.points, found.levers, found.cells, found.inside, strict=True)
        self.contacts, self.weights = zip(*(_meet(program, nodes, *part) for part in parts), strict=True)
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


def _meet(
    program: Program, nodes: Nodes, body: Body, point: Vector, outward: Vector, cell: Any, inside: Any
) -> tuple[Found, Array]:
    """The contact of a body's corner with the voxel that it is deepest in, and the weights of all vertices."""
    known, here = program.known, voxel(program, cell)
    holds, depth, normal = here.holds(point, outward, here.planes())
    rows = [jnp.where(nodes.lane == at, weight, 0) for at, weight in zip(here.places, here.weights(point), strict=True)]
    friction, restitution = (
        greatest([table[place] for place in here.places]) for table in (known.friction, known.restitution)
    )
    contact = Found(
        normal,
        depth,
        holds & inside,
        combined_friction(body.friction, friction),
        combined_restitution(body.restitution, restitution),
    )
    return contact, sum(rows[1:], rows[0])


def greatest(values: Sequence[Any]) -> Any:
    """Of several."""
    first, *others = values
    for value in others:
        first = jnp.maximum(first, value)
    return first
