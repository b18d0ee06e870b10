"""Points in voxels, one in each lane of the contact kernel: how deep they are, and their impulses on the corners.

The corners are vertices. Vertices are in other lanes: how they move, and the impulses that they get, go through memory.
Impulses are added up point by point, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import store
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.contact.bodies import Nodes, Rows
from vsr.physics.contact.broadphase import SKIN
from vsr.physics.contact.gpu.lanes import Lanes, lanes_for, read, write
from vsr.physics.contact.gpu.tables import LEADS_OUT, OUTER, PRESENT
from vsr.physics.contact.narrowphase import MARGIN
from vsr.physics.contact.solver import Contact
from vsr.physics.contact.vectors import moment, summed
from vsr.physics.contact.voxels import OnFace, faces, point_in_voxel, points_on_faces, weights_at

BITS = 32
"""Cells in one number of those that a vertex may touch."""


class OnFaces(NamedTuple):
    """What touches faces of voxels, in some lanes."""

    lanes: Array
    """True for those"""
    depth: Array
    """[m]"""
    normal: Array
    """out of the voxels"""


class Voxel(NamedTuple):
    """A voxel in each lane."""

    corner_vertices: Array
    """of its corners among vertices, (corners, m)"""
    corner: Array
    """[m], (dimension, corners, m)"""
    flags: Array
    side: Array

    @property
    def present(self) -> Array:
        return (self.flags >> PRESENT & 1) > 0

    @property
    def leads_out(self) -> Array:
        """(faces, m)."""
        return self._of_faces(LEADS_OUT)

    @property
    def outer(self) -> Array:
        """(faces, m)."""
        return self._of_faces(OUTER)

    def _of_faces(self, first: int) -> Array:
        bits = range(first, first + len(faces(self.corner.shape[0])))
        return jnp.stack([(self.flags >> bit & 1) > 0 for bit in bits])

    def holds(self, point: Array, outward: Array | None) -> tuple[Array, Array, Array]:
        """Whether a point is inside, how deep below the nearest face that leads out, and the normal of that face."""
        found = point_in_voxel(point, self.corner, self.leads_out, outward, MARGIN * self.side)
        return found.is_inside & self.present, -found.distance, found.normal


def voxel(lanes: Lanes, cell: Array) -> Voxel:
    """The voxels of a number in each lane."""
    cells = lanes.known.cells
    corner_vertices = read(cells.corner_vertices, cell)
    corner, flags, side = read(lanes.position, corner_vertices), read(cells.flags, cell), read(cells.side, cell)
    return Voxel(corner_vertices, corner, flags, side)


class Voxels:
    """All of them, one a lane."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.last = lanes, lanes.plan.cells - 1
        self.lane, row, self.active = lanes_for(lanes.plan.cells)
        every = voxel(lanes, row)
        self.every = every._replace(flags=jnp.where(self.active, every.flags, 0))

    def write(self, table: Any, values: Array) -> None:
        """Of each lane's voxel."""
        write(table, self.lane, values, self.active)

    def outward(self) -> Array:
        """Roughly out of the robot at every vertex (vsr.physics.contact.lattices.outward_of)."""
        lanes, shared = self.lanes, self.lanes.shared
        self.write(shared.middle, summed(self.every.corner, 1) / self.every.corner.shape[1])
        cell = read(lanes.known.cells.around, lanes.row)
        away = lanes.nodes.position[:, None] - read(shared.middle, jnp.maximum(cell, 0))
        return summed(jnp.where(cell >= 0, away, 0), 1)

    def boxes(self) -> tuple[Array, Array]:
        """Around voxels and what is near them: lowest and highest corners; nothing is in that of an absent one.

        See vsr.physics.contact.broadphase.boxes.
        """
        skin, corner = SKIN * self.every.side, self.every.corner
        return jnp.where(self.every.present, corner.min(1) - skin, jnp.inf), corner.max(1) + skin

    def deepest(self, point: Array, outward: Array) -> Array:
        """Number of the voxel that a point is deepest in, -1 if there is none; outward: of what has the point."""
        inside, depth, _ = self.every.holds(point[:, None], outward[:, None])
        nearest = jnp.where(inside, -depth, -jnp.inf)
        best = jnp.max(nearest)
        return jnp.where(best > -jnp.inf, jnp.min(jnp.where(nearest == best, self.lane, self.last)), -1)

    def nearest(self, point: Array) -> list[tuple[Array, OnFace]]:
        """For each face's number, that of the voxel whose face is nearest to a point, and how near it is."""
        found, every = [], self.every
        for face in points_on_faces(point[:, None], every.corner, every.leads_out, every.outer):
            distance = jnp.where(every.present, face.distance, jnp.inf)
            least = jnp.min(distance)
            cell = jnp.min(jnp.where(distance == least, self.lane, self.last))
            normal, place = (jnp.where(self.lane == cell, part, 0.0).sum(1) for part in (face.normal, face.place))
            found.append((cell, OnFace(least, normal[:, None], place[:, None])))
        return found


NO_VERTEX = -1


class InVoxels:
    """Points, each in the voxel that it may be in (vsr.physics.contact.bodies.AmongNodes)."""

    def __init__(
        self,
        lanes: Lanes,
        lane: Array,
        count: Array | int,
        point: Array,
        cell: Array,
        outward: Array | None,
        may: Array,
        vertex: Array | None = None,
        on_faces: OnFaces | None = None,
    ) -> None:
        """count: of lanes that have a point; outward: of what has the point; vertex: its number, if it is one;
        on_faces: of lanes whose point is on a face, where something touches it."""
        self.lanes, self.lane, self.active = lanes, lane, lane < count
        self.vertex = jnp.full_like(cell, NO_VERTEX) if vertex is None else vertex
        self.is_vertex = vertex is not None
        here = voxel(lanes, cell)
        holds, depth, self.normal = here.holds(point, outward)
        if on_faces is not None:
            there, over, normal = on_faces
            holds, depth = jnp.where(there, over > 0, holds), jnp.where(there, jnp.maximum(over, 0), depth)
            self.normal = jnp.where(there, normal, self.normal)
        self.touches, self.depth = may & holds, depth
        self.corner_vertices, self.weights = here.corner_vertices, weights_at(point, here.corner)
        # Without contact there is nothing to add up.
        self.many = jnp.where(self.touches.any(), jnp.int32(count), 0)
        self._share(cell)

    def _share(self, cell: Array) -> None:
        """Write what stays as it is where all lanes can read it."""
        lanes, shared = self.lanes, self.lanes.shared  # other lanes may still read the last group's numbers
        constant = (
            (shared.cell, cell),
            (shared.vertex, self.vertex),
            (shared.touches, self.touches.astype(jnp.float32)),
            (shared.weight, self.weights),
        )
        for table, values in constant:
            write(table, self.lane, values, self.active)
        if lanes.lever is not None:
            lanes.write(shared.lever, lanes.lever)

    def contact(self, friction: Array, restitution: Array, sides: Rows) -> Contact:
        """Of the points with the voxels; friction, restitution: of the points."""
        known = self.lanes.known
        of_voxels = (read(table, self.corner_vertices).max(0) for table in (known.friction, known.restitution))
        both = combined_friction(friction, next(of_voxels)), combined_restitution(restitution, next(of_voxels))
        return Contact(self.normal, self.depth, self.touches, *both, sides)

    def seen(self, nodes: Array) -> Array:
        """What vertices have of vectors, less what the voxels have there; points that are no vertices have nothing."""
        lanes, table = self.lanes, self.lanes.shared.velocity
        lanes.write(table, nodes)
        there = -summed(self.weights * read(table, self.corner_vertices), 1)
        return there + read(table, self.vertex) if self.is_vertex else there

    def shares(self, touches: Array) -> Array:
        return self._summed(self._weighing, 1)[0]

    def yields(self, shares: Array, nodes: Nodes, direction: Array) -> Array:
        lanes, known, shared = self.lanes, self.lanes.known, self.lanes.shared
        lanes.write(shared.load, shares)

        def at(place: Array) -> Array:
            ready = read(known.inverse_mass, place)
            if nodes.lever is not None:
                turning = moment(read(shared.lever, place), direction)[0] ** 2
                ready = ready + read(known.inverse_inertia, place) * turning
            return read(shared.load, place) * ready

        parts = [jnp.abs(weight) * at(place) for place, weight in zip(self.corner_vertices, self.weights, strict=True)]
        if self.is_vertex:
            parts.append(at(self.vertex))
        return sum(parts[1:], parts[0])

    def given(self, impulse: Array) -> Array:
        write(self.lanes.shared.impulse, self.lane, impulse, self.active)
        return jnp.stack(self._summed(self._given, impulse.shape[0]))

    def touching(self) -> Array:
        """How many points that touch are each vertex."""
        touches = self.lanes.shared.touches
        return self._summed(lambda number, own, share: (own * touches[number],), 1)[0]

    def at_vertices(self, values: Array) -> Array:
        """Sums over the points that are each vertex."""
        table = self.lanes.shared.impulse
        store(table.at[0, self.lane], values, mask=self.active)
        return self._summed(lambda number, own, share: (own * table[0, number],), 1)[0]

    def _weighing(self, number: Array, own: Array, share: Array) -> tuple[Array, ...]:
        """How much a point that touches weighs on vertices: all on its own one, and a share on corners of its voxel."""
        return ((own + jnp.abs(share)) * self.lanes.shared.touches[number],)

    def _given(self, number: Array, own: Array, share: Array) -> tuple[Array, ...]:
        """The impulse that a point gives to vertices, by part."""
        impulse = self.lanes.shared.impulse
        return tuple((own - share) * impulse[part, number] for part in range(impulse.shape[0]))

    def _summed(self, what: Callable[[Array, Array, Array], tuple[Array, ...]], parts: int) -> tuple[Array, ...]:
        """Over all points, at every vertex."""
        lanes, shared = self.lanes, self.lanes.shared
        corner_vertices, lane = lanes.known.cells.corner_vertices, lanes.lane

        def more(number: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
            cell = shared.cell[number]
            share = jnp.zeros(lane.shape, jnp.float32)
            for corner in range(corner_vertices.shape[0]):
                share = jnp.where(lane == corner_vertices[corner, cell], shared.weight[corner, number], share)
            own = jnp.where(lane == shared.vertex[number], 1.0, 0.0)
            return tuple(one + part for one, part in zip(total, what(number, own, share), strict=True))

        nothing = tuple(jnp.zeros(lane.shape, jnp.float32) for _ in range(parts))
        return jax.lax.fori_loop(0, self.many, more, nothing)
