"""The lanes of the kernel of contacts: what each has of the robots' vertices, and how they read and write memory."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
from vsr.compute.vector import Vector, dot, plus, times
from vsr.physics.contact.gpu.moving import Nodes, carried, lanes_for, moment, turn_on
from vsr.physics.contact.gpu.tables import EXISTS, SPIN, SURFACE, Known, Plain, Plan, Shared


class Lanes:
    """One world's vertices, one a lane, with the tables that all lanes read and share; groups of contacts get this."""

    def __init__(self, plan: Plan, known: Known, shared: Shared) -> None:
        """known: what is read; shared: memory through which lanes tell each other numbers."""
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
        self.wait()
        return place, lever, plus((along, upwards), carried(spin, lever))

    def read(self, table: Any, *place: Any) -> Any:
        """One number, or one in each lane."""
        several = any(jnp.ndim(index) for index in place)
        return triton.load(table.at[place]) if several else table[place]

    def wait(self) -> None:
        """Until all lanes have written what the next lines read."""
        if not self.plan.interpret:  # interpreted, a program runs alone and in order
            triton.debug_barrier()

    def number(self, table: Any) -> Array:
        """Of each lane's vertex."""
        return triton.load(table.at[self.row])

    def vector(self, table: Any) -> Vector:
        """Of each lane's vertex."""
        return tuple(triton.load(table.at[part, self.row]) for part in range(2))

    def write(self, table: Any, values: Vector) -> None:
        """Vectors of the lanes' vertices."""
        for part, value in enumerate(values):
            triton.store(table.at[part, self.lane], value, mask=self.active)

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
            triton.store(table.at[field, self.lane], value, mask=self.active)
