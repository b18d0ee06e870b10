"""Contacts of voxels, as groups for vsr.physics.contact.gpu.solver.

The groups: vertices, corners of rigid bodies, and corners of the ground, each in voxels and one in each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import store
from vsr.compute.vector import Vector, plus, times
from vsr.physics.contact.gpu.lanes import (
    Body,
    Lanes,
    Now,
    carried,
    lanes_for,
    moment,
    pushed_body,
    share_of,
    swept,
    turned_body,
)
from vsr.physics.contact.gpu.tables import GroundCorners, Pressed
from vsr.physics.contact.gpu.voxels import BITS, FACES, Inside, OnFaces, Voxels


class CornersOf(NamedTuple):
    """All corners of some bodies."""

    lane: Array
    row: Array
    active: Array
    count: int
    number: Array
    """of the body"""
    own: list[Array]
    """1 for the corners of each body of the world, else 0"""
    point: Vector
    lever: Vector
    """seen from the body's center"""
    radius: Array
    friction: Array
    restitution: Array


def corners_of(lanes: Lanes, numbers: Sequence[int], rounds: Sequence[int] = ()) -> CornersOf:
    """Of the bodies with these numbers, one body after the other; then centers of round ones, all of them once for
    each face of a voxel."""
    tables, corners = lanes.known.bodies, lanes.plan.corners
    first = len(numbers) * corners
    count = first + len(rounds) * len(FACES)
    lane = lanes_for(count)
    row = jnp.minimum(lane, count - 1)
    number = jnp.full_like(lane, (*numbers, *rounds)[0])
    for place, body in enumerate(numbers):
        number = jnp.where(jax.lax.div(row, corners) == place, body, number)
    for place, body in enumerate(rounds):
        number = jnp.where((row >= first) & (jax.lax.rem(row - first, len(rounds)) == place), body, number)
    x, y = (lanes.read(tables.corner, number, jax.lax.rem(row, corners), part) for part in range(2))
    turn = [[lanes.read(tables.rotation, number, row, column) for column in range(2)] for row in range(2)]
    lever = tuple(along * x + across * y for along, across in turn)
    active = lane < count
    return CornersOf(
        lane,
        row,
        active,
        count,
        number,
        [(active & (number == body)).astype(jnp.float32) for body in range(lanes.plan.bodies)],
        plus(tuple(lanes.read(tables.position, number, part) for part in range(2)), lever),
        lever,
        *(lanes.read(table, number) for table in (tables.radius, tables.friction, tables.restitution)),
    )


class Corners:
    """Corners of rigid bodies in voxels, and round bodies on faces of voxels: one part."""

    passes = 1
    rigid = False

    def __init__(self, lanes: Lanes, voxels: Voxels, bodies: tuple[Body, ...]) -> None:
        flat, rounds = lanes.plan.flat, lanes.plan.rounds
        corners, on_faces = corners_of(lanes, flat, rounds), None
        cell, may = _deepest(voxels, corners, len(flat) * lanes.plan.corners)
        outward = corners.lever
        if rounds:
            corners, cell, on_faces = _on_faces(voxels, corners, cell, bodies, len(flat) * lanes.plan.corners, rounds)
            may = may | (on_faces.lanes & corners.active)
        self.corners, self.bodies = corners, bodies
        inside = Inside(lanes, corners.lane, corners.count, corners.point, cell, outward, may, on_faces=on_faces)
        self.inside = inside
        self.contacts = (inside.contact(corners.friction, corners.restitution),)
        touching = inside.touches.astype(jnp.float32)
        self.shares = [share_of(jnp.sum(own * touching)) for own in corners.own]

    def parting(self, now: Now) -> list[Vector]:
        total = self.inside.seen_from_voxels(now)
        for own, moving in zip(self.corners.own, now.bodies, strict=True):
            total = plus(total, times(own, plus(moving.velocity, carried(moving.spin, self.corners.lever))))
        return [total]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        total = self.inside.inverse_effective_mass(directions[0])
        for own, body, share in zip(self.corners.own, self.bodies, self.shares, strict=True):
            total = total + own * share * body.inverse_effective_mass(self.corners.lever, directions[0])
        return [total]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        (impulse,), corners = impulses, self.corners
        now, turning = self.inside.pushed(now, impulse), moment(corners.lever, impulse)
        moved = [
            pushed_body(body, moving, tuple(jnp.sum(own * part) for part in impulse), jnp.sum(own * turning))
            for own, body, moving in zip(corners.own, self.bodies, now.bodies, strict=True)
        ]
        return now._replace(bodies=tuple(moved))

    def way(self, drift: Now) -> list[Vector]:
        total, lever = self.inside.seen_from_voxels(drift), self.corners.lever
        for own, moving in zip(self.corners.own, drift.bodies, strict=True):
            total = plus(total, times(own, plus(moving.velocity, swept(moving.spin, lever))))
        return [total]

    def steadied(self, now: Now, shifts: Sequence[Vector]) -> Now:
        beside, moved = self.inside.seen_from_voxels(now), []
        for own, body, moving in zip(self.corners.own, self.bodies, now.bodies, strict=True):
            turning = moment(shifts[0], plus(moving.velocity, beside))
            moved.append(turned_body(body, moving, -jnp.sum(own * turning)))
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        read, row = self.inside.lanes.read, self.corners.row
        return (Pressed(read(tables.press, row), tuple(read(tables.drag, part, row) for part in range(2))),)

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        (impulse,), corners = impulses, self.corners
        store(tables.press.at[corners.lane], impulse.press, mask=corners.active)
        for part, value in enumerate(impulse.drag):
            store(tables.drag.at[part, corners.lane], value, mask=corners.active)


def _on_faces(
    voxels: Voxels, corners: CornersOf, cell: Array, bodies: tuple[Body, ...], first: int, rounds: Sequence[int]
) -> tuple[CornersOf, Array, OnFaces]:
    """Round bodies at the faces of voxels that are nearest to them, one for each number of a face, with the voxels;
    first: lane of the first of them."""
    distance, normal, place = jnp.zeros_like(corners.radius), corners.lever, corners.point
    for order, body in enumerate(rounds):
        for number, (nearest, face) in enumerate(voxels.nearest(bodies[body].center)):
            here = corners.lane == first + number * len(rounds) + order
            cell, distance = jnp.where(here, nearest, cell), jnp.where(here, face.distance, distance)
            normal, place = (
                tuple(jnp.where(here, *parts) for parts in zip(new, old, strict=True))
                for new, old in ((face.normal, normal), (face.place, place))
            )
    lanes = corners.lane >= first
    lever = tuple(
        jnp.where(lanes, part - center, old)
        for part, center, old in zip(place, corners.point, corners.lever, strict=True)
    )
    return corners._replace(point=place, lever=lever), cell, OnFaces(lanes, corners.radius - distance, normal)


def _deepest(voxels: Voxels, corners: CornersOf, count: int) -> tuple[Array, Array]:
    """The voxel that each of the first corners is deepest in, and whether it is in one."""
    nowhere = jnp.full_like(corners.lane, -1)

    def one(number: Array, found: Array) -> Array:
        here = corners.lane == number
        point, outward = (
            tuple(jnp.sum(jnp.where(here, part, 0.0)) for part in vector) for vector in (corners.point, corners.lever)
        )
        return jnp.where(here, voxels.deepest(point, outward), found)

    found = jax.lax.fori_loop(0, count, one, nowhere) if count else nowhere
    return jnp.maximum(found, 0), (found >= 0) & corners.active


class Pairs:
    """Points in voxels, whose other side are vertices or the ground: one part."""

    passes = 1
    rigid = False

    def __init__(self, inside: Inside, friction: Any, restitution: Any) -> None:
        """friction, restitution: of the points."""
        self.inside, self.contacts = inside, (inside.contact(friction, restitution),)

    def parting(self, now: Now) -> list[Vector]:
        return [self.inside.seen_from_voxels(now)]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        return [self.inside.inverse_effective_mass(directions[0])]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        return self.inside.pushed(now, impulses[0])

    def way(self, drift: Now) -> list[Vector]:
        return self.parting(drift)

    def steadied(self, now: Now, shifts: Sequence[Vector]) -> Now:
        return now

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        """Impulses of vertices in the step before, for their pairs that touch now in equal shares."""
        lanes, vertex = self.inside.lanes, self.inside.vertex
        many = jnp.maximum(self.inside.touching(), 1)
        shared = lanes.shared
        store(shared.load.at[lanes.lane], 1 / many, mask=lanes.active)
        share = lanes.read(shared.load, vertex)
        press, *drag = (
            share * lanes.read(*place, vertex) for place in ((tables.press,), (tables.drag, 0), (tables.drag, 1))
        )
        return (Pressed(press, tuple(drag)),)

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        lanes, (impulse,) = self.inside.lanes, impulses
        press, *drag = self.inside.at_vertices((impulse.press, *impulse.drag))
        store(tables.press.at[lanes.lane], press, mask=lanes.active)
        lanes.write(tables.drag, tuple(drag))


def corners_of_ground(lanes: Lanes, corners: GroundCorners) -> Pairs:
    """As far as they are listed."""
    count = corners.point.shape[0]
    lane = lanes_for(count)
    row = jnp.minimum(lane, count - 1)
    may = (lane < count) & (lanes.read(corners.counts, row) > 0)
    number, cell = lanes.read(corners.point, row), lanes.read(corners.cell, row)
    place = tuple(lanes.read(corners.place, part, number) for part in range(2))
    listed = jnp.sum(may.astype(jnp.int32))
    return Pairs(Inside(lanes, lane, listed, place, cell, None, may), corners.friction, corners.restitution)


class Neighbors:
    """Vertices and voxels that are near each other, searched for in every step."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.shared = lanes, lanes.shared
        self.places = self.shared.near_vertex.shape[0]
        self.voxels = Voxels(lanes)
        for tables, values in zip((self.shared.low, self.shared.high), self.voxels.boxes(), strict=True):
            for part, value in enumerate(values):
                store(tables.at[part, self.voxels.lane], value, mask=self.voxels.active)
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
        numbers = lanes.read(lanes.known.may_touch, jax.lax.div(cell, BITS), lanes.row)
        candidates = lanes.nodes.surface & ((numbers >> jax.lax.rem(cell, BITS) & 1) > 0)
        for part, place in enumerate(lanes.place):
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
        lane = lanes_for(self.places)
        row, may = jnp.minimum(lane, listed - 1), lane < listed
        vertex, cell = lanes.read(shared.near_vertex, row), lanes.read(shared.near_cell, row)
        place, outward = (
            tuple(lanes.read(table, part, vertex) for part in range(2)) for table in (lanes.position, shared.outward)
        )
        inside = Inside(lanes, lane, listed, place, cell, outward, may, vertex)
        return Pairs(inside, *(lanes.read(table, vertex) for table in (known.friction, known.restitution)))
