"""Rigid bodies against each other and the ground: a group of contacts (vsr.physics.contact.gpu.solver)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton

from vsr.compute.vector import Vector, minus, plus, times
from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.contact.gpu.corners import corners_of
from vsr.physics.contact.gpu.lanes import Lanes
from vsr.physics.contact.gpu.moving import (
    Body,
    Now,
    carried,
    lanes_for,
    moment,
    pushed_body,
    share_of,
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
        numbers = [jnp.where(self.active, triton.load(listed.numbers.at[side, self.row]), -1) for side in range(sides)]
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
        return triton.load(table.at[self.row])

    def _vector(self, table: Any) -> Vector:
        return tuple(triton.load(table.at[part, self.row]) for part in range(2))

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
        triton.store(tables.press.at[self.lane], impulses[0].press, mask=self.active)
        for part, value in enumerate(impulses[0].drag):
            triton.store(tables.drag.at[part, self.lane], value, mask=self.active)
