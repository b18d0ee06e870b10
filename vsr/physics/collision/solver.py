"""Impulses of contacts: no approach, Coulomb friction, restitution, and depth that is undone in a fixed time.

Contacts come in groups. Within a group all are solved at once, each with its share of the masses that others draw on
too (mass splitting), so that many together do not push too hard; groups are solved one after the other, several times
over. Impulses may start from those of the step before, which is what lets stacks stand.

Each impulse acts on both sides at one point with opposite signs, so linear and angular momentum are kept to rounding.
Arrays are those of vsr.physics.collision.rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.materialize import iterate, materialize
from vsr.environment.surfaces import BOUNCE_SPEED, SLOP
from vsr.physics.collision.rows import dot
from vsr.physics.collision.sides import Sides, Speeds

CORRECTION_TIME = 0.05
"""In which depth beyond the slop is undone [s]; short enough to carry weight, too long to throw anything back."""


class Contact(NamedTuple):
    """A group of contacts; m stands for its axes."""

    normal: Array
    """from the second side to the first, unit vectors, (dimension, m)"""
    depth: Array
    """how far they are in each other [m], m"""
    touches: Array
    """whether they do, m"""
    friction: Array
    """coefficient of both, m"""
    restitution: Array
    """coefficient of both, m"""
    sides: Sides


class Impulse(NamedTuple):
    """On the first side [N s]."""

    press: Array
    """along the normal, never negative, m"""
    drag: Array
    """across it, within the cone of friction, (dimension, m)"""


class _Asked(NamedTuple):
    """What does not change while impulses are found; each m."""

    target: Array
    """speed along the normal that is asked for [m/s]"""
    along: Array
    """impulse over speed along the normal [kg], 0 where nothing can be done"""
    across: Array
    """the same across it"""


def no_impulse(contact: Contact) -> Impulse:
    """Of contacts that nothing is known of."""
    return Impulse(jnp.zeros_like(contact.depth), jnp.zeros_like(contact.normal))


def solve(
    now: Speeds, contacts: Sequence[Contact], start: Sequence[Impulse], iterations: int, passes: Sequence[int]
) -> tuple[Speeds, tuple[Impulse, ...]]:
    """Speeds after contacts, and their impulses.

    start: impulses to begin with, those of the step before or none; passes: how often each group is solved before the
    next one, in each of the iterations.
    """
    asked, impulses = [], []
    for contact, impulse in zip(contacts, start, strict=True):
        asked.append(_ask(contact, now))
        across = impulse.drag - dot(impulse.drag, contact.normal) * contact.normal
        touches = contact.touches
        impulses.append(Impulse(jnp.where(touches, impulse.press, 0), jnp.where(touches, across, 0)))
    asked, impulses = materialize(now.nodes, (asked, impulses))
    for contact, kept in zip(contacts, impulses, strict=True):
        now = contact.sides.pushed(now, materialize(now.nodes, kept.press * contact.normal + kept.drag))

    def improve(state: tuple[Speeds, tuple[Impulse, ...]]) -> tuple[Speeds, tuple[Impulse, ...]]:
        now, impulses = state
        better = []
        for contact, wanted, impulse, often in zip(contacts, asked, impulses, passes, strict=True):
            now, after = iterate(often, partial(_pass, contact, wanted), (now, impulse))
            better.append(after)
        return now, tuple(better)

    return iterate(iterations, improve, (now, tuple(impulses)))


def _pass(contact: Contact, asked: _Asked, state: tuple[Speeds, Impulse]) -> tuple[Speeds, Impulse]:
    """One group solved once."""
    now, impulse = state
    parting = materialize(now.nodes, contact.sides.parting(now))
    after = _answered(contact, asked, impulse, parting)
    change = (after.press - impulse.press) * contact.normal + (after.drag - impulse.drag)
    after, change = materialize(now.nodes, (after, change))
    return contact.sides.pushed(now, change), after


def _ask(contact: Contact, now: Speeds) -> _Asked:
    normal, sides = contact.normal, contact.sides
    approach = dot(sides.parting(now), normal)
    along = sides.yields(contact.touches, normal)
    across = [sides.yields(contact.touches, tangent) for tangent in tangents(normal)]
    most = across[0] if len(across) == 1 else jnp.maximum(*across)
    target = asked_speed(approach, contact.restitution, contact.depth)
    return _Asked(target, inverse_or_zero(along), inverse_or_zero(most))


def asked_speed(approach: Array, restitution: Array, depth: Array) -> Array:
    """Along the normal [m/s]: bouncing back, or out of each other."""
    bounce = jnp.where(approach < -BOUNCE_SPEED, -restitution * approach, 0)
    return jnp.maximum(bounce, jnp.maximum(depth - SLOP, 0) / CORRECTION_TIME)


def inverse_or_zero(readiness: Array) -> Array:
    """Impulse over speed [kg], 0 where nothing can be moved."""
    return jnp.where(readiness > 0, 1 / jnp.where(readiness > 0, readiness, 1), 0)


def tangents(normal: Array) -> list[Array]:
    """Unit vectors across unit vectors: one in 2-D, two in 3-D, each (dimension, ...)."""
    if normal.shape[0] == 2:
        return [jnp.stack([-normal[1], normal[0]])]
    x, y, z = normal
    # A frame without a branch near the pole (Duff et al. 2017).
    sign = jnp.where(z >= 0, 1.0, -1.0).astype(z.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    return [jnp.stack([1 + sign * x * x * a, sign * b, -sign * x]), jnp.stack([b, sign + y * y * a, -y])]


def _answered(contact: Contact, asked: _Asked, impulse: Impulse, parting: Array) -> Impulse:
    """Impulses that bring each contact to what is asked for, as far as they may; parting: velocities now [m/s]."""
    speed = dot(parting, contact.normal)
    press = jnp.where(contact.touches, jnp.maximum(impulse.press + asked.along * (asked.target - speed), 0), 0)
    wanted = impulse.drag - asked.across * (parting - speed * contact.normal)
    return Impulse(press, bounded_drag(contact.friction * press, dot(wanted, wanted)) * wanted)


def bounded_drag(most: Array, squared: Array) -> Array:
    """Share of the drag that friction allows; squared: of the drag that is wanted."""
    return jnp.minimum(most / jnp.sqrt(squared + jnp.finfo(squared.dtype).tiny), 1)
