"""Impulses of contacts: no approach, Coulomb friction, restitution, and depth that is undone in a fixed time.

Contacts come in groups. Within a group all are solved at once, each with its share of the masses that others draw on
too (mass splitting), so that many together do not push too hard; groups are solved one after the other, several times
over. Impulses may start from those of the step before, which is what lets stacks stand.

Each impulse acts on both sides at one point with opposite signs, so linear and angular momentum are kept to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.materialize import iterate
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.environment.surfaces import BOUNCE_SPEED, SLOP
from vsr.physics.collision.sides import Side, Speeds

CORRECTION_TIME = 0.05
"""In which depth beyond the slop is undone [s]; short enough to carry weight, too long to throw anything back."""


class Contact(NamedTuple):
    """A group of contacts; m stands for its axes."""

    normal: Vector
    """from the second side to the first, unit vectors, each m"""
    depth: Array
    """how far they are in each other [m], m"""
    touches: Array
    """whether they do, m"""
    friction: Array
    """coefficient of both, m"""
    restitution: Array
    """coefficient of both, m"""
    first: Side
    second: Side


class Impulse(NamedTuple):
    """On the first side [N s], m."""

    press: Array
    """along the normal, never negative"""
    drag: Vector
    """across it, within the cone of friction"""


class _Prepared(NamedTuple):
    """What does not change while impulses are found; each m."""

    target: Array
    """speed along the normal that is asked for [m/s]"""
    yields: Array
    """speed along the normal over impulse [1/kg], infinite where nothing can be done"""
    slides: Array
    """the same across it"""


def no_impulse(shape: tuple[int, ...], dimension: int, dtype: jnp.dtype) -> Impulse:
    """Before anything touched."""
    zero = jnp.zeros(shape, dtype)
    return Impulse(zero, (zero,) * dimension)


def solve(
    now: Speeds, contacts: tuple[Contact, ...], start: tuple[Impulse, ...], iterations: int
) -> tuple[Speeds, tuple[Impulse, ...]]:
    """Speeds after contacts, and their impulses; start: impulses to begin with, those of the step before or none."""
    prepared = tuple(_prepare(contact, now) for contact in contacts)
    impulses = []
    for contact, impulse in zip(contacts, start, strict=True):
        across = minus(impulse.drag, times(dot(impulse.drag, contact.normal), contact.normal))
        kept = Impulse(
            jnp.where(contact.touches, impulse.press, 0), tuple(jnp.where(contact.touches, part, 0) for part in across)
        )
        impulses.append(kept)
        now = _pushed(contact, now, plus(times(kept.press, contact.normal), kept.drag))

    def improve(state: tuple[Speeds, tuple[Impulse, ...]]) -> tuple[Speeds, tuple[Impulse, ...]]:
        now, impulses = state
        better = []
        for contact, fixed, impulse in zip(contacts, prepared, impulses, strict=True):
            after = _answered(contact, fixed, impulse, now)
            change = plus(times(after.press - impulse.press, contact.normal), minus(after.drag, impulse.drag))
            now = _pushed(contact, now, change)
            better.append(after)
        return now, tuple(better)

    return iterate(iterations, improve, (now, tuple(impulses)))


def _pushed(contact: Contact, now: Speeds, impulse: Vector) -> Speeds:
    now = contact.first.pushed(now, impulse)
    return contact.second.pushed(now, tuple(-part for part in impulse))


def _relative(contact: Contact, now: Speeds) -> Vector:
    return minus(contact.first.speed(now), contact.second.speed(now))


def _prepare(contact: Contact, now: Speeds) -> _Prepared:
    normal = contact.normal
    approach = dot(_relative(contact, now), normal)
    bounce = jnp.where(approach < -BOUNCE_SPEED, -contact.restitution * approach, 0)
    undone = jnp.maximum(contact.depth - SLOP, 0) / CORRECTION_TIME
    shares = contact.first.shared(contact.touches), contact.second.shared(contact.touches)

    def ready(direction: Vector) -> Array:
        return contact.first.readiness(direction, shares[0]) + contact.second.readiness(direction, shares[1])

    yields, across = ready(normal), [ready(tangent) for tangent in tangents(normal)]
    slides = across[0] if len(across) == 1 else jnp.maximum(*across)
    return _Prepared(jnp.maximum(bounce, undone), _or_infinite(yields), _or_infinite(slides))


def _or_infinite(readiness: Array) -> Array:
    return jnp.where(readiness > 0, readiness, jnp.inf)


def tangents(normal: Vector) -> list[Vector]:
    """Unit vectors across a unit vector: one in 2-D, two in 3-D."""
    if len(normal) == 2:
        return [(-normal[1], normal[0])]
    x, y, z = normal
    # The classic frame without a branch near the pole (Duff et al. 2017).
    sign = jnp.where(z >= 0, 1.0, -1.0).astype(z.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    return [(1 + sign * x * x * a, sign * b, -sign * x), (b, sign + y * y * a, -y)]


def _answered(contact: Contact, fixed: _Prepared, impulse: Impulse, now: Speeds) -> Impulse:
    """Impulses that bring each contact to what is asked for, as far as they may."""
    relative = _relative(contact, now)
    parting = dot(relative, contact.normal)
    press = jnp.maximum(impulse.press + (fixed.target - parting) / fixed.yields, 0)
    press = jnp.where(contact.touches, press, 0)
    sliding = minus(relative, times(parting, contact.normal))
    wanted = minus(impulse.drag, times(1 / fixed.slides, sliding))
    size = jnp.sqrt(dot(wanted, wanted) + jnp.finfo(press.dtype).tiny)
    share = jnp.minimum(contact.friction * press / size, 1)
    return Impulse(press, times(share, wanted))
