"""Lanes of the contact kernel: how they read and write memory.

Each lane has a vertex of a robot; rigid bodies are numbers that all lanes share. Arrays are those of
vsr.physics.contact.vectors, with lanes on the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import WARP, load, power_of_two, store
from vsr.physics.contact.bodies import Nodes
from vsr.physics.contact.gpu.tables import EXISTS, SPIN, SURFACE, Known, Plain, Plan, Shared
from vsr.physics.contact.solver import Contact, Impulse
from vsr.physics.contact.vectors import carried, dot, moment, summed
from vsr.physics.contract import PointMotion


class Lanes:
    """One world's vertices, one a lane, with the tables that all lanes read and share."""

    def __init__(self, plan: Plan, known: Known, shared: Shared) -> None:
        """known: what is read; shared: memory through which lanes exchange numbers."""
        self.plan, self.known, self.shared = plan, known, shared
        self.lane, self.row, self.active = lanes_for(plan.vertices)
        place, self.lever, self.velocity = self._vertices()
        self.inverse_inertia = None if known.inverse_inertia is None else self.of_vertices(known.inverse_inertia)
        flags = jnp.where(self.active, self.of_vertices(known.flags), 0)
        self.surface = (flags >> SURFACE & 1) > 0
        self.nodes = Nodes(
            place,
            self.of_vertices(known.inverse_mass),
            self.lever,
            self.inverse_inertia,
            (flags >> EXISTS & 1) > 0,
            self.of_vertices(known.friction),
            self.of_vertices(known.restitution),
        )

    def _vertices(self) -> tuple[Array, Array | None, Array]:
        """Where they are, as seen from what carries them, and how they move."""
        robots = self.known.robots
        if isinstance(robots, Plain):
            self.position = robots.position
            lever = None if robots.lever is None else self.of_vertices(robots.lever)
            return self.of_vertices(robots.position), lever, self.of_vertices(robots.velocity)
        if isinstance(robots, PointMotion):
            lever, (place, velocity) = None, map(self._of_points, robots)
        else:
            x, y, cosine, sine, along, upwards, spin = (load(robots.table.at[field, self.row]) for field in range(7))
            right, up = self.of_vertices(robots.offset)
            lever = jnp.stack([cosine * right - sine * up, sine * right + cosine * up])
            place, velocity = jnp.stack([x, y]) + lever, jnp.stack([along, upwards]) + carried(spin[None], lever)
        self.position = self.shared.position
        self.write(self.position, place)
        return place, lever, velocity

    def _of_points(self, table: Any) -> Array:
        return jnp.stack([load(table.at[self.row, part]) for part in range(self.plan.dimension)])

    def of_vertices(self, table: Any) -> Array:
        """Of each lane's vertex."""
        return read(table, self.row)

    def write(self, table: Any, values: Array) -> None:
        """Of each lane's vertex."""
        write(table, self.lane, values, self.active)

    def push(self, moving: tuple[Any, ...], given: Array, shift: Array) -> None:
        """Give impulses and shifts at vertices to what carries them (vsr.physics.contract.Engine.push_vertices)."""
        inverse_mass, lever, inverse_inertia = self.nodes.inverse_mass, self.lever, self.inverse_inertia
        if lever is None or inverse_inertia is None:
            after = self.nodes.position + inverse_mass * shift, self.velocity + inverse_mass * given
            for table, values in zip(moving, after, strict=True):
                for part, value in enumerate(values):
                    store(table.at[self.lane, part], value, mask=self.active)
            return
        (table,) = moving
        fields = [load(self.known.robots.table.at[field, self.row]) for field in range(SPIN + 1)]
        place, rotation, velocity, spin = (jnp.stack(fields[first : first + 2]) for first in range(0, SPIN + 1, 2))
        turned = turn_on(rotation, inverse_inertia * moment(lever, shift))
        spin = (spin + inverse_inertia * moment(lever, given)) * (1 + inverse_inertia * dot(lever, shift))
        after = *(place + inverse_mass * shift), *turned, *(velocity + inverse_mass * given), *spin
        for field, value in enumerate(after):
            store(table.at[field, self.lane], value, mask=self.active)


@dataclass(frozen=True)
class OwnBodies:
    """Rigid bodies at contacts in lanes (vsr.physics.contact.bodies.AtBodies)."""

    lever: Array
    own: Array
    """1 for the contacts of each body, else 0, (s, m)"""

    def at(self, values: Array, axis: int) -> Array:
        return summed(values[..., None] * self.own, axis)

    def counts(self, like: Array) -> float:
        return 1.0

    def of(self, bodies: int, like: Array) -> Array:
        return self.own


@dataclass(frozen=True)
class Group:
    """Contacts in lanes, and where their impulses are kept."""

    contact: Contact
    lane: Array
    row: Array
    """of tables; that of the last contact in lanes that are left"""
    active: Array

    def kept(self, tables: Impulse) -> Impulse:
        """Of the step before."""
        return Impulse(read(tables.press, self.row), read(tables.drag, self.row))

    def keep(self, tables: Impulse, impulse: Impulse) -> None:
        write(tables.press, self.lane, impulse.press, self.active)
        write(tables.drag, self.lane, impulse.drag, self.active)


def lanes_for(count: int) -> tuple[Array, Array, Array]:
    """Numbers of lanes, rows of a table, and which lanes have one."""
    lane = jnp.arange(max(WARP, power_of_two(count)), dtype=jnp.int32)
    return lane, jnp.minimum(lane, count - 1), lane < count


def read(table: Any, index: Any) -> Array:
    """Entries of a table along its last axis, all its others before."""
    found = [load(table.at[(*place, index)]) for place in np.ndindex(table.shape[:-1])]
    return jnp.stack(found).reshape(*table.shape[:-1], *jnp.shape(index))


def numbers_of(table: Any, *chosen: Any) -> Array:
    """A small table, or a slice of it, the same in all lanes; none of its axes may be as long as there are lanes."""
    places = np.moveaxis(np.indices(table.shape), 0, -1)[chosen]
    found = [load(table.at[tuple(map(int, place))]) for place in places.reshape(-1, table.ndim)]
    return jnp.stack(found).reshape(places.shape[:-1])


def write_numbers(table: Any, values: Array) -> None:
    """A small table, the same in all lanes."""
    for place in np.ndindex(table.shape):
        store(table.at[place], values[place])


def write(table: Any, lane: Array, values: Array, mask: Array) -> None:
    """Entries of a table along its last axis."""
    for place in np.ndindex(table.shape[:-1]):
        store(table.at[(*place, lane)], values[place], mask=mask)


def turn_on(rotation: Array, angle: Array) -> Array:
    """Cosine and sine turned further by a small angle [rad], (1, m) (the Cayley map)."""
    half = 0.5 * angle
    turned = rotation + carried(half, rotation)
    return 1 / (1 + half * half) * (turned + carried(half, turned))
