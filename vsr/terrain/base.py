"""The protocol of terrains, as arrays: how high it is, whether a point is in it, how far it is along a ray.

A new kind of ground is a frozen dataclass of arrays that extends `AnyTerrain`. It must say its height and normal, where
it begins, how high it is between two places and at its lowest, and how several of it become one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector

if TYPE_CHECKING:
    from vsr.terrain.blocks import Blocks
    from vsr.terrain.surface import Terrain

STEPS = 32
"""Along a ray."""
HALVINGS = 14
"""Of the step in which a ray enters the ground."""


class Solid:
    """Anything solid that points can be in."""

    @abstractmethod
    def is_inside(self, point: Array) -> Array:
        """Whether points are in it, (...); point: [m], (..., dimension)."""

    @abstractmethod
    def height_over(self, point: Array) -> Array:
        """How high points are over what is solid below them [m], (...); point: [m], (..., dimension).

        Below a point that is under a ceiling is the floor, and below one in a solid cell the top of that cell.
        """

    def distance_along(self, origin: Array, direction: Array, reach: float) -> Array:
        """How far it is along rays [m], the reach where none is hit, 0 from inside, (...).

        origin: [m], direction: unit vectors, (..., dimension) each; reach: how far a ray is followed [m]. A ray is
        followed in steps, so that what is thinner than a step can be passed; where it enters is found by halving.
        """
        step = reach / STEPS

        def at(distance: Array) -> Array:
            return self.is_inside(origin + distance[..., None] * direction)

        begin = jnp.zeros(origin.shape[:-1], origin.dtype)
        ends = step * jnp.arange(1, STEPS + 1, dtype=origin.dtype).reshape(-1, *(1,) * begin.ndim) + begin
        hit = at(ends)
        high = jnp.where(hit, ends, jnp.inf).min(0)
        found = jnp.isfinite(high)

        def halve(_: Array, between: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = between
            middle = 0.5 * (low + high)
            hit = at(middle)
            return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

        high = jnp.where(found, high, reach)
        _, high = jax.lax.fori_loop(0, HALVINGS, halve, (high - step, high))
        return jnp.where(at(begin), 0, jnp.where(found, high, reach)).astype(origin.dtype)


class AnyTerrain(Solid):
    """Ground as arrays. Positions by components may have any shape, or be the lanes of a kernel."""

    friction: Array
    """coefficient, combined with a mass's by the geometric mean, ()"""
    restitution: Array
    """coefficient, combined with a mass's by the larger of both, ()"""
    in_3d: ClassVar[bool] = False
    """whether its height changes along y"""

    @abstractmethod
    def height_and_normal(self, position: Vector) -> tuple[Array, Vector]:
        """Height of the ground below points [m], and its upward unit normal there."""

    @abstractmethod
    def left_end(self) -> Array:
        """x from which on robots can stand, right of a wall if there is one [m], ()."""

    @abstractmethod
    def lowest(self) -> Array:
        """The height of its lowest place [m], ()."""

    @abstractmethod
    def highest(self, low: Array, high: Array) -> Array:
        """The highest ground between two corners [m], (); low, high: without the vertical, (dimension - 1,) each."""

    @classmethod
    @abstractmethod
    def alike(cls, grounds: Sequence[Any]) -> list[Any]:
        """Grounds of this kind with arrays of equal shapes: what is shorter goes on beyond its end."""

    def nearest(self, position: Vector) -> tuple[Array, Vector]:
        """Height of points over the nearest surface [m], negative inside, and that surface's unit normal."""
        height, normal = self.height_and_normal(position)
        return (position[-1] - height) * normal[-1], normal

    def is_inside(self, point: Array) -> Array:
        return point[..., -1] < self._height_below(point)

    def height_over(self, point: Array) -> Array:
        return point[..., -1] - self._height_below(point)

    def _height_below(self, point: Array) -> Array:
        return self.height_and_normal(tuple(point[..., axis] for axis in range(point.shape[-1])))[0]

    def corners(self) -> tuple[Array, Array] | None:
        """Convex corners in 2-D [m], (2, corners), and whether each is one, (corners,); None if there are none."""
        return None

    @property
    def line(self) -> Terrain | None:
        """Itself, if it is a line y = height(x), the same for all y of a 3-D world."""
        return None

    @property
    def blocks(self) -> Blocks | None:
        """Its solid cells, which are felt by contact with them; None if there are none."""
        return None

    @property
    def floor(self) -> AnyTerrain:
        """The part of it that robots feel by themselves."""
        return self


G = TypeVar("G", bound=AnyTerrain)


def together(grounds: Sequence[AnyTerrain]) -> AnyTerrain:
    """All with a leading axis (grounds,), for robots that are simulated together, each on its own of them.

    Raises ValueError if some are lines and others height fields.
    """
    if len({ground.in_3d for ground in grounds}) > 1:
        raise ValueError("lines of ground and height fields cannot be used together")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *grounds[0].alike(grounds))


def chosen(ground: G, number: Array) -> G:
    """One of several; number: of it, ()."""
    return jax.tree.map(lambda leaf: leaf[number], ground)
