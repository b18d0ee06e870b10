"""Shapes made of shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Union:
    """Several shapes as one. Outside the distance is exact; inside it is at most the true one in size."""

    parts: tuple[Any, ...]

    def distance(self, point: Vector) -> Array:
        return reduce(jnp.minimum, (part.distance(point) for part in self.parts))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Inverted:
    """All that is not in a shape: a container instead of a body."""

    shape: Any

    def distance(self, point: Vector) -> Array:
        return -self.shape.distance(point)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moved:
    """A shape turned about its origin and then shifted."""

    shape: Any
    position: Array
    """[m], (dimension,)"""
    rotation: Array
    """from the shape's axes to those outside, (dimension, dimension)"""

    def distance(self, point: Vector) -> Array:
        seen = [part - at for part, at in zip(point, self.position, strict=True)]
        axes = range(len(seen))
        own = tuple(sum(self.rotation[row, column] * seen[row] for row in axes) for column in axes)
        return self.shape.distance(own)
