"""Contacts of rigid bodies and of blocks of ground, as groups for vsr.physics.contact.gpu.solver.

The groups: rigid bodies against each other and the ground, vertices in rigid bodies, vertices in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.gpu.language import load, store
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.contact.convex import FAR
from vsr.physics.contact.gpu.corners import corners_of
from vsr.physics.contact.gpu.lanes import (
    Body,
    Lanes,
    Now,
    carried,
    lanes_for,
    looks_along,
    moment,
    pushed_body,
    share_of,
    swept,
    turned_body,
)
from vsr.physics.contact.gpu.tables import Found, Pressed


class OfBodies:
    """The list of contacts of rigid bodies with each other and with the ground: one part."""

    rigid = True

    def __init__(self, lanes: Lanes, bodies: tuple[Body, ...]) -> None:
        plan, listed = lanes.plan, lanes.known.listed
        self.passes = plan.passes
        self.lane = lane = lanes_for(plan.listed)
        self.row, self.active, self.bodies = jnp.minimum(lane, plan.listed - 1), lane < plan.listed, bodies
        # The ground is no body, so contacts that are found here have one side.
        sides = 1 if plan.finds_ground else 2
        numbers = [jnp.where(self.active, load(listed.numbers.at[side, self.row]), -1) for side in range(sides)]
        self.own = [[(number == body).astype(jnp.float32) for body in range(len(bodies))] for number in numbers]
        if plan.finds_ground:
            contact, lever = self._on_ground(lanes)
            self.levers = [lever]
        else:
            contact = self._found(listed.contact)
            self.levers = [self._vector(table) for table in listed.levers]
        self.contacts = (contact,)
        touching = contact.touches.astype(jnp.float32)
        self.shares = [[share_of(jnp.sum(own * touching)) for own in side] for side in self.own]

    def _number(self, table: Any) -> Array:
        return load(table.at[self.row])

    def _vector(self, table: Any) -> Vector:
        return tuple(load(table.at[part, self.row]) for part in range(2))

    def _found(self, tables: Found) -> Found:
        normal = self._vector(tables.normal)
        depth, touches, friction, restitution = map(self._number, tables[1:])
        return Found(normal, depth, (touches > 0) & self.active, friction, restitution)

    def _on_ground(self, lanes: Lanes) -> tuple[Found, Vector]:
        """Corners of bodies, and the lowest places of round ones (narrowphase.bodies_on_ground)."""
        plan, free = lanes.plan, [number for number, fixed in enumerate(lanes.plan.fixed) if not fixed]
        corners = corners_of(lanes, free)
        closest = ground(lanes.known.ground, corners.point)
        distance = closest.height - corners.radius
        touches = (distance < 0) & corners.active
        # A round body is a place and a radius, given once for each corner that others have.
        first = jax.lax.rem(corners.lane, plan.corners) == 0
        for number in free:
            if plan.round[number]:
                touches = touches & (first | (corners.number != number))
        contact = Found(
            closest.normal,
            -distance,
            touches,
            combined_friction(corners.friction, closest.friction),
            combined_restitution(corners.restitution, closest.restitution),
        )
        return contact, minus(corners.lever, times(corners.radius, closest.normal))

    def parting(self, now: Now) -> list[Vector]:
        still = times(0.0, self.contacts[0].normal)
        total = still
        for sign, side, lever in zip((1, -1), self.own, self.levers, strict=False):
            for own, moving in zip(side, now.bodies, strict=True):
                total = plus(total, times(sign * own, plus(moving.velocity, carried(moving.spin, lever))))
        return [total]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        total = 0.0
        for side, lever, shares in zip(self.own, self.levers, self.shares, strict=True):
            for own, body, share in zip(side, self.bodies, shares, strict=True):
                total = total + own * share * body.inverse_effective_mass(lever, directions[0])
        return [jnp.asarray(total)]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        (impulse,), moved = impulses, list(now.bodies)
        for sign, side, lever in zip((1, -1), self.own, self.levers, strict=False):
            turning = moment(lever, impulse)
            for number, own in enumerate(side):
                push = tuple(sign * jnp.sum(own * part) for part in impulse)
                moved[number] = pushed_body(self.bodies[number], moved[number], push, sign * jnp.sum(own * turning))
        return now._replace(bodies=tuple(moved))

    def way(self, drift: Now) -> list[Vector]:
        return self.parting(drift)

    def steadied(self, now: Now, shifts: Sequence[Vector]) -> Now:
        if len(self.own) == 1:
            return now
        ahead = times(0.0, shifts[0])
        for own, moving in zip(self.own[0], now.bodies, strict=True):
            ahead = plus(ahead, times(own, moving.velocity))
        free = sum(own * (body.inverse_mass > 0) for own, body in zip(self.own[0], self.bodies, strict=True))
        moved = [
            turned_body(body, moving, jnp.sum(free * own * moment(shifts[0], minus(moving.velocity, ahead))))
            for own, body, moving in zip(self.own[1], self.bodies, now.bodies, strict=True)
        ]
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        return (Pressed(self._number(tables.press), self._vector(tables.drag)),)

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        store(tables.press.at[self.lane], impulses[0].press, mask=self.active)
        for part, value in enumerate(impulses[0].drag):
            store(tables.drag.at[part, self.lane], value, mask=self.active)


class Vertices:
    """Vertices in rigid bodies: a part for each body."""

    passes = 1
    rigid = False

    def __init__(self, lanes: Lanes, bodies: tuple[Body, ...], outward: Vector) -> None:
        self.lanes, self.bodies = lanes, bodies
        self.nodes = nodes = lanes.nodes
        self.levers = [minus(nodes.position, body.center) for body in bodies]
        found = [
            _in_round(body, lever) if is_round else _behind_faces(lanes, number, lever, outward)
            for number, (body, lever, is_round) in enumerate(zip(bodies, self.levers, lanes.plan.round, strict=True))
        ]
        self.contacts = tuple(self._contact(body, *closest) for body, closest in zip(bodies, found, strict=True))
        touching = [contact.touches.astype(jnp.float32) for contact in self.contacts]
        self.on_node = jnp.maximum(sum(touching[1:], touching[0]), 1)
        self.on_body = [jnp.maximum(jnp.sum(part), 1) for part in touching]

    def _contact(self, body: Body, distance: Array, normal: Vector) -> Found:
        nodes = self.nodes
        inside = (distance < 0) & (distance > -FAR / 2)
        return Found(
            normal,
            jnp.where(inside, -distance, 0),
            inside & nodes.surface,
            combined_friction(nodes.friction, body.friction),
            combined_restitution(nodes.restitution, body.restitution),
        )

    def parting(self, now: Now) -> list[Vector]:
        return [
            minus(minus(now.nodes, moving.velocity), carried(moving.spin, lever))
            for moving, lever in zip(now.bodies, self.levers, strict=True)
        ]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        return [
            self.on_node * self.nodes.inverse_effective_mass(direction)
            + share * body.inverse_effective_mass(lever, direction)
            for direction, share, body, lever in zip(directions, self.on_body, self.bodies, self.levers, strict=True)
        ]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        total = impulses[0]
        for impulse in impulses[1:]:
            total = plus(total, impulse)
        now = self.nodes.pushed(now, total)
        moved = [
            pushed_body(body, moving, tuple(-jnp.sum(part) for part in impulse), -jnp.sum(moment(lever, impulse)))
            for body, moving, lever, impulse in zip(self.bodies, now.bodies, self.levers, impulses, strict=True)
        ]
        return now._replace(bodies=tuple(moved))

    def way(self, drift: Now) -> list[Vector]:
        return [
            minus(minus(drift.nodes, moving.velocity), swept(moving.spin, lever))
            for moving, lever in zip(drift.bodies, self.levers, strict=True)
        ]

    def steadied(self, now: Now, shifts: Sequence[Vector]) -> Now:
        moved = [
            turned_body(body, moving, jnp.sum(moment(shift, minus(moving.velocity, now.nodes))))
            for body, moving, shift in zip(self.bodies, now.bodies, shifts, strict=True)
        ]
        return now._replace(bodies=tuple(moved))

    def kept(self, tables: Pressed) -> tuple[Pressed, ...]:
        row = self.lanes.row
        return tuple(
            Pressed(
                load(tables.press.at[number, row]),
                tuple(load(tables.drag.at[part, number, row]) for part in range(2)),
            )
            for number in range(len(self.bodies))
        )

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        lane, active = self.lanes.lane, self.lanes.active
        for number, impulse in enumerate(impulses):
            store(tables.press.at[number, lane], impulse.press, mask=active)
            for part, value in enumerate(impulse.drag):
                store(tables.drag.at[part, number, lane], value, mask=active)


def _behind_faces(lanes: Lanes, number: int, lever: Vector, outward: Vector) -> tuple[Array, Vector]:
    """Greatest distance from any face of a body and that face's normal (vsr.physics.contact.convex.deepest_face)."""
    tables = lanes.known.bodies
    turn = [[tables.rotation[number, row, column] for column in range(2)] for row in range(2)]
    distance = normal = None
    for face in range(lanes.plan.faces):
        x, y = (tables.normal[number, face, part] for part in range(2))
        here = tuple(row[0] * x + row[1] * y for row in turn)
        away = dot(here, lever) - tables.offset[number, face]
        away = jnp.where(looks_along(here, outward) & (away < lanes.known.margin), -FAR, away)
        if distance is None or normal is None:
            distance, normal = away, tuple(part + 0 * away for part in here)
        else:
            normal = tuple(jnp.where(away > distance, *parts) for parts in zip(here, normal, strict=True))
            distance = jnp.maximum(away, distance)
    assert distance is not None
    assert normal is not None
    return distance, normal


def _in_round(body: Body, lever: Vector) -> tuple[Array, Vector]:
    away = jnp.sqrt(dot(lever, lever) + np.finfo(np.float32).tiny)
    return away - body.radius, tuple(part / away for part in lever)


class InBlocks:
    """Vertices in blocks of ground, found before: one part."""

    passes = 1
    rigid = False

    def __init__(self, lanes: Lanes) -> None:
        tables, self.nodes = lanes.known.blocks, lanes.nodes
        depth, touches, friction, restitution = map(lanes.number, tables[1:])
        touches = (touches > 0) & lanes.active
        self.contacts = (Found(lanes.vector(tables.normal), depth, touches, friction, restitution),)

    def parting(self, now: Now) -> list[Vector]:
        return [now.nodes]

    def yields(self, directions: Sequence[Vector]) -> list[Array]:
        return [self.nodes.inverse_effective_mass(directions[0])]

    def pushed(self, now: Now, impulses: Sequence[Vector]) -> Now:
        return self.nodes.pushed(now, impulses[0])

    def way(self, drift: Now) -> list[Vector]:
        return [drift.nodes]

    def steadied(self, now: Now, shifts: Sequence[Vector]) -> Now:
        return now
