"""What a contact acts on: vertices of voxels, rigid bodies, or nothing that moves.

A side of a contact tells how fast it moves there, how readily it yields, and takes impulses. Contacts may be a list or
a table of all pairs: then a side says so, and nothing is looked up. Vectors are tuples of components
(vsr.compute.vector).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, dot, plus, times


class Nodes(NamedTuple):
    """Vertices of the voxels of all robots, one after the other; p of them."""

    position: Vector
    """[m], each (p,)"""
    inverse_mass: Array
    """0 for what is absent or anchored [1/kg], (p,)"""
    lever: Vector | None
    """seen from the centre of a carrier that turns [m]; None if none does"""
    inverse_inertia: Array | None
    """of the carrier [1/(kg m²)], (p,); None likewise"""
    exists: Array
    """(p,)"""
    friction: Array
    """coefficient, (p,)"""
    restitution: Array
    """coefficient, (p,)"""

    def readiness(self, direction: Vector) -> Array:
        """Speed along unit directions that a unit of impulse along them gives [1/kg]."""
        if self.lever is None or self.inverse_inertia is None:
            return jnp.broadcast_to(self.inverse_mass, direction[0].shape)
        (turning,) = moment(self.lever, direction)
        return self.inverse_mass + self.inverse_inertia * turning**2

    def gained(self, impulse: Vector) -> Vector:
        """Velocity that impulses give [m/s]."""
        straight = times(self.inverse_mass, impulse)
        if self.lever is None or self.inverse_inertia is None:
            return straight
        (turning,) = moment(self.lever, impulse)
        return plus(straight, carried((self.inverse_inertia * turning,), self.lever))


class Bodies(NamedTuple):
    """Rigid bodies; s of them."""

    position: Vector
    """of the centres of mass [m], each (s,)"""
    inverse_mass: Array
    """0 for what is fixed [1/kg], (s,)"""
    inverse_inertia: tuple[Vector, ...]
    """in the world's axes, rows of a symmetric matrix: 1 x 1 in 2-D, 3 x 3 in 3-D [1/(kg m²)], each (s,)"""
    friction: Array
    """coefficient, (s,)"""
    restitution: Array
    """coefficient, (s,)"""


class Speeds(NamedTuple):
    """How everything moves while contacts are solved."""

    nodes: Vector
    """[m/s], each (p,)"""
    given: Vector
    """impulses that nodes got so far [N s], each (p,)"""
    bodies: Vector
    """of the centres of mass [m/s], each (s,)"""
    spin: Vector
    """[rad/s], one component in 2-D, three in 3-D, each (s,)"""


class Side(Protocol):
    """One of the two that touch; m stands for the axes of contacts."""

    def speed(self, now: Speeds) -> Vector:
        """At the contacts [m/s], each m, or what broadcasts to it."""
        ...

    def shared(self, touches: Array) -> Array:
        """How many contacts draw on the same mass at once, m, for `readiness`."""
        ...

    def readiness(self, direction: Vector, shared: Array) -> Array:
        """At most how fast a unit of impulse in every contact makes the place move along directions [1/kg], m."""
        ...

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        """After impulses [N s], each m."""
        ...


@dataclass(frozen=True)
class EveryNode:
    """All nodes, in a table of contacts (others, p)."""

    nodes: Nodes

    def speed(self, now: Speeds) -> Vector:
        return now.nodes

    def shared(self, touches: Array) -> Array:
        return jnp.maximum(touches.sum(0), 1)

    def readiness(self, direction: Vector, shared: Array) -> Array:
        return shared * self.nodes.readiness(direction)

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        return pushed_nodes(self.nodes, now, tuple(part.sum(0) for part in impulse))


@dataclass(frozen=True)
class AmongNodes:
    """Places between nodes: each of k nodes has a weight, and they add up to 1; list of m contacts."""

    nodes: Nodes
    index: Array
    """(k, m)"""
    weight: Array
    """(k, m)"""

    def speed(self, now: Speeds) -> Vector:
        return tuple((self.weight * part[self.index]).sum(0) for part in now.nodes)

    def shared(self, touches: Array) -> Array:
        load = self._added(jnp.abs(self.weight) * touches)
        return jnp.abs(self.weight) * load[self.index]

    def readiness(self, direction: Vector, shared: Array) -> Array:
        nodes = self.nodes
        ready = nodes.inverse_mass[self.index]
        if nodes.lever is not None and nodes.inverse_inertia is not None:
            (turning,) = moment(tuple(part[self.index] for part in nodes.lever), direction)
            ready = ready + nodes.inverse_inertia[self.index] * turning**2
        return (shared * ready).sum(0)

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        return pushed_nodes(self.nodes, now, tuple(self._added(self.weight * part) for part in impulse))

    def _added(self, values: Array) -> Array:
        return jnp.zeros_like(self.nodes.inverse_mass).at[self.index.reshape(-1)].add(values.reshape(-1))


@dataclass(frozen=True)
class EveryBody:
    """All rigid bodies, in a table of contacts (s, others)."""

    bodies: Bodies
    lever: Vector
    """from the centre to the contact [m], each (s, others)"""

    def speed(self, now: Speeds) -> Vector:
        return plus(_columns(now.bodies), carried(_columns(now.spin), self.lever))

    def shared(self, touches: Array) -> Array:
        return jnp.maximum(touches.sum(1, keepdims=True), 1)

    def readiness(self, direction: Vector, shared: Array) -> Array:
        inertia = tuple(_columns(row) for row in self.bodies.inverse_inertia)
        return shared * body_readiness(self.bodies.inverse_mass[:, None], inertia, self.lever, direction)

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        push = tuple(part.sum(1) for part in impulse)
        turning = tuple(part.sum(1) for part in moment(self.lever, impulse))
        return _turned(self.bodies, now, push, turning)


@dataclass(frozen=True)
class OfBodies:
    """Rigid bodies, one in each of m contacts."""

    bodies: Bodies
    number: np.ndarray
    """of the body, known before tracing, (m,)"""
    lever: Vector
    """from its centre to the contact [m], each (m,)"""

    def speed(self, now: Speeds) -> Vector:
        return plus(self._each(now.bodies), carried(self._each(now.spin), self.lever))

    def shared(self, touches: Array) -> Array:
        return self._added(touches.astype(self.lever[0].dtype))[self.number]

    def readiness(self, direction: Vector, shared: Array) -> Array:
        inertia = tuple(self._each(row) for row in self.bodies.inverse_inertia)
        return shared * body_readiness(self.bodies.inverse_mass[self.number], inertia, self.lever, direction)

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        push = tuple(map(self._added, impulse))
        return _turned(self.bodies, now, push, tuple(map(self._added, moment(self.lever, impulse))))

    def _each(self, vector: Vector) -> Vector:
        return tuple(part[self.number] for part in vector)

    def _added(self, values: Array) -> Array:
        return jnp.zeros_like(self.bodies.inverse_mass).at[self.number].add(values)


class Still:
    """What never moves: ground, or a contact's other side that is fixed."""

    def speed(self, now: Speeds) -> Vector:
        return tuple(jnp.zeros((), part.dtype) for part in now.bodies)

    def shared(self, touches: Array) -> Array:
        return jnp.ones((), int)

    def readiness(self, direction: Vector, shared: Array) -> Array:
        return jnp.zeros((), direction[0].dtype)

    def pushed(self, now: Speeds, impulse: Vector) -> Speeds:
        return now


def pushed_nodes(nodes: Nodes, now: Speeds, impulse: Vector) -> Speeds:
    """After impulses on all nodes [N s], each (p,)."""
    return now._replace(nodes=plus(now.nodes, nodes.gained(impulse)), given=plus(now.given, impulse))


def body_readiness(inverse_mass: Array, inertia: tuple[Vector, ...], lever: Vector, direction: Vector) -> Array:
    """Speed that a unit of impulse along unit directions gives to points of rigid bodies [1/kg]."""
    turning = moment(lever, direction)
    return inverse_mass + dot(turning, tuple(dot(row, turning) for row in inertia))


def moment(lever: Vector, push: Vector) -> Vector:
    """Of pushes at levers: one component in 2-D, three in 3-D."""
    if len(lever) == 2:
        return (lever[0] * push[1] - lever[1] * push[0],)
    (a, b, c), (x, y, z) = lever, push
    return b * z - c * y, c * x - a * z, a * y - b * x


def carried(spin: Vector, lever: Vector) -> Vector:
    """Velocity of points that a spin carries round."""
    if len(lever) == 2:
        return -spin[0] * lever[1], spin[0] * lever[0]
    return moment(spin, lever)


def _columns(vector: Vector) -> Vector:
    return tuple(part[:, None] for part in vector)


def _turned(bodies: Bodies, now: Speeds, push: Vector, turning: Vector) -> Speeds:
    """Rigid bodies after impulses at their centres and moments [N m s], each (s,)."""
    return now._replace(
        bodies=plus(now.bodies, times(bodies.inverse_mass, push)),
        spin=plus(now.spin, tuple(dot(row, turning) for row in bodies.inverse_inertia)),
    )
