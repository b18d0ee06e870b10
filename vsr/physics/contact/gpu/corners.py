"""Contacts of voxels in lanes of the contact kernel: vertices, corners of rigid bodies, and corners of the ground, each
in voxels and one in each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import load
from vsr.physics.contact.bodies import Bodies, Rows
from vsr.physics.contact.gpu.lanes import Group, Lanes, OwnBodies, lanes_for, numbers_of, read
from vsr.physics.contact.gpu.tables import GroundCorners
from vsr.physics.contact.gpu.voxels import BITS, InVoxels, OnFaces, Voxels
from vsr.physics.contact.solver import Impulse
from vsr.physics.contact.vectors import summed
from vsr.physics.contact.voxels import faces


class CornersOf(NamedTuple):
    """All corners of some bodies."""

    lane: Array
    row: Array
    active: Array
    number: Array
    """of the body"""
    own: Array
    """1 for the corners of each body of the world, else 0, (s, m)"""
    point: Array
    lever: Array
    """seen from the body's center"""
    radius: Array
    friction: Array
    restitution: Array


def corners_of(lanes: Lanes, numbers: Sequence[int], rounds: Sequence[int] = ()) -> CornersOf:
    """Of the bodies with these numbers, one body after the other; then centers of round ones, all of them once for
    each face of a voxel."""
    tables, shared, corners, axes = lanes.known.bodies, lanes.shared, lanes.plan.corners, range(lanes.plan.dimension)
    first = len(numbers) * corners
    lane, row, active = lanes_for(first + len(rounds) * len(faces(lanes.plan.dimension)))
    number = jnp.full_like(lane, (*numbers, *rounds)[0])
    for place, body in enumerate(numbers):
        number = jnp.where(jax.lax.div(row, corners) == place, body, number)
    for place, body in enumerate(rounds):
        number = jnp.where((row >= first) & (jax.lax.rem(row - first, len(rounds)) == place), body, number)
    own = jnp.stack([load(tables.corner.at[number, jax.lax.rem(row, corners), part]) for part in axes])
    turn = [[load(shared.rotation.at[number, one, other]) for other in axes] for one in axes]
    lever = jnp.stack([summed(jnp.stack(axis) * own, 0) for axis in turn])
    return CornersOf(
        lane,
        row,
        active,
        number,
        (active & (number == np.arange(lanes.plan.bodies)[:, None])).astype(jnp.float32),
        jnp.stack([load(shared.center.at[number, part]) for part in axes]) + lever,
        lever,
        *(read(table, number) for table in (tables.radius, tables.friction, tables.restitution)),
    )


def bodies_in_voxels(lanes: Lanes, voxels: Voxels, bodies: Bodies) -> Group:
    """Corners of rigid bodies in voxels, and round bodies on faces of voxels."""
    flat, rounds = lanes.plan.flat, lanes.plan.rounds
    count = len(flat) * lanes.plan.corners
    corners, on_faces = corners_of(lanes, flat, rounds), None
    cell, may = _deepest(voxels, corners, count)
    outward = corners.lever
    if rounds:
        corners, cell, on_faces = _on_faces(voxels, corners, cell, count, rounds)
        may = may | (on_faces.lanes & corners.active)
    many = count + len(rounds) * len(faces(lanes.plan.dimension))
    places = InVoxels(lanes, corners.lane, many, corners.point, cell, outward, may, on_faces=on_faces)
    side = OwnBodies(corners.lever, corners.own)
    contact = places.contact(corners.friction, corners.restitution, Rows(lanes.nodes, bodies, places, side))
    return Group(contact, corners.lane, corners.row, corners.active)


def _on_faces(
    voxels: Voxels, corners: CornersOf, cell: Array, first: int, rounds: Sequence[int]
) -> tuple[CornersOf, Array, OnFaces]:
    """Round bodies at the faces of voxels that are nearest to them, one for each number of a face, with the voxels;
    first: lane of the first of them."""
    distance, normal, place = jnp.zeros_like(corners.radius), corners.lever, corners.point
    for order, body in enumerate(rounds):
        center = numbers_of(voxels.lanes.shared.center, body)
        for number, (nearest, face) in enumerate(voxels.nearest(center)):
            here = corners.lane == first + number * len(rounds) + order
            cell, distance = jnp.where(here, nearest, cell), jnp.where(here, face.distance, distance)
            normal, place = jnp.where(here, face.normal, normal), jnp.where(here, face.place, place)
    lanes = corners.lane >= first
    lever = jnp.where(lanes, place - corners.point, corners.lever)
    return corners._replace(point=place, lever=lever), cell, OnFaces(lanes, corners.radius - distance, normal)


def _deepest(voxels: Voxels, corners: CornersOf, count: int) -> tuple[Array, Array]:
    """The voxel that each of the first corners is deepest in, and whether it is in one."""
    nowhere = jnp.full_like(corners.lane, -1)

    def one(number: Array, found: Array) -> Array:
        here = corners.lane == number
        point, outward = (jnp.where(here, part, 0.0).sum(1) for part in (corners.point, corners.lever))
        return jnp.where(here, voxels.deepest(point, outward), found)

    found = jax.lax.fori_loop(0, count, one, nowhere) if count else nowhere
    return jnp.maximum(found, 0), (found >= 0) & corners.active


@dataclass(frozen=True)
class Pairs(Group):
    """Vertices in voxels."""

    places: InVoxels

    def kept(self, tables: Impulse) -> Impulse:
        """Impulses of vertices in the step before, for their pairs that touch now in equal shares."""
        lanes, vertex = self.places.lanes, self.places.vertex
        many = jnp.maximum(self.places.touching(), 1)
        lanes.write(lanes.shared.load, 1 / many)
        share = read(lanes.shared.load, vertex)
        return Impulse(share * read(tables.press, vertex), share * read(tables.drag, vertex))

    def keep(self, tables: Impulse, impulse: Impulse) -> None:
        lanes = self.places.lanes
        lanes.write(tables.press, self.places.at_vertices(impulse.press))
        lanes.write(tables.drag, jnp.stack([self.places.at_vertices(part) for part in impulse.drag]))


def corners_of_ground(lanes: Lanes, corners: GroundCorners) -> Group:
    """In voxels, as far as they are listed."""
    lane, row, active = lanes_for(corners.point.shape[0])
    may = active & (read(corners.counts, row) > 0)
    number, cell = read(corners.point, row), read(corners.cell, row)
    places = InVoxels(lanes, lane, jnp.sum(may.astype(jnp.int32)), read(corners.place, number), cell, None, may)
    contact = places.contact(corners.friction, corners.restitution, Rows(lanes.nodes, None, places))
    return Group(contact, lane, row, active)


class Neighbors:
    """Vertices and voxels that are near each other, searched for in every step."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.shared = lanes, lanes.shared
        self.places = self.shared.near_vertex.shape[0]
        self.voxels = Voxels(lanes)
        for table, values in zip((self.shared.low, self.shared.high), self.voxels.boxes(), strict=True):
            self.voxels.write(table, values)
        self.found = self._listed()

    def _listed(self) -> Array:
        """List all pairs; returns their number, which is mostly 0 and then soon known."""
        cells, nothing = self.lanes.plan.cells, jnp.zeros(self.lanes.lane.shape, jnp.int32)
        candidates = jnp.max(jax.lax.fori_loop(0, cells, lambda cell, any_: any_ | self._in_box(cell), nothing))

        def every(_: Array) -> Array:
            return jax.lax.fori_loop(0, cells, self._beside, jnp.int32(0))

        return jax.lax.cond(candidates > 0, every, lambda none: none, candidates)

    def _in_box(self, cell: Array) -> Array:
        """1 for vertices in the box around a voxel that they may touch, else 0."""
        lanes, shared = self.lanes, self.shared
        numbers = load(lanes.known.may_touch.at[jax.lax.div(cell, BITS), lanes.row])
        candidates = lanes.surface & ((numbers >> jax.lax.rem(cell, BITS) & 1) > 0)
        for part, place in enumerate(lanes.nodes.position):
            candidates = candidates & (place > shared.low[part, cell]) & (place < shared.high[part, cell])
        return candidates.astype(jnp.int32)

    def _beside(self, cell: Array, found: Array) -> Array:
        """List the vertices in the box around a voxel."""
        lanes, shared = self.lanes, self.shared

        def take(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            waiting, number = state
            first = jnp.min(waiting)
            shared.near_vertex[number], shared.near_cell[number] = first, cell
            return jnp.where(waiting == first, lanes.lane.size, waiting), number + 1

        candidates = self._in_box(cell)
        many, waiting = jnp.sum(candidates), jnp.where(candidates > 0, lanes.lane, lanes.lane.size)
        # What finds no place is counted, which fails the world.
        jax.lax.fori_loop(0, jnp.clip(self.places - found, 0, many), take, (waiting, found))
        return found + many

    def pairs(self) -> Pairs:
        """Those that touch."""
        lanes, known, shared = self.lanes, self.lanes.known, self.shared
        lanes.write(shared.outward, self.voxels.outward())
        listed = jnp.minimum(self.found, self.places)
        lane, *_ = lanes_for(self.places)
        row, may = jnp.minimum(lane, listed - 1), lane < listed
        vertex, cell = read(shared.near_vertex, row), read(shared.near_cell, row)
        place, outward = read(lanes.position, vertex), read(shared.outward, vertex)
        places = InVoxels(lanes, lane, listed, place, cell, outward, may, vertex)
        of_points = read(known.friction, vertex), read(known.restitution, vertex)
        contact = places.contact(*of_points, Rows(lanes.nodes, None, places))
        return Pairs(contact, lane, row, may, places)
