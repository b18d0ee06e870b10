"""Lanes of the contact kernel: how they read and write memory, and how vertices and rigid bodies move.

Each lane has a vertex of a robot; rigid bodies are numbers that all lanes share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, load, power_of_two, store
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.contact.bodies import BOLDNESS
from vsr.physics.contact.gpu.tables import EXISTS, SPIN, SURFACE, Known, Plain, Plan, Shared


class Lanes:
    """One world's vertices, one a lane, with the tables that all lanes read and share; groups of contacts get this."""

    def __init__(self, plan: Plan, known: Known, shared: Shared) -> None:
        """known: what is read; shared: memory through which lanes exchange numbers."""
        self.plan, self.known, self.shared = plan, known, shared
        self.lane = lanes_for(max(WARP, plan.vertices))
        self.row, self.active = jnp.minimum(self.lane, plan.vertices - 1), self.lane < plan.vertices
        self.place, self.lever, self.velocity = self._vertices()
        flags = jnp.where(self.active, self.number(known.flags), 0)
        self.exists = (flags >> EXISTS & 1) > 0
        self.nodes = Nodes(
            self.place,
            self.number(known.inverse_mass),
            self.lever,
            self.number(known.inverse_inertia),
            (flags >> SURFACE & 1) > 0,
            self.number(known.friction),
            self.number(known.restitution),
        )

    def _vertices(self) -> tuple[Vector, Vector, Vector]:
        """Where they are, as seen from what carries them, and how they move."""
        robots = self.known.robots
        if isinstance(robots, Plain):
            self.position = robots.position
            return self.vector(robots.position), self.vector(robots.lever), self.vector(robots.velocity)
        x, y, cosine, sine, along, upwards, spin = (self.read(robots.table, field, self.row) for field in range(7))
        right, up = self.vector(robots.offset)
        lever = cosine * right - sine * up, sine * right + cosine * up
        place = plus((x, y), lever)
        self.position = self.shared.position
        self.write(self.position, place)
        return place, lever, plus((along, upwards), carried(spin, lever))

    def read(self, table: Any, *place: Any) -> Any:
        """One number, or one in each lane."""
        several = any(jnp.ndim(index) for index in place)
        return load(table.at[place]) if several else table[place]

    def number(self, table: Any) -> Array:
        """Of each lane's vertex."""
        return load(table.at[self.row])

    def vector(self, table: Any) -> Vector:
        """Of each lane's vertex."""
        return tuple(load(table.at[part, self.row]) for part in range(2))

    def write(self, table: Any, values: Vector) -> None:
        """Vectors of the lanes' vertices."""
        for part, value in enumerate(values):
            store(table.at[part, self.lane], value, mask=self.active)

    def push(self, table: Any, given: Vector, shift: Vector) -> None:
        """Give impulses and shifts at vertices to what carries them (vsr.physics.squares.engine.push_vertices)."""
        nodes = self.nodes
        x, y, cosine, sine, along, upwards, spin = (
            self.read(self.known.robots.table, field, self.row) for field in range(SPIN + 1)
        )
        turned = turn_on((cosine, sine), nodes.inverse_inertia * moment(self.lever, shift))
        spin = spin + nodes.inverse_inertia * moment(self.lever, given)
        after = (
            *plus((x, y), times(nodes.inverse_mass, shift)),
            *turned,
            *plus((along, upwards), times(nodes.inverse_mass, given)),
            spin * (1 + nodes.inverse_inertia * dot(self.lever, shift)),
        )
        for field, value in enumerate(after):
            store(table.at[field, self.lane], value, mask=self.active)


class Moving(NamedTuple):
    """A rigid body while contacts are solved: numbers."""

    velocity: Vector
    spin: Any


class Now(NamedTuple):
    """How everything moves while contacts are solved."""

    nodes: Vector
    given: Vector
    bodies: tuple[Moving, ...]


Moves = tuple[Now, Now]
"""How everything moves, and by how much it has moved in the step [m, rad], with its shifts [kg m]."""


class Body(NamedTuple):
    """A rigid body: numbers."""

    center: Vector
    radius: Any
    inverse_mass: Any
    inverse_inertia: Any
    friction: Any
    restitution: Any

    def inverse_effective_mass(self, lever: Vector, direction: Vector) -> Any:
        """Speed that a unit of impulse gives to points [1/kg]."""
        return self.inverse_mass + self.inverse_inertia * moment(lever, direction) ** 2


class Nodes(NamedTuple):
    """The vertices of the lanes."""

    position: Vector
    inverse_mass: Array
    lever: Vector
    inverse_inertia: Array
    surface: Array
    friction: Array
    restitution: Array

    def inverse_effective_mass(self, direction: Vector) -> Array:
        return self.inverse_mass + self.inverse_inertia * moment(self.lever, direction) ** 2

    def pushed(self, now: Now, impulse: Vector) -> Now:
        gained = plus(
            times(self.inverse_mass, impulse), carried(self.inverse_inertia * moment(self.lever, impulse), self.lever)
        )
        return now._replace(nodes=plus(now.nodes, gained), given=plus(now.given, impulse))


def lanes_for(count: int) -> Array:
    return jnp.arange(power_of_two(count), dtype=jnp.int32)


def share_of(touching: Any) -> Any:
    """By which contacts that share a rigid body yield less each (vsr.physics.contact.bodies.Rows.yields)."""
    return jnp.where(touching > 1, touching / BOLDNESS, 1.0)


def pushed_body(body: Body, moving: Moving, push: Vector, turning: Any) -> Moving:
    return Moving(plus(moving.velocity, times(body.inverse_mass, push)), moving.spin + body.inverse_inertia * turning)


def moment(lever: Vector, push: Vector) -> Any:
    return lever[0] * push[1] - lever[1] * push[0]


def carried(spin: Any, lever: Vector) -> Vector:
    return -spin * lever[1], spin * lever[0]


def swept(angle: Any, lever: Vector) -> Vector:
    """See vsr.physics.contact.bodies.swept."""
    return carried(angle, minus(lever, times(0.5, carried(angle, lever))))


def turned_body(body: Body, moving: Moving, turning: Any) -> Moving:
    return moving._replace(spin=moving.spin + body.inverse_inertia * turning)


def turn_on(rotation: Vector, angle: Any) -> Vector:
    """Cosine and sine turned further by a small angle [rad] (the Cayley map)."""
    half = 0.5 * angle
    turned = plus(rotation, carried(half, rotation))
    return times(1 / (1 + half * half), plus(turned, carried(half, turned)))


def looks_along(normal: Vector, outward: Vector) -> Any:
    """See vsr.physics.contact.vectors.looks_along."""
    along = dot(normal, outward)
    return (along > 0) & (along * along > 0.1 * dot(outward, outward))
