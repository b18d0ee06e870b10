"""Points in voxels, one in each lane, and what they exchange with the vertices that are the voxels' corners.

Vertices are in other lanes: how they move, and the impulses that they get, go through memory. Impulses are added up
point by point, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, plus, times
from vsr.physics.objects.fused.moving import Now, moment
from vsr.physics.objects.fused.voxels import voxel

if TYPE_CHECKING:
    from vsr.physics.objects.fused.kernel import Program

NO_VERTEX = -1


class Inside:
    """Points, each in the voxel that it may be in."""

    def __init__(
        self,
        program: Program,
        lane: Array,
        count: Array | int,
        point: Vector,
        cell: Array,
        outward: Vector | None,
        may: Array,
        vertex: Array | None = None,
    ) -> None:
        """count: of lanes that have a point; outward: of what has the point; vertex: its number, if it is one."""
        self.program, self.vertex = program, vertex
        self.lane, self.held = lane, lane < count
        here = voxel(program, cell)
        holds, self.depth, self.normal = here.holds(point, outward, here.planes())
        self.touches = may & holds
        self.places, self.weights = here.places, here.weights(point)
        # Without contact there is nothing to add up.
        self.many = jnp.where(jnp.max(self.touches.astype(jnp.int32)) > 0, jnp.int32(count), 0)
        self._tell(cell)
        self.load = self._summed([None])[0]

    def _tell(self, cell: Array) -> None:
        """All lanes what stays as it is."""
        program, shared = self.program, self.program.written.shared
        vertex = jnp.full_like(cell, NO_VERTEX) if self.vertex is None else self.vertex
        told = (shared.cell, cell), (shared.vertex, vertex), (shared.touches, self.touches.astype(jnp.float32))
        for table, values in told:
            triton.store(table.at[self.lane], values, mask=self.held)
        for corner, weight in enumerate(self.weights):
            triton.store(shared.weight.at[corner, self.lane], weight, mask=self.held)
        program.write(shared.lever, program.lever)
        program.wait()

    def greatest(self, table: Any) -> Array:
        """Of the numbers of the voxel's corners."""
        first, *others = (self.program.read(table, place) for place in self.places)
        for other in others:
            first = jnp.maximum(first, other)
        return first

    def speed(self, now: Now) -> Vector:
        """Of the points as parts of the voxels; those that are vertices seen from there."""
        program, shared = self.program, self.program.written.shared
        program.write(shared.velocity, now.nodes)
        program.wait()

        def at(place: Array) -> Vector:
            return tuple(program.read(shared.velocity, part, place) for part in range(2))

        parts = [times(-weight, at(place)) for place, weight in zip(self.places, self.weights, strict=True)]
        if self.vertex is not None:
            parts.append(at(self.vertex))
        first, *others = parts
        for other in others:
            first = plus(first, other)
        return first

    def readiness(self, direction: Vector) -> Array:
        """At most how fast the points give way if every one gets a unit of impulse [1/kg]."""
        program, known, shared = self.program, self.program.known, self.program.written.shared
        triton.store(shared.load.at[program.lane], self.load, mask=program.held)
        program.wait()

        def at(place: Array) -> Array:
            lever = tuple(program.read(shared.lever, part, place) for part in range(2))
            turning = program.read(known.inverse_inertia, place) * moment(lever, direction) ** 2
            return program.read(shared.load, place) * (program.read(known.inverse_mass, place) + turning)

        parts = [jnp.abs(weight) * at(place) for place, weight in zip(self.places, self.weights, strict=True)]
        if self.vertex is not None:
            parts.append(at(self.vertex))
        return sum(parts[1:], parts[0])

    def pushed(self, now: Now, impulse: Vector) -> Now:
        """After impulses on what is in voxels, and the opposite ones on the voxels."""
        for part, value in enumerate(impulse):
            triton.store(self.program.written.shared.impulse.at[part, self.lane], value, mask=self.held)
        self.program.wait()
        return self.program.nodes.pushed(now, tuple(self._summed([0, 1])))

    def _summed(self, parts: Sequence[int | None]) -> list[Array]:
        """Impulses that each vertex gets, by part; None stands for how many weigh on it."""
        program, shared = self.program, self.program.written.shared
        places, lane = program.known.cells.places, program.lane

        def more(number: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
            cell = shared.cell[number]
            share = jnp.zeros(lane.shape, jnp.float32)
            for corner in range(4):
                share = jnp.where(lane == places[corner, cell], shared.weight[corner, number], share)
            own = jnp.where(lane == shared.vertex[number], 1.0, 0.0)
            return tuple(
                one + (jnp.abs(share) + own) * shared.touches[number]
                if part is None
                else one + (own - share) * shared.impulse[part, number]
                for one, part in zip(total, parts, strict=True)
            )

        nothing = tuple(jnp.zeros(lane.shape, jnp.float32) for _ in parts)
        return list(jax.lax.fori_loop(0, self.many, more, nothing))
