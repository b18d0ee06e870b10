"""Shapes with a formula, each in its own frame. SI units."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector
from vsr.terrain.base import AnyTerrain


def _length(parts: Vector) -> Array:
    """Of vectors, with a slope of 0 rather than none where all components are 0."""
    squared = sum(part * part for part in parts)
    zero = squared <= 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, squared)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HalfSpace:
    """All that lies behind a plane (in 2-D: a line)."""

    normal: Array
    """unit vector out of it, (dimension,)"""
    offset: Array
    """from the origin to the plane along the normal [m], ()"""

    def distance(self, point: Vector) -> Array:
        return sum(n * part for n, part in zip(self.normal, point, strict=True)) - self.offset


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ball:
    """A ball, in 2-D a disc, about the origin."""

    radius: Array
    """[m], ()"""

    def distance(self, point: Vector) -> Array:
        return _length(point) - self.radius


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Block:
    """A box, in 2-D a rectangle, about the origin."""

    half: Array
    """half its size along each axis [m], (dimension,)"""

    def distance(self, point: Vector) -> Array:
        beyond = [jnp.abs(part) - half for part, half in zip(point, self.half, strict=True)]
        inside = beyond[0]
        for part in beyond[1:]:
            inside = jnp.maximum(inside, part)
        return _length(tuple(jnp.maximum(part, 0) for part in beyond)) + jnp.minimum(inside, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cylinder:
    """A solid cylinder about the vertical axis, between two heights equally far from the origin; 3-D only."""

    radius: Array
    """[m], ()"""
    half_height: Array
    """[m], ()"""

    def distance(self, point: Vector) -> Array:
        x, y, up = point
        beyond = _length((x, y)) - self.radius, jnp.abs(up) - self.half_height
        outside = _length(tuple(jnp.maximum(part, 0) for part in beyond))
        return outside + jnp.minimum(jnp.maximum(*beyond), 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Capsule:
    """All that is near a straight line between two points."""

    first: Array
    """[m], (dimension,)"""
    second: Array
    """[m], (dimension,)"""
    radius: Array
    """[m], ()"""

    def distance(self, point: Vector) -> Array:
        along = [b - a for a, b in zip(self.first, self.second, strict=True)]
        seen = [part - a for part, a in zip(point, self.first, strict=True)]
        squared = sum(part * part for part in along)
        share = jnp.clip(sum(s * a for s, a in zip(seen, along, strict=True)) / squared, 0, 1)
        return _length(tuple(s - share * a for s, a in zip(seen, along, strict=True))) - self.radius


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ridge:
    """All that lies below a ground; the distance is that from the plane that touches it straight below the point."""

    ground: AnyTerrain

    def distance(self, point: Vector) -> Array:
        return self.distance_and_normal(point)[0]

    def distance_and_normal(self, point: Vector) -> tuple[Array, Vector]:
        """The ground knows its normal."""
        height, normal = self.ground.height_and_normal(point)
        return (point[-1] - height) * normal[-1], normal
