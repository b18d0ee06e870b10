"""Points in voxels, one in each lane of the contact kernel: how deep they are, and their impulses on the corners.

The corners are vertices. Vertices are in other lanes: how they move, and the impulses that they get, go through memory.
Impulses are added up point by point, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, store
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.contact.broadphase import SKIN
from vsr.physics.contact.gpu.lanes import Lanes, Now, lanes_for, looks_along, moment
from vsr.physics.contact.gpu.tables import OUTER, PRESENT, Found
from vsr.physics.contact.narrowphase import MARGIN
from vsr.physics.contact.voxels import NEWTON_STEPS, faces

FACES = faces(2)
NOWHERE = -1e30
"""Deeper than anything [m]: of cells that a point is not in."""
BITS = 32
"""Cells in one number of those that a vertex may touch."""


class OnFace(NamedTuple):
    """A point over a face."""

    distance: Any
    """negative in the voxel, -NOWHERE if another face or a corner is nearer [m]"""
    normal: Vector
    place: Vector
    """on the face [m]"""


class OnFaces(NamedTuple):
    """What touches faces of voxels, in some lanes."""

    lanes: Array
    """True for those"""
    depth: Array
    """[m]"""
    normal: Vector
    """out of the voxels"""


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

    def on_faces(self, point: Vector, planes: Sequence[tuple[Vector, Vector]]) -> list[OnFace]:
        """How near a point is to each face (vsr.physics.contact.voxels.points_on_faces)."""
        heights = [dot(minus(point, middle), normal) for middle, normal in planes]
        leads_out = [(self.flags >> number & 1) > 0 for number in range(len(FACES))]
        below = (jnp.where(counts, height, NOWHERE) for counts, height in zip(leads_out, heights, strict=True))
        least, inside, found = reduce(jnp.maximum, below), reduce(jnp.maximum, heights) < 0, []
        for number, (face, (begin, normal), height) in enumerate(zip(FACES, planes, heights, strict=True)):
            way = minus(self.corners[face.corners[1]], begin)
            along = dot(minus(point, begin), way)
            upon = (along > 0) & (along < dot(way, way)) & (height > 0) & ((self.flags >> (OUTER + number) & 1) > 0)
            here = inside & leads_out[number] & (height == least)
            counts = (upon | here) & ((self.flags >> PRESENT & 1) > 0)
            found.append(OnFace(jnp.where(counts, height, -NOWHERE), normal, minus(point, times(height, normal))))
        return found

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
            store(shared.middle.at[part, self.lane], value, mask=self.active)
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

    def nearest(self, point: Vector) -> list[tuple[Array, OnFace]]:
        """For each face's number, that of the voxel whose face is nearest to a point, and how near it is."""
        found = []
        for face in self.every.on_faces(point, self.planes):
            least = jnp.min(face.distance)
            cell = jnp.min(jnp.where(face.distance == least, self.lane, self.count - 1))
            its = self.lane == cell
            normal, place = (
                tuple(jnp.sum(jnp.where(its, part, 0.0)) for part in vector) for vector in (face.normal, face.place)
            )
            found.append((cell, OnFace(least, normal, place)))
        return found


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
        on_faces: OnFaces | None = None,
    ) -> None:
        """count: of lanes that have a point; outward: of what has the point; vertex: its number, if it is one;
        on_faces: of lanes whose point is on a face, where something touches it."""
        self.lanes, self.vertex = lanes, vertex
        self.lane, self.active = lane, lane < count
        here = voxel(lanes, cell)
        holds, self.depth, self.normal = here.holds(point, outward, here.planes())
        if on_faces is not None:
            there, depth, normal = on_faces
            holds, self.depth = jnp.where(there, depth > 0, holds), jnp.where(there, depth, self.depth)
            self.normal = tuple(jnp.where(there, *parts) for parts in zip(normal, self.normal, strict=True))
        self.touches = may & holds
        self.corner_vertices, self.weights = here.corner_vertices, here.weights(point)
        # Without contact there is nothing to add up.
        self.many = jnp.where(jnp.max(self.touches.astype(jnp.int32)) > 0, jnp.int32(count), 0)
        self._share(cell)
        self.load = self._summed(self._weighing, 1)[0]

    def _share(self, cell: Array) -> None:
        """Write what stays as it is where all lanes can read it."""
        lanes, shared = self.lanes, self.lanes.shared  # other lanes may still read the last group's numbers
        vertex = jnp.full_like(cell, NO_VERTEX) if self.vertex is None else self.vertex
        constant = (shared.cell, cell), (shared.vertex, vertex), (shared.touches, self.touches.astype(jnp.float32))
        for table, values in constant:
            store(table.at[self.lane], values, mask=self.active)
        for corner, weight in enumerate(self.weights):
            store(shared.weight.at[corner, self.lane], weight, mask=self.active)
        lanes.write(shared.lever, lanes.lever)

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
        store(shared.load.at[lanes.lane], self.load, mask=lanes.active)

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
            store(self.lanes.shared.impulse.at[part, self.lane], value, mask=self.active)
        return self.lanes.nodes.pushed(now, self._summed(self._given, 2))

    def touching(self) -> Array:
        """How many points that touch are each vertex."""
        touches = self.lanes.shared.touches
        return self._summed(lambda number, own, share: (own * touches[number],), 1)[0]

    def at_vertices(self, values: Sequence[Array]) -> tuple[Array, ...]:
        """Sums over the points that are each vertex."""
        table, found = self.lanes.shared.impulse, []
        for value in values:
            store(table.at[0, self.lane], value, mask=self.active)
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
