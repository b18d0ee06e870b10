"""Rigid convex bodies: how points and each other meet them.

A body with flat faces is its corners and the half-spaces behind its faces; a round one is its centre and a radius. All
bodies of a world share the numbers of corners and faces: what is too many has no extent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, dot, minus, plus, split, times

FAR = 1e9
"""Distance behind a face that does not exist [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shapes:
    """Rigid shapes, each in its own frame, the centre of mass at the origin; s shapes, v corners, f faces."""

    corner: Array
    """[m], round a polygon counter-clockwise; the last again for what is too many, (s, v, dimension)"""
    normal: Array
    """unit vectors out of faces, 0 for what is too many, (s, f, dimension); in 2-D the face f leads from corner f to
    the next"""
    offset: Array
    """from the origin to the face along its normal [m], FAR for what is too many, (s, f)"""
    radius: Array
    """of what is round, 0 for others [m], (s,)"""
    outline: tuple[tuple[tuple[int, ...], ...], ...] = field(default=(), metadata={"static": True})
    """in 3-D the corners round every face, for each shape; empty in 2-D"""
    round: tuple[bool, ...] = field(default=(), metadata={"static": True})
    """which shapes are round"""

    @property
    def count(self) -> int:
        """Of shapes."""
        return self.corner.shape[0]

    @property
    def dimension(self) -> int:
        return self.corner.shape[-1]


class Placed(NamedTuple):
    """Shapes where they are now; components along axes."""

    center: Vector
    """[m], each (s,)"""
    corner: Vector
    """[m], each (s, v)"""
    normal: Vector
    """each (s, f)"""
    offset: Array
    """from the world's origin to the faces along their normals [m], (s, f)"""
    radius: Array
    """(s,)"""

    def of(self, number: np.ndarray) -> Placed:
        """Some of them, by numbers known before tracing."""
        return jax.tree.map(lambda part: part[number], self)


def place(shapes: Shapes, position: Array, rotation: Array) -> Placed:
    """position: of centres [m], (s, dimension); rotation: from own axes to the world's, (s, dimension, dimension)."""
    center = split(position, 1)
    rows = [split(rotation[:, row], 1) for row in range(shapes.dimension)]

    def turned(vectors: Array) -> Vector:
        parts = split(vectors, 2)
        return tuple(dot(tuple(entry[:, None] for entry in row), parts) for row in rows)

    normal, about = turned(shapes.normal), tuple(part[:, None] for part in center)
    return Placed(
        center=center,
        corner=plus(about, turned(shapes.corner)),
        normal=normal,
        offset=shapes.offset + dot(normal, about),
        radius=shapes.radius,
    )


class Meeting(NamedTuple):
    """Points against bodies; each (s, p)."""

    distance: Array
    """from the surface, negative inside [m]"""
    normal: Vector
    """of the nearest face, or out of the centre"""
    lever: Vector
    """from the body's centre to the point [m]"""


def points_in(placed: Placed, round_ones: tuple[bool, ...], point: Vector) -> Meeting:
    """How points, each (p,), meet all bodies. The distance is exact inside; outside it is a lower bound."""
    lever = tuple(part[None] - middle[:, None] for part, middle in zip(point, placed.center, strict=True))
    distance, normal = _deepest_face(placed, point)
    if any(round_ones):
        away = jnp.sqrt(dot(lever, lever) + jnp.finfo(lever[0].dtype).tiny)
        is_round = jnp.asarray(round_ones)[:, None]
        distance = jnp.where(is_round, away - placed.radius[:, None], distance)
        normal = tuple(jnp.where(is_round, part / away, n) for part, n in zip(lever, normal, strict=True))
    return Meeting(distance, normal, lever)


def _deepest_face(placed: Placed, point: Vector) -> tuple[Array, Vector]:
    """The greatest distance from any face, and that face's normal, each (s, p)."""
    shape = placed.offset.shape[0], point[0].shape[0]
    distance = jnp.full(shape, -FAR, point[0].dtype)
    normal: Vector = (jnp.zeros(shape, point[0].dtype),) * len(point)
    for face in range(placed.offset.shape[1]):
        here = tuple(part[:, face, None] for part in placed.normal)
        away = dot(here, tuple(part[None] for part in point)) - placed.offset[:, face, None]
        nearer = away > distance
        normal = tuple(jnp.where(nearer, n, best) for n, best in zip(here, normal, strict=True))
        distance = jnp.maximum(away, distance)
    return distance, normal


class Manifold(NamedTuple):
    """Where pairs of bodies meet; k places for every pair, m pairs."""

    normal: Vector
    """from the second to the first, each (k, m)"""
    depth: Array
    """[m], (k, m)"""
    point: Vector
    """[m], each (k, m)"""
    touches: Array
    """(k, m)"""


PREFERENCE = 1e-3
"""By which the other body's faces must be better to be chosen [m]: which one it is should not change to and fro."""


def polygons_meet(first: Placed, second: Placed) -> Manifold:
    """Pairs of polygons: two places on the face of least depth, cut to the width of it; each Placed: (m, ...)."""
    one, other = _upon(first, second), _upon(second, first)
    chosen = one.separation >= other.separation - PREFERENCE
    pick = lambda a, b: jnp.where(chosen, a, b)  # noqa: E731
    depth = pick(one.depth, other.depth)
    return Manifold(
        # The normal leads out of the face's owner, so to the first if that is the second.
        normal=tuple(jnp.broadcast_to(pick(-a, b), depth.shape) for a, b in zip(one.normal, other.normal, strict=True)),
        depth=depth,
        point=tuple(pick(a, b) for a, b in zip(one.point, other.point, strict=True)),
        touches=pick(one.holds, other.holds) & (depth > 0) & (pick(one.separation, other.separation) < 0),
    )


class _Upon(NamedTuple):
    """Polygons upon the best face of others."""

    separation: Array
    """of all corners from the best face, at least [m], (m,)"""
    normal: Vector
    """of that face, each (m,)"""
    depth: Array
    """of the two places below it [m], (2, m)"""
    point: Vector
    """[m], each (2, m)"""
    holds: Array
    """whether the places are upon the face, (m,)"""


def _upon(owner: Placed, guest: Placed) -> _Upon:
    faces = owner.offset.shape[1]
    separation = jnp.full(owner.offset.shape[:1], -jnp.inf, owner.offset.dtype)
    best = jnp.zeros(owner.offset.shape[:1], int)
    for face in range(faces):
        normal = tuple(part[:, face, None] for part in owner.normal)
        least = (dot(normal, guest.corner) - owner.offset[:, face, None]).min(1)
        separation, best = jnp.maximum(separation, least), jnp.where(least > separation, face, best)
    normal, offset = _pick(owner.normal, best), _pick((owner.offset,), best)[0]
    begin, end = _pick(owner.corner, best), _pick(owner.corner, (best + 1) % faces)
    against = sum(n[:, None] * part for n, part in zip(normal, guest.normal, strict=True))
    # A face that does not exist has no direction, and must not be taken for one that looks away.
    facing = jnp.where(guest.offset < FAR / 2, against, jnp.inf).argmin(1)
    one, two = _pick(guest.corner, facing), _pick(guest.corner, (facing + 1) % guest.offset.shape[1])
    along = minus(end, begin)
    length = dot(along, along)
    at = [dot(minus(place, begin), along) / jnp.maximum(length, 1e-12) for place in (one, two)]
    span = at[1] - at[0]
    steep = jnp.where(jnp.abs(span) > 1e-9, span, 1e-9)
    ends = sorted_pair((0 - at[0]) / steep, (1 - at[0]) / steep)
    low, high = jnp.clip(ends[0], 0, 1), jnp.clip(ends[1], 0, 1)
    share = jnp.stack([low, high])
    point = tuple(a + share * (b - a) for a, b in zip(one, two, strict=True))
    depth = offset - dot(normal, point)
    return _Upon(separation, normal, depth, point, (ends[0] <= 1) & (ends[1] >= 0))


def sorted_pair(one: Array, other: Array) -> tuple[Array, Array]:
    """The lesser, the greater."""
    return jnp.minimum(one, other), jnp.maximum(one, other)


def _pick(vectors: Vector, index: Array) -> Vector:
    """Of (m, f) the one entry of each row, each (m,)."""
    return tuple(jnp.take_along_axis(part, index[:, None], 1)[:, 0] for part in vectors)


def ball_meets(ball: Placed, other: Placed, is_round: np.ndarray) -> Manifold:
    """Pairs of a round body (first) and any body in 2-D (second): one place; is_round: of the seconds, (m,)."""
    center = ball.center
    nearest, inside, normal = _nearest_on_polygon(other, center)
    if is_round.any():
        rounds = jnp.asarray(is_round)
        nearest = tuple(jnp.where(rounds, middle, part) for middle, part in zip(other.center, nearest, strict=True))
        inside = inside & ~rounds
    away = minus(center, nearest)
    gap = jnp.sqrt(dot(away, away) + jnp.finfo(away[0].dtype).tiny)
    normal = tuple(jnp.where(inside, n, part / gap) for n, part in zip(normal, away, strict=True))
    gap = jnp.where(inside, -gap, gap) - jnp.where(jnp.asarray(is_round), other.radius, 0)
    depth = ball.radius - gap
    point = tuple(part - gap * n for part, n in zip(center, normal, strict=True))
    return Manifold(
        tuple(part[None] for part in normal), depth[None], tuple(part[None] for part in point), (depth > 0)[None]
    )


def _nearest_on_polygon(placed: Placed, point: Vector) -> tuple[Vector, Array, Vector]:
    """The nearest place on the edge of each polygon to a point each, whether the point is inside, and the deepest
    face's normal."""
    faces = placed.offset.shape[1]
    least = jnp.full(point[0].shape, jnp.inf, point[0].dtype)
    nearest, deepest = point, jnp.full(point[0].shape, -FAR, point[0].dtype)
    normal: Vector = (jnp.zeros_like(point[0]),) * len(point)
    for face in range(faces):
        begin = tuple(part[:, face] for part in placed.corner)
        along = minus(tuple(part[:, (face + 1) % faces] for part in placed.corner), begin)
        share = jnp.clip(dot(minus(point, begin), along) / jnp.maximum(dot(along, along), 1e-12), 0, 1)
        foot = plus(begin, times(share, along))
        away = minus(point, foot)
        squared = dot(away, away)
        better = squared < least
        nearest = tuple(jnp.where(better, f, n) for f, n in zip(foot, nearest, strict=True))
        least = jnp.minimum(squared, least)
        here = tuple(part[:, face] for part in placed.normal)
        height = dot(here, point) - placed.offset[:, face]
        normal = tuple(jnp.where(height > deepest, h, n) for h, n in zip(here, normal, strict=True))
        deepest = jnp.maximum(height, deepest)
    return nearest, deepest < 0, normal
