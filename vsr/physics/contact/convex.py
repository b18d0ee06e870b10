"""Rigid convex bodies and the points that meet them.

A body with flat faces is its corners and the half-spaces behind its faces; a round one is its center and a radius. All
bodies of a world share the numbers of corners and faces: what is too many has no extent. Arrays in the world's frame
are those of vsr.physics.contact.vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contact.vectors import beside, dot, looks_along, summed

FAR = 1e9
"""Distance behind a face that does not exist [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shapes:
    """Rigid shapes, each in its own frame, the center of mass at the origin; s shapes, v corners, f faces, e ends."""

    corner: Array
    """[m], the last again for what is too many, (s, v, dimension)"""
    normal: Array
    """unit vectors out of the faces, 0 for what is too many, (s, f, dimension)"""
    offset: Array
    """from the origin to the face along its normal [m], FAR for what is too many, (s, f)"""
    outline: Array
    """numbers of the corners round every face, counter-clockwise seen from outside, the last again for what is too
    many; in 2-D the two ends of a side, (s, f, e)"""
    edge: Array
    """directions of edges, each once, 0 for what is too many; none in 2-D, (s, g, dimension)"""
    radius: Array
    """of what is round, 0 for others [m], (s,)"""
    round: tuple[bool, ...] = field(metadata={"static": True})
    """which shapes are round"""

    @property
    def dimension(self) -> int:
        return self.corner.shape[-1]


class Placed(NamedTuple):
    """Shapes where they are now."""

    center: Array
    """[m], (dimension, s)"""
    corner: Array
    """[m], (dimension, s, v)"""
    normal: Array
    """(dimension, s, f)"""
    offset: Array
    """from the world's origin to the faces along their normals [m], (s, f)"""
    ends: Array
    """corners round every face [m], (dimension, s, f, e)"""
    edge: Array
    """(dimension, s, g)"""
    radius: Array
    """(s,)"""

    def of(self, number: np.ndarray) -> Placed:
        """Some of them, by numbers known before tracing."""
        axes = (1, 1, 1, 0, 1, 1, 0)
        return Placed(*(jnp.take(part, number, axis) for part, axis in zip(self, axes, strict=True)))


def place(shapes: Shapes, position: Array, rotation: Array) -> Placed:
    """Shapes at places [m], (s, dimension), turned from their own axes to the world's, (s, dimension, dimension)."""
    turn = jnp.moveaxis(rotation, 0, 2)[:, :, :, None]  # (dimension, dimension, s, 1)

    def turned(vectors: Array) -> Array:
        return summed(turn * jnp.moveaxis(vectors, 2, 0)[None], 1)

    center, normal = jnp.swapaxes(position, 0, 1), turned(shapes.normal)
    corner = center[:, :, None] + turned(shapes.corner)
    shape = shapes.outline.shape
    around = shapes.outline.reshape(1, shape[0], -1, *shape[3:])
    ends = jnp.take_along_axis(corner, around, 2)
    return Placed(
        center=center,
        corner=corner,
        normal=normal,
        offset=shapes.offset + dot(normal, center[:, :, None]),
        ends=ends.reshape(*corner.shape[:2], *shape[1:3], *ends.shape[3:]),
        edge=turned(shapes.edge),
        radius=shapes.radius,
    )


class Distance(NamedTuple):
    """Points against bodies."""

    distance: Array
    """from the surface, negative inside [m], (s, p)"""
    normal: Array
    """of the nearest face, or out of the center, (dimension, s, p)"""
    lever: Array
    """from the body's center to the point [m], (dimension, s, p)"""


def points_in(
    placed: Placed,
    round_ones: tuple[bool, ...],
    point: Array,
    outward: Array | None = None,
    margin: Array | float = 0.0,
) -> Distance:
    """How points, (dimension, p), meet all bodies. The distance is exact inside; outside it is a lower bound.

    outward: out of the bodies that have the points, (dimension, p): faces that look the same way do not count, and are
    crossed only beyond a margin [m]. None: all faces count.
    """
    lever = point[:, None] - placed.center[:, :, None]
    away = None if outward is None else outward[:, None]
    distance, normal = deepest_face(placed, point[:, None], away, margin)
    if any(round_ones):
        away = jnp.sqrt(dot(lever, lever) + jnp.finfo(lever.dtype).tiny)
        is_round = beside(np.array(round_ones)[:, None], away, 2)
        distance = jnp.where(is_round, away - placed.radius[:, None], distance)
        normal = jnp.where(is_round, lever / away, normal)
    return Distance(distance, normal, lever)


def deepest_face(
    placed: Placed, point: Array, outward: Array | None = None, margin: Array | float = 0.0
) -> tuple[Array, Array]:
    """The greatest distance from any face and that face's normal; point, outward: (dimension, s or 1, p).

    Faces that look the same way as outward count only if the point is beyond them by more than a margin [m].
    """
    distance = normal = None
    for face in range(placed.offset.shape[1]):
        here = placed.normal[:, :, face, None]
        away = dot(here, point) - placed.offset[:, face, None]
        if outward is not None:
            away = jnp.where(looks_along(here, outward) & (away < margin), -FAR, away)
        if distance is None or normal is None:
            distance, normal = away, jnp.broadcast_to(here, (point.shape[0], *away.shape))
        else:
            normal = jnp.where(away > distance, here, normal)
            distance = jnp.maximum(away, distance)
    assert distance is not None
    assert normal is not None
    return distance, normal
