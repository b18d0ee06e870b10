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

import jax
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
    now: Speeds,
    drift: Speeds,
    contacts: Sequence[Contact],
    start: Sequence[Impulse],
    iterations: int,
    passes: Sequence[int],
    duration: float,
) -> tuple[Speeds, Speeds, tuple[Impulse, ...]]:
    """Speeds after contacts, how everything has moved in the step, and impulses.

    drift: how everything moved in the step [m, rad]; start: impulses to begin with, those of the step before or none;
    passes: how often each group is solved before the next one, in each of the iterations; duration: of the step [s].
    """
    asked, impulses = [], []
    before = now
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

    now, impulses = iterate(iterations, improve, (now, tuple(impulses)))
    now, drift = _shifted(now, before, drift, contacts, asked, impulses, passes, duration)
    return now, drift, impulses


SHIFTS = 2
STICKS = 0.999

class _Undo(NamedTuple):
    way: Array
    """(dimension, m)"""
    most: Array
    """along the normal [kg m]"""
    sticks: Array


def _shifted(now, before, drift, contacts, asked, impulses, passes, duration):
    undo, shifts = [], []
    for contact, impulse in zip(contacts, impulses, strict=True):
        normal = contact.normal
        way, speed = contact.sides.way(drift), contact.sides.parting(before)
        along, approach = dot(way, normal), dot(speed, normal)
        bounces = (approach < -BOUNCE_SPEED) & (contact.restitution > 0)
        share = jnp.where(along < 0, jnp.clip(contact.depth / jnp.where(along < 0, -along, 1), 0, 1), 1)
        share = jnp.where(contact.touches & ~bounces, share, 0)
        slip = speed - approach * normal
        aside = share * (way - along * normal)
        inward = jnp.minimum(share * (along - duration * dot(contact.sides.parting(now), normal)), 0)
        held = jnp.sqrt(dot(impulse.drag, impulse.drag))
        sticks = held <= STICKS * contact.friction * impulse.press
        if contact.sides.rigid:
            pressed = dragged = 0.5 * share
        else:
            pressed = jnp.clip(_ratio(inward, duration * approach), 0, 1)
            dragged = jnp.clip(_ratio(dot(aside, slip), duration * dot(slip, slip)), 0, 1)
            dragged = jnp.where(sticks, dragged, 0.5 * share)
        undo.append(_Undo(aside + inward * normal, jnp.where(bounces, 0, duration * impulse.press), sticks))
        shifts.append(Impulse(duration * pressed * impulse.press, duration * dragged * impulse.drag))
    undo, shifts = materialize(now.nodes, (undo, shifts))
    moves = jax.tree.map(jnp.zeros_like, drift)
    for contact, shift in zip(contacts, shifts, strict=True):
        moves = contact.sides.pushed(moves, shift.press * contact.normal + shift.drag)

    def one(contact, asked, undo, state):
        moves, shift = state
        parting = undo.way + contact.sides.parting(moves)
        along = dot(parting, contact.normal)
        press = jnp.clip(shift.press - asked.along * along, 0, undo.most)
        wanted = shift.drag - asked.across * (parting - along * contact.normal)
        drag = bounded_drag(contact.friction * undo.most, dot(wanted, wanted)) * wanted
        drag = jnp.where(undo.sticks, drag, shift.drag)
        after = Impulse(press, drag)
        change = (after.press - shift.press) * contact.normal + (after.drag - shift.drag)
        after, change = materialize(moves.nodes, (after, change))
        return contact.sides.pushed(moves, change), after

    def improve(state):
        moves, shifts = state
        better = []
        for contact, wanted, back, shift, often in zip(contacts, asked, undo, shifts, passes, strict=True):
            moves, after = iterate(often, partial(one, contact, wanted, back), (moves, shift))
            better.append(after)
        return moves, tuple(better)
    moves, shifts = iterate(SHIFTS, improve, (moves, tuple(shifts)))
    for contact, shift in zip(contacts, shifts, strict=True):
        now = contact.sides.steadied(now, shift.press * contact.normal + shift.drag)
    return now, jax.tree.map(jnp.add, drift, moves)


def _ratio(one: Array, other: Array) -> Array:
    return jnp.where(other == 0, 0, one / jnp.where(other == 0, 1, other))


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
