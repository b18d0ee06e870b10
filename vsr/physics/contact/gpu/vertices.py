"""Vertices in rigid bodies and in blocks of ground: groups of contacts (vsr.physics.contact.gpu.solver)."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, dot, minus, plus
from vsr.environment.surfaces import combined_friction, combined_restitution
from vsr.physics.contact.convex import FAR
from vsr.physics.contact.gpu.lanes import Lanes
from vsr.physics.contact.gpu.moving import (
    Body,
    Now,
    carried,
    looks_along,
    moment,
    pushed_body,
    swept,
    turned_body,
)
from vsr.physics.contact.gpu.tables import Found, Pressed


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
                triton.load(tables.press.at[number, row]),
                tuple(triton.load(tables.drag.at[part, number, row]) for part in range(2)),
            )
            for number in range(len(self.bodies))
        )

    def keep(self, tables: Pressed, impulses: Sequence[Pressed]) -> None:
        lane, active = self.lanes.lane, self.lanes.active
        for number, impulse in enumerate(impulses):
            triton.store(tables.press.at[number, lane], impulse.press, mask=active)
            for part, value in enumerate(impulse.drag):
                triton.store(tables.drag.at[part, number, lane], value, mask=active)


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
