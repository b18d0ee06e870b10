"""Sides of contacts: vertices of voxels, rigid bodies, and what never moves.

Contacts are a table of all vertices against all rigid bodies, or a list. Both give how fast their two sides part, how
readily they yield, and take impulses. Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.xla import materialize
from vsr.physics.contact.vectors import beside, carried, dot, moment, summed

BOLDNESS = 1.25
"""By which contacts that share a rigid body go farther than is safe if all of them pushed one way; below 2 they still
settle, and sooner, because moving and turning are different ways."""


class Nodes(NamedTuple):
    """Vertices of the voxels of all robots, one after the other; p of them."""

    position: Array
    """[m], (dimension, p)"""
    inverse_mass: Array
    """0 for what is absent or anchored [1/kg], (p,)"""
    lever: Array | None
    """seen from the center of a carrier that turns [m], (dimension, p); None if none does"""
    inverse_inertia: Array | None
    """of the carrier [1/(kg m²)], (p,); None likewise"""
    exists: Array
    """(p,)"""
    friction: Array
    """coefficient, (p,)"""
    restitution: Array
    """coefficient, (p,)"""

    @property
    def count(self) -> int:
        return self.inverse_mass.shape[0]

    def inverse_effective_mass(self, direction: Array) -> Array:
        """Speed along unit directions that a unit of impulse along them gives [1/kg], (m, p).

        direction: (dimension, m, p), or what broadcasts to it.
        """
        if self.lever is None or self.inverse_inertia is None:
            return jnp.broadcast_to(
                self.inverse_mass, jnp.broadcast_shapes(direction.shape[1:], self.inverse_mass.shape)
            )
        return self.inverse_mass + self.inverse_inertia * moment(self.lever[:, None], direction)[0] ** 2

    def gained(self, impulse: Array) -> Array:
        """Velocity that impulses give [m/s]; both (dimension, p)."""
        straight = self.inverse_mass * impulse
        if self.lever is None or self.inverse_inertia is None:
            return straight
        return straight + carried(self.inverse_inertia * moment(self.lever, impulse), self.lever)


class Bodies(NamedTuple):
    """Rigid bodies; s of them, k = 1 axis of turning in 2-D, 3 in 3-D."""

    inverse_mass: Array
    """0 for what is fixed [1/kg], (s,)"""
    inverse_inertia: Array
    """in the world's axes [1/(kg m²)], (k, k, s)"""
    friction: Array
    """coefficient, (s,)"""
    restitution: Array
    """coefficient, (s,)"""

    @property
    def count(self) -> int:
        return self.inverse_mass.shape[0]

    def inverse_effective_mass(self, lever: Array, direction: Array) -> Array:
        """Speed that a unit of impulse along unit directions gives to points [1/kg], (s, p); both (dimension, s, p)."""
        return _readiness(self.inverse_mass[:, None], self.inverse_inertia[:, :, :, None], lever, direction)

    def readiness_of(self, number: np.ndarray, lever: Array, direction: Array) -> Array:
        """The same for some bodies by their numbers, (m,); both (dimension, m)."""
        return _readiness(self.inverse_mass[number], self.inverse_inertia[:, :, number], lever, direction)


def _readiness(inverse_mass: Array, inverse_inertia: Array, lever: Array, direction: Array) -> Array:
    turning = moment(lever, direction)
    return inverse_mass + dot(turning, summed(inverse_inertia * turning[None], 1))


class Speeds(NamedTuple):
    """How everything moves while contacts are solved."""

    nodes: Array
    """[m/s], (dimension, p)"""
    given: Array
    """impulses that nodes got so far [N s], (dimension, p)"""
    bodies: Array
    """of the centers of mass [m/s], (dimension, s)"""
    spin: Array
    """[rad/s], (k, s)"""


class Sides(Protocol):
    """Who touches in a group of contacts; m stands for its axes."""

    @property
    def rigid(self) -> bool:
        """Whether no contact has a vertex."""
        ...

    def parting(self, now: Speeds) -> Array:
        """Velocity of the first side seen from the second [m/s], (dimension, m)."""
        ...

    def yields(self, touches: Array, direction: Array) -> Array:
        """At most how fast they part along directions if every contact gives a unit of impulse [1/kg], m."""
        ...

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        """After impulses on the first side [N s], (dimension, m), and the opposite ones on the second."""
        ...

    def way(self, drift: Speeds) -> Array:
        """By which the first side moved, seen from the second, if all moved by a drift [m], (dimension, m)."""
        ...

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        """Spins of rigid bodies such that shifts [kg m], (dimension, m), leave the angular momentum as it was."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Table:
    """Vertices (first) against rigid bodies (second): all pairs, (s, p)."""

    nodes: Nodes
    bodies: Bodies
    lever: Array
    """from the body's center to the vertex [m], (dimension, s, p)"""

    @property
    def rigid(self) -> bool:
        return False

    def parting(self, now: Speeds) -> Array:
        return now.nodes[:, None] - now.bodies[:, :, None] - carried(now.spin[:, :, None], self.lever)

    def yields(self, touches: Array, direction: Array) -> Array:
        on_node, on_body = _shared(touches, 0), _shared(touches, 1)[:, None]
        return on_node * self.nodes.inverse_effective_mass(direction) + on_body * self.bodies.inverse_effective_mass(
            self.lever, direction
        )

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        now = push_nodes(self.nodes, now, summed(impulse, 1))
        return push_bodies(self.bodies, now, -summed(impulse, 2), -summed(moment(self.lever, impulse), 2))

    def way(self, drift: Speeds) -> Array:
        return drift.nodes[:, None] - drift.bodies[:, :, None] - swept(drift.spin[:, :, None], self.lever)

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        turning = moment(shift, now.bodies[:, :, None] - now.nodes[:, None])
        return _turn_bodies(self.bodies, now, summed(turning, 2))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OnNodes:
    """Every vertex (first) against what never moves, (p,)."""

    nodes: Nodes

    @property
    def rigid(self) -> bool:
        return False

    def parting(self, now: Speeds) -> Array:
        return now.nodes

    def yields(self, touches: Array, direction: Array) -> Array:
        return self.nodes.inverse_effective_mass(direction[:, None])[0]

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        return push_nodes(self.nodes, now, impulse)

    def way(self, drift: Speeds) -> Array:
        return drift.nodes

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        return now


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BodySide:
    """Rigid bodies at contacts, m of them, one each."""

    lever: Array
    """from its center to the contact [m], (dimension, m)"""
    numbers: tuple[int, ...] = field(metadata={"static": True})
    """of the bodies, -1 where there is none"""

    @property
    def number(self) -> np.ndarray:
        """Of the bodies, any where there is none."""
        return np.maximum(np.array(self.numbers, int), 0)

    def counts(self, like: Array) -> Array:
        """1, or 0 where there is no body, (m,)."""
        return beside((np.array(self.numbers, int) >= 0).astype(like.dtype), like, 1)

    def of(self, bodies: int, like: Array) -> Array:
        """1 where a contact is one of a body's, (bodies, m); like: (m,)."""
        table = np.array(self.numbers, int) == np.arange(bodies)[:, None]
        return beside(table.astype(self.lever.dtype), like[None], 2)

    @staticmethod
    def joined(parts: Sequence[BodySide | None], levers: Sequence[Array]) -> BodySide:
        """Of several lists as one; levers: as long as theirs, where a part has none."""
        held = [like * 0 if part is None else part.lever for part, like in zip(parts, levers, strict=True)]
        widest = jnp.broadcast_shapes(*(lever.shape[2:] for lever in held))
        held = [jnp.broadcast_to(lever, (*lever.shape[:2], *widest)) for lever in held]
        numbers = [
            (-1,) * like.shape[1] if part is None else part.numbers for part, like in zip(parts, levers, strict=True)
        ]
        return BodySide(jnp.concatenate(held, 1), tuple(itertools.chain(*numbers)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """A list of m contacts, each between rigid bodies, places among vertices, or ground."""

    nodes: Nodes
    bodies: Bodies | None
    """None if no contact has one"""
    weight: Array | None = None
    """of every vertex, positive on the first side and negative on the second, (m, p); None if there are none"""
    first: BodySide | None = None
    second: BodySide | None = None

    @property
    def rigid(self) -> bool:
        return self.weight is None

    @property
    def _body_sides(self) -> list[tuple[BodySide, int]]:
        return [(held, sign) for held, sign in ((self.first, 1), (self.second, -1)) if held is not None]

    def parting(self, now: Speeds) -> Array:
        parts = [] if self.weight is None else [summed(self.weight * now.nodes[:, None], 2)]
        for held, sign in self._body_sides:
            speed = now.bodies[:, held.number] + carried(now.spin[:, held.number], held.lever)
            parts.append(sign * held.counts(speed[0]) * speed)
        return sum(parts[1:], parts[0])

    def yields(self, touches: Array, direction: Array) -> Array:
        parts = []
        if self.weight is not None:
            size = jnp.abs(self.weight)
            load = materialize(size, summed(size * touches[:, None], 0))
            parts.append(summed(size * load * self.nodes.inverse_effective_mass(direction[:, :, None]), 1))
        for held, _ in self._body_sides:
            assert self.bodies is not None
            share = summed(held.of(self.bodies.count, touches) * touches, 1)[held.number]
            share = jnp.where(share > 1, share / BOLDNESS, 1)
            ready = self.bodies.readiness_of(held.number, held.lever, direction)
            parts.append(held.counts(ready) * share * ready)
        return sum(parts[1:], parts[0])

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        if self.weight is not None:
            now = push_nodes(self.nodes, now, summed(self.weight * impulse[:, :, None], 1))
        for held, sign in self._body_sides:
            assert self.bodies is not None
            own = sign * held.of(self.bodies.count, impulse[0])
            turning = moment(held.lever, impulse)
            push, turn = (summed(own * part[:, None], 2) for part in (impulse, turning))
            now = push_bodies(self.bodies, now, push, turn)
        return now

    def way(self, drift: Speeds) -> Array:
        if self.weight is None:  # what rolls touches with ever other points, so only the motion of centers counts
            return self.parting(drift)
        parts = [summed(self.weight * drift.nodes[:, None], 2)]
        for held, sign in self._body_sides:
            moved = drift.bodies[:, held.number] + swept(drift.spin[:, held.number], held.lever)
            parts.append(sign * held.counts(moved[0]) * moved)
        return sum(parts[1:], parts[0])

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        if self.bodies is None or self.first is None:
            return now
        ahead = now.bodies[:, self.first.number]
        if self.weight is None:
            if self.second is None:
                return now
            held = self.second
            both = held.counts(shift[0]) * (self.bodies.inverse_mass[self.first.number] > 0)
            turning = both * moment(shift, now.bodies[:, held.number] - ahead)
        else:
            held, turning = self.first, -moment(shift, ahead + summed(self.weight * now.nodes[:, None], 2))
        own = held.of(self.bodies.count, shift[0])
        return _turn_bodies(self.bodies, now, summed(own * turning[:, None], 2))


def _shared(touches: Array, axis: int) -> Array:
    """How many touch along an axis of a table, at least 1."""
    return jnp.maximum(summed(touches.astype(jnp.int32), axis), 1)


def push_nodes(nodes: Nodes, now: Speeds, impulse: Array) -> Speeds:
    """After impulses on all nodes [N s], (dimension, p)."""
    return now._replace(nodes=now.nodes + nodes.gained(impulse), given=now.given + impulse)


def swept(angle: Array, lever: Array) -> Array:
    """By which points moved whose levers [m] turned by angles [rad] to where they are now, to second order."""
    return carried(angle, lever - 0.5 * carried(angle, lever))


def _turn_bodies(bodies: Bodies, now: Speeds, turning: Array) -> Speeds:
    """After moments on bodies [N m s], (k, s)."""
    return now._replace(spin=now.spin + summed(bodies.inverse_inertia * turning[None], 1))


def push_bodies(bodies: Bodies, now: Speeds, push: Array, turning: Array) -> Speeds:
    """After impulses at the centers [N s], (dimension, s), and moments [N m s], (k, s)."""
    return now._replace(
        bodies=now.bodies + bodies.inverse_mass * push,
        spin=now.spin + summed(bodies.inverse_inertia * turning[None], 1),
    )
