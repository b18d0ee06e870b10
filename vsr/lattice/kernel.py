"""Springs of a regular grid of nodes in the lanes of a GPU kernel (vsr.lattice.launch)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, minus, plus, times
from vsr.lattice.grid import Direction, directions, spring_shape
from vsr.lattice.integrators import NodeState
from vsr.lattice.launch import Arithmetic, Look, LookUp
from vsr.lattice.law import pull


class SpringNumbers(NamedTuple):
    """One entry per direction, each of size 1 or one per spring."""

    stiffness: tuple[Any, ...]
    rest_length: tuple[Any, ...]
    damping: tuple[Any, ...] | None


@dataclass(frozen=True)
class GridNeighborhood:
    """Up to 8 neighbors in 2-D, 26 in 3-D."""

    shape: tuple[int, ...]
    """nodes along each axis, x last"""

    @property
    def nodes(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def force(
        self,
        node: Array,
        moving: NodeState,
        springs: SpringNumbers,
        look_up: LookUp,
        look: Look,
        arithmetic: Arithmetic,
    ) -> Vector:
        """See vsr.lattice.launch.Neighborhood; the node itself where there is no neighbor, which pulls nothing."""
        place = places_of(node, self.shape)
        force: Vector = tuple(jnp.zeros_like(part) for part in moving.position)
        for number, direction in enumerate(directions(len(self.shape))):
            if 0 in spring_shape(self.shape, direction):  # a grid one node thick has no springs across
                continue
            for end in (0, 1):
                there, spring = self._across(node, place, direction, end)
                numbers = [None if part is None else look_up(part[number], spring) for part in springs]
                force = arithmetic(_pulled)(force, moving, look(there), *numbers)
        return force

    def _across(self, node: Array, place: list[Array], direction: Direction, end: int) -> tuple[Array, Array]:
        """The node at the other end of a spring, and the spring.

        end: 0 if the lane's node is the spring's first, 1 if it is its second.
        """
        steps = [part if end == 0 else -part for part in reversed(direction)]
        exists = are_in_grid(place, steps, self.shape)
        there = node + sum(step * stride for step, stride in zip(steps, strides(self.shape), strict=True))
        # The springs of a direction form a grid of their own, which begins where their first ends do.
        first = [max(-part, 0) + (part if end else 0) for part in reversed(direction)]
        stride = strides(spring_shape(self.shape, direction))
        spring = sum((at - begin) * by for at, begin, by in zip(place, first, stride, strict=True))
        return jnp.where(exists, there, node), jnp.where(exists, spring, 0)


def _pulled(
    force: Vector, moving: NodeState, other: NodeState, stiffness: Array, rest_length: Array, damping: Array | None
) -> Vector:
    """The force with that of one spring more [N]; other: the motion of its other end."""
    between = minus(other.position, moving.position)
    parting = minus(other.velocity, moving.velocity) if damping is not None else ()
    strength = pull(stiffness, rest_length, damping, between, parting)
    return plus(force, times(strength, between))


def strides(shape: Sequence[int]) -> list[int]:
    """From an entry of a table to the next along each of its axes."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places_of(index: Array, shape: Sequence[int]) -> list[Array]:
    """Where along each axis of a table an entry is."""
    return [index // stride % size for stride, size in zip(strides(shape), shape, strict=True)]


def are_in_grid(place: Sequence[Array], steps: Sequence[int], shape: Sequence[int]) -> Array:
    """Whether a step of -1, 0 or 1 along each axis, not all 0, leads to another entry of a table."""
    return reduce(
        and_,
        [
            at + step < size if step > 0 else at + step >= 0
            for at, step, size in zip(place, steps, shape, strict=True)
            if step
        ],
    )
