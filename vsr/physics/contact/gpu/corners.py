"""Corners of rigid bodies, one in each lane; those in voxels are a group of contacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, plus, times
from vsr.physics.contact.gpu.inside import Inside
from vsr.physics.contact.gpu.lanes import Lanes
from vsr.physics.contact.gpu.moving import (
    Body,
    Now,
    carried,
    lanes_for,
    moment,
    pushed_body,
    share_of,
    swept,
    turned_body,
)
from vsr.physics.contact.gpu.tables import Pressed
from vsr.physics.contact.gpu.voxels import Voxels


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


def corners_of(lanes: Lanes, numbers: Sequence[int]) -> CornersOf:
    """Of the bodies with these numbers, one body after the other."""
    tables, corners = lanes.known.bodies, lanes.plan.corners
    count = len(numbers) * corners
    lane = lanes_for(count)
    row = jnp.minimum(lane, count - 1)
    number = jnp.full_like(lane, numbers[0])
    for place, body in enumerate(numbers[1:], 1):
        number = jnp.where(jax.lax.div(row, corners) == place, body, number)
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
    """Corners of rigid bodies in voxels: one part."""

    passes = 1
    rigid = False

    def __init__(self, lanes: Lanes, voxels: Voxels, bodies: tuple[Body, ...]) -> None:
        self.corners = corners = corners_of(lanes, lanes.plan.flat)
        self.bodies = bodies
        cell, may = _deepest(voxels, corners)
        inside = Inside(lanes, corners.lane, corners.count, corners.point, cell, corners.lever, may)
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
        triton.store(tables.press.at[corners.lane], impulse.press, mask=corners.active)
        for part, value in enumerate(impulse.drag):
            triton.store(tables.drag.at[part, corners.lane], value, mask=corners.active)


def _deepest(voxels: Voxels, corners: CornersOf) -> tuple[Array, Array]:
    """The voxel that each corner is deepest in, and whether it is in one."""
    nowhere = jnp.full_like(corners.lane, -1)

    def one(number: Array, found: Array) -> Array:
        here = corners.lane == number
        point, outward = (
            tuple(jnp.sum(jnp.where(here, part, 0.0)) for part in vector) for vector in (corners.point, corners.lever)
        )
        return jnp.where(here, voxels.deepest(point, outward), found)

    found = jax.lax.fori_loop(0, corners.count, one, nowhere)
    return jnp.maximum(found, 0), (found >= 0) & corners.active
