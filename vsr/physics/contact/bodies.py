"""Sides of contacts: vertices of voxels, rigid bodies, and what never moves.

Contacts are a table of all vertices against all rigid bodies, or a list. Both give how fast their two sides part, how
readily they yield, and take impulses. Arrays are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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

    def shares(self, touches: Array) -> Any:
        """How many contacts draw on each mass, for `yields`; touches: m."""
        ...

    def yields(self, shares: Any, direction: Array) -> Array:
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

    def shares(self, touches: Array) -> tuple[Array, Array]:
        return _shared(touches, 0), _shared(touches, 1)[:, None]

    def yields(self, shares: tuple[Array, Array], direction: Array) -> Array:
        on_node, on_body = shares
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

    def shares(self, touches: Array) -> None:
        return None

    def yields(self, shares: None, direction: Array) -> Array:
        return self.nodes.inverse_effective_mass(direction[:, None])[0]

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        return push_nodes(self.nodes, now, impulse)

    def way(self, drift: Speeds) -> Array:
        return drift.nodes

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        return now


class AtBodies(Protocol):
    """Rigid bodies at contacts, m of them, at most one each."""

    @property
    def lever(self) -> Array:
        """From its center to the contact [m], (dimension, m)."""
        ...

    def at(self, values: Array, axis: int) -> Array:
        """Of values of all bodies along an axis those at the contacts, anything where there is no body."""
        ...

    def counts(self, like: Array) -> Array | float:
        """By which to multiply what was found by them: 0 where there is no body, (m,)."""
        ...

    def of(self, bodies: int, like: Array) -> Array:
        """1 where a contact is one of a body's, (bodies, m); like: (m,)."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BodySide:
    """Rigid bodies at contacts by numbers known before tracing."""

    lever: Array
    numbers: tuple[int, ...] = field(metadata={"static": True})
    """of the bodies, -1 where there is none"""

    @property
    def number(self) -> np.ndarray:
        """Of the bodies, any where there is none."""
        return np.maximum(np.array(self.numbers, int), 0)

    def at(self, values: Array, axis: int) -> Array:
        return values[(slice(None),) * axis + (self.number,)]

    def counts(self, like: Array) -> Array:
        return beside((np.array(self.numbers, int) >= 0).astype(like.dtype), like, 1)

    def of(self, bodies: int, like: Array) -> Array:
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


class AmongNodes(Protocol):
    """Places among vertices, m of them: a place moves as a weighted sum of vertices does."""

    def seen(self, nodes: Array) -> Array:
        """Weighted sums of vectors of the vertices, (dimension, m)."""
        ...

    def shares(self, touches: Array) -> Array:
        """How much places that touch weigh on every vertex, (p,)."""
        ...

    def yields(self, shares: Array, nodes: Nodes, direction: Array) -> Array:
        """At most how fast places give way along directions if every one gets a unit of impulse [1/kg], (m,)."""
        ...

    def given(self, impulse: Array) -> Array:
        """What vertices get of impulses (dimension, m) at the places, (dimension, p)."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weights:
    """Places among vertices as a matrix."""

    weight: Array
    """of every vertex, positive on the first side and negative on the second, (m, p)"""

    def seen(self, nodes: Array) -> Array:
        return summed(self.weight * nodes[:, None], 2)

    def shares(self, touches: Array) -> Array:
        size = jnp.abs(self.weight)
        return materialize(size, summed(size * touches[:, None], 0))

    def yields(self, shares: Array, nodes: Nodes, direction: Array) -> Array:
        return summed(jnp.abs(self.weight) * shares * nodes.inverse_effective_mass(direction[:, :, None]), 1)

    def given(self, impulse: Array) -> Array:
        return summed(self.weight * impulse[:, :, None], 1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """A list of m contacts, each between rigid bodies, places among vertices, or ground."""

    nodes: Nodes
    bodies: Bodies | None
    """None if no contact has one"""
    places: AmongNodes | None = None
    """None if there are none"""
    first: AtBodies | None = None
    second: AtBodies | None = None

    @property
    def rigid(self) -> bool:
        return self.places is None

    @property
    def _body_sides(self) -> list[tuple[AtBodies, int]]:
        return [(held, sign) for held, sign in ((self.first, 1), (self.second, -1)) if held is not None]

    def parting(self, now: Speeds) -> Array:
        return self._parting(now, carried)

    def _parting(self, now: Speeds, turned: Callable[[Array, Array], Array]) -> Array:
        parts = [] if self.places is None else [self.places.seen(now.nodes)]
        for held, sign in self._body_sides:
            speed = held.at(now.bodies, 1) + turned(held.at(now.spin, 1), held.lever)
            parts.append(sign * held.counts(speed[0]) * speed)
        return sum(parts[1:], parts[0])

    def shares(self, touches: Array) -> tuple[Array | None, list[Array]]:
        on_bodies = []
        for held, _ in self._body_sides:
            assert self.bodies is not None
            share = summed(held.of(self.bodies.count, touches) * touches, 1)
            on_bodies.append(held.at(jnp.where(share > 1, share / BOLDNESS, 1), 0))
        return None if self.places is None else self.places.shares(touches), on_bodies

    def yields(self, shares: tuple[Array | None, list[Array]], direction: Array) -> Array:
        on_nodes, on_bodies = shares
        parts = []
        if self.places is not None and on_nodes is not None:
            parts.append(self.places.yields(on_nodes, self.nodes, direction))
        for (held, _), share in zip(self._body_sides, on_bodies, strict=True):
            assert self.bodies is not None
            own = held.at(self.bodies.inverse_mass, 0), held.at(self.bodies.inverse_inertia, 2)
            ready = _readiness(*own, held.lever, direction)
            parts.append(held.counts(ready) * share * ready)
        return sum(parts[1:], parts[0])

    def pushed(self, now: Speeds, impulse: Array) -> Speeds:
        if self.places is not None:
            now = push_nodes(self.nodes, now, self.places.given(impulse))
        for held, sign in self._body_sides:
            assert self.bodies is not None
            own = sign * held.of(self.bodies.count, impulse[0])
            turning = moment(held.lever, impulse)
            push, turn = (summed(own * part[:, None], 2) for part in (impulse, turning))
            now = push_bodies(self.bodies, now, push, turn)
        return now

    def way(self, drift: Speeds) -> Array:
        # What rolls touches with ever other points, so only the motion of centers counts.
        return self._parting(drift, carried if self.places is None else swept)

    def steadied(self, now: Speeds, shift: Array) -> Speeds:
        if self.bodies is None or self.first is None:
            return now
        ahead = self.first.at(now.bodies, 1)
        if self.places is None:
            if self.second is None:
                return now
            held = self.second
            both = held.counts(shift[0]) * (self.first.at(self.bodies.inverse_mass, 0) > 0)
            turning = both * moment(shift, held.at(now.bodies, 1) - ahead)
        else:
            held, turning = self.first, -moment(shift, ahead + self.places.seen(now.nodes))
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
