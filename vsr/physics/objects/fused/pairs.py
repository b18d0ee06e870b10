"""Vertices in voxels, and corners of the ground in them, as far as they are listed: groups of contacts.

A lane has some of the listed pairs. What a pair needs of vertices that other lanes have, and what it gives to them,
goes through memory; impulses are added up pair by pair, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, minus, times
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.objects.fused.corners import greatest
from vsr.physics.objects.fused.moving import Nodes, Now, lanes_for, moment
from vsr.physics.objects.fused.tables import Found, Near
from vsr.physics.objects.fused.voxels import Voxels, voxel

if TYPE_CHECKING:
    from vsr.physics.objects.fused.kernel import Program


class Pairs:
    """One list: one part. The first side is a vertex, or ground, and the second a place in a voxel."""

    passes = 1

    def __init__(self, program: Program, nodes: Nodes, near: Near) -> None:
        self.program, self.nodes, self.near, self.shared = program, nodes, near, program.written.shared
        count = near.point.shape[0]
        self.lane = lanes_for(count)
        self.held, row = self.lane < count, jnp.minimum(self.lane, count - 1)
        self.counts = self.held & (program.read(near.counts, row) > 0)
        self.point, cell = program.read(near.point, row), program.read(near.cell, row)
        self.many = jnp.sum(self.counts.astype(jnp.int32))
        place, outward = self._points()
        here = voxel(program, cell)
        holds, depth, normal = here.holds(place, outward, here.planes())
        touches = self.counts & holds
        self.places, self.weights = here.places, here.weights(place)
        self.contacts = (Found(normal, depth, touches, *self._surfaces()),)
        self._tell_weights(touches)
        self.load = self._summed([None])[0]

    def _points(self) -> tuple[Vector, Vector | None]:
        """Where the points are, and what leads out of their body."""
        program, near = self.program, self.near
        if near.corner is not None:
            return tuple(program.read(near.corner, part, self.point) for part in range(2)), None
        for part, value in enumerate(Voxels(program).outward()):
            triton.store(self.shared.outward.at[part, program.lane], value, mask=program.held)
        program.wait()
        place, outward = (
            tuple(program.read(table, part, self.point) for part in range(2))
            for table in (program.position, self.shared.outward)
        )
        return place, outward

    def _surfaces(self) -> tuple[Any, Any]:
        """Friction and restitution of pairs."""
        program, known, near = self.program, self.program.known, self.near
        of_voxel = [
            greatest([program.read(table, place) for place in self.places])
            for table in (known.friction, known.restitution)
        ]
        if near.corner is not None:
            of_point = near.friction, near.restitution
        else:
            of_point = [program.read(table, self.point) for table in (known.friction, known.restitution)]
        return combined_friction(of_point[0], of_voxel[0]), combined_restitution(of_point[1], of_voxel[1])

    def _tell_weights(self, touches: Array) -> None:
        """To all lanes."""
        shared, program = self.shared, self.program
        for corner, weight in enumerate(self.weights):
            triton.store(shared.weight.at[corner, self.lane], weight, mask=self.held)
        triton.store(shared.touches.at[self.lane], touches.astype(jnp.float32), mask=self.held)
        for part, value in enumerate(self.nodes.lever):
            triton.store(shared.lever.at[part, program.lane], value, mask=program.held)
        program.wait()

    def _summed(self, values: Sequence[Any]) -> list[Array]:
        """Over pairs, at each vertex: weights times values, which are numbers of pairs in memory.

        None stands for how many touch, and takes weights without their signs.
        """
        near, cells, shared, lane = self.near, self.program.known.cells, self.shared, self.program.lane

        def more(pair: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
            cell = near.cell[pair]
            share = jnp.zeros(lane.shape, jnp.float32)
            for corner in range(4):
                share = jnp.where(lane == cells.places[corner, cell], shared.weight[corner, pair], share)
            own = 0.0 if near.corner is not None else jnp.where(lane == near.point[pair], 1.0, 0.0)
            return tuple(
                one + (jnp.abs(share) + own) * shared.touches[pair]
                if value is None
                else one + (own - share) * shared.impulse[value, pair]
                for one, value in zip(total, values, strict=True)
            )

        nothing = tuple(jnp.zeros(lane.shape, jnp.float32) for _ in values)
        return list(jax.lax.fori_loop(0, self.many, more, nothing))

    def parting(self, now: Now) -> list[Vector]:
        program, shared = self.program, self.shared
        for part, value in enumerate(now.nodes):
            triton.store(shared.velocity.at[part, program.lane], value, mask=program.held)
        program.wait()

        def at(place: Array) -> Vector:
            return tuple(program.read(shared.velocity, part, place) for part in range(2))

        total = times(0.0, self.contacts[0].normal) if self.near.corner is not None else at(self.point)
        for place, weight in zip(self.places, self.weights, strict=True):
            total = minus(total, times(weight, at(place)))
        return [total]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        program, known, shared = self.program, self.program.known, self.shared
        triton.store(shared.load.at[program.lane], self.load, mask=program.held)
        program.wait()

        def at(place: Array, size: Any) -> Array:
            lever = tuple(program.read(shared.lever, part, place) for part in range(2))
            turning = moment(lever, directions[0])
            ready = program.read(known.inverse_mass, place) + program.read(known.inverse_inertia, place) * turning**2
            return size * program.read(shared.load, place) * ready

        parts = [at(place, jnp.abs(weight)) for place, weight in zip(self.places, self.weights, strict=True)]
        if self.near.corner is None:
            parts.append(at(self.point, 1.0))
        return [sum(parts[1:], parts[0])]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        for part, value in enumerate(impulses[0]):
            triton.store(self.shared.impulse.at[part, self.lane], value, mask=self.held)
        self.program.wait()
        return self.nodes.pushed(now, tuple(self._summed([0, 1])))
