"""Points in voxels, one in each lane, and what they exchange with the vertices that are the voxels' corners.

Vertices are in other lanes: how they move, and the impulses that they get, go through memory. Impulses are added up
point by point, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.contact.gpu.lanes import Lanes
from vsr.physics.contact.gpu.moving import Now, moment
from vsr.physics.contact.gpu.tables import Found
from vsr.physics.contact.gpu.voxels import voxel

NO_VERTEX = -1


class Inside:
    """Points, each in the voxel that it may be in."""

    def __init__(
        self,
        lanes: Lanes,
        lane: Array,
        count: Array | int,
        point: Vector,
        cell: Array,
        outward: Vector | None,
        may: Array,
        vertex: Array | None = None,
    ) -> None:
        """count: of lanes that have a point; outward: of what has the point; vertex: its number, if it is one."""
        self.lanes, self.vertex = lanes, vertex
        self.lane, self.active = lane, lane < count
        here = voxel(lanes, cell)
        holds, self.depth, self.normal = here.holds(point, outward, here.planes())
        self.touches = may & holds
        self.corner_vertices, self.weights = here.corner_vertices, here.weights(point)
        # Without contact there is nothing to add up.
        self.many = jnp.where(jnp.max(self.touches.astype(jnp.int32)) > 0, jnp.int32(count), 0)
        self._share(cell)
        self.load = self._summed(self._weighing, 1)[0]

    def _share(self, cell: Array) -> None:
        """Write what stays as it is where all lanes can read it."""
        lanes, shared = self.lanes, self.lanes.shared
        lanes.wait()  # other lanes may still read the last group's numbers
        vertex = jnp.full_like(cell, NO_VERTEX) if self.vertex is None else self.vertex
        constant = (shared.cell, cell), (shared.vertex, vertex), (shared.touches, self.touches.astype(jnp.float32))
        for table, values in constant:
            triton.store(table.at[self.lane], values, mask=self.active)
        for corner, weight in enumerate(self.weights):
            triton.store(shared.weight.at[corner, self.lane], weight, mask=self.active)
        lanes.write(shared.lever, lanes.lever)
        lanes.wait()

    def contact(self, friction: Any, restitution: Any) -> Found:
        """Of the points with the voxels; friction, restitution: of the points."""
        known = self.lanes.known
        return Found(
            self.normal,
            self.depth,
            self.touches,
            combined_friction(friction, self._greatest(known.friction)),
            combined_restitution(restitution, self._greatest(known.restitution)),
        )

    def _greatest(self, table: Any) -> Array:
        """Of the numbers of the voxel's corners."""
        first, *others = (self.lanes.read(table, place) for place in self.corner_vertices)
        for other in others:
            first = jnp.maximum(first, other)
        return first

    def seen_from_voxels(self, now: Now) -> Vector:
        """Velocity of the points, which is 0 unless they are vertices, less that of the voxels there."""
        lanes, shared = self.lanes, self.lanes.shared
        lanes.write(shared.velocity, now.nodes)
        lanes.wait()

        def at(place: Array) -> Vector:
            return tuple(lanes.read(shared.velocity, part, place) for part in range(2))

        parts = [times(-weight, at(place)) for place, weight in zip(self.corner_vertices, self.weights, strict=True)]
        if self.vertex is not None:
            parts.append(at(self.vertex))
        first, *others = parts
        for other in others:
            first = plus(first, other)
        return first

    def inverse_effective_mass(self, direction: Vector) -> Array:
        """At most how fast the points give way if every one gets a unit of impulse [1/kg]."""
        lanes, known, shared = self.lanes, self.lanes.known, self.lanes.shared
        triton.store(shared.load.at[lanes.lane], self.load, mask=lanes.active)
        lanes.wait()

        def at(place: Array) -> Array:
            lever = tuple(lanes.read(shared.lever, part, place) for part in range(2))
            turning = lanes.read(known.inverse_inertia, place) * moment(lever, direction) ** 2
            return lanes.read(shared.load, place) * (lanes.read(known.inverse_mass, place) + turning)

        parts = [jnp.abs(weight) * at(place) for place, weight in zip(self.corner_vertices, self.weights, strict=True)]
        if self.vertex is not None:
            parts.append(at(self.vertex))
        return sum(parts[1:], parts[0])

    def pushed(self, now: Now, impulse: Vector) -> Now:
        """After impulses on what is in voxels, and the opposite ones on the voxels."""
        for part, value in enumerate(impulse):
            triton.store(self.lanes.shared.impulse.at[part, self.lane], value, mask=self.active)
        self.lanes.wait()
        return self.lanes.nodes.pushed(now, self._summed(self._given, 2))

    def touching(self) -> Array:
        """How many points that touch are each vertex."""
        touches = self.lanes.shared.touches
        return self._summed(lambda number, own, share: (own * touches[number],), 1)[0]

    def at_vertices(self, values: Sequence[Array]) -> tuple[Array, ...]:
        """Sums over the points that are each vertex."""
        table, found = self.lanes.shared.impulse, []
        for value in values:
            self.lanes.wait()
            triton.store(table.at[0, self.lane], value, mask=self.active)
            self.lanes.wait()
            found += self._summed(lambda number, own, share: (own * table[0, number],), 1)
        return tuple(found)

    def _weighing(self, number: Array, own: Array, share: Array) -> tuple[Array, ...]:
        """How much a point that touches weighs on vertices: all on its own one, and a share on corners of its voxel."""
        return ((own + jnp.abs(share)) * self.lanes.shared.touches[number],)

    def _given(self, number: Array, own: Array, share: Array) -> tuple[Array, ...]:
        """The impulse that a point gives to vertices, by part."""
        impulse = self.lanes.shared.impulse
        return tuple((own - share) * impulse[part, number] for part in range(2))

    def _summed(self, what: Callable[[Array, Array, Array], tuple[Array, ...]], parts: int) -> tuple[Array, ...]:
        """Over all points, at every vertex."""
        lanes, shared = self.lanes, self.lanes.shared
        corner_vertices, lane = lanes.known.cells.corner_vertices, lanes.lane

        def more(number: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
            cell = shared.cell[number]
            share = jnp.zeros(lane.shape, jnp.float32)
            for corner in range(4):
                share = jnp.where(lane == corner_vertices[corner, cell], shared.weight[corner, number], share)
            own = jnp.where(lane == shared.vertex[number], 1.0, 0.0)
            return tuple(one + part for one, part in zip(total, what(number, own, share), strict=True))

        nothing = tuple(jnp.zeros(lane.shape, jnp.float32) for _ in range(parts))
        return jax.lax.fori_loop(0, self.many, more, nothing)
