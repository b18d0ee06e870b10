"""Vertices and rigid bodies in the kernel of contacts: lanes have vertices, bodies are numbers that all lanes share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.contact.bodies import BOLDNESS


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
    return jnp.arange(pl.next_power_of_2(count), dtype=jnp.int32)


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
