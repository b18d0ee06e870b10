"""The law of a contact: an impulse that keeps two things apart and holds them by friction (Coulomb).

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

from vsr.compute.vector import Vector, dot, minus, times
from vsr.physics.grains.model import CORRECTION, RETURN_TIME

NEVER = 1e9
"""A speed with which nothing comes nearer [m/s]: a contact with this bias has no impulse."""


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


def wanted_parting(gap: Array, step: float) -> Array:
    """The greatest speed along the normal with which two may come nearer [m/s]: a gap may close within the step."""
    return jnp.maximum(gap, 0) / step


def wanted_return(gap: Array, slop: Array | float, step: float) -> Array:
    """The same for something heavy that cannot be shifted: depth beyond a slop is undone by speed, within a time."""
    return jnp.where(gap < 0, jnp.minimum(gap + slop, 0) / RETURN_TIME, gap / step)


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
    beyond = squared > most * most
    hold = jnp.where(beyond, most * jax.lax.rsqrt(jnp.where(beyond, squared, 1)), 1)
    return tuple(press * n + hold * a for n, a in zip(normal, across, strict=True))
