"""Contacts of rigid bodies and of blocks of ground in lanes of the contact kernel."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.environment.surfaces import combined_friction, combined_restitution, ground
from vsr.physics.contact.bodies import Bodies, OnNodes, Rows
from vsr.physics.contact.convex import Distance, deepest_face, or_round
from vsr.physics.contact.gpu.corners import corners_of
from vsr.physics.contact.gpu.lanes import Group, Lanes, OwnBodies, lanes_for, numbers_of, read
from vsr.physics.contact.narrowphase import touching_bodies
from vsr.physics.contact.solver import Contact
from vsr.physics.contact.vectors import summed


class Masses(NamedTuple):
    """Of rigid bodies (vsr.physics.contact.solids.Masses)."""

    mass: Array
    inertia: Array
    friction: Array
    restitution: Array
    fixed: tuple[bool, ...]


def masses_of(lanes: Lanes) -> Masses:
    tables = lanes.known.bodies
    return Masses(
        numbers_of(tables.mass),
        numbers_of(tables.inertia),
        numbers_of(tables.friction),
        numbers_of(tables.restitution),
        lanes.plan.fixed,
    )


def among_bodies(lanes: Lanes, bodies: Bodies) -> Group:
    """The list of contacts of rigid bodies with each other and with the ground."""
    plan, listed = lanes.plan, lanes.known.listed
    lane, row, active = lanes_for(plan.listed)
    if plan.finds_ground:
        return Group(_on_ground(lanes, bodies), lane, row, active)
    numbers = jnp.where(active, read(listed.numbers, row), -1)
    own = [(number == np.arange(plan.bodies)[:, None]).astype(jnp.float32) for number in numbers]
    sides = (OwnBodies(read(lever, row), one) for lever, one in zip(listed.levers, own, strict=True))
    found = listed.contact
    contact = Contact(
        read(found.normal, row),
        read(found.depth, row),
        (read(found.touches, row) > 0) & active,
        read(found.friction, row),
        read(found.restitution, row),
        Rows(lanes.nodes, bodies, None, *sides),
    )
    return Group(contact, lane, row, active)


def _on_ground(lanes: Lanes, bodies: Bodies) -> Contact:
    """Corners of bodies, and the lowest places of round ones (narrowphase.bodies_on_ground)."""
    plan = lanes.plan
    free = [number for number, fixed in enumerate(plan.fixed) if not fixed]
    corners = corners_of(lanes, free)
    closest = ground(lanes.known.ground, tuple(corners.point))
    distance = closest.height - corners.radius
    touches = (distance < 0) & corners.active
    # A round body is a place and a radius, given once for each corner that others have.
    first = jax.lax.rem(corners.row, plan.corners) == 0
    for number in free:
        if plan.round[number]:
            touches = touches & (first | (corners.number != number))
    normal = jnp.stack(closest.normal)
    return Contact(
        normal,
        -distance,
        touches,
        combined_friction(corners.friction, closest.friction),
        combined_restitution(corners.restitution, closest.restitution),
        Rows(lanes.nodes, bodies, None, OwnBodies(corners.lever - corners.radius * normal, corners.own)),
    )


def vertices_in_bodies(lanes: Lanes, bodies: Bodies, outward: Array) -> Group:
    """Vertices in rigid bodies: a table of all pairs, (s, lanes)."""
    tables, shared, nodes = lanes.known.bodies, lanes.shared, lanes.nodes
    turn = jnp.moveaxis(numbers_of(shared.rotation), 0, 2)
    lever = nodes.position[:, None] - numbers_of(shared.center).T[:, :, None]

    def face(number: int) -> tuple[Array, Array]:
        normal = numbers_of(tables.normal, slice(None), number)
        return summed(turn * normal.T[None], 1), numbers_of(tables.offset, slice(None), number)

    faces = [face(number) for number in range(lanes.plan.faces)]
    flat = deepest_face(faces, lever, outward[:, None], lanes.known.margin)
    closest = or_round(numbers_of(tables.radius), lanes.plan.round, Distance(*flat, lever))
    return Group(touching_bodies(nodes, lanes.surface, bodies, closest), lanes.lane, lanes.row, lanes.active)


def in_blocks(lanes: Lanes) -> Group:
    """Vertices in blocks of ground, found before."""
    normal, depth, touches, friction, restitution = map(lanes.of_vertices, lanes.known.blocks)
    touches = (touches > 0) & lanes.active
    contact = Contact(normal, depth, touches, friction, restitution, OnNodes(lanes.nodes))
    return Group(contact, lanes.lane, lanes.row, lanes.active)
