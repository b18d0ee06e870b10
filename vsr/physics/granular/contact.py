"""The law of a contact: an impulse that keeps two objects apart and holds them by friction (Coulomb).

Component by component (vsr.compute.vector), so that arrays and the lanes of a kernel share it. The velocity that
something has at the point of contact is `relative` to that of the other; the normal points from the other to it.
Turning everything round changes the sign of the answer and nothing else, to the last bit: so both sides compute their
impulse from the same numbers, and momentum is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.physics.granular.model import (
    CORRECTION,
    RELAXATION,
    RETURN_TIME,
    SLOP,
    GrainModel,
    PairNumbers,
    inertia_factor,
)

NEVER = 1e9
"""A speed with which nothing comes nearer [m/s]: a contact with this bias has no impulse."""

NEXT_TO_NOTHING = 1e-30
"""Square of an impulse across the normal [N² s²] that float32 can still work with."""


class Pairs(NamedTuple):
    """Contacts as they are through a step: of each number and of each component, any one shape."""

    normal: Vector
    """from the other to it"""
    bias: Array
    """of `wanted_parting` [m/s]"""
    friction: Array
    """coefficient"""
    share: Array
    """impulse over speed along the normal [kg]"""
    share_across: Array
    """and across [kg]"""


def wanted_parting(gap: Array, rate: Array | float) -> Array:
    """The greatest speed along the normal with which two may come nearer [m/s]: a gap may close within the step.

    rate: steps in a second [1/s].
    """
    return rate * jnp.maximum(gap, 0)


def wanted_return(gap: Array, slop: Array | float, rate: Array | float) -> Array:
    """The same for something heavy that cannot be shifted: depth beyond a slop is undone by speed, within a time."""
    return jnp.where(gap < 0, jnp.minimum(gap + slop, 0) / RETURN_TIME, rate * gap)


def shift(gap: Array, slop: Array | float) -> Array:
    """How far two that overlap are moved apart in a step, together [m]: without speed, so that nothing is thrown."""
    return CORRECTION * jnp.maximum(-gap - slop, 0)


def answered(impulse: Vector, relative: Vector, pairs: Pairs) -> Vector:
    """The impulse [N s] after one more answer to a relative velocity [m/s]."""
    normal, bias, friction, share, share_across = pairs
    kept, closing = dot(normal, impulse), dot(normal, relative)
    press = jnp.maximum(kept - share * (closing + bias), 0)
    most = friction * press
    if len(normal) == 2:  # there is but one way across, so the limit needs no root
        across = -normal[1], normal[0]
        hold = jnp.clip(dot(across, impulse) - share_across * dot(across, relative), -most, most)
        return tuple(press * n + hold * a for n, a in zip(normal, across, strict=True))
    across = minus(impulse, times(kept, normal))
    sliding = minus(relative, times(closing, normal))
    across = minus(across, times(share_across, sliding))
    squared = dot(across, across)
    # A GPU takes the inverse root of what is next to nothing for infinite, and nothing times that is no number.
    hold = jnp.where(squared > most * most, most * jax.lax.rsqrt(jnp.maximum(squared, NEXT_TO_NOTHING)), 1)
    return tuple(press * n + hold * a for n, a in zip(normal, across, strict=True))


def pair_contact(
    grains: GrainModel,
    pair: PairNumbers,
    radius: Array,
    normal: Vector,
    distance: Array,
    empty: Array,
    rate: Array | float,
) -> tuple[Pairs, Vector]:
    """Of grains at a distance of their centers [m], and how far the first is moved out of the other [m].

    radius: of the first [m]; empty: whether there is no other, and the normal 0; rate: steps in a second [1/s].
    """
    gap = distance - (radius + pair.far)
    share = RELAXATION * pair.mass
    pairs = Pairs(
        normal=normal,
        bias=jnp.where(empty, NEVER, wanted_parting(gap, rate)),
        friction=grains.friction if pair.friction is None else pair.friction,
        share=share,
        share_across=share_across(grains, share),
    )
    return pairs, times(shift(gap, SLOP * grains.largest) * pair.yielding, normal)


def share_across(grains: GrainModel, share: Array) -> Array:
    """Impulse over speed across the normal, of a share that only grains yield to."""
    return share if grains.rolling is None else share / readiness_across(grains)


def readiness_across(grains: GrainModel) -> float:
    """How much more readily the surface of a turning grain yields across the normal than its center."""
    return 1.0 if grains.rolling is None else 1 + 1 / inertia_factor(grains.dimension)


def at_surface(velocity: Vector, spin: Vector | None, normal: Vector, lever: Array) -> Vector:
    """Velocity of the point of a grain that lies along the normal, a lever [m] away."""
    if spin is None:
        return velocity
    if len(normal) == 2:
        (w,), (x, y) = spin, normal
        return velocity[0] - lever * w * y, velocity[1] + lever * w * x
    (a, b, c), (x, y, z) = spin, normal
    across = b * z - c * y, c * x - a * z, a * y - b * x
    return plus(velocity, times(lever, across))


def rolled(rolling: Vector, relative: Vector, press: Array, share: Array, smaller: Array, coefficient: Array) -> Vector:
    """Rolling resistance [N m s] after one more answer to a relative spin [rad/s].

    press: impulse along the normal [N s]; share: impulse over speed along it [kg]; smaller: of both radii [m].
    """
    solid = inertia_factor(2 if len(rolling) == 1 else 3)
    # With the smaller radius this is at most the share of the two inertias together, and needs neither of them.
    wanted = minus(rolling, times(solid * share * smaller * smaller, relative))
    most = coefficient * smaller * press
    if len(wanted) == 1:  # there is but one axis, so the limit needs no root
        return (jnp.clip(wanted[0], -most, most),)
    squared = dot(wanted, wanted)
    hold = jnp.where(squared > most * most, most * jax.lax.rsqrt(jnp.maximum(squared, NEXT_TO_NOTHING)), 1)
    return times(hold, wanted)
