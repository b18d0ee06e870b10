"""Pairs of rigid convex bodies: along which direction they part soonest, and where they touch.

Directions tried are the normals of faces and, in 3-D, those across two edges (separating axes). On a face the guest's
face is cut to the owner's (in 2-D a segment, in 3-D a polygon); across edges there is one place. m pairs; arrays are
those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contact.convex import FAR, Placed, deepest_face
from vsr.physics.contact.vectors import beside, cross, dot, largest

PREFERENCE = 2e-3
"""By which a direction must be better to be taken before faces of the first body [m]: the choice should not change to
and fro."""
PARALLEL = 1e-3
"""Sine of the angle between edges below which they have no direction across them."""
TINY = 1e-12


class Manifold(NamedTuple):
    """Contact points of pairs of bodies; k for every pair."""

    normal: Array
    """from the second to the first, (dimension, k, m)"""
    depth: Array
    """[m], (k, m)"""
    point: Array
    """[m], (dimension, k, m)"""
    touches: Array
    """(k, m)"""


class _Upon(NamedTuple):
    """Guests upon the best face of owners."""

    separation: Array
    """of all corners from that face, at least [m], (m,)"""
    normal: Array
    """of that face, (dimension, m)"""
    depth: Array
    """of places below it [m], (k, m)"""
    point: Array
    """[m], (dimension, k, m)"""
    holds: Array
    """whether the places are upon the face, (k, m)"""


def flat_pairs(first: Placed, second: Placed) -> Manifold:
    """Pairs of bodies with faces."""
    one, other = _upon(first, second), _upon(second, first)
    chosen = one.separation >= other.separation - PREFERENCE
    separation = jnp.where(chosen, one.separation, other.separation)
    # The normal leads out of the face's owner, so to the first if that is the second.
    normal = jnp.where(chosen, -one.normal, other.normal)
    depth = jnp.where(chosen, one.depth, other.depth)
    point = jnp.where(chosen, one.point, other.point)
    holds = jnp.where(chosen, one.holds, other.holds) & (depth > 0) & (separation < 0)
    normal = jnp.broadcast_to(normal[:, None], point.shape)
    if first.center.shape[0] == 2:
        return Manifold(normal, depth, point, holds)
    apart, across, place = _across_edges(first, second)
    by_edges = apart > separation + PREFERENCE
    touches = by_edges & (apart < 0)
    return Manifold(
        normal=jnp.concatenate([normal, across[:, None]], 1),
        depth=jnp.concatenate([depth, -apart[None]]),
        point=jnp.concatenate([point, place[:, None]], 1),
        touches=jnp.concatenate([holds & ~by_edges, touches[None]]),
    )


def _upon(owner: Placed, guest: Placed) -> _Upon:
    height = dot(owner.normal[:, :, :, None], guest.corner[:, :, None]) - owner.offset[:, :, None]
    separation, best = largest(-largest(-height, 2)[0], 1)
    normal, offset = _pick(owner.normal, best), jnp.take_along_axis(owner.offset, best[:, None], 1)[:, 0]
    # A face that does not exist has no direction, and must not be taken for one that looks away.
    against = jnp.where(guest.offset < FAR / 2, -dot(normal[:, :, None], guest.normal), -jnp.inf)
    facing = largest(against, 1)[1]
    base, cut = _pick(owner.ends, best, 1), _pick(guest.ends, facing, 1)
    begin, end, holds = _cut(cut, _borders(base, normal))
    if owner.center.shape[0] == 2:
        point, holds = jnp.concatenate([begin, end], 2), jnp.concatenate([holds, holds], 1)
        depth = offset[:, None] - dot(normal[:, :, None], point)
    else:
        looks = _pick(guest.normal, facing)
        inside = _within(base, _borders(cut, looks))
        below = (jnp.take_along_axis(guest.offset, facing[:, None], 1) - dot(looks[:, :, None], base)) / jnp.maximum(
            -dot(looks, normal), 0.2
        )[:, None]
        ends_inside = holds & (dot(end - _after(cut), end - _after(cut)) > TINY)
        point = jnp.concatenate([begin, end, base], 2)
        holds = jnp.concatenate([holds, ends_inside, inside], 1)
        over = offset[:, None] - dot(normal[:, :, None], jnp.concatenate([begin, end], 2))
        depth = jnp.concatenate([over, below], 1)
    return _Upon(separation, normal, jnp.swapaxes(depth, 0, 1), jnp.swapaxes(point, 1, 2), jnp.swapaxes(holds, 0, 1))


def _after(ends: Array) -> Array:
    """The next of the corners round a face; ends: (dimension, m, e)."""
    return jnp.roll(ends, -1, 2)


def _borders(ends: Array, normal: Array) -> tuple[Array, Array]:
    """Half-planes at the borders of faces: normals (dimension, m, b) out of them, and offsets (m, b); FAR for none."""
    if ends.shape[0] == 2:
        along = ends[:, :, 1] - ends[:, :, 0]
        along = along / jnp.sqrt(jnp.maximum(dot(along, along), TINY))
        out = jnp.stack([-along, along], 2)
        return out, dot(out, ends)
    along = _after(ends) - ends
    out = cross(along, normal[:, :, None])
    size = jnp.sqrt(dot(out, out))
    real = size > 1e-6
    out = jnp.where(real, out / jnp.where(real, size, 1), 0)
    return out, jnp.where(real, dot(out, ends), FAR)


def _cut(ends: Array, borders: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Edges of faces, cut to what is between borders: begin and end (dimension, m, e), and whether any is left (m, e).

    In 2-D a face is one edge.
    """
    begin, end = (ends[:, :, :1], ends[:, :, 1:2]) if ends.shape[0] == 2 else (ends, _after(ends))
    way, (out, offset) = end - begin, borders
    height = dot(out[:, :, None], begin[:, :, :, None]) - offset[:, None]  # (m, e, b)
    rise = dot(out[:, :, None], way[:, :, :, None])
    level = jnp.abs(rise) < 1e-9
    at = -height / jnp.where(level, 1, rise)
    first = jnp.where(~level & (rise < 0), at, 0).max(2)
    last = jnp.where(~level & (rise > 0), at, 1).min(2)
    outside = (level & (height > 1e-6)).any(2)
    holds = (first <= last) & (last >= 0) & (first <= 1) & ~outside
    if ends.shape[0] == 3:
        holds &= dot(way, way) > TINY
    first, last = jnp.clip(first, 0, 1), jnp.clip(last, 0, 1)
    return begin + first * way, begin + last * way, holds


def _within(point: Array, borders: tuple[Array, Array]) -> Array:
    """Whether points are between all borders, (m, e)."""
    out, offset = borders
    return (dot(out[:, :, None], point[:, :, :, None]) - offset[:, None] < 0).all(2)


def _pick(values: Array, index: Array, inner: int = 0) -> Array:
    """Of (dimension, m, f, ...) the one of each pair, (dimension, m, ...); inner: axes behind f that go along."""
    return jnp.take_along_axis(values, jnp.expand_dims(index, (0, *range(2, 3 + inner))), 2)[:, :, 0]


def _across_edges(first: Placed, second: Placed) -> tuple[Array, Array, Array]:
    """The best direction across two edges: separation (m,), direction from second to first, and the place between."""
    axis = cross(first.edge[:, :, :, None], second.edge[:, :, None])
    axis = axis.reshape(*axis.shape[:2], -1, *axis.shape[4:])
    size = jnp.sqrt(dot(axis, axis))
    real = size > PARALLEL
    axis = jnp.where(real, axis / jnp.where(real, size, 1), 0)
    between = (first.center - second.center)[:, :, None]
    axis = jnp.where(dot(axis, between) < 0, -axis, axis)
    low = -largest(-dot(axis[:, :, :, None], first.corner[:, :, None]), 2)[0]
    high = largest(dot(axis[:, :, :, None], second.corner[:, :, None]), 2)[0]
    apart, best = largest(jnp.where(real, low - high, -jnp.inf), 1)
    way = _pick(axis, best)
    edges = second.edge.shape[2]
    place = _between_lines(
        _support(first, -way), _pick(first.edge, best // edges), _support(second, way), _pick(second.edge, best % edges)
    )
    return apart, way, place


def _support(placed: Placed, way: Array) -> Array:
    """The middle of the corners that are farthest along a direction, (dimension, m)."""
    along = dot(way[:, :, None], placed.corner)
    there = along > along.max(1, keepdims=True) - 1e-4
    return (jnp.where(there, placed.corner, 0)).sum(2) / there.sum(1)


def _between_lines(place: Array, way: Array, other: Array, other_way: Array) -> Array:
    """Half-way between the nearest points of two lines, each (dimension, m)."""
    apart = other - place
    a, b, c = dot(way, way), dot(way, other_way), dot(other_way, other_way)
    whole = jnp.maximum(a * c - b * b, TINY)
    here = (dot(apart, way) * c - dot(apart, other_way) * b) / whole
    there = (dot(apart, way) * b - dot(apart, other_way) * a) / whole
    return 0.5 * (place + here * way + other + there * other_way)


def round_pairs(ball: Placed, other: Placed, is_round: np.ndarray) -> Manifold:
    """Pairs of a round body (first) and any body (second): one place; is_round: of the seconds, (m,)."""
    nearest, inside, normal = _nearest_on(other, ball.center)
    rounds = beside(is_round, inside, 1)
    nearest = jnp.where(rounds, other.center, nearest)
    inside = inside & ~rounds
    away = ball.center - nearest
    gap = jnp.sqrt(dot(away, away) + jnp.finfo(away.dtype).tiny)
    normal = jnp.where(inside, normal, away / gap)
    gap = jnp.where(inside, -gap, gap) - jnp.where(rounds, other.radius, 0)
    depth = ball.radius - gap
    return Manifold(normal[:, None], depth[None], (ball.center - gap * normal)[:, None], (depth > 0)[None])


def _nearest_on(placed: Placed, point: Array) -> tuple[Array, Array, Array]:
    """The place on each body's surface nearest to a point each, whether the point is inside, and the deepest face's
    normal; point: (dimension, m)."""
    deepest, normal = deepest_face(placed.faces(), point[:, :, None])
    deepest, normal = deepest[:, 0], normal[:, :, 0]
    inside = deepest < 0
    least, nearest = jnp.full_like(deepest, jnp.inf), point

    def nearer(foot: Array, counts: Array) -> tuple[Array, Array]:
        squared = jnp.where(counts, dot(point - foot, point - foot), jnp.inf)
        return jnp.minimum(squared, least), jnp.where(squared < least, foot, nearest)

    for face in range(placed.offset.shape[1]):
        ends, here = placed.ends[:, :, face], placed.normal[:, :, face]
        real = placed.offset[:, face] < FAR / 2
        begin, end = (ends[:, :, :1], ends[:, :, 1:]) if ends.shape[0] == 2 else (ends, _after(ends))
        for number in range(begin.shape[2]):
            start, way = begin[:, :, number], (end - begin)[:, :, number]
            share = jnp.clip(dot(point - start, way) / jnp.maximum(dot(way, way), TINY), 0, 1)
            least, nearest = nearer(start + share * way, real)
        if ends.shape[0] == 3:
            foot = point - (dot(here, point) - placed.offset[:, face]) * here
            upon = _within(foot[:, :, None], _borders(ends, here))[:, 0]
            least, nearest = nearer(foot, real & upon)
    return nearest, inside, normal
