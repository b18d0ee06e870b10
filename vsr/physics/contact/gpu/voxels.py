"""Voxels in the kernel of contacts: which of them a point is in, how deep, and what that gives to their corners."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.gpu.ptx import WARP
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.contact.broadphase import SKIN
from vsr.physics.contact.gpu.lanes import Lanes
from vsr.physics.contact.gpu.moving import lanes_for, looks_along
from vsr.physics.contact.gpu.tables import PRESENT
from vsr.physics.contact.narrowphase import MARGIN
from vsr.physics.contact.voxels import NEWTON_STEPS, faces

FACES = faces(2)
NOWHERE = -1e30
"""Deeper than anything [m]: of cells that a point is not in."""
BITS = 32
"""Cells in one number of those that a vertex may touch."""


class Voxel(NamedTuple):
    """One voxel, or one in each lane."""

    corner_vertices: list[Any]
    """of its corners among vertices"""
    corners: list[Vector]
    flags: Any
    side: Any

    @property
    def middle(self) -> Vector:
        """Mean of the corners."""
        first, second, third, fourth = self.corners
        return times(0.25, plus(plus(plus(first, second), third), fourth))

    def planes(self) -> list[tuple[Vector, Vector]]:
        """A point and the unit normal of every face (vsr.physics.contact.voxels.face_planes)."""
        found = []
        for face in FACES:
            first, second = (self.corners[number] for number in face.corners)
            x, y = minus(second, first)
            size = jnp.sqrt(jnp.maximum(x * x + y * y, 1e-20))
            found.append((first, (y / size, -x / size)))
        return found

    def holds(
        self, point: Vector, outward: Vector | None, planes: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Any, Any, Vector]:
        """Whether a point is inside, how deep below the nearest face that leads out, and the normal of that face.

        See vsr.physics.contact.voxels.point_in_voxel.
        """
        least = inside = nearest = None
        for number, (middle, normal) in enumerate(planes):
            height, counts, limit = dot(minus(point, middle), normal), (self.flags >> number & 1) > 0, 0.0
            if outward is not None:
                aside = counts & looks_along(normal, outward)
                counts, limit = counts & ~aside, jnp.where(aside, MARGIN * self.side, 0.0)
            here, within = jnp.where(counts, height, NOWHERE), height < limit
            if least is None or inside is None or nearest is None:
                least, inside, nearest = here, within, normal
            else:
                nearest = tuple(jnp.where(here > least, *parts) for parts in zip(normal, nearest, strict=True))
                inside, least = inside & within, jnp.maximum(here, least)
        assert least is not None
        assert inside is not None
        assert nearest is not None
        found = (least > NOWHERE) & ((self.flags >> PRESENT & 1) > 0)
        return inside & found, jnp.where(found, -least, 0), nearest

    def weights(self, point: Vector) -> list[Any]:
        """Of the corners for a point (vsr.physics.contact.voxels.weights_at)."""
        at = [minus(corner, point) for corner in self.corners]
        right, up = minus(at[1], at[0]), minus(at[2], at[0])
        twist = minus(minus(at[3], at[2]), right)
        u = v = jnp.zeros_like(at[0][0]) + 0.5
        for _ in range(NEWTON_STEPS):
            rest = tuple(-(a + u * b + v * c + u * v * d) for a, b, c, d in zip(at[0], right, up, twist, strict=True))
            (a, c), (b, d) = plus(right, times(v, twist)), plus(up, times(u, twist))
            whole = a * d - b * c
            whole = jnp.where(jnp.abs(whole) > 1e-12, whole, 1e-12)
            u, v = (
                jnp.minimum(jnp.maximum(part + more / whole, -0.5), 1.5)
                for part, more in ((u, rest[0] * d - b * rest[1]), (v, a * rest[1] - rest[0] * c))
            )
        return [(1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v]


def voxel(lanes: Lanes, cell: Any) -> Voxel:
    """The voxel of a number, or those of a number in each lane."""
    cells, position = lanes.known.cells, lanes.position
    corner_vertices = [lanes.read(cells.corner_vertices, corner, cell) for corner in range(4)]
    corners = [tuple(lanes.read(position, part, place) for part in range(2)) for place in corner_vertices]
    return Voxel(corner_vertices, corners, lanes.read(cells.flags, cell), lanes.read(cells.side, cell))


class Voxels:
    """All of them, one a lane."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.count = lanes, lanes.plan.cells
        self.lane = lanes_for(max(WARP, self.count))
        self.active = self.lane < self.count
        self.row = jnp.minimum(self.lane, self.count - 1)
        every = voxel(lanes, self.row)
        self.every = every._replace(flags=jnp.where(self.active, every.flags, 0))
        self.planes = self.every.planes()

    def outward(self) -> Vector:
        """Roughly out of the robot at every vertex (vsr.physics.contact.lattices.outward_of)."""
        lanes, shared = self.lanes, self.lanes.shared
        for part, value in enumerate(self.every.middle):
            triton.store(shared.middle.at[part, self.lane], value, mask=self.active)
        lanes.wait()
        total = (jnp.zeros(lanes.lane.shape, jnp.float32),) * 2
        for corner in range(4):
            cell = lanes.read(lanes.known.cells.around, corner, lanes.row)
            middle = tuple(lanes.read(shared.middle, part, jnp.maximum(cell, 0)) for part in range(2))
            away = minus(lanes.place, middle)
            total = tuple(jnp.where(cell >= 0, one + more, one) for one, more in zip(total, away, strict=True))
        return total

    def boxes(self) -> tuple[Vector, Vector]:
        """Around voxels and what is near them: lowest and highest corners; nothing is in that of an absent one.

        See vsr.physics.contact.broadphase.boxes.
        """
        present, skin = (self.every.flags >> PRESENT & 1) > 0, SKIN * self.every.side
        parts = list(zip(*self.every.corners, strict=True))
        low = tuple(jnp.where(present, reduce(jnp.minimum, values) - skin, jnp.inf) for values in parts)
        return low, tuple(reduce(jnp.maximum, values) + skin for values in parts)

    def deepest(self, point: Vector, outward: Vector) -> Array:
        """Number of the voxel that a point is deepest in, -1 if there is none; outward: of what has the point."""
        inside, depth, _ = self.every.holds(point, outward, self.planes)
        nearest = jnp.where(inside, -depth, NOWHERE)
        best = jnp.max(nearest)
        return jnp.where(best > NOWHERE, jnp.min(jnp.where(nearest == best, self.lane, self.count - 1)), -1)
